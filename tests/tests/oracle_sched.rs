//! CPU and run-queue time of each backend are what the kernel's own scheduler account says.
//!
//! `/proc/PID/schedstat` is read while the backends sleep, just after attaching and again before detaching; a sleeping
//! backend adds to neither side, so the two accounts cover the same load however long attaching and detaching take.

use std::time::Duration;

use anyhow::Result;
use pgstall_tests::{
    attach::Attach, checks::close, gate, load::Load, pgbench, procfs::SchedStat, server::Server,
};

/// Allowed difference.
const SHARE: f64 = 0.02;

/// What the kernel's account may be off per switch, ns. It stamps a switch with the run queue's clock as it was last
/// updated: at the wake-up that led to the switch, if a wake-up did. Against a tracer of its own, 11,000 preemptions by
/// waking neighbours put 120 ms of CPU time into the kernel's run-queue account (Linux 6.18, a guest).
const SLACK_PER_SWITCH_NS: u64 = 15_000;

/// About ten milliseconds of CPU time, so that switches are few.
fn compute(random: u64) -> Vec<String> {
    vec![format!("select sum(n) from generate_series(1, {}) n", 60_000 + random % 1000)]
}

fn update(random: u64) -> Vec<String> {
    let first = random % 99_000 + 1;
    let last = first + 900;
    vec![
        "begin".into(),
        format!("update pgbench_accounts set abalance = abalance + 1 where aid between {first} and {last}"),
        "rollback".into(),
    ]
}

/// Time the hypervisor gave to others since boot, all CPUs, ns.
fn steal_ns() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ticks = stat.split_ascii_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    // A tick is 10 ms in /proc on every architecture Linux still has.
    ticks.map(|ticks| ticks * 10_000_000).ok_or_else(|| anyhow::anyhow!("/proc/stat has no steal time"))
}

fn check(connections: usize, script: fn(u64) -> Vec<String>) -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    pgbench::initialise(&server, 1)?;
    let mut load = Load::connect(&server, connections, script)?;
    let pids = load.pids();
    let read = || pids.iter().map(|pid| SchedStat::of(*pid)).collect::<Result<Vec<_>>>();

    let attach = Attach::start_without_records(&server, &["--per-backend"])?;
    let (before, stolen_before) = (read()?, steal_ns()?);
    load.run(Duration::from_secs(8), script)?;
    let after = read()?;
    // The kernel takes time stolen by the hypervisor out of a task's CPU time, as far as it knows of it; the clock does not.
    let stolen = steal_ns()? - stolen_before;
    let (profile, _) = attach.stop()?;

    for ((pid, before), after) in pids.iter().zip(before).zip(after) {
        let kernel = after.since(before);
        let cpu = profile.process_ns(*pid, "cpu")?;
        let run_queue = profile.queued_ns(*pid)?;
        gate::note(&format!(
            "{connections} clients, pid {pid}: cpu {:.2} ms ({:+.2} %), run queue {:.2} ms ({:+.2} %), {} switches",
            cpu as f64 / 1e6,
            percent(cpu, kernel.cpu_ns),
            run_queue as f64 / 1e6,
            percent(run_queue, kernel.run_queue_ns),
            kernel.switches,
        ));
        let slack = kernel.switches * SLACK_PER_SWITCH_NS;
        close(&format!("CPU of {pid}"), cpu, kernel.cpu_ns, SHARE, slack + stolen)?;
        close(&format!("run queue of {pid}"), run_queue, kernel.run_queue_ns, SHARE, slack)?;
    }
    Ok(())
}

fn percent(value: u64, wanted: u64) -> f64 {
    100.0 * (value as f64 - wanted as f64) / wanted as f64
}

#[test]
fn one_backend_alone() -> Result<()> {
    check(1, compute)
}

#[test]
fn more_backends_than_cpus() -> Result<()> {
    check(8, compute)
}

#[test]
fn backends_that_write() -> Result<()> {
    check(8, update)
}
