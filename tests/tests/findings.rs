//! Workloads × findings: each finding is there on a workload made for it, and what is not so is not said.
//!
//! Storage is an emulated volume, so that it is as slow as the test says on every host.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    cgroup::Limit,
    checks::wait_for_clients_to_leave,
    environment::Scratch,
    gate,
    pgbench::{self, Running},
    poll,
    process::{Owned, run},
    profile::Profile,
    server::{Plan, Server},
    storage,
    volume::owner::Volume,
};

/// A workload, the findings it must have, and those it may have; any other is an error.
struct Row {
    workload: &'static str,
    must: &'static [&'static str],
    may: &'static [&'static str],
}

/// Whether the CPUs of the host are busy is for all its processes to say, those of other tests included: it must be there
/// only where they were not.
const CPU_IDLE: &str = "cpu_idle_while_waiting";

/// Two clients of pgbench and their backends are four processes: on few CPUs they queue.
const QUEUE: &str = "run_queue_bound";

const TABLE: &[Row] = &[
    Row { workload: "nobody", must: &["no_answer"], may: &[] },
    Row { workload: "cached reads", must: &["data_in_page_cache"], may: &[QUEUE] },
    Row { workload: "think time", must: &["client_round_trips"], may: &[] },
    Row { workload: "holder sleeps", must: &["lock_waits", CPU_IDLE], may: &[] },
    Row { workload: "holder idle", must: &["idle_in_transaction"], may: &[CPU_IDLE] },
    Row { workload: "open transaction", must: &["open_transaction"], may: &["data_in_page_cache", QUEUE] },
    Row { workload: "standby", must: &["standby_bound"], may: &[CPU_IDLE, QUEUE] },
    Row { workload: "CPU quota", must: &["run_queue_bound"], may: &["data_in_page_cache"] },
    Row { workload: "cold start", must: &["cold_cache_at_start", "storage_share"], may: &[CPU_IDLE, QUEUE] },
    Row { workload: "IOPS limit", must: &["device_at_ceiling", "storage_share", CPU_IDLE], may: &[] },
    Row { workload: "one client commits", must: &["fsync_bound_single", "storage_share"], may: &[CPU_IDLE] },
    Row {
        workload: "16 clients commit",
        must: &["fsync_bound_group_commit", "storage_share"],
        may: &[CPU_IDLE],
    },
    Row { workload: "one hot row", must: &["lock_caused_by_storage", "storage_share"], may: &[CPU_IDLE] },
    Row {
        workload: "checkpoints",
        must: &["checkpoint_competes", "storage_share"],
        // A checkpoint after the other is as much as the device can do.
        may: &[CPU_IDLE, "fsync_bound_single", "fsync_bound_group_commit", "device_at_ceiling"],
    },
    Row {
        workload: "autovacuum",
        must: &["autovacuum_competes", "storage_share"],
        may: &[CPU_IDLE, "device_at_ceiling"],
    },
    Row {
        workload: "backends write",
        must: &["backend_dirty_writes", "storage_share"],
        may: &[CPU_IDLE, "fsync_bound_single", "fsync_bound_group_commit"],
    },
];

/// What is wrong with the rows so far: a row that fails does not hide the others.
#[derive(Default)]
struct Verdict(Vec<String>);

impl Verdict {
    /// Compares what was found with the row of the workload.
    fn check(&mut self, workload: &str, profile: &Profile) -> Result<()> {
        let row = TABLE.iter().find(|row| row.workload == workload).context("no such row")?;
        let found = profile.findings()?;
        let codes: BTreeSet<&str> = found.keys().map(String::as_str).collect();
        gate::note(&format!("{workload}: {codes:?}"));
        let all_ns = profile.number("/host/cpus")? * profile.number("/window/duration_ns")?;
        let half_idle = profile.number("/host/cpu_busy_ns")? * 100 < all_ns * 45;
        let excused = |code: &&&str| **code == CPU_IDLE && !half_idle;
        let missing = row.must.iter().filter(|code| !codes.contains(**code) && !excused(code));
        let missing: Vec<_> = missing.collect();
        let known = |code: &&str| row.must.contains(code) || row.may.contains(code);
        let extra: Vec<_> = codes.iter().filter(|code| !known(code)).collect();
        if !missing.is_empty() || !extra.is_empty() {
            self.0.push(format!(
                "{workload}: missing {missing:?}, not meant {extra:?}; found {found:#?}\nbudget {:?}",
                profile.buckets()
            ));
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        ensure!(self.0.is_empty(), "{}", self.0.join("\n"));
        Ok(())
    }
}

/// Attaches for that long.
fn attach(server: &Server, length: Duration) -> Result<Profile> {
    let attach = Attach::start_without_records(server, &["--interval", "500ms"])?;
    thread::sleep(length);
    Ok(attach.stop()?.0)
}

/// Runs pgbench, lets it come to speed, and attaches for that long.
fn under_load(server: &Server, arguments: &[&str], length: Duration) -> Result<Profile> {
    wait_for_clients_to_leave(server, 0)?;
    let load = start_load(server, arguments)?;
    thread::sleep(Duration::from_millis(700));
    let profile = attach(server, length)?;
    drop(load);
    Ok(profile)
}

fn start_load(server: &Server, arguments: &[&str]) -> Result<Running> {
    Running::start(server, [&["-n", "-T", "60"], arguments].concat())
}

/// A script for pgbench.
fn script(server: &Server, name: &str, text: &str) -> Result<String> {
    let path = server.directory().join(format!("{name}.sql"));
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path.to_string_lossy().into_owned())
}

/// Every finding there is has a workload; docs/findings.md has a heading for each.
#[test]
fn no_finding_is_without_a_workload() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/findings.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let codes: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let made: BTreeSet<&str> = TABLE.iter().flat_map(|row| row.must).copied().collect();
    ensure!(codes == made && !codes.is_empty(), "documented {codes:?}, with a workload {made:?}");
    Ok(())
}

#[test]
fn without_storage() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let mut rows = Verdict::default();
    let server = Plan::new(&build).setting("wal_level", "replica").start()?;
    pgbench::initialise(&server, 1)?;
    server.psql(["-c", "vacuum analyze", "-c", "create table hot as select 1 as id, 0 as v"])?;

    rows.check("nobody", &attach(&server, Duration::from_secs(1))?)?;
    rows.check("cached reads", &under_load(&server, &["-S", "-c", "2"], Duration::from_secs(3))?)?;

    let think = "begin;\nselect 1;\n\\sleep 3 ms\nselect 1;\n\\sleep 3 ms\ncommit;\n";
    let think = script(&server, "think", think)?;
    rows.check("think time", &under_load(&server, &["-c", "2", "-f", &think], Duration::from_secs(3))?)?;

    let sleeps = "begin;\nupdate hot set v = v + 1;\nselect pg_sleep(0.01);\ncommit;\n";
    let sleeps = script(&server, "sleeps", sleeps)?;
    rows.check("holder sleeps", &under_load(&server, &["-c", "8", "-f", &sleeps], Duration::from_secs(3))?)?;

    let idles = "begin;\nupdate hot set v = v + 1;\n\\sleep 10 ms\ncommit;\n";
    let idles = script(&server, "idles", idles)?;
    rows.check("holder idle", &under_load(&server, &["-c", "8", "-f", &idles], Duration::from_secs(3))?)?;

    let mut open = server.connect()?;
    open.query("begin")?;
    open.query("select 1")?;
    let load = start_load(&server, &["-S", "-c", "1"])?;
    rows.check("open transaction", &attach(&server, Duration::from_secs(3))?)?;
    drop((load, open));

    let mut standby = Command::new(Build::installed()?.program("pg_receivewal"));
    server.reach(&mut standby).env("PGAPPNAME", "standby").args(["--synchronous", "-D"]);
    standby.arg(server.directory()).stdout(Stdio::null()).stderr(Stdio::null());
    let standby = Owned::spawn(&mut standby)?;
    server.psql([
        "-c",
        "alter system set synchronous_standby_names = 'standby'",
        "-c",
        "select pg_reload_conf()",
    ])?;
    let mut observer = server.connect()?;
    poll::until("the standby to be synchronous", Duration::from_secs(10), || {
        let sql = "select count(*) from pg_stat_replication where sync_state = 'sync'";
        Ok((observer.number(sql)? == 1.0).then_some(()))
    })?;
    drop(observer);
    let load = Running::start(&server, ["-n", "-T", "60", "-N", "-c", "2"])?;
    thread::sleep(Duration::from_millis(500));
    rows.check("standby", &attach(&server, Duration::from_secs(3))?)?;
    drop((load, standby));
    rows.end()
}

#[test]
fn short_of_cpu() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    // Made before it is starved.
    let server = Plan::new(&build).limit(Limit::CpuMicros(100_000)).start();
    let server = match server {
        Ok(server) => server,
        Err(error) => {
            gate::skip(&format!("{error:#}"));
            return Ok(());
        }
    };
    pgbench::initialise(&server, 1)?;
    server.psql(["-c", "vacuum analyze"])?;
    server.change_limit(Limit::CpuMicros(20_000))?;
    let mut rows = Verdict::default();
    rows.check("CPU quota", &under_load(&server, &["-S", "-c", "4"], Duration::from_secs(4))?)?;
    rows.end()
}

/// Memory of the server, its page cache included, bytes: half of the large table.
const MEMORY_BYTES: u64 = 80 << 20;

/// Rows of the large table, 150 MB, and of the small one, 20 MB: that one fits.
const ROWS: (u64, u64) = (1_000_000, 20_000);

#[test]
fn with_slow_storage() -> Result<()> {
    if !storage::possible() {
        return Ok(());
    }
    let scratch = Scratch::new("findings")?;
    let volume = storage::volume(&scratch, "volume", 1536)?;
    let build = Build::installed()?;
    let plan = Plan::new(&build).limit(Limit::MemoryBytes(MEMORY_BYTES)).data_on(volume.clone());
    let plan =
        plan.setting("fsync", "on").setting("shared_buffers", "8MB").setting("maintenance_work_mem", "8MB");
    // Autovacuum comes when its table lets it.
    let plan = plan.setting("autovacuum", "on").setting("autovacuum_naptime", "1");
    let plan = plan.setting("autovacuum_vacuum_cost_delay", "0");
    let server = match plan.setting("bgwriter_lru_maxpages", "0").start() {
        Ok(server) => server,
        Err(error) => {
            gate::skip(&format!("{error:#}"));
            return Ok(());
        }
    };
    pgbench::initialise(&server, (ROWS.0 / 100_000) as u32)?;
    let small = format!(
        "create table small as select n as id, 0 as v, repeat('x', 930) as filler from generate_series(1, {}) n",
        ROWS.1
    );
    let index = "create unique index on small (id)";
    server.psql(["-c", &small, "-c", index, "-c", "create table hot as select 1 as id, 0 as v"])?;
    for table in ["pgbench_accounts", "pgbench_history", "small", "hot"] {
        server.psql(["-c", &format!("alter table {table} set (autovacuum_enabled = off)")])?;
    }
    server.psql(["-c", "vacuum analyze", "-c", "checkpoint"])?;

    let mut rows = Verdict::default();
    reads(&server, &volume, &mut rows)?;
    commits(&server, &volume, &mut rows)?;
    background(&server, &volume, &mut rows)?;
    rows.end()
}

fn reads(server: &Server, volume: &Arc<Volume>, rows: &mut Verdict) -> Result<()> {
    let read = format!("\\set id random(1, {})\nselect v from small where id = :id;\n", ROWS.1);
    let read = script(server, "small", &read)?;
    forget(server)?;
    volume.reshape(&"read=3ms".parse()?)?;
    let attach = Attach::start_without_records(server, &["--interval", "500ms"])?;
    let load = start_load(server, &["-c", "2", "-f", &read])?;
    thread::sleep(Duration::from_secs(12));
    let profile = attach.stop()?.0;
    drop(load);
    rows.check("cold start", &profile)?;

    // More clients in mid-window, and no more reads.
    volume.reshape(&"read=200us iops=800".parse()?)?;
    wait_for_clients_to_leave(server, 0)?;
    let few = start_load(server, &["-S", "-c", "6"])?;
    thread::sleep(Duration::from_millis(700));
    let attach = Attach::start_without_records(server, &["--interval", "500ms"])?;
    thread::sleep(Duration::from_secs(3));
    let more = start_load(server, &["-S", "-c", "12"])?;
    thread::sleep(Duration::from_secs(3));
    let profile = attach.stop()?.0;
    drop((few, more));
    rows.check("IOPS limit", &profile)
}

fn commits(server: &Server, volume: &Arc<Volume>, rows: &mut Verdict) -> Result<()> {
    let length = Duration::from_secs(4);
    let insert = script(
        server,
        "insert",
        "insert into pgbench_history (tid, bid, aid, delta) values (1, 1, 1, 1);\n",
    )?;
    volume.reshape(&"write=1ms flush=4ms".parse()?)?;
    rows.check("one client commits", &under_load(server, &["-c", "1", "-f", &insert], length)?)?;
    rows.check("16 clients commit", &under_load(server, &["-c", "16", "-f", &insert], length)?)?;
    let hot = script(server, "hot", "update hot set v = v + 1;\n")?;
    rows.check("one hot row", &under_load(server, &["-c", "8", "-f", &hot], length)?)
}

fn background(server: &Server, volume: &Arc<Volume>, rows: &mut Verdict) -> Result<()> {
    let length = Duration::from_secs(4);
    volume.reshape(&"write=1ms flush=1ms iops=2000".parse()?)?;
    let stop = AtomicBool::new(false);
    let profile = thread::scope(|scope| {
        let checkpoints = scope.spawn(|| -> Result<()> {
            let mut client = server.connect()?;
            while !stop.load(Ordering::Relaxed) {
                client.query("checkpoint")?;
            }
            Ok(())
        });
        let update = format!("\\set id random(1, {})\nupdate small set v = v + 1 where id = :id;\n", ROWS.1);
        let profile = script(server, "update", &update)
            .and_then(|update| under_load_of(server, &["-c", "4", "-f", &update], length));
        stop.store(true, Ordering::Relaxed);
        checkpoints.join().unwrap_or(Ok(())).and(profile)
    })?;
    rows.check("checkpoints", &profile)?;

    // A quarter of the large table to clean up, and a device that needs seconds for it.
    volume.reshape(&"".parse()?)?;
    server.psql(["-c", "update pgbench_accounts set abalance = 1 where aid % 4 = 0", "-c", "checkpoint"])?;
    volume.reshape(&"read=1ms write=1ms bytes_per_s=20000000".parse()?)?;
    let autovacuum = |on: &str| -> Result<()> {
        server.psql(["-c", &format!("alter table pgbench_accounts set (autovacuum_enabled = {on})")])?;
        Ok(())
    };
    autovacuum("on")?;
    let mut observer = server.connect()?;
    poll::until("autovacuum to begin", Duration::from_secs(20), || {
        Ok((observer.number("select count(*) from pg_stat_progress_vacuum")? > 0.0).then_some(()))
    })?;
    drop(observer);
    rows.check("autovacuum", &under_load_of(server, &["-S", "-c", "1"], length)?)?;
    autovacuum("off")?;
    server.psql(["-c", "select pg_terminate_backend(pid) from pg_stat_progress_vacuum"])?;

    // Every write waits for the device, as it does where the kernel has too many dirty pages.
    volume.reshape(&"write=1ms flush=1ms".parse()?)?;
    run(Command::new("mount").args(["-o", "remount,sync"]).arg(volume.path()))?;
    let spread = format!(
        "\\set id random(1, {})\nupdate pgbench_accounts set abalance = abalance + 1 where aid = :id;\n",
        ROWS.0
    );
    let spread = script(server, "spread", &spread)?;
    rows.check("backends write", &under_load(server, &["-c", "4", "-f", &spread], length)?)
}

/// As [`under_load`] beside other clients.
fn under_load_of(server: &Server, arguments: &[&str], length: Duration) -> Result<Profile> {
    let load = start_load(server, arguments)?;
    thread::sleep(Duration::from_millis(700));
    let profile = attach(server, length)?;
    drop(load);
    Ok(profile)
}

/// Takes the server's files out of the page cache.
fn forget(server: &Server) -> Result<()> {
    run(&mut Command::new("sync"))?;
    let mut left: Vec<PathBuf> = vec![server.data().join("base")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(entries(&path)?);
            continue;
        }
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    Ok(entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?)
}
