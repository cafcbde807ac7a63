//! The harness itself, where it could fool the tests. Needs no pgstall.

use std::time::Duration;

use anyhow::Result;
use pgstall_tests::{
    checks::{close, server_transactions},
    gate, pgbench, poll,
    profile::Profile,
    server::Server,
    sysbench,
};

#[test]
fn reads_pgbench() -> Result<()> {
    let report = "pgbench (15.18 (Debian 15.18-0+deb12u1))\n\
         transaction type: <builtin: select only>\n\
         number of transactions actually processed: 40/40\n\
         number of failed transactions: 0 (0.000%)\n\
         latency average = 0.068 ms\n\
         initial connection time = 2.353 ms\n\
         tps = 14727.540501 (without initial connection time)\n";
    let outcome = pgbench::Outcome::parse(report)?;
    assert_eq!(outcome.transactions, 40);
    assert_eq!(outcome.latency_ns as u64, 68_000);
    assert_eq!(outcome.tps as u64, 14_727);
    let timed = report.replace("40/40", "1234");
    assert_eq!(pgbench::Outcome::parse(&timed)?.transactions, 1234);
    assert!(pgbench::Outcome::parse("pgbench: error: connection failed").is_err());
    Ok(())
}

#[test]
fn reads_sysbench() -> Result<()> {
    let report = "SQL statistics:\n    queries performed:\n        read: 28000\n        total: 40000\n    \
         transactions:                        2000   (613.48 per sec.)\n    \
         queries:                             40000  (12269.66 per sec.)\n    \
         ignored errors:                      3      (0.92 per sec.)\n";
    let outcome = sysbench::Outcome::parse(report)?;
    assert_eq!((outcome.transactions, outcome.queries, outcome.ignored_errors), (2000, 40000, 3));
    assert!(sysbench::Outcome::parse("FATAL: no driver").is_err());
    Ok(())
}

#[test]
fn a_missing_number_is_an_error() -> Result<()> {
    let profile = Profile::parse(r#"{"transactions": {"count": null, "buckets": []}}"#)?;
    assert!(profile.transactions().is_err(), "null is not a count");
    assert!(profile.units().is_err(), "not there");
    assert!(profile.bucket_ns("cpu").is_err(), "not there");
    assert!(Profile::parse("no JSON").is_err());
    Ok(())
}

#[test]
fn closeness_and_deadlines() {
    assert!(close("same", 100, 100, 0.0, 0).is_ok());
    assert!(close("within the share", 102, 100, 0.02, 0).is_ok());
    assert!(close("beyond the share", 103, 100, 0.02, 0).is_err());
    assert!(close("within the slack", 95, 100, 0.0, 5).is_ok());
    let in_vain = poll::until("nothing", Duration::from_millis(10), || Ok(None::<()>));
    assert!(in_vain.is_err());
}

/// The server's counter sees exactly what a client does: one for the connection, one per transaction.
#[test]
fn the_servers_counter_is_exact() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let ((), transactions) = server_transactions(&server, || Ok(()))?;
    assert_eq!(transactions, 0, "nothing was done");
    let ((), transactions) = server_transactions(&server, || {
        let mut client = server.connect()?;
        client.query("select 1")?;
        client.query("begin")?;
        client.query("select 1; select 2")?;
        client.query("rollback")?;
        Ok(())
    })?;
    assert_eq!(transactions, 3);
    Ok(())
}
