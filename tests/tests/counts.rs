//! Nothing is missed: the transactions counted are pgbench's own plus a constant that has a name, and they add up.
//!
//! What a pgbench run does besides the transactions it reports:
//! - every connection has a start-up (authentication, database look-up), counted apart as a connection; pgbench makes
//!   one before those of its clients;
//! - that first connection looks up the size of the built-in scripts' tables: two transactions;
//! - with `-M prepared` every SQL command of the script is parsed once per connection, a request of its own. pgbench
//!   from 15 on parses a command when it comes to it: then only the first one is outside a transaction block and so a
//!   transaction of its own; older ones parse the whole script first.

use anyhow::Result;
use pgstall_tests::{
    attach::Attach,
    checks::{conservation, server_transactions},
    gate,
    pgbench::{self, bench},
    records::Record,
    server::Server,
};

/// A built-in script of pgbench and its number of SQL commands.
struct Script {
    flag: &'static str,
    commands: u64,
}

const SCRIPTS: [Script; 3] = [
    Script { flag: "-bselect-only", commands: 1 },
    Script { flag: "-bsimple-update", commands: 5 },
    Script { flag: "-btpcb-like", commands: 7 },
];

/// pgbench's first look-ups: rows of `pgbench_branches`, and whether `pgbench_accounts` is partitioned.
const LOOK_UPS: u64 = 2;

/// How much of its own send a backend may still have before it when the client, woken inside that send, takes its time:
/// the border is stamped once the send is over. pgbench's mean is rounded to the µs besides.
const SEND_TAIL_NS: f64 = 5e3;

/// Script runs per client.
const RUNS: u64 = 500;

/// Transactions per client that only parse: measured with the server's own counter, and one of the two known numbers.
fn parses(server: &Server, script: &Script, protocol: &str) -> Result<u64> {
    let arguments = ["-n", "-M", protocol, "-c1", "-t1", script.flag];
    let (driver, by_server) = server_transactions(server, || bench(server, arguments))?;
    let connections = 2;
    let parses = by_server - driver.transactions - LOOK_UPS - connections;
    let known = if protocol == "prepared" { [1, script.commands] } else { [0, 0] };
    assert!(known.contains(&parses), "{} -M {protocol}: {parses} parses", script.flag);
    Ok(parses)
}

fn check(server: &Server, script: &Script, protocol: &str, clients: u64) -> Result<()> {
    let what = format!("pgbench {} -M {protocol} -c {clients}", script.flag);
    let (count, runs) = (clients.to_string(), RUNS.to_string());
    // -P makes pgbench time every transaction rather than divide the run's length.
    let arguments = ["-n", "-M", protocol, "-c", &count, "-j2", "-t", &runs, "-P600", script.flag];
    let ((driver, profile, outcome), by_server) = server_transactions(server, || {
        let attach = Attach::start(server, &[])?;
        let driver = bench(server, arguments)?;
        let (profile, outcome) = attach.stop()?;
        Ok((driver, profile, outcome))
    })?;

    let connections = clients + 1;
    let parses = clients * parses(server, script, protocol)?;
    let expected = driver.transactions + LOOK_UPS + parses;
    assert_eq!(driver.transactions, clients * RUNS, "{what}: pgbench itself");
    assert_eq!(by_server, expected + connections, "{what}: the server's own counter");
    assert_eq!(profile.transactions()?, expected, "{what}: transactions");
    assert_eq!(profile.units()?, expected, "{what}: every request is one transaction");
    assert_eq!(profile.connections()?, connections, "{what}: connections");
    let records = conservation(&profile, &outcome)?;

    // The means differ by what lies between the two programs: the socket, and waking each other up.
    let transport_ns = driver.latency_ns - mean_of_runs(&records, clients);
    gate::note(&format!(
        "{what}: {} + {LOOK_UPS} + {parses} transactions, {connections} connections, mean {:.1} µs, transport {:.1} µs",
        driver.transactions,
        driver.latency_ns / 1e3,
        transport_ns / 1e3,
    ));
    if clients == 1 {
        assert!(transport_ns > -SEND_TAIL_NS, "{what}: the client cannot be faster than the server");
        assert!(transport_ns < 1e6, "{what}: {transport_ns} ns is not what a local socket costs");
    }
    Ok(())
}

/// Mean length of the script runs, ns: each client's last [`RUNS`] records, which leaves out what came first.
fn mean_of_runs(records: &[Record], clients: u64) -> f64 {
    let mut pids: Vec<u32> = records.iter().map(|record| record.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let mut sum = 0;
    for pid in pids {
        let mut own: Vec<&Record> = records.iter().filter(|record| record.pid == pid).collect();
        own.sort_by_key(|record| record.end_ns);
        if own.len() as u64 >= RUNS {
            let runs = own.iter().rev().take(RUNS as usize);
            sum += runs.map(|record| record.wall_ns()).sum::<u64>();
        }
    }
    sum as f64 / (clients * RUNS) as f64
}

fn check_protocol(protocol: &str) -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    pgbench::initialise(&server, 8)?;
    for clients in [1, 8] {
        for script in &SCRIPTS {
            check(&server, script, protocol, clients)?;
        }
    }
    Ok(())
}

#[test]
fn simple_protocol() -> Result<()> {
    check_protocol("simple")
}

#[test]
fn extended_protocol() -> Result<()> {
    check_protocol("extended")
}

#[test]
fn prepared_statements() -> Result<()> {
    check_protocol("prepared")
}

/// A run that is measured by time rather than by count, over TCP, with connections that come and go.
#[test]
fn a_connection_per_transaction() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    pgbench::initialise(&server, 1)?;
    let attach = Attach::start(&server, &[])?;
    let driver = bench(&server, ["-n", "-C", "-S", "-c2", "-j2", "-T3", "-h127.0.0.1"])?;
    let (profile, outcome) = attach.stop()?;
    conservation(&profile, &outcome)?;
    gate::note(&format!("pgbench -C: {} transactions", driver.transactions));
    assert_eq!(profile.transactions()?, driver.transactions + LOOK_UPS);
    // A client that is out of time may still have made a connection it does not use.
    let unused = profile.connections()? - (driver.transactions + 1);
    assert!(unused <= 2, "{unused} connections without a transaction");
    Ok(())
}

/// The formula itself, against the server's own counter: needs no pgstall.
#[test]
fn the_constants_are_right() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    pgbench::initialise(&server, 1)?;
    for script in &SCRIPTS {
        for (protocol, clients) in [("simple", 1), ("extended", 2), ("prepared", 2)] {
            let count = format!("-c{clients}");
            let arguments = ["-n", "-M", protocol, &count, "-t20", script.flag];
            let (driver, by_server) = server_transactions(&server, || bench(&server, arguments))?;
            let parses = clients * parses(&server, script, protocol)?;
            let expected = driver.transactions + LOOK_UPS + parses + clients + 1;
            assert_eq!(by_server, expected, "{} {protocol}", script.flag);
        }
    }
    Ok(())
}
