//! What happens to one backend, step by step, as nobody but the simulator knows it.

use profiler_common::{
    bucket::Bucket,
    event::{self, UNNAMED},
};

/// Dense index of `Client/ClientRead`.
pub const CLIENT_READ: u32 = event::index(0x0600_0000);

/// The waits the lives are made of: letter in a drawn time line, dense index, bucket.
pub const WAITS: [(char, u32, Bucket); 7] = [
    ('c', CLIENT_READ, Bucket::Client),
    ('r', event::index(0x0a00_000c), Bucket::PageRead),
    ('w', event::index(0x0a00_0043), Bucket::WalFsync),
    ('l', event::index(0x0300_0004), Bucket::Lock),
    ('y', event::index(0x0800_0030), Bucket::Replication),
    ('s', event::index(0x0900_0001), Bucket::OtherWait),
    ('u', UNNAMED, Bucket::Unattributed),
];

/// The bucket of a wait; waits that are not in the list are locks.
pub fn bucket_of(event: u32) -> Bucket {
    WAITS.iter().find(|wait| wait.1 == event).map_or(Bucket::Lock, |wait| wait.2)
}

/// One step; those without a duration happen at an instant on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// On a CPU for so many ns.
    Run(u64),
    /// Off the CPU.
    Off(Off),
    /// The server turns to a request: its state is active from here on.
    Receive,
    /// The server takes so many local transaction ids.
    Transactions(u32),
    /// A send in the middle of a request.
    AnswerInPart,
    /// The send that answers a request with the transaction left open.
    Answer,
    /// The send that answers a request with no transaction open.
    AnswerIdle,
    /// The process ends.
    Exit,
}

/// A gap: blocked, then waiting for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Off {
    /// Dense index of the wait; `None`: preempted, and `blocked_ns` is 0.
    pub wait: Option<u32>,
    /// From the switch-out to the wake-up.
    pub blocked_ns: u64,
    /// From the wake-up to the switch-in.
    pub queued_ns: u64,
    /// The edge of the two that the probes do not see.
    pub lost: Option<Edge>,
}

impl Off {
    /// Blocked on a wait, all edges seen.
    pub fn blocked(event: u32, blocked_ns: u64, queued_ns: u64) -> Self {
        Off { wait: Some(event), blocked_ns, queued_ns, lost: None }
    }

    /// Preempted, all edges seen.
    pub fn preempted(queued_ns: u64) -> Self {
        Off { wait: None, blocked_ns: 0, queued_ns, lost: None }
    }
}

/// A scheduler edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The task comes onto a CPU.
    In,
    /// The task leaves the CPU.
    Out,
}

/// What the server says of itself (`st_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not ready for a first query.
    Starting,
    /// Waiting for a request, no transaction open.
    Idle,
    /// Waiting for a request, transaction open.
    InTransaction,
    /// Working on a request.
    Active,
}

/// One backend from its begin (or from where the simulation takes it up) to its end.
#[derive(Clone, Debug)]
pub struct Life {
    /// Instant of the first step, ns of our clock.
    pub begin_ns: u64,
    /// Our clock minus the scheduler's, wrapping.
    pub clock_distance_ns: u64,
    /// The run-queue clock at the begin; a forked task's is 0.
    pub run_delay_ns: u64,
    /// ns after the begin at which the probes are attached; `None`: they were there when it was forked.
    pub attach_after_ns: Option<u64>,
    /// What happens.
    pub steps: Vec<Step>,
}

impl Life {
    /// A backend forked under the probes at `begin_ns`.
    pub fn forked(begin_ns: u64, steps: Vec<Step>) -> Self {
        Life { begin_ns, clock_distance_ns: 0x1234_5678, run_delay_ns: 0, attach_after_ns: None, steps }
    }

    /// Its state at the begin.
    pub fn first_state(&self) -> State {
        if self.attach_after_ns.is_some() { State::Idle } else { State::Starting }
    }

    /// How long it lasts, ns.
    pub fn length_ns(&self) -> u64 {
        let length = |step: &Step| match step {
            Step::Run(ns) => *ns,
            Step::Off(off) => off.blocked_ns + off.queued_ns,
            _ => 0,
        };
        self.steps.iter().map(length).sum()
    }

    /// How many edges the probes do not see.
    pub fn lost_edges(&self) -> u64 {
        let lost = |step: &&Step| matches!(step, Step::Off(Off { lost: Some(_), .. }));
        self.steps.iter().filter(lost).count() as u64
    }
}
