//! `pgstall doctor`

use std::io::{self, Write as _};

use super::{
    Exit,
    args::{Borders, DoctorArgs, ReportFormat},
};
use crate::preflight;

pub(super) fn run(args: DoctorArgs) -> Exit {
    let options = preflight::Options {
        selector: args.server.into(),
        exact_borders: args.borders == Borders::Exact,
        simulate: args.simulate,
    };
    let checks = preflight::gather(&options);
    let text = match args.format {
        ReportFormat::Text => Ok(preflight::render_text(&checks)),
        ReportFormat::Json => serde_json::to_string_pretty(&checks).map(|text| text + "\n"),
    };
    let written = text.map_err(io::Error::from).and_then(|text| io::stdout().write_all(text.as_bytes()));
    if let Err(error) = written {
        return Exit::from_write("the result to standard output", &error);
    }
    match preflight::refusals(&checks).len() {
        0 => Exit::Result,
        1 => Exit::Refused("one check failed: attach would be refused".to_owned()),
        n => Exit::Refused(format!("{n} checks failed: attach would be refused")),
    }
}
