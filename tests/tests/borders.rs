//! Every border signal: the exact ones count alike, the approximate one says so.

use anyhow::{Result, ensure};
use pgstall_tests::{
    attach::Attach,
    checks::{conservation, nothing_lost},
    gate,
    pgbench::{self, bench},
    profile::Profile,
    server::Server,
};

const RUNS: u64 = 4 * 500;

/// pgbench's look-ups, see counts.rs.
const LOOK_UPS: u64 = 2;

fn measure(server: &Server, script: &str, arguments: &[&str]) -> Result<Profile> {
    let attach = Attach::start(server, arguments)?;
    let driver = bench(server, ["-n", "-c4", "-j2", "-t500", script])?;
    assert_eq!(driver.transactions, RUNS);
    let (profile, outcome) = attach.stop()?;
    conservation(&profile, &outcome)?;
    Ok(profile)
}

fn is_exact(profile: &Profile) -> Result<bool> {
    Ok(profile.at("/capture/borders/exact")? == true)
}

fn check_exact(signal: &str) -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    pgbench::initialise(&server, 4)?;
    for script in ["-bselect-only", "-btpcb-like"] {
        let profile = measure(&server, script, &["--border-signal", signal])?;
        assert_eq!(profile.transactions()?, RUNS + LOOK_UPS, "{signal} {script}");
        let named = profile.at("/capture/borders/signal")?.to_string();
        ensure!(named.contains(signal), "asked for {signal}, the profile names {named}");
        ensure!(is_exact(&profile)?, "{signal} is called approximate");
    }
    Ok(())
}

#[test]
fn send_tracepoint() -> Result<()> {
    check_exact("sock_send_length")
}

#[test]
fn system_call_entry() -> Result<()> {
    check_exact("sys_enter")
}

/// Borders from the scheduler merge requests that leave no sleep between them, and never invent one. With think time
/// there is a sleep, and they are right.
#[test]
fn scheduler_only() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    pgbench::initialise(&server, 4)?;
    for (what, rate, least) in [("as fast as can be", "1000000", 0.0), ("paced", "400", 0.95)] {
        let attach = Attach::start(&server, &["--borders", "sched"])?;
        let driver = bench(&server, ["-n", "-S", "-c4", "-j2", "-t200", "-R", rate])?;
        let (profile, _) = attach.stop()?;
        nothing_lost(&profile)?;
        ensure!(!is_exact(&profile)?, "borders from the scheduler are called exact");
        let requests = driver.transactions + LOOK_UPS;
        let (units, transactions) = (profile.units()?, profile.transactions()?);
        gate::note(&format!(
            "--borders sched, {what}: {units} units, {transactions} transactions of {requests}"
        ));
        ensure!(units <= transactions && transactions <= requests, "{what}: invented some");
        ensure!(units as f64 >= least * requests as f64, "{what}: {units} units of {requests}");
    }
    Ok(())
}
