//! The eBPF programs' part, without a kernel: the same calls in the same order on the same conditions as
//! `profiler-ebpf/src/{sched,border,count,lifecycle}.rs`, with exact borders. What they would count is kept.

use profiler_common::{
    backend::{Backend, FREE, IDLE_OR_FIRST, IN_UNIT, STARTING, UNSEEN},
    bucket::{Bucket, IDLE},
    event::PREEMPTED,
    ledger::{EventCharge, LossCounter, SchedInfo, SchedulerClock},
    loss::{LOSSES, Loss},
};

use super::{
    invariants::{self, Begin},
    life::{CLIENT_READ, State, bucket_of},
    truth::{Stretch, Unit},
};

/// Loss counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(pub [u64; LOSSES]);

impl LossCounter for Losses {
    fn count(&mut self, loss: Loss) {
        self.0[loss as usize] += 1;
    }
}

impl Losses {
    /// How often one kind was counted.
    pub fn of(&self, loss: Loss) -> u64 {
        self.0[loss as usize]
    }

    /// How often anything was counted that is lost time: not an answer without a transaction, not an end.
    pub fn edges(&self) -> u64 {
        self.of(Loss::EdgeMissing) + self.of(Loss::SwitchInUnseen) + self.of(Loss::ClockDisorder)
    }
}

/// What the server's memory says.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// `st_state`.
    pub state: State,
    /// The local transaction counter.
    pub counter: u32,
}

/// One followed backend and all that was counted of it.
pub struct Programs {
    /// The slot.
    pub backend: Backend,
    /// The scheduler clock's distance, as the one CPU of the simulation knows it.
    pub clock: SchedulerClock,
    /// Loss counters.
    pub losses: Losses,
    /// Counted units.
    pub units: Vec<Unit>,
    /// Wall time of the start-up, once over, ns.
    pub connection_ns: Option<u64>,
    statements: Vec<Stretch>,
    begin: Begin,
}

impl Programs {
    /// `sched_process_fork`.
    pub fn fork(now_ns: u64) -> Self {
        Self::start(now_ns, |backend| backend.begin_forked(1, now_ns))
    }

    /// Userspace takes up a backend; `asleep`: the wait and the run-queue clock of one that is blocked.
    pub fn enrol(now_ns: u64, asleep: Option<(u32, u64)>, server: Server) -> Self {
        Self::start(now_ns, |backend| {
            backend.begin_unseen(1, now_ns);
            if let Some((event, run_delay_ns)) = asleep {
                let idle = event == CLIENT_READ && server.state == State::Idle;
                let idle_at = idle.then_some(server.counter);
                backend.begin_asleep(event, bucket_of(event) as u32, run_delay_ns, idle_at);
            }
        })
    }

    fn start(now_ns: u64, begin: impl FnOnce(&mut Backend)) -> Self {
        let mut backend = Backend::default();
        begin(&mut backend);
        Programs {
            backend,
            clock: SchedulerClock::default(),
            losses: Losses::default(),
            units: Vec::new(),
            connection_ns: None,
            statements: Vec::new(),
            begin: Begin { at_ns: now_ns },
        }
        .checked()
    }

    /// `sched_waking`.
    pub fn waking(&mut self, now_ns: u64) {
        self.backend.ledger.wake(now_ns);
    }

    fn checked(self) -> Self {
        self.check();
        self
    }

    fn check(&self) {
        invariants::check(&self.backend, self.begin);
    }

    fn advance(&mut self, now_ns: u64, sched_info: SchedInfo) {
        self.backend.advance(now_ns, sched_info, &mut self.clock, CLIENT_READ, &mut self.losses);
        self.check();
        assert_eq!(self.backend.ledger.buckets[IDLE as usize], 0, "idle time in a unit");
    }

    /// `sched_switch`, `next` is the backend.
    pub fn switch_in(&mut self, now_ns: u64) {
        self.backend.ledger.switch_in(now_ns, &mut self.losses);
        self.check();
    }

    /// `sched_switch`, `prev` is the backend.
    pub fn switch_out(&mut self, now_ns: u64, sched_info: SchedInfo, wait: Option<u32>, server: Server) {
        self.advance(now_ns, sched_info);
        match wait {
            None => {
                self.backend.switch_out(PREEMPTED, Bucket::RunQueue as u32, false, sched_info.run_delay_ns);
            }
            Some(event) => {
                let idle = event == CLIENT_READ && self.sleeps_idle(server);
                self.backend.switch_out(event, bucket_of(event) as u32, idle, sched_info.run_delay_ns);
            }
        }
        self.check();
    }

    fn sleeps_idle(&mut self, server: Server) -> bool {
        let phase = self.backend.phase;
        if phase != IDLE_OR_FIRST && phase != UNSEEN {
            return false;
        }
        if server.state != State::Idle {
            if phase == IDLE_OR_FIRST {
                self.backend.phase = IN_UNIT;
            }
            return false;
        }
        if phase == UNSEEN || self.backend.slept_idle != 0 {
            self.backend.local_transactions = server.counter;
            self.backend.phase = IDLE_OR_FIRST;
        }
        self.backend.slept_idle = 1;
        true
    }

    /// The backend has sent something.
    pub fn sent(&mut self, now_ns: u64, sched_info: SchedInfo, server: Server) {
        match server.state {
            State::Starting | State::Active => {
                if self.backend.phase == IDLE_OR_FIRST {
                    self.backend.phase = IN_UNIT;
                }
                return;
            }
            State::Idle => {
                self.advance(now_ns, sched_info);
                self.close_unit(server.counter);
            }
            State::InTransaction => {
                self.advance(now_ns, sched_info);
                if self.backend.phase != UNSEEN && self.backend.phase != STARTING {
                    self.statements.push(self.statement());
                    self.backend.close_statement();
                }
            }
        }
        self.check();
    }

    fn close_unit(&mut self, counter: u32) {
        let transactions = counter.wrapping_sub(self.backend.local_transactions);
        let statement = self.statement();
        let mut statements = std::mem::take(&mut self.statements);
        match self.backend.phase {
            IDLE_OR_FIRST | IN_UNIT if transactions == 0 => self.losses.count(Loss::IdleSend),
            IDLE_OR_FIRST | IN_UNIT => {
                statements.push(statement);
                self.units.push(self.unit(transactions, statements));
            }
            STARTING => self.connection_ns = Some(self.backend.wall_ns()),
            _ => {}
        }
        self.backend.close(counter);
    }

    fn statement(&self) -> Stretch {
        let mut buckets = self.backend.ledger.buckets;
        for (slot, ns) in buckets.iter_mut().enumerate() {
            *ns = self.backend.statement_ns(slot);
        }
        let end_ns = self.backend.ledger.charged_to_ns;
        Stretch { start_ns: self.backend.statement_start_ns, end_ns, buckets }
    }

    fn unit(&self, transactions: u32, statements: Vec<Stretch>) -> Unit {
        let ledger = &self.backend.ledger;
        let whole = Stretch {
            start_ns: self.backend.start_ns,
            end_ns: self.backend.start_ns + self.backend.wall_ns(),
            buckets: ledger.buckets,
        };
        let charges = &ledger.events[..ledger.n_events as usize];
        let figures =
            |charge: &EventCharge| (charge.event, (charge.waits, charge.blocked_ns, charge.run_queue_ns));
        Unit { whole, transactions, events: charges.iter().map(figures).collect(), statements }
    }

    /// `sched_process_exit`.
    pub fn exit(&mut self) {
        if self.backend.phase == IN_UNIT {
            self.losses.count(Loss::EndedInTransaction);
        }
        self.backend.phase = FREE;
    }
}
