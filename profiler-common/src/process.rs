//! What is kept of processes beyond their slots: the sums of those that ended, and what the server's own processes waited
//! for. Client backends add nothing here while they live.

use crate::{bucket::BUCKET_SLOTS, flush::BACKEND_TYPES};

/// Distinct events a process that is no client backend gathers in its slot before they are moved to the sums by type.
/// Half of the table, so that it is never full; few have more.
pub const EVENTS_GATHERED: u32 = 8;

/// Most pairs of backend type and wait event that are told apart.
pub const PROCESS_EVENTS: u32 = 2048;

/// Sums over the ended processes of one backend type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Processes that ended.
    pub n: u64,
    /// Time by bucket over their lives, ns.
    pub life: [u64; BUCKET_SLOTS],
}
crate::shared!(Ended, 8 * (1 + BUCKET_SLOTS));

/// One CPU's part of what was moved out of slots.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Moved {
    /// Moves begun. A reader that finds it equal to `done`, and unchanged after reading the slots, has counted nothing
    /// twice and missed nothing.
    pub begun: u64,
    /// Moves done.
    pub done: u64,
    /// Sums by the server's number for the backend type; at 0 are those that ended before it was known.
    pub ended: [Ended; BACKEND_TYPES],
}
crate::shared!(Moved, 16 + BACKEND_TYPES * size_of::<Ended>());

/// Key of the sums by backend type and event: dense index of the event, type above it.
#[inline(always)]
pub const fn event_key(backend_type: u32, event: u32) -> u32 {
    (backend_type & (BACKEND_TYPES as u32 - 1)) << 16 | event & 0xffff
}

/// Backend type and event of a key.
pub const fn of_event_key(key: u32) -> (u32, u32) {
    (key >> 16, key & 0xffff)
}
