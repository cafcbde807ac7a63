//! The profile as JSON, and the JSON Schema of it.

use std::io;

use schemars::{Schema, generate::SchemaSettings};

use crate::model::profile::{Profile, SCHEMA};

/// Writes the document, indented and with a final line feed.
pub fn write(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, profile)?;
    out.write_all(b"\n")
}

/// Reads a document; text that is none, or one of another version, is refused with what was found.
pub fn read(text: &str) -> Result<Profile, ReadError> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(ReadError::NotJson)?;
    match value.get("schema").and_then(|schema| schema.as_str()) {
        Some(SCHEMA) => serde_json::from_value(value).map_err(ReadError::NotAProfile),
        found => Err(ReadError::OtherSchema(found.map(str::to_owned))),
    }
}

/// Why a text is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON at all.
    #[error("not a JSON document; need a profile written by `pgstall attach -o FILE`")]
    NotJson(#[source] serde_json::Error),
    /// JSON of another kind or version.
    #[error("found schema {}, need {SCHEMA}", .0.as_deref().unwrap_or("none"))]
    OtherSchema(Option<String>),
    /// Says it is a profile, but is not.
    #[error("the document says it is {SCHEMA} but does not follow it")]
    NotAProfile(#[source] serde_json::Error),
}

/// The JSON Schema of the document.
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Profile>()
}
