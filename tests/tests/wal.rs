//! The write-ahead log: every flush is counted, and waiting for one's own and for another's is the commit's time.
//!
//! The truth is the server's own: `pg_stat_wal.wal_sync` (and `wal_write` where the write is the sync), and pgbench's
//! time on END. On the device as it is, a flush takes some 50 µs and is mostly one sleep; on the slowed one it is some
//! milliseconds and several.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    cgroup::{Device, Limit},
    checks::{close, wait_for_clients_to_leave},
    client::Client,
    environment::Scratch,
    gate,
    load::Load,
    pgbench, poll,
    process::Owned,
    profile::Profile,
    server::{Plan, Server},
};

/// Length of each load.
const LENGTH: Duration = Duration::from_secs(3);

/// Requests per second of the slow device.
const SLOW_IOPS: u64 = 300;

/// Beyond any device: no limit.
const ANY_IOPS: u64 = 10_000_000;

/// Flushes in progress while the counters are read.
const AT_THE_EDGES: u64 = 2;

/// Settings under which the log is synced for real, and by nobody but who the test wants.
fn plan<'build>(build: &'build Build, settings: &[(&str, &str)]) -> Plan<'build> {
    let quiet = [("fsync", "on"), ("bgwriter_lru_maxpages", "0")];
    let all = quiet.iter().chain(settings);
    // No new segment in mid-run: making one is no flush, but may wait for one.
    let plan = Plan::new(build).initdb("--wal-segsize=256");
    all.fold(plan, |plan, (name, value)| plan.setting(name, value))
}

fn start(settings: &[(&str, &str)]) -> Result<Server> {
    let build = Build::installed()?;
    let server = plan(&build, settings).start()?;
    pgbench::initialise(&server, 5)?;
    server.psql(["-c", "checkpoint"])?;
    Ok(server)
}

/// A transaction whose END is a commit and nothing else.
fn script(random: u64) -> Vec<String> {
    let account = random % 500_000 + 1;
    vec![
        "begin".into(),
        format!("update pgbench_accounts set abalance = abalance + 1 where aid = {account}"),
        "end".into(),
    ]
}

/// The server's counters: writes and syncs of the log.
#[derive(Clone, Copy, Debug)]
struct Counters {
    writes: u64,
    syncs: u64,
}

impl Counters {
    /// Reads them once they stand still: the WAL writer may have something left to do, and hands its counts in late.
    fn settled(client: &mut Client) -> Result<Counters> {
        let mut last = (f64::NAN, Instant::now());
        poll::until("the server's counters to stand still", Duration::from_secs(20), || {
            let writes = client.number("select wal_write from pg_stat_wal")?;
            if writes != last.0 {
                last = (writes, Instant::now());
            }
            Ok((last.1.elapsed() > Duration::from_millis(1500)).then_some(()))
        })?;
        let mut number = |sql: &str| -> Result<u64> { Ok(client.number(sql)? as u64) };
        Ok(Counters {
            writes: number("select wal_write from pg_stat_wal")?,
            syncs: number("select wal_sync from pg_stat_wal")?,
        })
    }
}

/// Runs a load under pgstall; returns the profile and how far the server's counters moved.
fn watched(server: &Server, load: impl FnOnce() -> Result<()>) -> Result<(Profile, Counters)> {
    let mut observer = server.connect()?;
    let attach = Attach::start_without_records(server, &[])?;
    let before = Counters::settled(&mut observer)?;
    load()?;
    let after = Counters::settled(&mut observer)?;
    let (profile, _) = attach.stop()?;
    let moved = Counters { writes: after.writes - before.writes, syncs: after.syncs - before.syncs };
    Ok((profile, moved))
}

/// The load of so many clients. Their counts are handed in when told.
fn commits(server: &Server, clients: usize, length: Duration) -> Result<()> {
    let mut load = Load::connect(server, clients, script)?;
    load.run(length, script)?;
    load.each("select pg_stat_force_next_flush()")?;
    drop(load);
    // The observer stays.
    wait_for_clients_to_leave(server, 1)
}

fn flushes_of(profile: &Profile, backend_type: &str) -> Result<u64> {
    let makers = profile.at("/wal/flushed_by")?.as_array().context("flushed_by is no list")?;
    let own = makers.iter().find(|by| by["backend_type"] == backend_type);
    Ok(own.and_then(|by| by["flushes"].as_u64()).unwrap_or(0))
}

fn check_flushes(what: &str, profile: &Profile, wanted: u64) -> Result<()> {
    let flushes = profile.number("/wal/flushes")?;
    gate::note(&format!(
        "{what}: {flushes} flushes of {wanted}, {} by clients, {} by the WAL writer, p50 {}, {} commits each",
        flushes_of(profile, "client backend")?,
        flushes_of(profile, "walwriter")?,
        profile.at("/wal/flush_latency_ns/p50")?,
        profile.at("/wal/commits_per_flush")?,
    ));
    ensure!(wanted > 50, "{what}: {wanted} flushes are too few to compare");
    close(&format!("{what}: flushes"), flushes, wanted, 0.01, AT_THE_EDGES)
}

fn check_clients(server: &Server, speed: &str, length: Duration) -> Result<()> {
    let mut shared = Vec::new();
    for clients in [1, 8, 16] {
        let what = format!("{clients} clients, {speed}");
        let (profile, moved) = watched(server, || commits(server, clients, length))?;
        check_flushes(&what, &profile, moved.syncs)?;
        let commits = profile.at("/wal/commits_per_flush")?.as_f64().context("no commits_per_flush")?;
        shared.push(commits);
    }
    ensure!((shared[0] - 1.0).abs() < 0.05, "one client shares its flushes with nobody: {shared:?}");
    ensure!(shared[2] > 1.5 && shared[2] <= 16.0, "sixteen clients share their flushes: {shared:?}");
    Ok(())
}

#[test]
fn flushes_of_committing_clients() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = start(&[])?;
    check_clients(&server, "device as it is", LENGTH)?;
    // One request, many flushes in a row with no other wait between them.
    let (profile, moved) = watched(&server, || {
        server.psql(["-c", "create table looped (n int)"])?;
        let body = "do $$ begin for n in 1..400 loop insert into looped values (n); commit; end loop; end $$";
        server.psql(["-c", body])?;
        wait_for_clients_to_leave(&server, 1)
    })?;
    check_flushes("a procedure that commits", &profile, moved.syncs)?;
    ensure!(profile.at("/wal/sync_method")? == "fdatasync" && profile.at("/wal/full_page_writes")? == true);
    Ok(())
}

#[test]
fn flushes_of_the_wal_writer() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    for settings in [("wal_writer_delay", "1ms"), ("wal_writer_flush_after", "0")] {
        let server = start(&[("synchronous_commit", "off"), ("full_page_writes", "off"), settings])?;
        let (profile, moved) = watched(&server, || commits(&server, 8, LENGTH))?;
        let what = format!("{} = {}", settings.0, settings.1);
        check_flushes(&what, &profile, moved.syncs)?;
        let (all, own) = (profile.number("/wal/flushes")?, flushes_of(&profile, "walwriter")?);
        ensure!(own * 10 > all * 9, "{what}: the WAL writer made {own} of {all} flushes");
        ensure!(profile.at("/wal/full_page_writes")? == false);
    }
    Ok(())
}

#[test]
fn methods_that_sync_in_the_write() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    for method in ["open_datasync", "open_sync"] {
        let server = start(&[("wal_sync_method", method)])?;
        let (profile, moved) = watched(&server, || commits(&server, 8, LENGTH))?;
        ensure!(moved.syncs == 0, "{method}: the server syncs all the same");
        check_flushes(method, &profile, moved.writes)?;
        ensure!(profile.at("/wal/sync_method")? == method);
    }
    Ok(())
}

#[test]
fn without_fsync_nothing_is_flushed() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = start(&[("fsync", "off"), ("wal_sync_method", "open_datasync")])?;
    let (profile, moved) = watched(&server, || commits(&server, 4, Duration::from_secs(1)))?;
    ensure!(moved.writes > 50, "no load");
    ensure!(profile.number("/wal/flushes")? == 0 && profile.at("/wal/fsync")? == false);
    ensure!(profile.at("/wal/commits_per_flush")?.is_null());
    Ok(())
}

/// What pgbench -r says END took, ns. By count, so that both sides can be seen to speak of the same transactions.
fn end_by_pgbench(server: &Server, clients: u64, runs: u64) -> Result<f64> {
    let script = server.directory().join("commit.sql");
    let lines = "\\set aid random(1, 500000)\nbegin;\nupdate pgbench_accounts set abalance = 1 where aid = :aid;\nend;\n";
    std::fs::write(&script, lines)?;
    let mut command = Command::new(Build::installed()?.program("pgbench"));
    let (clients, runs) = (clients.to_string(), runs.to_string());
    server.reach(&mut command).args(["-n", "-r", "-c", &clients, "-j1", "-t", &runs, "-f"]).arg(&script);
    let report = pgstall_tests::process::run(&mut command)?;
    let line = report.lines().find(|line| line.trim_end().ends_with("end;"));
    let line = line.with_context(|| format!("no line of end in {report}"))?;
    let latency: f64 = line.split_whitespace().next().context("an empty line")?.parse()?;
    Ok(latency * 1e6)
}

/// The commit's time is its own flush, another's, the run queue and a little CPU. The first two are the transactions' exact
/// sums: nothing but END waits for the log here, and a mean over sampled statements would be too rough on a device that
/// answers in 60 µs most of the time and in 100 ms now and then. Queue and CPU are the recorded ENDs'. What lies between the two programs
/// is the client's: the way through the socket, rousing its CPU, and its turn among the other clients of its thread.
fn check_end(server: &Server, speed: &str, clients: u64, runs: u64, transport_ns: u64) -> Result<()> {
    let what = format!("END of {clients} clients, {speed}");
    let attach = Attach::start_without_records(server, &["--statements", "20"])?;
    let seen_ns = end_by_pgbench(server, clients, runs)?;
    let (profile, _) = attach.stop()?;
    let statements = profile.statements()?;
    let end = statements.iter().find(|statement| {
        statement["query"]
            .as_str()
            .is_some_and(|query| query.trim_end_matches(';').eq_ignore_ascii_case("end"))
    });
    let end = end.context("END is not among the statements")?;
    let bucket = |name: &str| -> u64 {
        let buckets = end["buckets"].as_array().map(Vec::as_slice).unwrap_or_default();
        buckets
            .iter()
            .find(|line| line["bucket"] == name)
            .and_then(|line| line["mean_ns"].as_u64())
            .unwrap_or(0)
    };
    ensure!(profile.transactions()? == clients * runs, "{what}: {} transactions", profile.transactions()?);
    let (log, queue, cpu) = (profile.bucket_ns("wal_fsync")?, bucket("run_queue"), bucket("cpu"));
    gate::note(&format!(
        "{what}: pgbench {:.1} µs; log {:.1} + run queue {:.1} + CPU {:.1} = {:.1} µs; END is {:.1} µs in {} records",
        seen_ns / 1e3,
        log as f64 / 1e3,
        queue as f64 / 1e3,
        cpu as f64 / 1e3,
        (log + queue + cpu) as f64 / 1e3,
        end["mean_ns"].as_u64().context("no mean_ns")? as f64 / 1e3,
        end["calls"],
    ));
    ensure!(log > 0, "{what}: the commit did not wait for the log");
    close(&what, log + queue + cpu, seen_ns as u64, 0.05, transport_ns)
}

#[test]
fn the_commit_is_made_of_flush_and_run_queue() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = start(&[])?;
    // Measured: 16 µs with one client, 68 µs with eight that share pgbench's one thread.
    for (clients, transport_ns) in [(1, 40_000), (8, 120_000)] {
        check_end(&server, "device as it is", clients, 1500, transport_ns)?;
    }
    Ok(())
}

#[test]
fn slow_device() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let scratch = Scratch::new("device")?;
    let build = Build::installed()?;
    let device = Device::under(scratch.path());
    let started = device
        .and_then(|device| Ok((device, plan(&build, &[]).limit(Limit::Iops(device, ANY_IOPS)).start()?)));
    let (device, server) = match started {
        Ok(started) => started,
        Err(error) => {
            gate::skip(&format!("the device cannot be slowed down: {error:#}"));
            return Ok(());
        }
    };
    pgbench::initialise(&server, 5)?;
    server.psql(["-c", "checkpoint"])?;
    server.change_limit(Limit::Iops(device, SLOW_IOPS))?;
    check_clients(&server, "slow device", 2 * LENGTH)?;
    for (clients, runs) in [(1, 600), (16, 150)] {
        check_end(&server, "slow device", clients, runs, 0)?;
    }
    Ok(())
}

#[test]
fn waiting_for_a_standby_is_not_the_log() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    // Nothing is written before the standby is there: it would wait for it.
    let build = Build::installed()?;
    let server = plan(&build, &[("synchronous_standby_names", "slow_one")]).start()?;
    let mut standby = Command::new(Build::installed()?.program("pg_receivewal"));
    server
        .reach(&mut standby)
        .env("PGAPPNAME", "slow_one")
        .arg("--synchronous")
        .arg("-D")
        .arg(server.directory());
    let mut standby = Owned::spawn(&mut standby)?;
    let mut observer = server.connect()?;
    poll::until("the standby to be synchronous", Duration::from_secs(10), || {
        let sql = "select count(*) from pg_stat_replication where sync_state = 'sync'";
        Ok((observer.number(sql)? == 1.0).then_some(()))
    })?;
    let attach = Attach::start_without_records(&server, &[])?;
    let mut client = server.connect()?;
    client.query("create table held (n int)")?;
    // The standby stands still: the commit is on our disk and waits for the other.
    let held = Duration::from_millis(600);
    standby.signal(rustix::process::Signal::STOP)?;
    client.send("insert into held values (1)")?;
    std::thread::sleep(held);
    standby.signal(rustix::process::Signal::CONT)?;
    client.receive()?;
    let (profile, _) = attach.stop()?;
    drop(standby);
    let total = |bucket| -> Result<u64> { Ok(profile.bucket_ns(bucket)? * profile.transactions()?) };
    let (replication, log) = (total("replication")?, total("wal_fsync")?);
    gate::note(&format!("held {held:?}: replication {replication} ns, log {log} ns"));
    ensure!(profile.event("replication", "IPC", "SyncRep")?.is_some(), "no IPC/SyncRep");
    ensure!(profile.event("wal_fsync", "IPC", "SyncRep")?.is_none(), "IPC/SyncRep in wal_fsync");
    ensure!(
        replication as f64 > 0.9 * held.as_nanos() as f64,
        "{replication} ns of {held:?} are replication"
    );
    ensure!(log < replication / 4, "{log} ns in the log");
    ensure!(flushes_of(&profile, "walsender")? == 0, "a walsender flushes nothing");
    Ok(())
}
