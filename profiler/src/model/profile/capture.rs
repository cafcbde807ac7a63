//! How it was measured, what was lost, and what measuring cost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How it was measured and how good that is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// What tells where a transaction ends.
    pub borders: Borders,
    /// Backends watched.
    pub backends: Backends,
    /// Connections whose start-up ended in the window; start-up is no transaction.
    pub connections: Connections,
    /// How statements were recorded.
    pub statements: StatementCapture,
    /// Which transactions were left out on request.
    #[serde(default, skip_serializing_if = "Filters::is_empty")]
    pub filters: Filters,
    /// Everything that went wrong in the kernel part, by name; names with no loss are left out.
    pub losses: BTreeMap<String, u64>,
    /// Σ buckets − Σ wall time over all transactions: anything but zero is a defect.
    pub imbalance_ns: i64,
    /// Why `committed` and `rolled_back` are null; null where they are not.
    pub outcome_unknown: Option<String>,
    /// The probes, attached or not.
    pub probes: Vec<Probe>,
    /// What measuring cost.
    pub cost: Cost,
    /// Sentences a reader of the numbers has to know.
    pub notes: Vec<String>,
}

/// What tells where a transaction ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Borders {
    /// Name of the kernel signal.
    pub signal: String,
    /// Whether every transaction is seen; otherwise some are merged with their neighbours.
    pub exact: bool,
    /// Why this signal was chosen.
    pub reason: Option<String>,
}

/// Backends watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backends {
    /// Client backends followed at any time in the window; null where it was not counted.
    pub followed: Option<u64>,
    /// Backends that ended in the window.
    pub ended: u64,
}

/// Connections whose start-up ended in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// How many.
    pub count: u64,
    /// Mean time from fork to ready for the first query; null of none.
    pub mean_startup_ns: Option<u64>,
}

/// How statements were recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatementCapture {
    /// Statements counted in the transactions of the window.
    pub counted: u64,
    /// Statements recorded with their text.
    pub recorded: u64,
    /// One in this many was recorded at the end of the window: 1 = every one; null = none.
    pub every: Option<u32>,
    /// Different normalised texts; those beyond the list of statements are not in the document.
    pub distinct: u64,
}

/// Which transactions were left out on request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Filters {
    /// Shorter units were not counted.
    pub min_latency_ns: Option<u64>,
    /// Only backends of this database.
    pub database: Option<String>,
    /// Only backends of this role.
    pub user: Option<String>,
}

impl Filters {
    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        *self == Filters::default()
    }
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Its name.
    pub name: String,
    /// Whether it was attached.
    pub attached: bool,
    /// Why it was not, or why it was chosen.
    pub reason: Option<String>,
    /// How often it ran, by the kernel's BPF statistics.
    pub runs: Option<u64>,
    /// Time it took, by the kernel's BPF statistics.
    pub run_ns: Option<u64>,
}

/// What measuring cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Time in the probes, by the kernel's BPF statistics, which leave out the trap into a probe.
    pub probe_ns: Option<u64>,
    /// Runs of the probes.
    pub probe_runs: Option<u64>,
    /// CPU time of the tool's own process in the window.
    pub agent_cpu_ns: Option<u64>,
    /// Both together, as a share of one CPU over the window.
    pub share_of_one_cpu: Option<f64>,
}
