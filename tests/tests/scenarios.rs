//! Forced scenarios: each has a known answer.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    cgroup::{Group, Limit},
    checks::{close, conservation},
    gate, pgbench,
    process::{Owned, run},
    procfs::SchedStat,
    scenarios::{self, drop_from_page_cache, longest},
    server::{Plan, Server},
};

/// About half a second of arithmetic that touches no table.
const BURN: &str = "do $$ declare n int8 := 0; begin \
     for i in 1..6000000 loop n := n + i % 7; end loop; end $$";

#[test]
fn row_lock() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    scenarios::row_lock(&Server::installed()?)
}

#[test]
fn pg_sleep() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    scenarios::sleep(&Server::installed()?)
}

#[test]
fn think_time() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    scenarios::think_time(&Server::installed()?)
}

#[test]
fn cpu_burn() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut client = server.connect()?;
    let attach = Attach::start(&server, &[])?;
    let before = SchedStat::of(client.pid())?;
    client.query(BURN)?;
    let kernel = SchedStat::of(client.pid())?.since(before);
    let (profile, outcome) = attach.stop()?;
    let records = conservation(&profile, &outcome)?;
    let record = longest(&records, client.pid())?;
    let (cpu, run_queue) = (record.bucket_ns("cpu"), record.bucket_ns("run_queue"));
    gate::note(&format!(
        "CPU burn: cpu {:.1} ms, run queue {:.1} ms",
        cpu as f64 / 1e6,
        run_queue as f64 / 1e6
    ));
    close("CPU burn", cpu, kernel.cpu_ns, 0.02, 1_000_000)?;
    let rest = record.wall_ns() - cpu - run_queue;
    ensure!(rest * 100 < record.wall_ns(), "{rest} ns of a CPU burn are neither CPU nor run queue");
    Ok(())
}

/// The backend may use a tenth of a CPU: nine tenths of the time it is runnable and may not run.
#[test]
fn cpu_starved_by_a_control_group() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let group = match Group::new(&[Limit::CpuMicros(10_000)]) {
        Ok(group) => group,
        Err(error) => {
            gate::skip(&format!("{error:#}"));
            return Ok(());
        }
    };
    let server = Server::installed()?;
    let mut client = server.connect()?;
    let attach = Attach::start(&server, &[])?;
    group.add(client.pid())?;
    client.query(&BURN.replace("6000000", "2000000"))?;
    let (profile, outcome) = attach.stop()?;
    let records = conservation(&profile, &outcome)?;
    let record = longest(&records, client.pid())?;
    let share = record.bucket_ns("run_queue") as f64 / record.wall_ns() as f64;
    gate::note(&format!("starved by a control group: run queue {:.1} %", 100.0 * share));
    ensure!(share > 0.7, "only {:.1} % run queue in {record:?}", 100.0 * share);
    // The server goes first, then the group it was in.
    drop(client);
    drop(server);
    Ok(())
}

/// Three other tasks want the backend's CPU: it waits three quarters of the time, as the scheduler says too.
#[test]
fn cpu_starved_by_neighbours() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut client = server.connect()?;
    let mut hogs = Vec::new();
    for _ in 0..3 {
        // Sessions of their own, as the backend has: the scheduler shares a CPU between sessions first.
        hogs.push(Owned::spawn(
            Command::new("setsid")
                .args(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )?);
    }
    run(Command::new("taskset").args(["-p", "-c", "0"]).arg(client.pid().to_string()))?;
    let attach = Attach::start(&server, &[])?;
    let before = SchedStat::of(client.pid())?;
    client.query(BURN)?;
    let kernel = SchedStat::of(client.pid())?.since(before);
    drop(hogs);
    let (profile, outcome) = attach.stop()?;
    let records = conservation(&profile, &outcome)?;
    let record = longest(&records, client.pid())?;
    let share = record.bucket_ns("run_queue") as f64 / record.wall_ns() as f64;
    gate::note(&format!("starved by neighbours: run queue {:.1} %", 100.0 * share));
    ensure!(share > 0.6, "only {:.1} % run queue in {record:?}", 100.0 * share);
    close("run queue", record.bucket_ns("run_queue"), kernel.run_queue_ns, 0.02, 1_000_000)
}

/// A table that is neither in the server's buffers nor in the page cache.
#[test]
fn cold_table() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let server = Plan::new(&build).setting("shared_buffers", "1MB").start()?;
    pgbench::initialise(&server, 10)?;
    server.psql(["-c", "vacuum", "-c", "checkpoint"])?;
    let mut client = server.connect()?;
    // Random single reads: the kernel's read-ahead has nothing to guess.
    let sql = "select count(abalance) from generate_series(1, 3000) n, \
         lateral (select abalance from pgbench_accounts where aid = (n * 7919) % 1000000 + 1) a";
    client.query("set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off")?;
    drop_from_page_cache(&server)?;
    let attach = Attach::start(&server, &[])?;
    client.query(sql)?;
    let (profile, outcome) = attach.stop()?;
    let records = conservation(&profile, &outcome)?;
    let record = longest(&records, client.pid())?;
    let page_read = record.bucket_ns("page_read");
    let share = page_read as f64 / record.wall_ns() as f64;
    gate::note(&format!("cold table: page read {:.1} ms, {:.1} %", page_read as f64 / 1e6, 100.0 * share));
    let largest = record.buckets.iter().max_by_key(|(_, ns)| **ns).context("no buckets")?;
    ensure!(largest.0 == "page_read", "the largest bucket is {} in {record:?}", largest.0);
    let event = profile.event_total_ns("page_read", "IO", "DataFileRead")?;
    close("IO/DataFileRead", event, page_read, 0.02, 100_000)?;

    // The same query again, warm: no more page reads than the small buffer pool explains by waiting for nothing.
    let attach = Attach::start(&server, &[])?;
    client.query(sql)?;
    let (_, outcome) = attach.stop()?;
    let records = outcome.records()?;
    let warm = longest(&records, client.pid())?.bucket_ns("page_read");
    ensure!(warm * 5 < page_read, "page read {warm} ns warm, {page_read} ns cold");
    Ok(())
}
