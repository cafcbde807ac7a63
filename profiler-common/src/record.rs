//! What travels through the ring buffer: one record per sampled statement or slow transaction, never one per wait.

use crate::{bucket::BUCKET_SLOTS, ledger::EVENT_ENTRIES, ledger::EventCharge};

/// [`Record::kind`]: a finished unit.
pub const KIND_TRANSACTION: u32 = 1;
/// [`Record::kind`]: a finished statement.
pub const KIND_STATEMENT: u32 = 2;

/// Longest statement text copied, bytes.
pub const TEXT_BYTES: usize = 1024;

/// A finished unit or statement.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Record {
    /// [`KIND_TRANSACTION`] or [`KIND_STATEMENT`].
    pub kind: u32,
    /// Process id in the initial namespace.
    pub pid: u32,
    /// Transactions in the unit (0 in a statement's record).
    pub transactions: u32,
    /// How many statements this one stands for (1 = every one was recorded).
    pub weight: u32,
    /// Begin, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// The server's query identifier, 0 where it computes none.
    pub query_id: u64,
    /// Time by bucket, ns; Σ = end − start.
    pub buckets: [u64; BUCKET_SLOTS],
    /// Entries of `events` in use (transactions only).
    pub n_events: u32,
    /// Bytes of `text` in use, including the terminating NUL; 0 = not read.
    pub text_len: u32,
    /// Waits by event.
    pub events: [EventCharge; EVENT_ENTRIES],
    /// Statement text as the server shows it, cut at its `track_activity_query_size`.
    pub text: [u8; TEXT_BYTES],
}
crate::shared!(Record, 16 + 24 + 8 * BUCKET_SLOTS + 8 + 24 * EVENT_ENTRIES + TEXT_BYTES);
