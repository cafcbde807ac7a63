//! Waits that another process ends: locks of all kinds, and waiting for a process to do something.
//!
//! Who wakes the waiter is who held what it waited for, so the wait is accounted for at the wake-up, in the context of
//! the holder. Not every wake-up is one: the deadlock check's timer and stray signals rouse a waiter that goes straight
//! back to sleep. Such wake-ups come out of an interrupt or from strangers and end nothing; what then follows tells. A
//! heavyweight lock's wait goes on if the waiter sleeps in the same event again; any other is over, and nobody is known
//! to have ended it.
//!
//! Pure: the eBPF programs and the tests drive the same code.

use crate::{bucket::BUCKET_SLOTS, event};

/// Number of dense indexes of events another process can end: four classes of 256 ids.
pub const HELD_SLOTS: usize = 4 * 256;

/// Classes of `wait_event_info`: <https://github.com/postgres/postgres/blob/REL_15_STABLE/src/include/utils/wait_event.h>
const LWLOCK: u32 = 0x1;
const LOCK: u32 = 0x3;
const BUFFER_PIN: u32 = 0x4;
const IPC: u32 = 0x8;

/// Index among the events another process can end; `None` for an event of another class.
#[inline(always)]
pub const fn held_index(event: u32) -> Option<u32> {
    let class = match event >> 8 {
        LWLOCK => 0,
        LOCK => 1,
        BUFFER_PIN => 2,
        IPC => 3,
        _ => return None,
    };
    Some(class << 8 | event & 0xff)
}

/// The dense index of the event (see [`crate::event`]) behind a [`held_index`].
pub const fn event_of(held: u32) -> u32 {
    let class = match held >> 8 {
        0 => LWLOCK,
        1 => LOCK,
        2 => BUFFER_PIN,
        _ => IPC,
    };
    event::index(class << 24 | held & 0xff)
}

/// The wait one backend is in or was in last, and what its holder did meanwhile.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct HeldWait {
    /// Begin of the whole wait, ns.
    pub since_ns: u64,
    /// Begin of the sleep in progress, ns.
    slept_ns: u64,
    /// End of the last sleep, where no holder ended it, ns; 0 = not known.
    roused_ns: u64,
    /// Dense index of the event.
    pub event: u32,
    /// 1 until a holder ended it or it was found to be over.
    open: u32,
    /// The holder's time by bucket from the begin of the wait to its end, ns.
    pub buckets: [u64; BUCKET_SLOTS],
}
crate::shared!(HeldWait, 32 + 8 * BUCKET_SLOTS);

impl HeldWait {
    /// The backend goes to sleep in `event`, which another process ends. A wait still open and not
    /// [continued](HeldWait::continues) has been dealt with before.
    #[inline(always)]
    pub fn sleep(&mut self, event: u32, now_ns: u64) {
        if !self.continues(event) {
            self.since_ns = now_ns;
            self.event = event;
            self.open = 1;
        }
        self.slept_ns = now_ns;
        self.roused_ns = 0;
    }

    /// Whether a sleep in `event` now is still the same wait.
    #[inline(always)]
    pub fn continues(&self, event: u32) -> bool {
        self.open != 0 && self.event == event && event >> 8 == LOCK
    }

    /// A gap of the waiter was closed that was such a sleep.
    #[inline(always)]
    pub fn roused(&mut self, begin_ns: u64, woke_ns: u64) {
        if self.open != 0 && self.slept_ns == begin_ns {
            self.roused_ns = woke_ns;
        }
    }

    /// Another process lets go, at `now`, of what the backend waits for since `slept_ns`. Returns when the whole wait
    /// began; `None` if that was seen already.
    #[inline(always)]
    pub fn let_go(&mut self, slept_ns: u64) -> Option<u64> {
        if self.slept_ns != slept_ns {
            // Asleep since before anybody looked.
            self.slept_ns = slept_ns;
            self.since_ns = slept_ns;
        } else if self.open == 0 {
            return None;
        }
        self.open = 0;
        Some(self.since_ns)
    }

    /// The backend does something else. Returns the length of a wait that no holder was seen to end, ns.
    #[inline(always)]
    pub fn leave(&mut self) -> Option<u64> {
        if self.open == 0 {
            return None;
        }
        self.open = 0;
        if self.roused_ns > self.since_ns { Some(self.roused_ns - self.since_ns) } else { None }
    }
}

/// Sums over the finished waits of one event, one copy per CPU.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct HeldTotals {
    /// Finished waits.
    pub waits: u64,
    /// Σ from their begin to the wake-up that ended them, ns.
    pub blocked_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Σ of the part in which the holder's doings are known, ns: Σ of `buckets`.
    pub covered_ns: u64,
    /// Σ of the holders' time by bucket during the waits, ns; idle time at [`IDLE`](crate::bucket::IDLE).
    pub buckets: [u64; BUCKET_SLOTS],
}
crate::shared!(HeldTotals, 32 + 8 * BUCKET_SLOTS);

/// [`HeldRecord::kind`].
pub const KIND_HELD: u32 = 3;

/// A finished wait, through the ring buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeldRecord {
    /// [`KIND_HELD`].
    pub kind: u32,
    /// Dense index of the event.
    pub event: u32,
    /// Who waited: process id in the initial namespace.
    pub waiter: u32,
    /// Who ended it; 0 = nobody known.
    pub holder: u32,
    /// Begin, ns.
    pub since_ns: u64,
    /// The wake-up that ended it, ns.
    pub until_ns: u64,
    /// The part in which the holder's doings are known, ns.
    pub covered_ns: u64,
    /// The holder's time by bucket in that part, ns; idle time at [`IDLE`](crate::bucket::IDLE).
    pub buckets: [u64; BUCKET_SLOTS],
}
crate::shared!(HeldRecord, 40 + 8 * BUCKET_SLOTS);
