//! Makes the profile out of what was counted, recorded and found out.

use jiff::{SignedDuration, Timestamp};
use profiler_common::{bucket::Bucket, loss::Loss, totals::Totals};

use super::{
    aggregates::Aggregates,
    findings,
    locks::{HeldSums, Locks},
    profile::{
        Backends, Borders, Capture, Connections, Cost, Device, EndedBy, Filters, Host, Interval, PageCache,
        Postgres, Probe, Profile, SCHEMA, StatementCapture, Tool, Transactions, Window,
    },
    slowest::Slowest,
    statements::Statements,
    wal::{self, WalInput},
};

mod processes;
mod single;
mod transactions;

pub use processes::{ProcessSample, TypeSample, WorkSample};
pub use single::OpenSample;

/// How the note begins that says a backend crashed in the window.
pub const RESTARTED: &str = "the server restarted its processes in the window";

/// Everything a profile is made of.
pub struct Inputs<'a> {
    /// What wrote it.
    pub tool: Tool,
    /// The machine.
    pub host: Host,
    /// The server; its major version selects the names of the wait events.
    pub postgres: Postgres,
    /// The stretch of time watched.
    pub window: WindowInput,
    /// How it was measured.
    pub capture: CaptureInput,
    /// What the probes counted in the window.
    pub aggregates: &'a Aggregates,
    /// The window's intervals, in order, as [`super::timeline::interval`] made them.
    pub timeline: Vec<Interval>,
    /// The recorded statements; also normalises the texts of single transactions.
    pub statements: &'a mut Statements,
    /// How many statements to show.
    pub n_statements: usize,
    /// The longest units.
    pub slowest: &'a Slowest,
    /// Waits other processes ended, as recorded and as counted; `None` where they were not watched.
    pub locks: Option<(&'a Locks, &'a HeldSums)>,
    /// Transactions open at the end of the window.
    pub open: Vec<OpenSample>,
    /// What the server's processes of each type did in the window.
    pub types: &'a [TypeSample],
    /// What each of the server's processes did in the window.
    pub processes: &'a [ProcessSample],
    /// What single processes read from files, by type.
    pub reads: &'a [(Option<String>, PageCache)],
    /// Whether to list the processes one by one.
    pub list_pids: bool,
    /// The block devices, as [`super::devices::device`] made them; `None` where they were not watched.
    pub devices: Option<Vec<Device>>,
    /// The write-ahead log, where it was watched.
    pub wal: Option<WalInput>,
}

/// The stretch of time watched.
#[derive(Clone, Debug)]
pub struct WindowInput {
    /// Its begin by the wall clock.
    pub start: Timestamp,
    /// Its begin by the monotonic clock, ns.
    pub start_ns: u64,
    /// Its end by the monotonic clock, ns.
    pub end_ns: u64,
    /// Length asked for, ns, if any.
    pub requested_ns: Option<u64>,
    /// Why it ended.
    pub ended_by: EndedBy,
}

impl WindowInput {
    /// Length, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Wall-clock time of a monotonic instant, RFC 3339 UTC with microseconds.
    pub fn wall_clock(&self, instant_ns: u64) -> String {
        let offset = i128::from(instant_ns) - i128::from(self.start_ns);
        let offset = SignedDuration::from_nanos(i64::try_from(offset).unwrap_or(i64::MAX));
        let at = self.start.saturating_add(offset).unwrap_or(self.start);
        format!("{at:.6}")
    }
}

/// What the caller knows about the measurement; losses, connections and the like come from the aggregates.
#[derive(Clone, Debug)]
pub struct CaptureInput {
    /// What tells where a transaction ends.
    pub borders: Borders,
    /// Client backends followed at any time in the window, if counted.
    pub backends_followed: Option<u64>,
    /// One statement in this many was recorded at the end of the window; `None`: none was.
    pub statement_every: Option<u32>,
    /// What was left out on request.
    pub filters: Filters,
    /// The probes.
    pub probes: Vec<Probe>,
    /// CPU time of the tool itself in the window, ns, if known.
    pub agent_cpu_ns: Option<u64>,
    /// Sentences a reader has to know; more are added here.
    pub notes: Vec<String>,
}

/// Makes the profile.
pub fn build(inputs: Inputs<'_>) -> Profile {
    let Inputs {
        tool,
        host,
        postgres,
        window,
        capture,
        aggregates,
        timeline,
        statements,
        n_statements,
        slowest,
        locks,
        open,
        types,
        processes,
        reads,
        list_pids,
        devices,
        wal,
    } = inputs;
    let major = postgres.major;
    // Short statements are not recorded where short transactions are not wanted.
    let counted = capture.filters.min_latency_ns.is_none().then_some(aggregates.totals.statements);
    let transactions = transactions::transactions(major, aggregates, window.duration_ns(), devices.is_some());
    let Filters { min_latency_ns, database, user } = &capture.filters;
    let all_units = min_latency_ns.is_none() && database.is_none() && user.is_none();
    let wal = wal.map(|wal| wal::wal(wal, aggregates, all_units, window.duration_ns()));
    let slowest = slowest.records().iter();
    let slowest = slowest.map(|record| single::slow(major, record, &window, statements)).collect();
    let open = single::open(major, open, &window, statements);
    let locks = locks.map(|(locks, held)| locks.build(held, processes, statements));
    let pids = if list_pids { processes } else { &[] };
    let mut process_types = processes::by_type(major, types, pids, &aggregates.events);
    processes::add_reads(&mut process_types, reads);
    processes::share_devices(&mut process_types, devices.as_deref().unwrap_or_default());
    let mut profile = Profile {
        schema: SCHEMA.to_owned(),
        tool,
        host,
        postgres,
        capture: self::capture(capture, &transactions, aggregates, statements, window.duration_ns()),
        window: self::window(&window),
        transactions,
        statements: statements.top(n_statements, aggregates.totals.wall_ns, counted),
        wal,
        locks,
        processes: process_types,
        devices,
        timeline,
        slowest,
        open,
        findings: None,
    };
    profile.findings = Some(findings::find(&profile));
    profile
}

fn window(window: &WindowInput) -> Window {
    Window {
        start: window.wall_clock(window.start_ns),
        end: window.wall_clock(window.end_ns),
        duration_ns: window.duration_ns(),
        requested_ns: window.requested_ns,
        partial: window.requested_ns.is_some() && window.ended_by != EndedBy::Duration,
        ended_by: window.ended_by,
    }
}

fn capture(
    input: CaptureInput,
    transactions: &Transactions,
    aggregates: &Aggregates,
    statements: &Statements,
    duration_ns: u64,
) -> Capture {
    let CaptureInput {
        borders,
        backends_followed,
        statement_every,
        filters,
        probes,
        agent_cpu_ns,
        mut notes,
    } = input;
    notes.extend(transactions.units_note());
    let Totals { connections, connections_ns, backends_ended, .. } = aggregates.totals;
    let losses = Loss::ALL.into_iter().map(|loss| (loss.name().to_owned(), aggregates.loss(loss)));
    Capture {
        backends: Backends { followed: backends_followed, ended: backends_ended },
        connections: Connections {
            count: connections,
            mean_startup_ns: connections_ns.checked_div(connections),
        },
        statements: StatementCapture {
            counted: aggregates.totals.statements,
            recorded: statements.recorded(),
            every: statement_every,
            distinct: statements.distinct(),
        },
        losses: losses.filter(|(_, count)| *count != 0).collect(),
        imbalance_ns: aggregates.imbalance_ns(),
        outcome_unknown: Some(format!(
            "{} tells that a transaction ended, not whether it was committed or rolled back",
            borders.signal
        )),
        cost: cost(&probes, agent_cpu_ns, duration_ns),
        borders,
        filters,
        probes,
        notes,
    }
}

fn cost(probes: &[Probe], agent_cpu_ns: Option<u64>, duration_ns: u64) -> Cost {
    let attached = || probes.iter().filter(|probe| probe.attached);
    let sum = |of: fn(&Probe) -> Option<u64>| attached().map(of).sum::<Option<u64>>();
    // No attached probe is no measurement, not a cost of zero.
    let known = attached().next().is_some();
    let probe_ns = sum(|probe| probe.run_ns).filter(|_| known);
    let both = probe_ns.zip(agent_cpu_ns).map(|(probe_ns, agent_ns)| probe_ns + agent_ns);
    Cost {
        probe_ns,
        probe_runs: sum(|probe| probe.runs).filter(|_| known),
        agent_cpu_ns,
        share_of_one_cpu: both.and_then(|both| super::statements::share(both, duration_ns)),
    }
}

/// The buckets that have time, in report order.
fn bucket_times(buckets: &[u64; profiler_common::bucket::BUCKET_SLOTS]) -> Vec<super::profile::BucketTime> {
    Bucket::ALL
        .into_iter()
        .map(|bucket| super::profile::BucketTime {
            bucket: super::bucket_name::BucketName(bucket),
            time_ns: buckets[bucket as usize],
        })
        .filter(|time| time.time_ns != 0)
        .collect()
}
