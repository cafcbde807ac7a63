//! The document `pgstall.profile/1`: what every command reads and writes (docs/json-format.md).
//!
//! Durations are integer nanoseconds and end in `_ns`, rates per second in `_per_s`, sizes in `_bytes`; times are
//! RFC 3339 in UTC. What is not known is `null`, never zero. The format only grows: a reader ignores keys it does not
//! know.

mod activity;
mod capture;
mod devices;
mod document;
mod environment;
mod findings;
mod locks;
mod transactions;
mod wal;

pub use activity::{
    BucketBackends, BucketMean, BucketTime, DeviceShare, EventTime, Interval, IntervalDevice,
    OpenTransaction, PageCache, Process, ProcessEvent, ProcessType, ProcessWork, SlowTransaction, Statement,
    Waiting,
};
pub use capture::{Backends, Borders, Capture, Connections, Cost, Filters, Probe, StatementCapture};
pub use devices::{Ceiling, Device, DeviceUser, Ebs, EbsBin, Operation, Place};
pub use document::{Profile, SCHEMA};
pub use environment::{EndedBy, Host, Postgres, Tool, Window};
pub use findings::{Finding, Severity};
pub use locks::{LockHolder, LockWait};
pub use transactions::{BucketBudget, EventBudget, Latency, Part, Transactions};
pub use wal::{FlushedBy, Wal};
