//! Sums kept in the kernel, one copy per CPU: always exact, whatever happens to the records.

use crate::{
    bucket::BUCKET_SLOTS,
    loss::LOSSES,
    storage::{LINKED, StorageTotals},
};

/// Sums over finished units (see [`crate::backend`]).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Totals {
    /// Transactions, by the server's own local transaction counter.
    pub transactions: u64,
    /// Units: stretches from idle to idle. One holds one transaction, unless the client sends several at once.
    pub units: u64,
    /// Units that held more than one transaction.
    pub units_of_many: u64,
    /// Statements (requests answered inside or at the end of a unit).
    pub statements: u64,
    /// Σ wall time of the units, ns.
    pub wall_ns: u64,
    /// Longest unit, ns.
    pub max_ns: u64,
    /// `u64::MAX` − shortest unit, ns: kept inverted so that zero means none.
    pub min_inverted_ns: u64,
    /// Connections whose start-up (fork to first ready-for-query) ended.
    pub connections: u64,
    /// Σ wall time of those start-ups, ns.
    pub connections_ns: u64,
    /// Backends that ended.
    pub backends_ended: u64,
    /// Transactions of the units that waited for the write-ahead log to be flushed.
    pub transactions_flushed: u64,
    /// Σ of each bucket over the units, ns.
    pub buckets: [u64; BUCKET_SLOTS],
    /// Counters of [`crate::loss::Loss`].
    pub losses: [u64; LOSSES],
    /// Waits for I/O of the buckets in [`crate::block::LINKED_BUCKETS`], over the units.
    pub storage: [StorageTotals; LINKED],
}
crate::shared!(Totals, 8 * (11 + BUCKET_SLOTS + LOSSES) + 32 * LINKED);

/// Sums of one wait event over finished units.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTotals {
    /// How often it was waited for.
    pub waits: u64,
    /// Σ blocked time, ns.
    pub blocked_ns: u64,
    /// Σ run-queue time that followed the wake-ups, ns (charged to `run_queue`).
    pub run_queue_ns: u64,
}
crate::shared!(EventTotals, 24);
