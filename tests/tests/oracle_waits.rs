//! Waits are true: three independent clocks on the same load.
//!
//! The server's own timers (`track_io_timing`, `track_wal_io_timing`), a test-only probe set that times the system
//! calls behind them, and the profile. The data set is larger than the server's memory, so that reads reach the
//! device, and the log is synced for real.
//! - (a) the system calls last as long as the server's timers say, within 3 %: the probe set can be trusted;
//! - (b) our blocked time per wait event is the time blocked inside those calls, within 0.5 %.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    cgroup::Limit,
    checks::close,
    client::Client,
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

/// What the probes saw, by process and kind of call.
type Times = BTreeMap<(u32, Call), Time>;

/// How far the server's timer moved, by kind of call, ns.
type Moved = [(Call, f64); 3];

fn start() -> Result<Server> {
    let build = Build::installed()?;
    let server = Plan::new(&build)
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
            total.blocked_ns += time.blocked_ns;
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
    load.run(Duration::from_secs(8), script)?;
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
            close(&format!("{what}, {call:?}"), time.inside_ns, timer_ns as u64, 0.03, 0)?;
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
    for (call, bucket, event) in events {
        let time = sum(times, call, Some(pids));
        let probed = time.blocked_ns;
        let ours = profile.event_total_ns(bucket, "IO", event)?;
        gate::note(&format!(
            "{what}, IO/{event}: blocked {:.2} ms, {:+.3} % from blocked in the call, {:+.2} µs a call",
            ours as f64 / 1e6,
            100.0 * (ours as f64 - probed as f64) / probed as f64,
            (ours as f64 - probed as f64) / 1e3 / time.calls as f64,
        ));
        if probed > FLOOR_NS {
            compared.push(close(&format!("{what}, IO/{event}"), ours, probed, 0.005, 0));
        }
    }
    ensure!(!compared.is_empty(), "{what}: nothing was blocked long enough to compare");
    compared.into_iter().collect()
}

fn check(connections: usize) -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    if let Some(reason) = syscalls::unavailable() {
        gate::skip(&reason);
        return Ok(());
    }
    let what = format!("{connections} clients");
    let server = start()?;
    let mut load = Load::connect(&server, connections, script)?;
    let pids = load.pids();
    let attach = Attach::start_without_records(&server, &[])?;
    // What a backend does when we attach may be half seen; after this all of them are followed.
    load.each("select 1")?;
    let (times, moved) = run_under_probes(&server, &mut load)?;
    let (profile, _) = attach.stop()?;
    check_probes(&what, &times, moved)?;
    check_waits(&what, &profile, &times, &pids)
}

#[test]
fn one_client() -> Result<()> {
    check(1)
}

#[test]
fn eight_clients() -> Result<()> {
    check(8)
}

#[test]
fn sixteen_clients() -> Result<()> {
    check(16)
}

/// The probe set against the server's timers with nothing else attached.
#[test]
fn the_probe_set_agrees_with_the_server() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    if !Probes::are_available() {
        gate::skip("bpftrace is not installed: run `cargo xtask setup`");
        return Ok(());
    }
    let server = start()?;
    let mut load = Load::connect(&server, 4, script)?;
    let (times, moved) = run_under_probes(&server, &mut load)?;
    check_probes("4 clients, no pgstall", &times, moved)
}
