//! The transactions and their budget.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{model::bucket_name::BucketName, units::count};

/// The transactions that ended in the window.
///
/// A *unit* is the stretch from idle to idle as the client sees it. It holds one transaction, unless the client sends
/// several at once; means are per transaction, percentiles and extremes per unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transactions {
    /// Transactions, by the server's own counter where the borders are exact.
    pub count: u64,
    /// Units.
    pub units: u64,
    /// Units that held more than one transaction.
    pub units_with_several: u64,
    /// Transactions committed; null where the border signal does not tell.
    pub committed: Option<u64>,
    /// Transactions rolled back; null where the border signal does not tell.
    pub rolled_back: Option<u64>,
    /// Transactions per second of the window.
    pub tps: f64,
    /// How long they took.
    pub latency_ns: Latency,
    /// Where that time went: every bucket, in fixed order; the means add up to the mean latency.
    pub buckets: Vec<BucketBudget>,
}

impl Transactions {
    /// What a reader has to know where requests held several transactions; `None` where none did.
    pub fn units_note(&self) -> Option<String> {
        (self.units != self.count).then(|| {
            format!(
                "{} transactions came in {} requests from idle to idle ({} held several): means and shares are per \
                 transaction, percentiles and extremes per request",
                count(self.count),
                count(self.units),
                count(self.units_with_several),
            )
        })
    }
}

/// How long transactions took, ns. All null if there were none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean per transaction.
    pub mean: Option<u64>,
    /// Standard deviation over units.
    pub stddev: Option<u64>,
    /// Shortest unit.
    pub min: Option<u64>,
    /// Half of the units took no longer.
    pub p50: Option<u64>,
    /// 90 % of the units took no longer.
    pub p90: Option<u64>,
    /// 95 % of the units took no longer.
    pub p95: Option<u64>,
    /// 99 % of the units took no longer.
    pub p99: Option<u64>,
    /// 99.9 % of the units took no longer.
    pub p999: Option<u64>,
    /// Longest unit.
    pub max: Option<u64>,
}

/// One bucket's part of the transactions' time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BucketBudget {
    /// The bucket.
    pub bucket: BucketName,
    /// Mean per transaction, rounded so that all buckets add up to the mean latency; null if there were none.
    pub mean_ns: Option<u64>,
    /// Part of all transaction time, 0 to 1; null if there was none.
    pub share: Option<f64>,
    /// Half of the units spent no longer here.
    pub p50_ns: Option<u64>,
    /// 95 % of the units spent no longer here.
    pub p95_ns: Option<u64>,
    /// 99 % of the units spent no longer here.
    pub p99_ns: Option<u64>,
    /// What the bucket is made of, where that can be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// How the waits for I/O in it (of `wal_fsync`: those of the leader) were spent, where the block layer was watched:
    /// `queue` (submitted, not yet at the device), `device`, `wake` (completed, not yet awake), `unlinked` (no request
    /// could be linked). They add up to the blocked time of those waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<Part>,
    /// The server's wait events charged to it, the most time first.
    pub events: Vec<EventBudget>,
}

/// A part of a bucket, such as `leader` (own flush) and `follower` (another backend's) of `wal_fsync`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Its name.
    pub part: String,
    /// Mean per transaction.
    pub mean_ns: u64,
}

/// One wait event's part of the transactions' time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventBudget {
    /// Class, such as `LWLock`.
    pub class: String,
    /// Event, such as `WALWrite`; its number in hexadecimal where it has no name.
    pub event: String,
    /// Blocked time, mean per transaction; charged to this bucket.
    pub mean_ns: u64,
    /// Run-queue time after the wake-ups, mean per transaction; charged to `run_queue`. The server's own timers show
    /// the sum of both.
    pub run_queue_mean_ns: u64,
    /// Waits in the window.
    pub waits: u64,
}
