//! PostgreSQL's `wait_event_info` word as a dense index, so that per-event state fits an array map.
//!
//! The word holds the class in bits 24–31 and the event id in bits 0–15 (`src/include/utils/wait_event.h`). Classes
//! run from 0x01 to 0x0B in PostgreSQL 14–18 and ids stay below 256, but for extension tranches.

/// Number of dense indexes: 16 classes of 256 ids.
pub const EVENT_SLOTS: usize = 16 * 256;

/// Index of `wait_event_info` = 0: blocked in something the server does not name.
pub const UNNAMED: u32 = 0;

/// Marks a gap that was no wait at all: the backend was still runnable when it left the CPU.
pub const PREEMPTED: u32 = u32::MAX;

/// Dense index of a `wait_event_info` word. Ids of 255 and more share the last index of their class.
#[inline(always)]
pub const fn index(wait_event_info: u32) -> u32 {
    let id = wait_event_info & 0xffff;
    let id = if id > 255 { 255 } else { id };
    ((wait_event_info >> 24) & 0xf) << 8 | id
}

/// The word an index stands for (the smallest, where several share it).
pub const fn wait_event_info(index: u32) -> u32 {
    (index >> 8) << 24 | (index & 0xff)
}
