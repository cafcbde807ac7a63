//! What a wait for I/O was spent on: the instants of the request whose completion ended it, laid over the wait.
//!
//! Pure: the eBPF programs and the tests drive the same code.

/// Parts a wait for I/O is split into.
pub const STORAGE_PARTS: usize = 4;

/// Index of a part.
pub mod part {
    /// Asked for, not yet at the device.
    pub const QUEUE: usize = 0;
    /// At the device.
    pub const DEVICE: usize = 1;
    /// Completed, not yet awake.
    pub const WAKE: usize = 2;
    /// No request explains it.
    pub const UNLINKED: usize = 3;

    /// The stable names used in JSON, in this order.
    pub const NAMES: [&str; super::STORAGE_PARTS] = ["queue", "device", "wake", "unlinked"];
}

/// Buckets whose waits are split, see [`crate::block::LINKED_BUCKETS`].
pub const LINKED: usize = 2;

/// The instants of a request, ns.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Link {
    /// It was asked for; 0 = before anybody could wait for it.
    pub made_ns: u64,
    /// The device was given it.
    pub issued_ns: u64,
    /// It was completed; 0 = there is no request.
    pub completed_ns: u64,
}
crate::shared!(Link, 24);

impl Link {
    /// Whether the request was completed in a wait, and so can be what ended it.
    #[inline(always)]
    pub fn ended(self, out_ns: u64, woke_ns: u64) -> bool {
        self.completed_ns >= out_ns && self.completed_ns <= woke_ns
    }

    /// Cuts a wait at the request's instants; the parts add up to the wait. A request that was not completed in the
    /// wait is not what ended it. What lies before the request was made, the request does not explain.
    #[inline(always)]
    pub fn split(self, out_ns: u64, woke_ns: u64) -> [u64; STORAGE_PARTS] {
        if !self.ended(out_ns, woke_ns) {
            return [0, 0, 0, woke_ns - out_ns];
        }
        let issued_ns = clip(self.issued_ns, out_ns, self.completed_ns);
        let made_ns = clip(self.made_ns, out_ns, issued_ns);
        [issued_ns - made_ns, self.completed_ns - issued_ns, woke_ns - self.completed_ns, made_ns - out_ns]
    }
}

#[inline(always)]
fn clip(ns: u64, low_ns: u64, high_ns: u64) -> u64 {
    if ns < low_ns {
        low_ns
    } else if ns > high_ns {
        high_ns
    } else {
        ns
    }
}

/// Waits of one bucket and what they were spent on.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct StorageTotals {
    /// Time by [`part`], ns; adds up to the blocked time of the waits.
    pub parts: [u64; STORAGE_PARTS],
}
crate::shared!(StorageTotals, 8 * STORAGE_PARTS);

impl StorageTotals {
    /// Adds one wait.
    #[inline(always)]
    pub fn add(&mut self, link: Link, out_ns: u64, woke_ns: u64) {
        let parts = link.split(out_ns, woke_ns);
        let mut at = 0;
        while at < STORAGE_PARTS {
            self.parts[at] += parts[at];
            at += 1;
        }
    }

    /// Adds one wait for the turn to make a request.
    #[inline(always)]
    pub fn add_queued(&mut self, blocked_ns: u64) {
        self.parts[part::QUEUE] += blocked_ns;
    }

    /// Adds the waits of another.
    #[inline(always)]
    pub fn merge(&mut self, other: &StorageTotals) {
        let mut at = 0;
        while at < STORAGE_PARTS {
            self.parts[at] += other.parts[at];
            at += 1;
        }
    }
}
