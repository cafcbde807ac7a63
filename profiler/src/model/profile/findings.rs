//! Sentences a person acts on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// A large part of the transactions' time.
    Notable,
    /// Most of the transactions' time, or a limit that is reached.
    Critical,
    /// Something a later version names.
    #[serde(other)]
    Other,
}

/// Something to know or to do, with what it rests on (docs/findings.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name, such as `device_at_ceiling`.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, a sentence.
    pub message: String,
    /// What to do, a sentence.
    pub advice: String,
    /// The numbers it rests on, by name; units are in the names as everywhere.
    pub evidence: BTreeMap<String, serde_json::Value>,
}
