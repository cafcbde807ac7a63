//! `pgstall generate`

use std::io::{self, Write as _};

use super::{
    Exit,
    args::{GenerateArgs, Generated},
};
use crate::report::json;

pub(super) fn run(args: GenerateArgs) -> Exit {
    let text = match args.what {
        Generated::Schema => serde_json::to_string_pretty(&json::schema()).map(|text| text + "\n"),
    };
    match text.map_err(io::Error::from).and_then(|text| io::stdout().write_all(text.as_bytes())) {
        Ok(()) => Exit::Result,
        Err(error) => Exit::from_write("to standard output", &error),
    }
}
