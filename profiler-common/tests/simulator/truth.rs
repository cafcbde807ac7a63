//! The oracle: what a report of a life has to say, taken from its steps alone. It cuts the life into segments, and
//! knows units and statements as ranges of segments; it shares no arithmetic with the ledger.

use std::collections::BTreeMap;

use profiler_common::bucket::{BUCKET_SLOTS, Bucket, IDLE};

use super::life::{CLIENT_READ, Life, State, Step, bucket_of};

/// Time by bucket, ns.
pub type Buckets = [u64; BUCKET_SLOTS];

/// Times waited, blocked ns, run-queue ns by dense event index.
pub type Events = BTreeMap<u32, (u32, u64, u64)>;

/// A unit or a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Begin, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Where it went.
    pub buckets: Buckets,
}

/// A unit that has to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// From its begin to its end.
    pub whole: Stretch,
    /// Local transactions in it.
    pub transactions: u32,
    /// Its waits.
    pub events: Events,
    /// Its requests.
    pub statements: Vec<Stretch>,
}

/// What is true of a life.
#[derive(Debug, Default)]
pub struct Truth {
    /// Every unit that the probes could see from its begin to its end.
    pub units: Vec<Unit>,
    /// Answers in the idle state without a transaction.
    pub lone_answers: u64,
    /// From the fork to the first answer in the idle state, ns.
    pub connection_ns: Option<u64>,
    /// Time of the whole life by bucket.
    pub life: Buckets,
    /// Whether it ended between two statements of a transaction, or idle (`None`: in a first statement, where only
    /// the server knows).
    pub ended_in_transaction: Option<bool>,
}

struct Segment {
    from_ns: u64,
    to_ns: u64,
    bucket: u32,
    /// The wait it is the blocked part of, or the run queue after.
    event: Option<u32>,
}

impl Truth {
    /// Tells a life.
    pub fn of(life: &Life) -> Self {
        let mut truth = Truth::default();
        let mut segments: Vec<Segment> = Vec::new();
        let mut now_ns = life.begin_ns;
        let mut push = |segments: &mut Vec<Segment>, ns: u64, bucket, event| {
            segments.push(Segment { from_ns: now_ns, to_ns: now_ns + ns, bucket, event });
            now_ns += ns;
        };
        let mut state = life.first_state();
        let mut connecting = state == State::Starting;
        // The unit and the statement that would end now begin with these segments.
        let (mut unit, mut statement) = (0, 0);
        let mut statements = Vec::new();
        let (mut transactions, mut answered) = (0, false);
        for step in &life.steps {
            match *step {
                Step::Run(ns) => push(&mut segments, ns, Bucket::Cpu as u32, None),
                Step::Off(off) => {
                    let idle = state == State::Idle && off.wait == Some(CLIENT_READ);
                    if let Some(event) = off.wait {
                        let bucket = if idle { IDLE } else { bucket_of(event) as u32 };
                        push(&mut segments, off.blocked_ns, bucket, Some(event));
                        if idle {
                            (unit, statement) = (segments.len(), segments.len());
                            transactions = 0;
                        } else if answered && event == CLIENT_READ && state == State::InTransaction {
                            (statement, answered) = (segments.len(), false);
                        }
                    }
                    let event = off.wait.filter(|_| !idle);
                    push(&mut segments, off.queued_ns, Bucket::RunQueue as u32, event);
                }
                Step::Receive => state = State::Active,
                Step::Transactions(taken) => transactions += taken,
                Step::AnswerInPart | Step::Exit => {}
                Step::Answer => {
                    statements.push(stretch(&segments, statement, life.begin_ns));
                    (statement, answered) = (segments.len(), true);
                    state = State::InTransaction;
                }
                Step::AnswerIdle => {
                    let whole = stretch(&segments, unit, life.begin_ns);
                    statements.push(stretch(&segments, statement, life.begin_ns));
                    let statements = std::mem::take(&mut statements);
                    let attached_ns = life.attach_after_ns.map(|after_ns| life.begin_ns + after_ns);
                    if connecting {
                        truth.connection_ns = Some(whole.end_ns - whole.start_ns);
                    } else if attached_ns.is_some_and(|attached_ns| whole.start_ns <= attached_ns) {
                        // Began unseen.
                    } else if transactions == 0 {
                        truth.lone_answers += 1;
                    } else {
                        let events = events(&segments[unit..]);
                        truth.units.push(Unit { whole, transactions, events, statements });
                    }
                    (unit, statement) = (segments.len(), segments.len());
                    (transactions, answered, connecting) = (0, false, false);
                    state = State::Idle;
                }
            }
        }
        truth.ended_in_transaction = match state {
            State::InTransaction => Some(true),
            State::Idle | State::Starting => Some(false),
            State::Active => (!statements.is_empty()).then_some(true),
        };
        for segment in &segments {
            truth.life[segment.bucket as usize] += segment.to_ns - segment.from_ns;
        }
        truth
    }
}

fn stretch(segments: &[Segment], from: usize, begin_ns: u64) -> Stretch {
    let end_ns = segments.last().map_or(begin_ns, |segment| segment.to_ns);
    let segments = &segments[from..];
    let mut buckets = Buckets::default();
    for segment in segments {
        buckets[segment.bucket as usize] += segment.to_ns - segment.from_ns;
    }
    let start_ns = segments.first().map_or(end_ns, |segment| segment.from_ns);
    Stretch { start_ns, end_ns, buckets }
}

fn events(segments: &[Segment]) -> Events {
    let mut events = Events::new();
    for segment in segments {
        let Some(event) = segment.event else { continue };
        let entry = events.entry(event).or_default();
        let ns = segment.to_ns - segment.from_ns;
        if segment.bucket == Bucket::RunQueue as u32 {
            entry.2 += ns;
        } else {
            entry.0 += 1;
            entry.1 += ns;
        }
    }
    events
}
