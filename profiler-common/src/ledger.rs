//! The interval ledger: scheduler edges in, charged nanoseconds out.
//!
//! A task is running, off the CPU, or resumed (back on the CPU, the gap not yet split). A gap is split when the task is
//! next seen *running its own context*. What lies before its wake-up was blocked, what lies after it was run queue. A
//! wake-up that was not seen, or came before the switch-out was stamped, is not guessed at: then the kernel's own
//! run-queue clock (`sched_info.run_delay`, what `/proc/PID/schedstat` shows, up to date whenever the task runs) splits
//! the gap. That clock alone would not do: it starts when the task is queued on the CPU that will run it, and misses the
//! time an idle CPU takes to come to that.
//!
//! A switch-in is not always seen: Linux 6.18 does not trace some switches from the idle task (about 3 in 10,000 were
//! missing, each a task that left the CPU twice). The kernel's own `sched_info.last_arrival` still holds the instant,
//! in the scheduler's clock; the distance between that clock and ours is known from the gaps that were seen whole.
//!
//! One lost edge is always noticed, and counted. Two in a row look like none: the stretch between them goes where what
//! surrounds it goes.
//!
//! Invariant: after every call, Σ buckets charged since [`Ledger::clear`] = `charged_to_ns` − the instant of the
//! clear. It holds by construction: every function that moves `charged_to_ns` charges exactly the distance.

use crate::{
    bucket::{BUCKET_SLOTS, Bucket, WAKE_TO_RUN, kind},
    event::PREEMPTED,
    history::Gap,
    loss::Loss,
    storage::{LINKED, Link, StorageTotals},
};

/// Distinct wait events kept per transaction. More than ten were never seen in one.
pub const EVENT_ENTRIES: usize = 16;

const UNKNOWN: u32 = 0;
const RUNNING: u32 = 1;
const OFF: u32 = 2;
const RESUMED: u32 = 3;

const PAGE_READ: u32 = Bucket::PageRead as u32;
const WAL_FSYNC: u32 = Bucket::WalFsync as u32;

/// One wait event's share of a transaction.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct EventCharge {
    /// Dense index, see [`crate::event`].
    pub event: u32,
    /// How often it was waited for.
    pub waits: u32,
    /// Blocked time, ns.
    pub blocked_ns: u64,
    /// Run-queue time that followed the wake-ups, ns.
    pub run_queue_ns: u64,
}
crate::shared!(EventCharge, 24);

/// The kernel's own figures for the task that is running, from its `sched_info`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedInfo {
    /// Σ time spent runnable without a CPU, ns.
    pub run_delay_ns: u64,
    /// Instant of the last switch-in, ns of the scheduler's clock.
    pub last_arrival_ns: u64,
}

/// Where the scheduler's clock of one CPU lies on ours. Kept per CPU, for all followed tasks together: any gap seen whole
/// renews it, and a task's last arrival was on the CPU it runs on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedulerClock {
    /// Our clock minus the scheduler's, ns, wrapping.
    pub distance_ns: u64,
    /// When that was seen, ns of our clock; 0 = never.
    pub seen_ns: u64,
}
crate::shared!(SchedulerClock, 16);

/// The parts of a stretch that is not charged yet, ns.
#[derive(Default)]
struct OpenStretch {
    cpu_ns: u64,
    blocked_ns: u64,
    run_queue_ns: u64,
    unknown_ns: u64,
}

/// One task's time line.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Ledger {
    /// Everything before this instant is charged.
    pub charged_to_ns: u64,
    resumed_ns: u64,
    run_delay_ns: u64,
    /// The last wake-up seen. The only field that other CPUs write, and with nothing but this.
    woken_ns: u64,
    state: u32,
    /// Dense index of the event of the current or last gap, or [`PREEMPTED`].
    pub event: u32,
    /// Bucket of that gap, with the bits of [`crate::bucket::kind`].
    pub bucket: u32,
    /// Entries of `events` in use.
    pub n_events: u32,
    /// Index of the entry of the last gap; its run-queue time is added when the gap is split.
    last_entry: u32,
    /// How many gaps [`crate::history`] has seen of it, modulo 2^32.
    pub n_gaps: u32,
    /// When its last snapshot was taken, in the units of [`crate::history`].
    pub snapshot_at: u32,
    /// 1 if `storage` is not all zero: most units wait for no I/O and need not clear it.
    pub storage_used: u32,
    /// Time by bucket since the last clear, ns.
    pub buckets: [u64; BUCKET_SLOTS],
    /// Time by bucket over the task's life, ns.
    pub life: [u64; BUCKET_SLOTS],
    /// Waits by event since the last clear.
    pub events: [EventCharge; EVENT_ENTRIES],
    /// The request whose completion woke the task last. Written by whoever wakes it, while it sleeps.
    link: Link,
    /// Waits for I/O since the last clear, of the buckets in [`crate::block::LINKED_BUCKETS`].
    pub storage: [StorageTotals; LINKED],
    /// When the task asked for a request that is not made yet, ns; 0 = it did not.
    asked_ns: u64,
    /// Begin of the last gap in which it waited for its turn to make one, if that was made before the gap was split.
    queued_out_ns: u64,
    /// 1 if `link` is sure to be what it waited for.
    link_is_own: u64,
    reserved_storage: [u64; 2],
}
crate::shared!(Ledger, 64 + 16 * BUCKET_SLOTS + 24 * EVENT_ENTRIES + 128);

/// Where the ledger reports what it could not do: a counter per kind of loss.
pub trait LossCounter {
    /// Counts one loss.
    fn count(&mut self, loss: Loss);
}

impl Ledger {
    /// A task first seen at `now`, on or off the CPU: nothing before is known.
    #[inline(always)]
    pub fn begin_unknown(&mut self, now_ns: u64) {
        self.charged_to_ns = now_ns;
        self.state = UNKNOWN;
        self.forget();
    }

    /// A task forked at `now`: runnable, never run.
    #[inline(always)]
    pub fn begin_forked(&mut self, now_ns: u64) {
        self.charged_to_ns = now_ns;
        self.run_delay_ns = 0;
        self.state = OFF;
        self.event = PREEMPTED;
        self.bucket = Bucket::RunQueue as u32;
        self.forget();
    }

    #[inline(always)]
    fn forget(&mut self) {
        self.buckets = [0; BUCKET_SLOTS];
        self.life = [0; BUCKET_SLOTS];
        self.n_events = 0;
        self.n_gaps = 0;
        self.clear_storage();
        self.link = Link::default();
        self.asked_ns = 0;
        self.queued_out_ns = 0;
    }

    #[inline(always)]
    fn clear_storage(&mut self) {
        self.storage_used = 0;
        self.storage = [StorageTotals::default(); LINKED];
    }

    /// Forgets what was charged; the next charges belong to a new owner that begins at `charged_to_ns`.
    #[inline(always)]
    pub fn clear(&mut self) {
        zero(&mut self.buckets);
        self.n_events = 0;
        if self.storage_used != 0 {
            self.clear_storage();
        }
    }

    /// Whether the task, now running in its own context, is back from a gap that is not split yet. Finds the end of
    /// a gap whose switch-in was not seen.
    #[inline(always)]
    pub fn has_gap(
        &mut self,
        now_ns: u64,
        sched_info: SchedInfo,
        clock: &mut SchedulerClock,
        losses: &mut impl LossCounter,
    ) -> bool {
        if self.state == RESUMED {
            clock.distance_ns = self.resumed_ns.wrapping_sub(sched_info.last_arrival_ns);
            clock.seen_ns = now_ns;
            return true;
        }
        if self.state != OFF || clock.seen_ns == 0 {
            return false;
        }
        losses.count(Loss::SwitchInUnseen);
        let resumed_ns = sched_info.last_arrival_ns.wrapping_add(clock.distance_ns);
        // The two clocks are read some hundred nanoseconds apart.
        self.resumed_ns = if resumed_ns < self.charged_to_ns {
            self.charged_to_ns
        } else if resumed_ns > now_ns {
            now_ns
        } else {
            resumed_ns
        };
        self.state = RESUMED;
        true
    }

    /// Whether the task was last seen leaving the CPU.
    pub fn is_off(&self) -> bool {
        self.state == OFF
    }

    /// What the stretch from `charged_to_ns` to `now_ns` will most likely be charged to: bucket and ns. The run-queue
    /// part of a gap is not known before the gap is over.
    pub fn pending(&self, now_ns: u64) -> (u32, u64) {
        let bucket = match self.state {
            RUNNING => Bucket::Cpu as u32,
            OFF | RESUMED => self.bucket,
            _ => Bucket::Unattributed as u32,
        };
        (bucket & (BUCKET_SLOTS as u32 - 1), now_ns.saturating_sub(self.charged_to_ns))
    }

    /// Whether the task sleeps in a wait that another process ends.
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.bucket & kind::HELD != 0 && self.state == OFF
    }

    /// Whether the last gap was such a wait.
    #[inline(always)]
    pub fn was_held(&self) -> bool {
        self.bucket & kind::HELD != 0
    }

    /// The gap just charged, which began and ended its blocked part at these instants.
    #[inline(always)]
    pub fn gap(&self, begin_ns: u64, woke_ns: u64) -> Gap {
        Gap::new(begin_ns, self.bucket, woke_ns, self.resumed_ns)
    }

    /// What lies between `charged_to_ns` and `now` for a task that is running in its own context: a gap that is not split
    /// yet, or one of no length; after it comes CPU time. Where an edge is missing, a stretch without a name.
    #[inline(always)]
    pub fn open_gap(&self, now_ns: u64) -> Gap {
        let begin_ns = self.charged_to_ns;
        match self.state {
            RUNNING => Gap::new(begin_ns, Bucket::Cpu as u32, begin_ns, begin_ns),
            RESUMED if self.event == PREEMPTED => Gap::new(begin_ns, self.bucket, begin_ns, self.resumed_ns),
            RESUMED if self.woken_ns >= begin_ns && self.woken_ns <= self.resumed_ns => {
                Gap::new(begin_ns, self.bucket, self.woken_ns, self.resumed_ns)
            }
            RESUMED => Gap::new(begin_ns, self.bucket, self.resumed_ns, self.resumed_ns),
            _ => Gap::new(begin_ns, Bucket::Unattributed as u32, now_ns, now_ns),
        }
    }

    /// Where the task is at `now_ns`, and since when: the stretch from `charged_to_ns` on, as far as it can be told before
    /// its end is seen. The parts add up to it.
    fn open_stretch(&self, now_ns: u64) -> OpenStretch {
        let now_ns = now_ns.max(self.charged_to_ns);
        let whole_ns = now_ns - self.charged_to_ns;
        let mut stretch = OpenStretch::default();
        match self.state {
            RUNNING => stretch.cpu_ns = whole_ns,
            OFF | RESUMED => {
                let resumed_ns = self.resumed_ns.clamp(self.charged_to_ns, now_ns);
                let end_ns = if self.state == RESUMED { resumed_ns } else { now_ns };
                stretch.cpu_ns = now_ns - end_ns;
                let woken = self.woken_ns >= self.charged_to_ns && self.woken_ns <= end_ns;
                let woke_ns = match (self.event == PREEMPTED, woken) {
                    (true, _) => self.charged_to_ns,
                    (false, true) => self.woken_ns,
                    (false, false) => end_ns,
                };
                stretch.blocked_ns = woke_ns - self.charged_to_ns;
                stretch.run_queue_ns = end_ns - woke_ns;
            }
            _ => stretch.unknown_ns = whole_ns,
        }
        stretch
    }

    /// Time by bucket over the task's life up to `now_ns`, what it is doing now included.
    pub fn life_at(&self, now_ns: u64) -> [u64; BUCKET_SLOTS] {
        let mut life = self.life;
        let stretch = self.open_stretch(now_ns);
        life[Bucket::Cpu as usize] += stretch.cpu_ns;
        life[self.bucket as usize & (BUCKET_SLOTS - 1)] += stretch.blocked_ns;
        life[Bucket::RunQueue as usize] += stretch.run_queue_ns;
        life[Bucket::Unattributed as usize] += stretch.unknown_ns;
        life
    }

    /// The wait the task is in at `now_ns`, not yet among its events; its number of waits is zero, for it is not over.
    pub fn open_wait(&self, now_ns: u64) -> Option<EventCharge> {
        let OpenStretch { blocked_ns, run_queue_ns, .. } = self.open_stretch(now_ns);
        let waits = matches!(self.state, OFF | RESUMED) && self.event != PREEMPTED;
        waits.then_some(EventCharge { event: self.event, waits: 0, blocked_ns, run_queue_ns })
    }

    /// The task comes onto a CPU. Its run-queue clock is not up to date yet, so nothing is charged.
    #[inline(always)]
    pub fn switch_in(&mut self, now_ns: u64, losses: &mut impl LossCounter) {
        match self.state {
            OFF => {
                self.resumed_ns = now_ns;
                self.state = RESUMED;
            }
            // It never left: the switch-out was lost, and with it the reason.
            _ => self.run_unnamed(now_ns, losses),
        }
    }

    /// The task is being woken up. May come from any CPU, and at a time when the task does not sleep at all: an instant
    /// counts only inside the gap it lies in.
    #[inline(always)]
    pub fn wake(&mut self, now_ns: u64) {
        self.woken_ns = now_ns;
    }

    /// Whether the wait in progress, or the last one, is for file I/O of its own.
    #[inline(always)]
    pub fn waits_for_storage(&self) -> bool {
        self.bucket & kind::STORAGE != 0
    }

    /// The completion of a request is what wakes the task. As with [`Ledger::wake`], it counts only inside the gap it
    /// lies in. `own`: that request is sure to be what it waited for.
    #[inline(always)]
    pub fn link(&mut self, link: Link, own: bool) {
        self.link = link;
        self.link_is_own = own as u64;
    }

    /// The task, running, asks for a request. Before it is made it may have to wait for its turn.
    #[inline(always)]
    pub fn ask(&mut self, now_ns: u64) {
        self.asked_ns = now_ns;
    }

    /// The request is made. Returns since when it was asked for, ns.
    #[inline(always)]
    pub fn made(&mut self, now_ns: u64) -> u64 {
        let asked_ns = self.asked_ns;
        if asked_ns == 0 {
            return now_ns;
        }
        if self.state != RUNNING && asked_ns <= self.charged_to_ns {
            self.queued_out_ns = self.charged_to_ns;
        }
        self.asked_ns = 0;
        asked_ns
    }

    /// The task leaves the CPU. [`Ledger::close_gap`] and [`Ledger::run_to`] came before.
    ///
    /// `event` is the dense index of the wait, or [`PREEMPTED`]; `run_delay_ns` the task's run-queue clock.
    #[inline(always)]
    pub fn switch_out(&mut self, event: u32, bucket: u32, run_delay_ns: u64) {
        self.event = event;
        self.bucket = bucket;
        self.run_delay_ns = run_delay_ns;
        self.state = OFF;
    }

    /// Charges the blocked part of the gap the task is back from; `charged_to_ns` is then the instant it woke.
    #[inline(always)]
    pub fn close_gap(&mut self, run_delay_ns: u64, losses: &mut impl LossCounter) {
        if self.resumed_ns < self.charged_to_ns {
            losses.count(Loss::ClockDisorder);
            self.resumed_ns = self.charged_to_ns;
        }
        if self.event == PREEMPTED {
            return;
        }
        let woke_ns = if self.woken_ns >= self.charged_to_ns && self.woken_ns <= self.resumed_ns {
            self.woken_ns
        } else {
            losses.count(Loss::WakeUnseen);
            self.resumed_ns - self.queued_ns(run_delay_ns, losses)
        };
        let (bucket, blocked_ns) = (self.bucket, woke_ns - self.charged_to_ns);
        if bucket & kind::STORAGE != 0 {
            self.charge_storage(bucket, woke_ns);
        }
        self.charge_to(bucket, woke_ns, losses);
        self.note_event(blocked_ns, losses);
    }

    /// Splits a wait for I/O over the parts of the request that ended it. Where that is not one of its own, the wait was for
    /// its turn, if the task had asked for a request that was not made before the wait was over.
    #[inline(always)]
    fn charge_storage(&mut self, bucket: u32, woke_ns: u64) {
        let out_ns = self.charged_to_ns;
        let linked = self.link_is_own != 0 && self.link.ended(out_ns, woke_ns);
        let asked = self.asked_ns != 0 && self.asked_ns <= out_ns;
        let queued = asked || self.queued_out_ns == out_ns;
        if linked && asked {
            // What it had asked for was merged into what it waited for. What it asks for since is another matter.
            self.asked_ns = 0;
        }
        let at = match bucket & (BUCKET_SLOTS as u32 - 1) {
            PAGE_READ => 0,
            WAL_FSYNC => 1,
            _ => return,
        };
        self.storage_used = 1;
        if queued && !linked {
            self.storage[at].add_queued(woke_ns - out_ns);
        } else {
            self.storage[at].add(self.link, out_ns, woke_ns);
        }
    }

    /// The gap's run-queue part by the kernel's clock.
    #[inline(always)]
    fn queued_ns(&self, run_delay_ns: u64, losses: &mut impl LossCounter) -> u64 {
        if run_delay_ns < self.run_delay_ns {
            losses.count(Loss::ClockDisorder);
            return 0;
        }
        let queued_ns = run_delay_ns - self.run_delay_ns;
        let gap_ns = self.resumed_ns - self.charged_to_ns;
        // The two clocks are read some nanoseconds apart: a gap cannot hold more run queue than it is long.
        if queued_ns > gap_ns { gap_ns } else { queued_ns }
    }

    /// Charges the run-queue part of the gap, from the wake-up to the switch-in.
    ///
    /// What of it the kernel's run-queue clock does not know was no queueing: an idle CPU had to be roused.
    #[inline(always)]
    pub fn close_queue(&mut self, run_delay_ns: u64, losses: &mut impl LossCounter) {
        let resumed_ns = self.resumed_ns;
        let queued_ns = self.charge_to(Bucket::RunQueue as u32, resumed_ns, losses);
        let counted_ns = run_delay_ns.saturating_sub(self.run_delay_ns);
        if self.event != PREEMPTED && queued_ns > counted_ns {
            self.buckets[WAKE_TO_RUN as usize] += queued_ns - counted_ns;
            self.life[WAKE_TO_RUN as usize] += queued_ns - counted_ns;
        }
        if self.event != PREEMPTED && self.n_events != 0 {
            let entry = &mut self.events[self.last_entry as usize & (EVENT_ENTRIES - 1)];
            if entry.event == self.event {
                entry.run_queue_ns += queued_ns;
            }
        }
        self.state = RUNNING;
    }

    /// Charges CPU time up to `now`. A task believed off the CPU has lost an edge: the stretch has no name.
    #[inline(always)]
    pub fn run_to(&mut self, now_ns: u64, losses: &mut impl LossCounter) {
        match self.state {
            RUNNING => {
                self.charge_to(Bucket::Cpu as u32, now_ns, losses);
            }
            _ => self.run_unnamed(now_ns, losses),
        }
    }

    /// The task runs, and what it did until now has no name: an edge was lost. A task taken up in the middle of
    /// something has lost none.
    #[inline(always)]
    fn run_unnamed(&mut self, now_ns: u64, losses: &mut impl LossCounter) {
        if self.state != UNKNOWN {
            losses.count(Loss::EdgeMissing);
        }
        self.charge_to(Bucket::Unattributed as u32, now_ns, losses);
        self.state = RUNNING;
    }

    /// Charges the time up to an instant, and says how much that was, ns.
    #[inline(always)]
    fn charge_to(&mut self, bucket: u32, to_ns: u64, losses: &mut impl LossCounter) -> u64 {
        if to_ns < self.charged_to_ns {
            losses.count(Loss::ClockDisorder);
            return 0;
        }
        let ns = to_ns - self.charged_to_ns;
        self.buckets[bucket as usize & (BUCKET_SLOTS - 1)] += ns;
        self.life[bucket as usize & (BUCKET_SLOTS - 1)] += ns;
        self.charged_to_ns = to_ns;
        ns
    }

    #[inline(always)]
    fn note_event(&mut self, blocked_ns: u64, losses: &mut impl LossCounter) {
        let mut at = 0;
        while at < EVENT_ENTRIES {
            let entry = &mut self.events[at];
            if at as u32 >= self.n_events {
                *entry = EventCharge { event: self.event, waits: 1, blocked_ns, run_queue_ns: 0 };
                self.n_events = at as u32 + 1;
                self.last_entry = at as u32;
                return;
            }
            if entry.event == self.event {
                entry.waits += 1;
                entry.blocked_ns += blocked_ns;
                self.last_entry = at as u32;
                return;
            }
            at += 1;
        }
        losses.count(Loss::EventTableFull);
    }
}

/// Zeroes the words one store each. Left alone, the compiler makes a call to a `memset` of it, which on this target goes
/// byte by byte: 50 ns for what takes 5, twice in every unit.
#[inline(always)]
fn zero(words: &mut [u64; BUCKET_SLOTS]) {
    for word in words {
        // SAFETY: a reference is valid for writes and aligned; volatile only keeps the stores as they are.
        unsafe { core::ptr::write_volatile(word, 0) };
    }
}
