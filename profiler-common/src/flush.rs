//! Flushes of the write-ahead log, told from the scheduler's edges alone: a process that waits for its own sync sleeps
//! once or several times inside one call, and does something else between two calls.
//!
//! What separates two calls in a row, where the process never slept in between, is the kernel's own count of the
//! writes it made: new log is written before it is synced, and with the methods that sync in the write itself the write
//! is the call. A process that syncs twice what others wrote, without a sleep between, is counted once.
//!
//! Pure: the eBPF programs and the tests drive the same code.

/// Entries of the sums by backend type: the server's numbers are below it in every major version.
pub const BACKEND_TYPES: usize = 32;

/// The flush a process is in. Lies in its [`Backend`](crate::backend::Backend), which says beside the flags every event
/// looks at whether one is open.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Begin of its first sleep, ns.
    first_ns: u64,
    /// Begin of its last sleep, ns.
    slept_ns: u64,
    /// End of its last sleep, ns; 0 = that sleep is not over.
    woke_ns: u64,
    /// Σ of its sleeps, ns.
    blocked_ns: u64,
    /// What the count of writes was when it began.
    n_writes: u64,
    reserved: [u64; 3],
}
crate::shared!(Flush, 64);

/// A flush that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Begin of the first sleep to the wake-up of the last, ns.
    pub length_ns: u64,
    /// The part of it the process was asleep, ns; the rest it ran, or waited for a CPU.
    pub blocked_ns: u64,
}

impl Flush {
    /// The process goes to sleep in a sync. `open`: a flush was open; returns it if this is another call.
    #[inline(always)]
    pub fn sleep(&mut self, open: bool, now_ns: u64, n_writes: u64) -> Option<Flushed> {
        let ended = if open && self.n_writes == n_writes { None } else { self.end(open) };
        if !open || self.n_writes != n_writes {
            self.first_ns = now_ns;
            self.blocked_ns = 0;
            self.n_writes = n_writes;
        }
        self.slept_ns = now_ns;
        self.woke_ns = 0;
        ended
    }

    /// The sleep is over since `woke_ns`.
    #[inline(always)]
    pub fn wake(&mut self, woke_ns: u64) {
        self.woke_ns = woke_ns;
        self.blocked_ns += woke_ns.saturating_sub(self.slept_ns);
    }

    /// The process does something else. `None`: no flush was open, or its sleep was never seen to end (lost edges,
    /// which are counted where they are noticed).
    #[inline(always)]
    pub fn end(&self, open: bool) -> Option<Flushed> {
        if !open || self.woke_ns < self.first_ns {
            return None;
        }
        Some(Flushed { length_ns: self.woke_ns - self.first_ns, blocked_ns: self.blocked_ns })
    }
}

/// Sums over the flushes of one backend type.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct FlushTotals {
    /// Flushes.
    pub flushes: u64,
    /// Σ of their lengths, ns.
    pub length_ns: u64,
    /// Σ of the time asleep in them, ns.
    pub blocked_ns: u64,
}
crate::shared!(FlushTotals, 24);

impl FlushTotals {
    /// Adds one flush.
    #[inline(always)]
    pub fn add(&mut self, flushed: Flushed) {
        self.flushes += 1;
        self.length_ns += flushed.length_ns;
        self.blocked_ns += flushed.blocked_ns;
    }
}
