//! Requests that hold several transactions: each is counted for what it is.
//!
//! The oracle is the server's own counter of commits and rollbacks; a unit is one request, from idle to idle.

use std::fs;

use anyhow::Result;
use pgstall_tests::{
    attach::Attach,
    checks::{conservation, server_transactions},
    client::{message, text},
    gate,
    pgbench::bench,
    profile::Profile,
    server::Server,
};

/// What a piece of work is expected to be.
struct Expected {
    transactions: u64,
    units: u64,
    connections: u64,
}

/// Does the work under an attach; checks the profile and the server's counter against what is expected.
fn check(server: &Server, what: &str, expected: Expected, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let (profile, by_server) = server_transactions(server, || {
        let attach = Attach::start(server, &[])?;
        work()?;
        let (profile, outcome): (Profile, _) = attach.stop()?;
        conservation(&profile, &outcome)?;
        Ok(profile)
    })?;
    let Expected { transactions, units, connections } = expected;
    gate::note(&format!(
        "{what}: {} transactions in {} units, {} connections; the server says {by_server}",
        profile.transactions()?,
        profile.units()?,
        profile.connections()?,
    ));
    assert_eq!(by_server, transactions + connections, "{what}: the server's own counter");
    assert_eq!(profile.transactions()?, transactions, "{what}: transactions");
    assert_eq!(profile.units()?, units, "{what}: units");
    assert_eq!(profile.connections()?, connections, "{what}: connections");
    Ok(())
}

#[test]
fn pipeline_of_two_transactions() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let script = server.directory().join("pipeline.sql");
    fs::write(&script, "\\startpipeline\nbegin;\nselect 1;\nend;\nbegin;\nselect 2;\nend;\n\\endpipeline\n")?;
    let script = script.to_string_lossy().into_owned();
    // 4 clients × 50 runs of one request that holds two transactions.
    let expected = Expected { transactions: 400, units: 200, connections: 5 };
    check(&server, "pipeline", expected, || {
        let driver = bench(&server, ["-n", "-Mextended", "-c4", "-j2", "-t50", "-f", &script])?;
        assert_eq!(driver.transactions, 200);
        Ok(())
    })
}

#[test]
fn several_statements_in_one_message() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let sql = "begin; select 1; commit; begin; select 2; commit";
    let expected = Expected { transactions: 2, units: 1, connections: 1 };
    check(&server, "psql -c with two transactions", expected, || server.psql(["-c", sql]).map(drop))?;
    // Without BEGIN the whole message is one transaction.
    let expected = Expected { transactions: 1, units: 1, connections: 1 };
    check(&server, "psql -c with one implicit transaction", expected, || {
        server.psql(["-c", "select 1; select 2; select 3"]).map(drop)
    })
}

#[test]
fn procedure_that_commits() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    server.psql(["-c", "create table numbers (n int)"])?;
    let sql = "do $$ begin for i in 1..10 loop \
         insert into numbers values (i); commit; end loop; end $$";
    // Every COMMIT begins the next transaction at once: the last one is the eleventh.
    let expected = Expected { transactions: 11, units: 1, connections: 1 };
    check(&server, "ten commits in a block", expected, || server.psql(["-c", sql]).map(drop))
}

#[test]
fn several_requests_in_one_packet() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let expected = Expected { transactions: 3, units: 3, connections: 1 };
    check(&server, "three query messages in one packet", expected, || {
        let mut client = server.connect()?;
        let mut packet = Vec::new();
        for sql in ["select 1", "select 2", "select 3"] {
            packet.extend(message(b'Q', &text(sql))?);
        }
        client.send_raw(&packet)?;
        for _ in 0..3 {
            client.receive()?;
        }
        Ok(())
    })
}

#[test]
fn failures_are_transactions() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let expected = Expected { transactions: 3, units: 3, connections: 1 };
    check(&server, "an error, a failed block, a rollback", expected, || {
        let mut client = server.connect()?;
        assert!(client.query("select 1/0").is_err());
        client.query("begin")?;
        assert!(client.query("select 1/0").is_err());
        assert!(client.query("select 1").is_err(), "the block is aborted");
        client.query("commit")?;
        client.query("begin")?;
        client.query("rollback")?;
        Ok(())
    })
}

#[test]
fn large_answers_count_once() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    // 10 MB: far more than one send.
    let sql = "select repeat('x', 1000) from generate_series(1, 10000)";
    let expected = Expected { transactions: 5, units: 5, connections: 1 };
    check(&server, "answers of many sends", expected, || {
        let mut client = server.connect()?;
        for _ in 0..5 {
            assert_eq!(client.query(sql)?.len(), 10_000);
        }
        Ok(())
    })
}
