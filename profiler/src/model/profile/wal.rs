//! The write-ahead log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latency;

/// How the write-ahead log was made durable in the window, by all processes of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wal {
    /// Flushes: stretches in which a process waited for its own sync (or synchronous write) of the log. A sync for which
    /// nobody had to sleep is not seen.
    pub flushes: u64,
    /// Flushes per second.
    pub flushes_per_s: f64,
    /// Transactions of the units that waited for the log (their own flush or another's) per flush made by a client
    /// backend: how many commits shared one. Null if there were no such flushes, or where units were left out on request.
    pub commits_per_flush: Option<f64>,
    /// How long the flushes took, begin of the first sleep to end of the last.
    pub flush_latency_ns: Latency,
    /// Mean part of a flush its process was asleep in; the rest it ran, or waited for a CPU between two sleeps. Null if
    /// there were none.
    #[serde(default)]
    pub flush_blocked_mean_ns: Option<u64>,
    /// Flushes by who made them, the most first.
    pub flushed_by: Vec<FlushedBy>,
    /// `wal_sync_method` where it is known.
    pub sync_method: Option<String>,
    /// `full_page_writes` where it is known.
    pub full_page_writes: Option<bool>,
    /// `fsync` where it is known; off: nothing is flushed, whatever the method.
    #[serde(default)]
    pub fsync: Option<bool>,
    /// What tells a flush from the next, and what that can miss.
    #[serde(default)]
    pub source: Option<String>,
}

/// Flushes of one backend type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlushedBy {
    /// Type as in `processes`.
    pub backend_type: Option<String>,
    /// Flushes.
    pub flushes: u64,
    /// Mean length of them.
    #[serde(default)]
    pub mean_ns: Option<u64>,
}
