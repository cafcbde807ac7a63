//! Another load generator: sysbench's transactions are counted as sysbench counts them.
//!
//! What its connections do besides: each thread prepares its statements before the run, one request per statement
//! (and, outside a transaction block, one transaction each).

use anyhow::{Context as _, Result};
use pgstall_tests::{
    attach::Attach,
    checks::{conservation, server_transactions},
    gate,
    server::Server,
    sysbench::{Outcome, is_installed, sysbench},
};

/// Threads of sysbench, each one connection.
const THREADS: u64 = 8;

/// Most lines the statements of one workload may take: it has ten shapes of statement, begin and commit included.
const STATEMENTS: usize = 12;

/// `prepared`: statements each thread prepares first.
fn check(workload: &str, prepared: u64) -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    if !is_installed() {
        gate::skip("sysbench is not installed: run `cargo xtask setup`");
        return Ok(());
    }
    let server = Server::installed()?;
    let threads = format!("--threads={THREADS}");
    // One table, so that the statements' shapes do not multiply; few enough collisions not to roll back.
    let tables = ["--tables=1", "--table-size=20000", "--rand-type=uniform"];
    sysbench(&server, workload, &[&tables[..], &["prepare"]].concat())?;
    let run = [&tables[..], &[&threads, "--time=0", "--events=4000", "run"]].concat();
    let ((driver, profile, outcome), by_server) = server_transactions(&server, || {
        let attach = Attach::start(&server, &["--statements", "50"])?;
        let driver = Outcome::parse(&sysbench(&server, workload, &run)?)?;
        let (profile, outcome) = attach.stop()?;
        Ok((driver, profile, outcome))
    })?;
    conservation(&profile, &outcome)?;

    // A transaction sysbench gives up on, for a deadlock, is one of the server's all the same.
    let expected = driver.transactions + driver.ignored_errors + THREADS * prepared;
    gate::note(&format!(
        "{workload}: {} transactions and {} given up by sysbench, {THREADS} × {prepared} prepared; \
         {} by pgstall, {by_server} by the server with {} connections",
        driver.transactions,
        driver.ignored_errors,
        profile.transactions()?,
        profile.connections()?,
    ));
    assert_eq!(by_server, expected + THREADS, "{workload}: the server's own counter");
    assert_eq!(profile.connections()?, THREADS, "{workload}: connections");
    assert_eq!(profile.transactions()?, expected, "{workload}: transactions");

    let statements = profile.statements()?;
    assert!(
        !statements.is_empty() && statements.len() <= STATEMENTS,
        "{workload}: {} statements",
        statements.len()
    );
    let mut calls = 0;
    for statement in statements {
        let text = statement["query"].as_str().context("a statement without a query")?;
        assert!(!text.contains("20000"), "{workload}: a literal in {text}");
        calls += statement["calls"].as_u64().context("a statement without calls")?;
    }
    assert!(calls > 0, "{workload}: no calls in {statements:?}");
    Ok(())
}

#[test]
fn read_write() -> Result<()> {
    check("oltp_read_write", 11)
}

#[test]
fn update_index() -> Result<()> {
    check("oltp_update_index", 1)
}
