//! Tool, host, server and window.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What wrote the document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// `pgstall`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The command that ran, such as `attach`.
    pub command: String,
}

/// The machine the server ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Host name.
    pub name: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Machine architecture, such as `x86_64`.
    pub architecture: Option<String>,
    /// CPUs online.
    pub cpus: Option<u32>,
    /// Main memory.
    pub memory_bytes: Option<u64>,
    /// CPU time in use in the window, all CPUs and processes together.
    pub cpu_busy_ns: Option<u64>,
    /// CPU time the hypervisor gave to others in the window, all CPUs together.
    pub steal_ns: Option<u64>,
    /// Time the server's control group was kept off the CPU by its quota in the window.
    pub cgroup_throttled_ns: Option<u64>,
}

/// The server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Postgres {
    /// Major version.
    pub major: u32,
    /// Full version, such as `15.18`.
    pub version: Option<String>,
    /// Process id of the postmaster.
    pub pid: u32,
    /// TCP port.
    pub port: Option<u16>,
    /// Data directory, as the server sees it.
    pub data_directory: Option<String>,
    /// Path of the server's binary.
    pub binary: Option<String>,
    /// Settings that bear on the result, as far as they were read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Why the window ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The time asked for was over.
    Duration,
    /// A signal ended it early.
    Signal,
    /// The postmaster ended.
    PostmasterExit,
    /// The load that was watched ended.
    WorkloadEnd,
    /// Something a later version names.
    #[serde(other)]
    Other,
}

/// The stretch of time that was watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Begin, RFC 3339 UTC.
    pub start: String,
    /// End, RFC 3339 UTC.
    pub end: String,
    /// Length by the monotonic clock.
    pub duration_ns: u64,
    /// Length asked for; null where none was.
    pub requested_ns: Option<u64>,
    /// Whether it ended before the time asked for.
    pub partial: bool,
    /// Why it ended.
    pub ended_by: EndedBy,
}
