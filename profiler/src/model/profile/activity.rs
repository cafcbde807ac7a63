//! Statements, processes, intervals, and single transactions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::bucket_name::BucketName;

/// A bucket's mean per transaction or call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BucketMean {
    /// The bucket.
    pub bucket: BucketName,
    /// Mean.
    pub mean_ns: u64,
}

/// A bucket's time in one transaction or over the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BucketTime {
    /// The bucket.
    pub bucket: BucketName,
    /// Time.
    pub time_ns: u64,
}

/// Statements of one normalised text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// The text with its constants replaced, cut where the server cuts it; null: it could not be read, or the
    /// statement is one of those beyond the limit of different texts.
    pub query: Option<String>,
    /// The server's query identifier as pg_stat_statements shows it, in decimal; null where the server computes none
    /// or several share the text. A string, because many readers of JSON cannot hold it as a number.
    pub query_id: Option<String>,
    /// How often it ran.
    pub calls: u64,
    /// Whether `calls` and the means are estimates from a sample.
    pub calls_estimated: bool,
    /// Mean per call.
    pub mean_ns: u64,
    /// Longest recorded call.
    pub max_ns: u64,
    /// Part of all transaction time, 0 to 1 (an estimate where `calls` is one); null if there was none.
    pub share: Option<f64>,
    /// Mean per call by bucket; buckets with none are left out. They add up to `mean_ns`.
    pub buckets: Vec<BucketMean>,
}

/// The processes of one backend type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessType {
    /// Type as pg_stat_activity shows it, such as `client backend`; null where the server's number has no name.
    pub backend_type: Option<String>,
    /// How many were there at any time in the window.
    pub n: u64,
    /// Time idle between transactions, all processes together.
    pub idle_ns: u64,
    /// Time by bucket, all processes together, inside and outside transactions; buckets with none are left out.
    pub buckets: Vec<BucketTime>,
    /// What they waited for, the most time first; of client backends only what is in the transactions counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ProcessEvent>,
    /// What they worked on, where they say so, the busiest first. They are asked once per interval, and the time since
    /// the last answer goes to the new one: it need not add up to `buckets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<ProcessWork>,
    /// Their part in the devices' work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceShare>,
    /// What they read from files, and what of it came from devices; the page cache answered the rest. Null where it was
    /// not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCache>,
    /// The processes one by one, where asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<Process>,
}

/// What some of a type's processes worked on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessWork {
    /// What an autovacuum worker does, such as `VACUUM public.accounts`; `for NAME`, the application behind a walsender;
    /// `parallel worker for PID`; what another background worker calls itself.
    pub what: String,
    /// Processes seen at it.
    pub n: u64,
    /// Time by bucket, all of them together; buckets with none are left out.
    pub buckets: Vec<BucketTime>,
}

/// What the processes of one type waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessEvent {
    /// Class, such as `IO`.
    pub class: String,
    /// Event, such as `DataFileWrite`.
    pub event: String,
    /// Waits that ended in the window.
    pub waits: u64,
    /// Blocked time in the window, all processes together, waits that did not end in it included.
    pub blocked_ns: u64,
}

/// The part of one type of processes in a device's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceShare {
    /// The device's name.
    pub device: String,
    /// Part of all requests' time at the device, 0 to 1.
    pub share: f64,
    /// Requests.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// What processes read from files, and how much of it the page cache had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageCache {
    /// Bytes read from files by the processes that were there at the end of the window.
    pub read_bytes: u64,
    /// Bytes those processes had the kernel fetch from devices, read-ahead included: it may be more than was read.
    pub from_device_bytes: u64,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Time idle between transactions.
    pub idle_ns: u64,
    /// The part of `run_queue` in which it was woken but in no CPU's queue yet.
    pub wake_to_run_ns: u64,
    /// Time by bucket; buckets with none are left out.
    pub buckets: Vec<BucketTime>,
}

/// One interval of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Begin, from the begin of the window.
    pub offset_ns: u64,
    /// Length.
    pub duration_ns: u64,
    /// Transactions that ended in it.
    pub transactions: u64,
    /// Transactions per second.
    pub tps: f64,
    /// Mean latency of the transactions; null if none ended.
    pub mean_ns: Option<u64>,
    /// 99 % of the units took no longer; null if none ended.
    pub p99_ns: Option<u64>,
    /// Mean per transaction by bucket; buckets with none are left out. They add up to `mean_ns`.
    pub buckets: Vec<BucketMean>,
    /// Client backends in each bucket at a time, mean over the interval, inside and outside transactions; idle ones are
    /// in none. Buckets with none are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<BucketBackends>,
    /// CPU time used by the host's processes in the interval, all CPUs together; null where it was not read.
    #[serde(default)]
    pub cpu_busy_ns: Option<u64>,
    /// What the devices did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<IntervalDevice>,
}

/// How many backends were in a bucket at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BucketBackends {
    /// The bucket.
    pub bucket: BucketName,
    /// Backends, mean over the interval.
    pub backends: f64,
}

/// What a device did in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalDevice {
    /// Its name.
    pub device: String,
    /// Reads per second.
    pub reads_per_s: f64,
    /// Writes per second.
    pub writes_per_s: f64,
    /// Flushes per second.
    pub flushes_per_s: f64,
    /// Bytes read and written per second.
    pub bytes_per_s: f64,
    /// Requests at the device, mean over the interval.
    pub depth_mean: f64,
    /// Part of the interval in which a request was at the device, 0 to 1.
    pub utilisation: f64,
}

/// One of the longest units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowTransaction {
    /// Process id of its backend.
    pub pid: u32,
    /// Begin, RFC 3339 UTC.
    pub start: String,
    /// Wall time, from idle to idle.
    pub duration_ns: u64,
    /// Transactions in it.
    pub transactions: u32,
    /// Its last statement, normalised; null where it could not be read.
    pub last_statement: Option<String>,
    /// Identifier of that statement, as in `statements`.
    pub query_id: Option<String>,
    /// Time by bucket; buckets with none are left out. They add up to `duration_ns`.
    pub buckets: Vec<BucketTime>,
    /// Time by wait event, the most first.
    pub events: Vec<EventTime>,
}

/// A wait event's time in one transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventTime {
    /// Class, such as `Lock`.
    pub class: String,
    /// Event, such as `transactionid`.
    pub event: String,
    /// How often it was waited for.
    pub waits: u32,
    /// Blocked time.
    pub blocked_ns: u64,
    /// Run-queue time that followed.
    pub run_queue_ns: u64,
}

/// A transaction still open at the end of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenTransaction {
    /// Process id of its backend.
    pub pid: u32,
    /// Time since it began; null where it began before the window unseen.
    pub age_ns: Option<u64>,
    /// What it waits on; null: it is running or waiting for a CPU.
    pub waiting: Option<Waiting>,
    /// Its statement, normalised; null where it was not read.
    pub statement: Option<String>,
    /// Time by bucket so far; buckets with none are left out.
    pub buckets: Vec<BucketTime>,
}

/// What a backend waits on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// Class, such as `Lock`.
    pub class: String,
    /// Event, such as `transactionid`.
    pub event: String,
    /// The bucket the wait will be charged to.
    pub bucket: BucketName,
    /// How long already; null where not known.
    pub since_ns: Option<u64>,
}
