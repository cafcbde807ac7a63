//! The whole document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Capture, Device, Finding, Host, Interval, LockWait, OpenTransaction, Postgres, ProcessType,
    SlowTransaction, Statement, Tool, Transactions, Wal, Window,
};

/// Name and version of the format.
pub const SCHEMA: &str = "pgstall.profile/1";

/// One run: where the time of the transactions went, and how well that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Always `pgstall.profile/1`.
    pub schema: String,
    /// What wrote the document.
    pub tool: Tool,
    /// The machine the server ran on.
    pub host: Host,
    /// The server.
    pub postgres: Postgres,
    /// The stretch of time that was watched.
    pub window: Window,
    /// How it was measured and how good that is.
    pub capture: Capture,
    /// The transactions that ended in the window, and their budget.
    pub transactions: Transactions,
    /// Statements by normalised text, the most time first.
    pub statements: Vec<Statement>,
    /// The write-ahead log; null where it was not watched.
    #[serde(default)]
    pub wal: Option<Wal>,
    /// Waits that another process ended, by kind, the most time first; null where they were not watched.
    #[serde(default)]
    pub locks: Option<Vec<LockWait>>,
    /// What the server's processes did, by type, idle time included.
    pub processes: Vec<ProcessType>,
    /// The block devices the server lives on; null where they were not watched.
    #[serde(default)]
    pub devices: Option<Vec<Device>>,
    /// The window cut into intervals, in order.
    pub timeline: Vec<Interval>,
    /// The longest units, longest first.
    pub slowest: Vec<SlowTransaction>,
    /// Transactions still open at the end of the window, oldest first; their time is in no other number.
    pub open: Vec<OpenTransaction>,
    /// What to know and to do, the most severe first; null where nobody looked.
    #[serde(default)]
    pub findings: Option<Vec<Finding>>,
}
