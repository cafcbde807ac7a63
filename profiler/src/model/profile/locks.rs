//! Waits for other backends, and what those were doing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BucketTime;

/// Waits of one kind that another process ended: heavyweight locks, LWLocks, buffer pins, waits for other processes.
///
/// All processes of the server, inside and outside transactions, finished waits only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockWait {
    /// Class, such as `Lock`.
    pub class: String,
    /// Event, such as `transactionid`.
    pub event: String,
    /// Finished waits.
    pub waits: u64,
    /// Time from their begin to the wake-up that ended them, all waits together; a deadlock check in between is included.
    pub blocked_ns: u64,
    /// Longest wait.
    pub max_ns: u64,
    /// Part of `blocked_ns` that is split in `causes`, 0 to 1: for the rest no holder was seen or its past was not kept.
    pub explained: f64,
    /// The waiters' time by what the holders were doing meanwhile, chains followed to their end, the most first. Sums to
    /// `explained` × `blocked_ns`; where waits were sampled it is scaled up.
    pub causes: Vec<BucketTime>,
    /// Waits recorded one by one and followed through chains.
    pub recorded: u64,
    /// Those of `recorded` whose holder waited for another holder itself.
    pub in_chains: u64,
    /// Longest chain seen: 1 = a waiter and its holder.
    pub chain_max: u32,
    /// Holders, the most of the waiters' time first.
    pub holders: Vec<LockHolder>,
}

/// One who held what others waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockHolder {
    /// Process id.
    pub pid: u32,
    /// Its type, as in `processes`.
    pub backend_type: Option<String>,
    /// Waits it ended, of those recorded.
    pub waits: u64,
    /// Time of those waits.
    pub blocked_ns: u64,
    /// Statement it ran when it let go last, normalised, or the one before where that only ended the transaction; null where
    /// it was not read.
    pub statement: Option<String>,
}
