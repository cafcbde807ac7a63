//! One backend's transactions: where units and statements begin and end on its time line.
//!
//! A *unit* is a stretch from idle to idle as the client sees it: from the wake-up by its request to the send that
//! answers it in the idle state. One unit holds one transaction, with all its round trips, unless the client sends
//! several at once (a pipeline, a multi-statement message, a procedure that commits); the server's own local
//! transaction counter says how many. A *statement* is a request and its answer inside a unit.
//!
//! Pure: the eBPF programs and the tests drive the same code.

use crate::{
    bucket::{BUCKET_SLOTS, IDLE, kind},
    flush::Flush,
    history::Gap,
    ledger::{Ledger, LossCounter, SchedInfo, SchedulerClock},
};

/// [`Backend::phase`]: the slot is free.
pub const FREE: u32 = 0;
/// Attached in the middle, or the edge that began it is lost: what it does now began unseen and is not counted.
pub const UNSEEN: u32 = 1;
/// Forked, not yet ready for its first query.
pub const STARTING: u32 = 2;
/// Idle, or in a unit that has not answered anything yet.
pub const IDLE_OR_FIRST: u32 = 3;
/// In a unit whose client knows it is in a transaction: a sleep in `ClientRead` belongs to the unit.
pub const IN_UNIT: u32 = 4;
/// Not a client backend: followed by the scheduler only.
pub const NOT_A_CLIENT: u32 = 5;

/// State of one backend; one slot of a mapped array, written only by the CPU the backend is on (but for
/// [`Ledger::wake`]).
///
/// A backend moves between CPUs, and its slot's cache lines with it: the slot is a whole number of lines, what every
/// event touches is in the first two, and what most units do not need is at the end.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Backend {
    /// See [`FREE`] and its neighbours.
    pub phase: u32,
    /// Process id in the initial namespace; 0 = free.
    pub pid: u32,
    /// The server's number for its backend type.
    pub backend_type: u32,
    /// The server's local transaction counter when the last unit ended.
    pub local_transactions: u32,
    /// Oid of its database; 0 = none or not known yet.
    pub database: u32,
    /// Oid of its role; 0 = none or not known yet.
    pub role: u32,
    /// The sleep in progress is idle time between units.
    idle_sleep: u8,
    /// The last statement was answered and the next has not arrived.
    between_statements: u8,
    /// 1 once the backend has slept idle since its last unit ended.
    pub slept_idle: u8,
    /// The open statement is not the first of its unit: `statement_base` counts.
    has_base: u8,
    /// 1 while `flush` holds a flush that is not counted yet.
    pub in_flush: u8,
    /// 1 while its last sleep was one that another process ends (see [`crate::held`]).
    pub slept_held: u8,
    reserved: [u8; 2],
    /// Address of the backend's `PgBackendStatus` in its own memory; 0 = not known yet.
    pub status: u64,
    /// Where its `wait_event_info` is, once it cannot move any more before the backend ends; 0 = not yet.
    pub wait_word: u64,
    /// Begin of the open unit, ns.
    pub start_ns: u64,
    /// Begin of the open statement, ns.
    pub statement_start_ns: u64,
    /// The scheduler's time line.
    pub ledger: Ledger,
    statement_base: [u64; BUCKET_SLOTS],
    /// The flush of the write-ahead log it is in.
    pub flush: Flush,
}
crate::shared!(Backend, 64 + size_of::<Ledger>() + 8 * BUCKET_SLOTS + size_of::<Flush>());
const _: () = assert!(size_of::<Backend>().is_multiple_of(64));

impl Backend {
    /// Takes the slot for a backend forked at `now`.
    #[inline(always)]
    pub fn begin_forked(&mut self, pid: u32, now_ns: u64) {
        self.ledger.begin_forked(now_ns);
        self.begin(pid, now_ns, STARTING);
    }

    /// Takes the slot for a backend that was there before.
    #[inline(always)]
    pub fn begin_unseen(&mut self, pid: u32, now_ns: u64) {
        self.ledger.begin_unknown(now_ns);
        self.begin(pid, now_ns, UNSEEN);
    }

    /// Adds what is known of a backend that was asleep when it was taken up with
    /// [`begin_unseen`](Backend::begin_unseen): the event it waits for, its run-queue clock, and, if it sleeps between
    /// two units, its local transaction counter; its next unit can then be counted.
    pub fn begin_asleep(&mut self, event: u32, bucket: u32, run_delay_ns: u64, idle_at: Option<u32>) {
        self.switch_out(event, bucket, idle_at.is_some(), run_delay_ns);
        if let Some(local_transactions) = idle_at {
            self.phase = IDLE_OR_FIRST;
            self.local_transactions = local_transactions;
            self.slept_idle = 1;
        }
    }

    #[inline(always)]
    fn begin(&mut self, pid: u32, now_ns: u64, phase: u32) {
        self.phase = phase;
        self.pid = pid;
        self.backend_type = 0;
        self.local_transactions = 0;
        self.database = 0;
        self.role = 0;
        self.idle_sleep = 0;
        self.between_statements = 0;
        self.slept_idle = 0;
        self.has_base = 0;
        self.slept_held = 0;
        self.in_flush = 0;
        self.status = 0;
        self.wait_word = 0;
        self.start_ns = now_ns;
        self.statement_start_ns = now_ns;
    }

    /// Charges everything up to `now`, at which the backend is running in its own context. A request that ended an
    /// idle sleep opens a new unit at the instant of its wake-up; where that instant is lost, the unit is not counted.
    /// Returns the gap that was closed; its end is 0 if there was none.
    #[inline(always)]
    pub fn advance(
        &mut self,
        now_ns: u64,
        sched_info: SchedInfo,
        clock: &mut SchedulerClock,
        client_read: u32,
        losses: &mut impl LossCounter,
    ) -> Gap {
        let mut gap = Gap::default();
        let begin_ns = self.ledger.charged_to_ns;
        if self.ledger.has_gap(now_ns, sched_info, clock, losses) {
            self.ledger.close_gap(sched_info.run_delay_ns, losses);
            gap = self.ledger.gap(begin_ns, self.ledger.charged_to_ns);
            if self.in_flush != 0 && self.ledger.bucket & kind::WAL_SYNC != 0 {
                self.flush.wake(self.ledger.charged_to_ns);
            }
            if self.idle_sleep != 0 {
                self.idle_sleep = 0;
                self.open();
            } else if self.between_statements != 0 && self.ledger.event == client_read {
                self.open_statement();
            }
            self.ledger.close_queue(sched_info.run_delay_ns, losses);
        } else if self.idle_sleep != 0 {
            // When the idle sleep ended is lost, and with it where the unit begins.
            self.idle_sleep = 0;
            self.phase = UNSEEN;
        }
        self.ledger.run_to(now_ns, losses);
        gap
    }

    /// The backend leaves the CPU at the instant it was advanced to. `idle`: it waits for its client's next request,
    /// with no transaction open.
    #[inline(always)]
    pub fn switch_out(&mut self, event: u32, bucket: u32, idle: bool, run_delay_ns: u64) {
        self.idle_sleep = idle as u8;
        self.ledger.switch_out(event, if idle { IDLE } else { bucket }, run_delay_ns);
    }

    /// Whether the sleep in progress is idle time between units.
    pub fn sleeps_idle(&self) -> bool {
        self.idle_sleep != 0 && self.ledger.is_off()
    }

    /// Opens a unit at the instant everything is charged to.
    #[inline(always)]
    pub fn open(&mut self) {
        self.ledger.clear();
        self.start_ns = self.ledger.charged_to_ns;
        self.statement_start_ns = self.start_ns;
        self.has_base = 0;
        self.between_statements = 0;
    }

    #[inline(always)]
    fn open_statement(&mut self) {
        self.between_statements = 0;
        self.statement_start_ns = self.ledger.charged_to_ns;
        self.statement_base = self.ledger.buckets;
        self.has_base = 1;
    }

    /// The statement answered at the instant the backend was advanced to is over; the unit goes on.
    #[inline(always)]
    pub fn close_statement(&mut self) {
        self.open_statement();
        self.between_statements = 1;
        self.phase = IN_UNIT;
    }

    /// The unit answered at the instant the backend was advanced to is over and counted by the caller. Until the
    /// next idle sleep says otherwise, the next unit begins here: its request may already be waiting.
    #[inline(always)]
    pub fn close(&mut self, local_transactions: u32) {
        self.phase = IDLE_OR_FIRST;
        self.local_transactions = local_transactions;
        self.slept_idle = 0;
        self.open();
    }

    /// Time of the open statement in one bucket, ns.
    #[inline(always)]
    pub fn statement_ns(&self, bucket: usize) -> u64 {
        let ns = self.ledger.buckets[bucket & (BUCKET_SLOTS - 1)];
        if self.has_base == 0 { ns } else { ns - self.statement_base[bucket & (BUCKET_SLOTS - 1)] }
    }

    /// Whether a unit is open that this slot has seen from its begin.
    pub fn is_in_unit(&self) -> bool {
        self.phase == IN_UNIT || self.phase == IDLE_OR_FIRST && !self.sleeps_idle()
    }

    /// Wall time of the open unit so far, ns; equals Σ of its buckets.
    #[inline(always)]
    pub fn wall_ns(&self) -> u64 {
        self.ledger.charged_to_ns - self.start_ns
    }
}
