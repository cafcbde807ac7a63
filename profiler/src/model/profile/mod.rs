//! The document `pgstall.profile/1`: what every command reads and writes (docs/json-format.md).
//!
//! Durations are integer nanoseconds and end in `_ns`, rates per second in `_per_s`, sizes in `_bytes`; times are
//! RFC 3339 in UTC. What is not known is `null`, never zero. The format only grows: a reader ignores keys it does not
//! know.

mod activity;
mod capture;
mod document;
mod environment;
mod transactions;

pub use activity::{
    BucketMean, BucketTime, EventTime, Interval, OpenTransaction, Process, ProcessType, SlowTransaction,
    Statement, Waiting,
};
pub use capture::{Backends, Borders, Capture, Connections, Cost, Filters, Probe, StatementCapture};
pub use document::{Profile, SCHEMA};
pub use environment::{EndedBy, Host, Postgres, Tool, Window};
pub use transactions::{BucketBudget, EventBudget, Latency, Part, Transactions};
