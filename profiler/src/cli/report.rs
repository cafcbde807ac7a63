//! `pgstall report`

use std::{
    io::{self, Read as _},
    path::Path,
};

use super::{
    Exit,
    args::{ReportArgs, ReportFormat},
    exit::chain,
    terminal,
};
use crate::report::{json, text};

pub(super) fn run(args: ReportArgs) -> Exit {
    let content = match read(&args.file) {
        Ok(content) => content,
        Err(error) => return Exit::Usage(format!("cannot read {}: {error}", args.file.display())),
    };
    let profile = match json::read(&content) {
        Ok(profile) => profile,
        Err(error) => return Exit::Usage(format!("cannot use {}: {}", args.file.display(), chain(&error))),
    };
    let mut stdout = io::stdout().lock();
    let written = match args.format {
        ReportFormat::Text => text::render(&profile, &terminal::stdout_style(), &mut stdout),
        ReportFormat::Json => json::write(&profile, &mut stdout),
    };
    match written {
        Ok(()) => Exit::Result,
        Err(error) => Exit::from_write("the result to standard output", &error),
    }
}

fn read(path: &Path) -> io::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path);
    }
    let mut content = String::new();
    io::stdin().read_to_string(&mut content)?;
    Ok(content)
}
