//! Waits are true: three independent clocks on the same load.
//!
//! The server's own timers (`track_io_timing`, `track_wal_io_timing`), a test-only probe set that times the system
//! calls behind them, and the profile. The data set is larger than the server's memory, so that reads reach the
//! device, and the log is synced for real.
//! - (a) the system calls last as long as the server's timers say, within 3 %: the probe set can be trusted;
//! - (b) our blocked time per wait event is the time blocked inside those calls, within 0.5 %.
//!
//! Two tracers on one tracepoint stamp it one after the other, and 0.5 % of a sleep of 30 µs is only 150 ns. Ours comes
//! first, having been attached first: the other stamps the begin of a sleep later by what our program for a switch
//! takes, and its end by what the one for a wake-up takes. Both are in the profile, so their difference is allowed for.
//! And (b) is measured twice, on the device as it is and on one slowed down to a few hundred requests a second, where
//! a sleep is long and all that nothing.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    cgroup::{Device, Limit},
    checks::close,
    client::Client,
    environment::Scratch,
    gate,
    load::Load,
    pgbench,
    profile::Profile,
    server::{Plan, Server},
    syscalls::{self, Call, Probes, Time},
};

/// pgbench scale: about 300 MB of accounts.
const SCALE: u32 = 20;

/// The server's memory, page cache included.
const MEMORY_BYTES: u64 = 112 << 20;

/// Times below this are not compared: the edges of the load weigh too much, ns.
const FLOOR_NS: u64 = 20_000_000;

/// Calls shorter than this on average are not compared with the server's timers, ns.
const LONG_NS: u64 = 100_000;

/// Requests per second of the slow device.
const SLOW_IOPS: u64 = 200;

/// Beyond any device: no limit.
const ANY_IOPS: u64 = 10_000_000;

/// What two tracers on one tracepoint may differ by beyond what is allowed for, per sleep, ns: our programs take longer
/// on a CPU that was idle than on average, and a wake-up the other tracer did not see is split by another clock.
const APART_NS: u64 = 300;

/// Fewer sleeps than this are not compared: one that only one tracer saw the end of weighs too much.
const FEWEST_SLEEPS: u64 = 200;

/// Length of each load.
const LENGTH: Duration = Duration::from_secs(6);

/// What the server's own clock reads cost it per call, ns.
const CLOCK_READS_NS: u64 = 1000;

/// What the probes saw, by process and kind of call.
type Times = BTreeMap<(u32, Call), Time>;

/// How far the server's timer moved, by kind of call, ns.
type Moved = [(Call, f64); 3];

fn start(device: Option<Device>) -> Result<Server> {
    let build = Build::installed()?;
    let mut plan = Plan::new(&build);
    if let Some(device) = device {
        plan = plan.limit(Limit::Iops(device, ANY_IOPS));
    }
    let server = plan
        .limit(Limit::MemoryBytes(MEMORY_BYTES))
        .setting("shared_buffers", "16MB")
        .setting("fsync", "on")
        .setting("track_io_timing", "on")
        .setting("track_wal_io_timing", "on")
        // Only the backends are to write: their times are compared with counters of the whole server.
        .setting("bgwriter_lru_maxpages", "0")
        .setting("wal_writer_delay", "10s")
        // No new WAL segment in mid-run: files are told apart by their descriptors.
        .initdb("--wal-segsize=256")
        .start()?;
    pgbench::initialise(&server, SCALE)?;
    server.psql(["-c", "vacuum", "-c", "checkpoint"])?;
    Ok(server)
}

fn script(random: u64) -> Vec<String> {
    let account = random % (100_000 * u64::from(SCALE)) + 1;
    let other = (random >> 32) % (100_000 * u64::from(SCALE)) + 1;
    vec![
        "begin".into(),
        format!("update pgbench_accounts set abalance = abalance + 1 where aid = {account}"),
        format!("select abalance from pgbench_accounts where aid = {other}"),
        "end".into(),
    ]
}

/// The server's timers, ns.
#[derive(Clone, Copy, Debug)]
struct Timers {
    read: f64,
    wal_write: f64,
    wal_sync: f64,
}

impl Timers {
    fn read(client: &mut Client) -> Result<Timers> {
        let mut sum = |sql: &str| Ok::<f64, anyhow::Error>(client.number(sql)? * 1e6);
        Ok(Timers {
            read: sum("select sum(blk_read_time) from pg_stat_database")?,
            wal_write: sum("select wal_write_time from pg_stat_wal")?,
            wal_sync: sum("select wal_sync_time from pg_stat_wal")?,
        })
    }
}

fn sum(times: &Times, call: Call, pids: Option<&[u32]>) -> Time {
    let mut total = Time::default();
    for ((pid, of), time) in times {
        if *of == call && pids.is_none_or(|pids| pids.contains(pid)) {
            total.calls += time.calls;
            total.inside_ns += time.inside_ns;
            total.sleeps += time.sleeps;
            total.blocked_ns += time.blocked_ns;
            total.unseen += time.unseen;
        }
    }
    total
}

/// Puts the load on the server under the probe set; returns the probes' times and how far the server's timers moved.
fn run_under_probes(server: &Server, load: &mut Load) -> Result<(Times, Moved)> {
    // Counts reach the statistics views once a backend is told to hand them in.
    load.each("select pg_stat_force_next_flush()")?;
    let before = Timers::read(&mut server.connect()?)?;
    let probes = Probes::start(server.pid(), server.directory())?;
    load.run(LENGTH, script)?;
    let times = probes.stop()?;
    load.each("select pg_stat_force_next_flush()")?;
    let after = Timers::read(&mut server.connect()?)?;
    let moved = [
        (Call::DataRead, after.read - before.read),
        (Call::WalWrite, after.wal_write - before.wal_write),
        (Call::WalSync, after.wal_sync - before.wal_sync),
    ];
    Ok((times, moved))
}

/// (a)
fn check_probes(what: &str, times: &Times, moved: Moved) -> Result<()> {
    let mut compared = 0;
    for (call, timer_ns) in moved {
        let time = sum(times, call, None);
        gate::note(&format!(
            "{what}, {call:?}: {} calls, inside {:.1} ms, {:.2} % of the server's timer, blocked {:.1} ms",
            time.calls,
            time.inside_ns as f64 / 1e6,
            100.0 * time.inside_ns as f64 / timer_ns,
            time.blocked_ns as f64 / 1e6,
        ));
        // The server's timer spans a few microseconds more than the call (its own clock reads, the way into the
        // kernel past the probe): a good part of a call that only copies into the page cache, as most writes do.
        if time.inside_ns > FLOOR_NS && time.inside_ns / time.calls.max(1) > LONG_NS {
            let slack = CLOCK_READS_NS * time.calls;
            close(&format!("{what}, {call:?}"), time.inside_ns, timer_ns as u64, 0.03, slack)?;
            compared += 1;
        }
    }
    ensure!(compared > 0, "{what}: nothing took long enough to compare");
    Ok(())
}

/// (b)
fn check_waits(what: &str, profile: &Profile, times: &Times, pids: &[u32]) -> Result<()> {
    let events = [
        (Call::DataRead, "page_read", "DataFileRead"),
        (Call::WalWrite, "wal_fsync", "WALWrite"),
        (Call::WalSync, "wal_fsync", "WALSync"),
    ];
    let mut compared = Vec::new();
    let later_ns = profile.probe_run_ns("sched_switch")? - profile.probe_run_ns("sched_waking")?;
    for (call, bucket, event) in events {
        let time = sum(times, call, Some(pids));
        let probed = time.blocked_ns + (later_ns * time.sleeps as f64) as u64;
        let ours = profile.event_total_ns(bucket, "IO", event)?;
        gate::note(&format!(
            "{what}, IO/{event}: blocked {:.2} ms, {:+.3} % from blocked in the call ({:+.3} % without {later_ns:.0} ns \
             between the tracers), {} sleeps, {:+.2} µs each, {} wake-ups unseen",
            ours as f64 / 1e6,
            100.0 * (ours as f64 - probed as f64) / probed.max(1) as f64,
            100.0 * (ours as f64 - time.blocked_ns as f64) / time.blocked_ns.max(1) as f64,
            time.sleeps,
            (ours as f64 - probed as f64) / 1e3 / time.sleeps.max(1) as f64,
            time.unseen,
        ));
        if probed > FLOOR_NS && time.sleeps >= FEWEST_SLEEPS {
            let slack = APART_NS * time.sleeps;
            compared.push(close(&format!("{what}, IO/{event}"), ours, probed, 0.005, slack));
        }
    }
    ensure!(!compared.is_empty(), "{what}: nothing was blocked long enough to compare");
    compared.into_iter().collect()
}

fn check(server: &Server, connections: usize) -> Result<()> {
    let what = format!("{connections} clients");
    let mut load = Load::connect(server, connections, script)?;
    let pids = load.pids();
    let attach = Attach::start_without_records(server, &[])?;
    // What a backend does when we attach may be half seen; after this all of them are followed.
    load.each("select 1")?;
    let (times, moved) = run_under_probes(server, &mut load)?;
    let (profile, _) = attach.stop()?;
    check_probes(&what, &times, moved)?;
    check_waits(&what, &profile, &times, &pids)
}

/// All of them, so that one run shows every figure.
fn check_all(server: &Server) -> Result<()> {
    let results: Vec<_> = [1, 8, 16].into_iter().map(|clients| check(server, clients)).collect();
    results.into_iter().collect()
}

fn may_run() -> bool {
    if !gate::root() {
        return false;
    }
    let unavailable = syscalls::unavailable();
    if let Some(reason) = &unavailable {
        gate::skip(reason);
    }
    unavailable.is_none()
}

#[test]
fn device_as_it_is() -> Result<()> {
    if !may_run() {
        return Ok(());
    }
    check_all(&start(None)?)
}

#[test]
fn slow_device() -> Result<()> {
    if !may_run() {
        return Ok(());
    }
    let scratch = Scratch::new("device")?;
    let device = Device::under(scratch.path());
    let started = device.and_then(|device| Ok((device, start(Some(device))?)));
    let (device, server) = match started {
        Ok(started) => started,
        Err(error) => {
            gate::skip(&format!("the device cannot be slowed down: {error:#}"));
            return Ok(());
        }
    };
    server.change_limit(Limit::Iops(device, SLOW_IOPS))?;
    check_all(&server)
}
