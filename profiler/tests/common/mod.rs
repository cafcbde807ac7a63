//! Invented profiles: plausible transactions, drawn from a fixed sequence, counted as the kernel side would count
//! them, and built into profiles by the real code.

pub mod scenarios;

use jiff::Timestamp;
use pgstall::{
    model::{
        aggregates::Aggregates,
        build::{
            CaptureInput, Inputs, OpenSample, ProcessSample, TypeSample, WindowInput, WorkSample, build,
        },
        locks::{HeldSums, Locks},
        profile::{Borders, EndedBy, Filters, Host, Postgres, Probe, Profile, Tool},
        slowest::Slowest,
        statements::Statements,
        timeline,
        wal::WalInput,
    },
    wait::bucket_table,
};
use profiler_common::{
    bucket::{BUCKET_SLOTS, Bucket, IDLE},
    event::{self, EVENT_SLOTS},
    held::{HeldRecord, HeldTotals, KIND_HELD},
    histogram::bucket_of,
    ledger::{EVENT_ENTRIES, EventCharge},
    loss::Loss,
    record::{KIND_STATEMENT, KIND_TRANSACTION, Record, TEXT_BYTES},
    totals::EventTotals,
};

pub const SECOND: u64 = 1_000_000_000;
const START_NS: u64 = 5_000 * SECOND;
const MAJOR: u32 = 15;

pub const DATA_FILE_READ: u32 = 0x0A00_0011;
pub const WAL_SYNC: u32 = 0x0A00_0046;
pub const WAL_WRITE: u32 = 0x0A00_0048;
pub const WAL_WRITER_MAIN: u32 = 0x0500_000B;
pub const VACUUM_DELAY: u32 = 0x0900_0006;
pub const WAL_WRITE_LOCK: u32 = 0x0100_0008;
pub const TRANSACTIONID: u32 = 0x0300_0005;
pub const TUPLE: u32 = 0x0300_0004;
pub const RELATION: u32 = 0x0300_0000;
pub const CLIENT_READ: u32 = 0x0600_0000;
pub const UNKNOWN_LWLOCK: u32 = 0x0100_0063;

/// A repeatable sequence of numbers.
pub struct Draw(u64);

impl Draw {
    pub fn new() -> Self {
        Draw(0x9E37_79B9_7F4A_7C15)
    }

    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True once in `n` times on average.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.unit() < 1.0 / n as f64
    }

    /// Around `mean_ns`, never nothing, with a long tail.
    pub fn around(&mut self, mean_ns: u64) -> u64 {
        let exponential = -(1.0 - self.unit()).ln();
        (mean_ns as f64 * (0.6 + 0.4 * exponential)) as u64 + 1
    }
}

/// One invented unit: CPU, run queue, and waits by `wait_event_info` word.
#[derive(Default)]
pub struct Unit {
    pub cpu_ns: u64,
    pub run_queue_ns: u64,
    pub waits: Vec<(u32, u64)>,
    pub transactions: u64,
    pub text: &'static str,
}

/// A run being invented.
pub struct Run {
    table: Box<[u32; EVENT_SLOTS]>,
    counted: Aggregates,
    interval_base: Aggregates,
    statements: Statements,
    slowest: Slowest,
    intervals: Vec<pgstall::model::profile::Interval>,
    pub weight: u32,
    pub locks: Option<(Locks, HeldSums)>,
    pub open: Vec<OpenSample>,
    pub types: Vec<TypeSample>,
    pub processes: Vec<ProcessSample>,
    pub capture: CaptureInput,
    pub host: Host,
    pub ended_by: EndedBy,
    pub wal: Option<WalInput>,
    seconds: u64,
}

impl Run {
    pub fn new() -> Self {
        Run {
            table: bucket_table(MAJOR),
            counted: Aggregates::default(),
            interval_base: Aggregates::default(),
            statements: Statements::new(false),
            slowest: Slowest::new(3),
            intervals: Vec::new(),
            weight: 1,
            locks: None,
            open: Vec::new(),
            types: Vec::new(),
            processes: Vec::new(),
            capture: capture(),
            host: Host {
                name: Some("fixture".to_owned()),
                kernel: Some("6.12.0".to_owned()),
                architecture: Some("x86_64".to_owned()),
                cpus: Some(4),
                memory_bytes: Some(16 << 30),
                cpu_busy_ns: None,
                steal_ns: Some(0),
                cgroup_throttled_ns: None,
            },
            ended_by: EndedBy::Duration,
            wal: None,
            seconds: 0,
        }
    }

    pub fn unit(&mut self, unit: &Unit) {
        let mut buckets = [0; BUCKET_SLOTS];
        buckets[Bucket::Cpu as usize] = unit.cpu_ns;
        buckets[Bucket::RunQueue as usize] = unit.run_queue_ns;
        let mut events: Vec<EventCharge> = Vec::new();
        let n_waits = unit.waits.len().max(1) as u64;
        for (word, ns) in &unit.waits {
            let index = event::index(*word);
            buckets[self.table[index as usize] as usize] += ns;
            let at = events.iter().position(|charge| charge.event == index).unwrap_or_else(|| {
                events.push(EventCharge { event: index, ..EventCharge::default() });
                events.len() - 1
            });
            events[at].waits += 1;
            events[at].blocked_ns += ns;
            events[at].run_queue_ns += unit.run_queue_ns / 2 / n_waits;
        }
        let wall_ns: u64 = buckets.iter().sum();
        self.count(unit, &buckets, &events, wall_ns);

        let mut record = record(unit, &buckets, wall_ns, START_NS + self.seconds * SECOND);
        record.pid = 4000 + (self.counted.totals.units % 16) as u32;
        record.n_events = events.len() as u32;
        record.events[..events.len()].copy_from_slice(&events);
        self.slowest.add(&record);
        if self.counted.totals.statements.is_multiple_of(u64::from(self.weight)) {
            record.kind = KIND_STATEMENT;
            record.weight = self.weight;
            self.statements.add(&record);
            if let Some((locks, _)) = &mut self.locks {
                locks.statement(&record);
            }
        }
    }

    fn count(&mut self, unit: &Unit, buckets: &[u64; BUCKET_SLOTS], events: &[EventCharge], wall_ns: u64) {
        let totals = &mut self.counted.totals;
        let transactions = unit.transactions.max(1);
        totals.transactions += transactions;
        totals.units += 1;
        if buckets[Bucket::WalFsync as usize] != 0 {
            totals.transactions_flushed += transactions;
        }
        totals.units_of_many += u64::from(transactions > 1);
        totals.statements += 1;
        totals.wall_ns += wall_ns;
        totals.max_ns = totals.max_ns.max(wall_ns);
        totals.min_inverted_ns = totals.min_inverted_ns.max(u64::MAX - wall_ns);
        self.counted.wall.counts[bucket_of(wall_ns) as usize] += 1;
        for bucket in Bucket::ALL {
            let ns = buckets[bucket as usize];
            totals.buckets[bucket as usize] += ns;
            if ns != 0 {
                self.counted.buckets[bucket as usize].counts[bucket_of(ns) as usize] += 1;
            }
        }
        for EventCharge { event, waits, blocked_ns, run_queue_ns } in events {
            let known = self.counted.events.iter().position(|(index, _)| index == event);
            let at = known.unwrap_or_else(|| {
                self.counted.events.push((*event, EventTotals::default()));
                self.counted.events.len() - 1
            });
            let sum = &mut self.counted.events[at].1;
            sum.waits += u64::from(*waits);
            sum.blocked_ns += blocked_ns;
            sum.run_queue_ns += run_queue_ns;
        }
    }

    /// A wait for a holder that spent `parts` of it, by bucket, in the current second.
    pub fn held(&mut self, word: u32, (waiter, holder): (u32, u32), blocked_ns: u64, parts: &[(u32, f64)]) {
        let (locks, held) = self.locks.get_or_insert_with(|| (Locks::new(MAJOR), HeldSums::default()));
        let mut buckets = [0; BUCKET_SLOTS];
        for (bucket, part) in parts {
            buckets[*bucket as usize] = (part * blocked_ns as f64) as u64;
        }
        let (event, covered_ns) = (event::index(word), buckets.iter().sum());
        let until_ns = START_NS + (self.seconds + 1) * SECOND;
        let since_ns = until_ns - blocked_ns;
        let kind = KIND_HELD;
        locks.add(&HeldRecord { kind, event, waiter, holder, since_ns, until_ns, covered_ns, buckets });
        held.add(event, &HeldTotals { waits: 1, blocked_ns, max_ns: blocked_ns, covered_ns, buckets });
    }

    pub fn connection(&mut self, startup_ns: u64) {
        self.counted.totals.connections += 1;
        self.counted.totals.connections_ns += startup_ns;
    }

    pub fn lose(&mut self, loss: Loss, n: u64) {
        self.counted.totals.losses[loss as usize] += n;
    }

    pub fn end_second(&mut self) {
        let counted = self.counted.minus(&self.interval_base);
        self.intervals.push(timeline::interval(self.seconds * SECOND, SECOND, &counted));
        self.interval_base = self.counted.clone();
        self.seconds += 1;
    }

    /// A process that spent the window in `parts`, by average.
    pub fn process(&mut self, pid: u32, backend_type: Option<&str>, parts: &[(u32, f64)]) {
        let mut buckets = [0; BUCKET_SLOTS];
        for (bucket, part) in parts {
            buckets[*bucket as usize] = (part * (self.seconds * SECOND) as f64) as u64;
        }
        let backend_type = backend_type.map(str::to_owned);
        let at = self.types.iter().position(|sample| sample.backend_type == backend_type);
        let at = at.unwrap_or_else(|| {
            self.types.push(TypeSample {
                backend_type: backend_type.clone(),
                n: 0,
                buckets: [0; BUCKET_SLOTS],
                events: Vec::new(),
                work: Vec::new(),
            });
            self.types.len() - 1
        });
        self.types[at].n += 1;
        self.types[at].buckets.iter_mut().zip(buckets).for_each(|(sum, ns)| *sum += ns);
        self.processes.push(ProcessSample { pid, backend_type, buckets });
    }

    /// What the processes of the type added last waited for and worked on.
    pub fn of_type(&mut self, events: &[(u32, u64, u64)], work: &[(&str, Bucket, u64)]) {
        let sample = self.types.last_mut().expect("a process");
        let totals = |waits, blocked_ns| EventTotals { waits, blocked_ns, run_queue_ns: 0 };
        let events = events.iter().map(|(word, waits, ns)| (event::index(*word), totals(*waits, *ns)));
        sample.events = events.collect();
        let work = work.iter().map(|(what, bucket, ns)| {
            let mut buckets = [0; BUCKET_SLOTS];
            buckets[*bucket as usize] = *ns;
            WorkSample { what: (*what).to_owned(), n: 1, buckets }
        });
        sample.work = work.collect();
    }

    /// The backends by bucket and the CPU time of every interval so far.
    pub fn backends(&mut self, backends: &[(Bucket, f64)], cpu_busy_ns: u64) {
        for interval in &mut self.intervals {
            let mut time_ns = [0; BUCKET_SLOTS];
            for (bucket, n) in backends {
                time_ns[*bucket as usize] = (n * interval.duration_ns as f64) as u64;
            }
            interval.backends = timeline::backends(&time_ns, interval.duration_ns);
            interval.cpu_busy_ns = Some(cpu_busy_ns);
        }
    }

    pub fn profile(mut self, requested_seconds: u64) -> Profile {
        build(Inputs {
            tool: Tool {
                name: "pgstall".to_owned(),
                version: "0.0.0".to_owned(),
                command: "attach".to_owned(),
            },
            host: self.host,
            postgres: Postgres {
                major: MAJOR,
                version: Some("15.18".to_owned()),
                pid: 1234,
                port: Some(5432),
                data_directory: Some("/var/lib/postgresql/15/main".to_owned()),
                binary: Some("/usr/lib/postgresql/15/bin/postgres".to_owned()),
                settings: Default::default(),
            },
            window: WindowInput {
                start: Timestamp::from_second(1_772_366_400).expect("a time"),
                start_ns: START_NS,
                end_ns: START_NS + self.seconds * SECOND,
                requested_ns: Some(requested_seconds * SECOND),
                ended_by: self.ended_by,
            },
            capture: self.capture,
            aggregates: &self.counted,
            timeline: self.intervals,
            statements: &mut self.statements,
            n_statements: 5,
            slowest: &self.slowest,
            locks: self.locks.as_ref().map(|(locks, held)| (locks, held)),
            open: self.open,
            types: &self.types,
            processes: &self.processes,
            reads: &[],
            list_pids: false,
            devices: None,
            wal: self.wal,
        })
    }
}

pub fn open(
    pid: u32,
    age_ns: Option<u64>,
    word: Option<u32>,
    seconds: u64,
    text: Option<&str>,
) -> OpenSample {
    let end_ns = START_NS + seconds * SECOND;
    OpenSample {
        pid,
        start_ns: age_ns.map(|age_ns| end_ns - age_ns),
        event: word.map(event::index),
        waiting_since_ns: age_ns.map(|age_ns| end_ns - age_ns + 1_000_000),
        text: text.map(|text| text.as_bytes().to_vec()),
        buckets: [0; BUCKET_SLOTS],
    }
}

/// Bucket slot of idle time, for [`Run::process`].
pub const IDLE_SLOT: u32 = IDLE;

fn record(unit: &Unit, buckets: &[u64; BUCKET_SLOTS], wall_ns: u64, start_ns: u64) -> Record {
    let mut record = Record {
        kind: KIND_TRANSACTION,
        pid: 0,
        transactions: unit.transactions.max(1) as u32,
        weight: 1,
        start_ns,
        end_ns: start_ns + wall_ns,
        query_id: 0,
        buckets: *buckets,
        n_events: 0,
        text_len: unit.text.len() as u32 + 1,
        events: [EventCharge::default(); EVENT_ENTRIES],
        text: [0; TEXT_BYTES],
    };
    record.text[..unit.text.len()].copy_from_slice(unit.text.as_bytes());
    record
}

fn capture() -> CaptureInput {
    let probe = |name: &str, runs, run_ns| Probe {
        name: name.to_owned(),
        attached: true,
        reason: None,
        runs: Some(runs),
        run_ns: Some(run_ns),
    };
    CaptureInput {
        borders: Borders {
            signal: "sock_send_length".to_owned(),
            exact: true,
            reason: Some("the cheapest exact signal this kernel has".to_owned()),
        },
        backends_followed: Some(16),
        statement_every: Some(1),
        filters: Filters::default(),
        probes: vec![
            probe("sched_switch", 812_345, 243_703_500),
            probe("sock_send_length", 24_690, 8_863_710),
        ],
        agent_cpu_ns: Some(41_000_000),
        notes: Vec::new(),
    }
}
