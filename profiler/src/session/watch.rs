//! The window: open it, drain and read on timers until it is over, close it, and make the profile.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write as _},
    time::Duration,
};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use profiler_common::{
    bucket::Bucket,
    record::{KIND_STATEMENT, KIND_TRANSACTION, Record},
    tunables::Live,
};
use tokio::time::{Instant, MissedTickBehavior};

use super::{
    attachment::Attachment,
    block, clock,
    course::Course,
    ebs, file_reads,
    host::{self, CpuTimes},
    options::Options,
    owner::{Kind, Owner},
    processes::Lives,
    reading, sampling, wal,
    work::Works,
};
use crate::{
    model::{
        aggregates::Aggregates,
        build::WindowInput,
        locks::{HeldSums, Locks},
        profile::{EndedBy, Interval, Profile},
        slowest::Slowest,
        statements::Statements,
        wal::Flushes,
    },
    probe::{
        cost::{ProgramCost, Statistics},
        read::Drained,
    },
};

/// Time between two looks at the ring buffer, once the thinning has settled.
const TICK: Duration = Duration::from_millis(100);
/// First tick: at 50,000 transactions per second the ring must not fill before the first look at it.
const FIRST_TICK: Duration = Duration::from_millis(10);
/// Most statements taken from one tick, all CPUs together: 3 MB of a ring of 8.
const STATEMENTS_PER_TICK: usize = 2000;
/// Most waits for other processes taken from one tick: another 1.4 MB.
const HELD_PER_TICK: usize = 8000;
/// Most entries of a time line.
const MOST_INTERVALS: u32 = 3600;
/// The kernel's statistics cost the backends clock reads: they are on for this part of each interval only.
const STATISTICS_EVERY: u32 = 10;

/// Told of things while the window is open.
pub trait Observer {
    /// The window is open: what ends from now on is counted.
    fn opened(&mut self, attachment: &Attachment);
    /// An interval is over.
    fn interval(&mut self, interval: &Interval);
    /// Some of the window has passed.
    fn progress(&mut self, passed: Duration, transactions: u64);
}

/// Something that ends the window early.
#[expect(async_fn_in_trait, reason = "used on one thread only")]
pub trait Signal {
    /// Resolves when the window is to end.
    async fn wait(&mut self);
}

/// What a window gathered.
pub(super) struct Watched {
    pub window: WindowInput,
    pub aggregates: Aggregates,
    pub flushes: Flushes,
    pub timeline: Vec<Interval>,
    pub works: Works,
    pub statements: Statements,
    pub statement_every: u32,
    pub slowest: Slowest,
    pub locks: Locks,
    pub held: HeldSums,
    pub before: Edge,
    pub after: Edge,
    pub cost: Cost,
    pub owner_unknown: Vec<String>,
}

/// What was read at one end of the window.
pub(super) struct Edge {
    pub lives: Lives,
    pub devices: block::Reading,
    /// How often each program was skipped so far.
    pub skipped: BTreeMap<String, u64>,
    pub ebs: ebs::Reading,
    pub reads: file_reads::Reads,
    pub cpu: Option<CpuTimes>,
    pub throttled_ns: Option<u64>,
    pub agent_cpu_ns: Option<u64>,
}

/// Programs' cost while the statistics were on.
#[derive(Default)]
pub(super) struct Cost {
    pub programs: BTreeMap<String, ProgramCost>,
    pub measured: Duration,
    pub error: Option<String>,
}

impl Attachment {
    /// Watches a window and makes its profile. The probes stay attached until `self` is dropped.
    pub async fn watch(
        &mut self,
        mut options: Options,
        signal: &mut impl Signal,
        observer: &mut impl Observer,
    ) -> Result<Profile> {
        let records = options.records.take();
        let watched = self.window(&options, records, signal, observer).await?;
        self.profile(&options, watched)
    }

    async fn window(
        &mut self,
        options: &Options,
        records: Option<File>,
        signal: &mut impl Signal,
        observer: &mut impl Observer,
    ) -> Result<Watched> {
        let mut database = Owner::new(Kind::Database, options.database.as_deref());
        let mut role = Owner::new(Kind::Role, options.user.as_deref());
        self.learn_owners(&mut database, &mut role)?;
        let mut collector = Collector::new(options, records, self.cluster.version.major);
        let mut live = Live {
            window_open: 1,
            statement_every: 1,
            statement_limit: per_cpu(STATEMENTS_PER_TICK),
            tick: 0,
            slow_ns: collector.slow_ns(),
            min_latency_ns: options.min_latency.map_or(0, |latency| latency.as_nanos() as u64),
            database: database.oid(),
            role: role.oid(),
            held_limit: per_cpu(HELD_PER_TICK),
            reserved: 0,
        };
        let baseline = reading::read(&self.probes, true)?;
        let held_before = reading::held(&self.probes)?;
        let flushed_before = wal::flushes(&self.probes)?;
        let mut cost = Cost::default();
        let start_ns = clock::monotonic_ns()?;
        let mut works = Works::default();
        let before = self.edge(start_ns, &mut works, true)?;
        let mut course = Course::new(&before, start_ns);
        let start = Timestamp::now();
        let began = Instant::now();
        self.probes.forget_depth();
        self.probes.set_live(live);
        observer.opened(self);

        let end = tokio::time::sleep_until(began + options.duration);
        tokio::pin!(end);
        let interval_length = options.interval.max(options.duration / MOST_INTERVALS);
        let mut interval = tokio::time::interval_at(began + interval_length, interval_length);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut timeline = Vec::new();
        let mut last = baseline.clone();
        let mut last_devices = before.devices.clone();
        let mut tick_length = FIRST_TICK;
        let mut statistics = self.switch_statistics_on(&mut cost);
        let ended_by = loop {
            let ticked = Instant::now();
            tokio::select! {
                biased;
                () = &mut end => break EndedBy::Duration,
                () = signal.wait() => break EndedBy::Signal,
                _ = interval.tick() => {
                    let now_ns = clock::monotonic_ns()?;
                    let now = reading::read(&self.probes, false)?;
                    let look = self.look(false)?;
                    works.look(self, &look, now_ns, false);
                    let mut entry = course.entry(now_ns, &now.minus(&last), &self.lives(&look, now_ns), CpuTimes::now());
                    (entry.devices, last_devices) = self.interval_devices(&last_devices, entry.duration_ns)?;
                    observer.interval(&entry);
                    observer.progress(began.elapsed(), now.totals.transactions - baseline.totals.transactions);
                    timeline.push(entry);
                    last = now;
                    if statistics.is_none() && cost.error.is_none() {
                        statistics = self.switch_statistics_on(&mut cost);
                    }
                }
                () = tokio::time::sleep(tick_length) => {}
            }
            if let Some((_, since)) = &statistics
                && since.elapsed() >= interval_length / STATISTICS_EVERY
            {
                self.switch_statistics_off(&mut statistics, &mut cost);
            }
            let n_statements = collector.drain(self)?;
            live.statement_every = sampling::next_every(live.statement_every, n_statements, ticked.elapsed());
            live.slow_ns = collector.slow_ns();
            if database.is_unknown() || role.is_unknown() {
                self.learn_owners(&mut database, &mut role)?;
                live.database = database.oid();
                live.role = role.oid();
            }
            live.tick = live.tick.wrapping_add(1);
            self.probes.set_live(live);
            tick_length = if collector.is_settled() { (tick_length * 2).min(TICK) } else { FIRST_TICK };
            if !self.postmaster_lives() {
                break EndedBy::PostmasterExit;
            }
        };
        self.probes.set_live(Live { window_open: 0, ..live });
        let end_ns = clock::monotonic_ns()?;
        // At once: what devices and processes do from here on is not the window's.
        let (rest_devices, _) = self.interval_devices(&last_devices, end_ns - course.last_ns)?;
        let after = self.edge(end_ns, &mut works, false)?;
        self.switch_statistics_off(&mut statistics, &mut cost);
        collector.drain(self)?;
        let now = reading::read(&self.probes, true)?;
        let rest = now.minus(&last);
        if rest.totals.units != 0 || end_ns - course.last_ns >= interval_length.as_nanos() as u64 / 2 {
            let mut entry = course.entry(end_ns, &rest, &after.lives, after.cpu);
            entry.devices = rest_devices;
            observer.interval(&entry);
            timeline.push(entry);
        }
        collector.finish()?;
        let held = reading::held(&self.probes)?.minus(&held_before);
        let names = [(&database, &options.database, "database"), (&role, &options.user, "user")];
        let unknown = names.iter().filter(|(owner, ..)| owner.is_unknown());
        let owner_unknown =
            unknown.filter_map(|(_, name, kind)| Some(format!("{kind} {:?}", name.as_ref()?))).collect();
        Ok(Watched {
            window: WindowInput {
                start,
                start_ns,
                end_ns,
                requested_ns: Some(options.duration.as_nanos() as u64),
                ended_by,
            },
            aggregates: now.minus(&baseline),
            flushes: wal::flushes(&self.probes)?.minus(&flushed_before),
            timeline,
            works,
            statements: collector.statements,
            statement_every: live.statement_every,
            slowest: collector.slowest,
            locks: collector.locks,
            held,
            before,
            after,
            cost,
            owner_unknown,
        })
    }

    fn edge(&mut self, now_ns: u64, works: &mut Works, is_first: bool) -> Result<Edge> {
        let look = self.look(true)?;
        works.look(self, &look, now_ns, is_first);
        Ok(Edge {
            lives: self.lives(&look, now_ns),
            devices: self.read_devices(true)?,
            skipped: self.probes.skipped(),
            ebs: self.read_ebs(),
            reads: file_reads::now(&self.probes),
            cpu: CpuTimes::now(),
            throttled_ns: host::throttled_ns(self.cluster.postmaster_pid()),
            agent_cpu_ns: clock::process_cpu_ns().ok(),
        })
    }

    fn learn_owners(&self, database: &mut Owner, role: &mut Owner) -> Result<()> {
        if database.is_unknown() || role.is_unknown() {
            // The server may be ending at this moment.
            let backends = self.cluster.backends().unwrap_or_default();
            database.learn(&self.cluster, &backends);
            role.learn(&self.cluster, &backends);
        }
        Ok(())
    }

    fn switch_statistics_on(&self, cost: &mut Cost) -> Option<(Statistics, Instant)> {
        match Statistics::on() {
            Ok(statistics) => Some((statistics, Instant::now())),
            Err(error) => {
                cost.error = Some(format!("{error:#}"));
                None
            }
        }
    }

    fn switch_statistics_off(&self, statistics: &mut Option<(Statistics, Instant)>, cost: &mut Cost) {
        let Some((switch, since)) = statistics.take() else { return };
        cost.measured += since.elapsed();
        drop(switch);
        match self.probes.program_costs() {
            Ok(programs) => cost.programs = programs,
            Err(error) => cost.error = Some(format!("{error:#}")),
        }
    }
}

/// Each CPU's part of what all may send in a tick.
fn per_cpu(per_tick: usize) -> u32 {
    let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(per_tick / n_cpus).unwrap_or(u32::MAX).max(16)
}

/// Takes the records in.
struct Collector {
    statements: Statements,
    slowest: Slowest,
    locks: Locks,
    file: Option<BufWriter<File>>,
}

impl Collector {
    fn new(options: &Options, file: Option<File>, major: u32) -> Collector {
        Collector {
            statements: Statements::new(options.show_literals),
            slowest: Slowest::new(options.n_slowest),
            locks: Locks::new(major),
            file: file.map(BufWriter::new),
        }
    }

    fn wants_everything(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the probes send little by now: until the list of the slowest is full they send every unit.
    fn is_settled(&self) -> bool {
        !self.wants_everything() && self.slowest.threshold_ns() != 0
    }

    /// What the probes need to send.
    fn slow_ns(&self) -> u64 {
        if self.wants_everything() { 0 } else { self.slowest.threshold_ns() }
    }

    /// Returns the number of statements among the records.
    fn drain(&mut self, attachment: &mut Attachment) -> Result<u64> {
        let mut n_statements = 0;
        let mut written = Ok(());
        attachment.probes.drain(|drained| {
            let record = match drained {
                Drained::Finished(record) => record,
                Drained::Held(wait) => return self.locks.add(wait),
            };
            self.locks.statement(record);
            if record.kind == KIND_STATEMENT {
                n_statements += 1;
            }
            self.statements.add(record);
            self.slowest.add(record);
            if let Some(file) =
                self.file.as_mut().filter(|_| record.kind == KIND_TRANSACTION && written.is_ok())
            {
                written = write(file, record);
            }
        });
        written.context("cannot write the records")?;
        Ok(n_statements)
    }

    fn finish(&mut self) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.flush()).context("cannot write the records")
    }
}

fn write(file: &mut BufWriter<File>, record: &Record) -> std::io::Result<()> {
    let buckets: serde_json::Map<String, serde_json::Value> = Bucket::ALL
        .iter()
        .map(|bucket| (bucket.name().to_owned(), record.buckets[*bucket as usize].into()))
        .collect();
    let line = serde_json::json!({
        "pid": record.pid,
        "start_ns": record.start_ns,
        "end_ns": record.end_ns,
        "transactions": record.transactions,
        "buckets": buckets,
    });
    writeln!(file, "{line}")
}
