//! The kernel's part: plays a life to the programs, with the figures the scheduler would show them.

use profiler_common::ledger::SchedInfo;

use super::{
    life::{Edge, Life, Off, State, Step},
    programs::{Programs, Server},
};

struct Kernel<'a> {
    life: &'a Life,
    now_ns: u64,
    sched_info: SchedInfo,
    server: Server,
    programs: Option<Programs>,
}

/// Plays a life; `None` where it ends before the probes are attached.
pub fn play(life: &Life) -> Option<Programs> {
    let mut kernel = Kernel {
        life,
        now_ns: life.begin_ns,
        sched_info: SchedInfo { run_delay_ns: life.run_delay_ns, last_arrival_ns: 0 },
        // Close to the counter's end: it wraps in some lives.
        server: Server { state: life.first_state(), counter: u32::MAX - 3 },
        programs: life.attach_after_ns.is_none().then(|| Programs::fork(life.begin_ns)),
    };
    for (at, step) in life.steps.iter().enumerate() {
        kernel.step(*step, at == 0 && life.attach_after_ns.is_none());
    }
    kernel.programs
}

impl Kernel<'_> {
    fn step(&mut self, step: Step, forked: bool) {
        match step {
            Step::Run(ns) => self.pass(ns, None),
            Step::Off(off) => self.off(off, forked),
            Step::Receive => self.server.state = State::Active,
            Step::Transactions(taken) => self.server.counter = self.server.counter.wrapping_add(taken),
            Step::AnswerInPart => self.send(self.server.state),
            Step::Answer => self.send(State::InTransaction),
            Step::AnswerIdle => self.send(State::Idle),
            Step::Exit => {
                if let Some(programs) = &mut self.programs {
                    programs.exit();
                }
            }
        }
    }

    fn off(&mut self, off: Off, forked: bool) {
        if let Some(programs) = &mut self.programs
            && off.lost != Some(Edge::Out)
            && !forked
        {
            programs.switch_out(self.now_ns, self.sched_info, off.wait, self.server);
        }
        self.pass(off.blocked_ns, off.wait.map(|event| (event, self.sched_info.run_delay_ns)));
        if let Some(programs) = &mut self.programs
            && off.wait.is_some()
        {
            programs.waking(self.now_ns);
        }
        self.pass(off.queued_ns, None);
        if let Some(programs) = &mut self.programs
            && off.lost != Some(Edge::In)
        {
            programs.switch_in(self.now_ns);
        }
        // Only after its tracepoint does the scheduler bring its figures up to date.
        self.sched_info.run_delay_ns += off.queued_ns;
        self.sched_info.last_arrival_ns = self.now_ns.wrapping_sub(self.life.clock_distance_ns);
    }

    /// Lets time pass, and attaches the probes if their instant is in it. A task is found asleep only while it is.
    fn pass(&mut self, ns: u64, asleep: Option<(u32, u64)>) {
        let attach_ns = self.life.attach_after_ns.map(|after_ns| self.life.begin_ns + after_ns);
        if let Some(attach_ns) = attach_ns.filter(|at_ns| (self.now_ns..self.now_ns + ns).contains(at_ns)) {
            self.programs = Some(Programs::enrol(attach_ns, asleep, self.server));
        }
        self.now_ns += ns;
    }

    fn send(&mut self, state: State) {
        self.server.state = state;
        if let Some(programs) = &mut self.programs {
            programs.sent(self.now_ns, self.sched_info, self.server);
        }
    }
}
