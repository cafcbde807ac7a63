//! What a person and a program read: the text report, the files, the filters, the statements.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::{Attach, Outcome, pgstall},
    checks::close,
    gate,
    pgbench::{self, Running},
    profile::Profile,
    server::Server,
};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);

/// Widest line of the text report.
const COLUMNS: usize = 100;

/// A server with a load on it for the length of the closure.
fn under_load<T>(work: impl FnOnce(&Server) -> Result<T>) -> Result<T> {
    let server = Server::installed()?;
    pgbench::initialise(&server, 4)?;
    let _load = Running::start(&server, ["-n", "-c4", "-j2", "-T60"])?;
    work(&server)
}

fn attach(server: &Server, arguments: &[&str]) -> Result<Outcome> {
    let pid = server.pid().to_string();
    let all = [&["attach", "--pid", &pid, "--duration", "3s"], arguments].concat();
    let outcome = pgstall(server.directory(), &all, LIMIT)?;
    ensure!(outcome.status.success(), "{}: {}", outcome.status, outcome.stderr);
    Ok(outcome)
}

/// The text report fits, leads with the budget, and its file is a profile that adds up.
#[test]
fn text_and_file() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    under_load(|server| {
        let file = server.directory().join("profile.json");
        let outcome = attach(server, &["-o", &file.to_string_lossy()])?;
        let text = &outcome.stdout;
        for line in text.lines() {
            ensure!(line.chars().count() <= COLUMNS, "a line of {}: {line}", line.chars().count());
        }
        ensure!(!text.contains('\u{1b}'), "colours in a file");
        for bucket in ["page_read", "wal_fsync", "lock", "cpu", "run_queue", "client"] {
            ensure!(text.contains(bucket), "no {bucket} in the report:\n{text}");
        }
        let profile = Profile::parse(&fs::read_to_string(&file)?)?;
        ensure!(profile.at("/schema")? == "pgstall.profile/1");
        let buckets = profile.buckets()?;
        let (sum, rounding) = (buckets.values().sum(), buckets.len() as u64);
        close("Σ bucket means", sum, profile.mean_ns()?, 0.0, rounding)?;
        ensure!(!profile.is_partial()?, "3 s were asked for and given");
        Ok(())
    })
}

/// One JSON document per interval; together they count what one window counts.
#[test]
fn intervals_as_json_lines() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    under_load(|server| {
        let outcome = attach(server, &["--interval", "1", "--format", "jsonl"])?;
        let lines: Vec<Value> = outcome.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        ensure!((3..=5).contains(&lines.len()), "{} lines in 3 s", lines.len());
        gate::note(&format!("an interval's line has {} bytes", lines[0].to_string().len()));
        Ok(())
    })
}

#[test]
fn filters() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut client = server.connect()?;

    let attach = Attach::start(&server, &["--min-latency", "50ms"])?;
    for sql in ["select 1", "select pg_sleep(0.1)", "select 2"] {
        client.query(sql)?;
    }
    let (profile, _) = attach.stop()?;
    ensure!(profile.transactions()? == 1, "{} of 1 transaction above 50 ms", profile.transactions()?);

    for (option, value, wanted) in [
        ("--database", "postgres", 1),
        ("--database", "template1", 0),
        ("--user", "postgres", 1),
        ("--user", "nobody_of_that_name", 0),
    ] {
        let attach = Attach::start(&server, &[option, value]);
        // A name the server does not know may be refused as well.
        let Ok(attach) = attach else { continue };
        client.query("select 1")?;
        let outcome = attach.interrupt()?;
        let count = outcome.profile().and_then(|profile| profile.transactions());
        match count {
            Ok(count) => ensure!(count == wanted, "{option} {value}: {count} of {wanted}"),
            Err(error) => ensure!(wanted == 0, "{option} {value}: {error:#}"),
        }
    }
    Ok(())
}

/// Statements that differ only in constants are one line without constants, unless they are asked for.
#[test]
fn statements_are_normalised() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut client = server.connect()?;
    let mut queries = |arguments: &[&str]| -> Result<Vec<String>> {
        let attach = Attach::start(&server, arguments)?;
        for number in 0..20 {
            client.query(&format!("select 'secret{number}', {number} + 48151623"))?;
        }
        let (profile, _) = attach.stop()?;
        let texts = profile.statements()?.iter().map(|statement| {
            Ok(statement["query"].as_str().context("a statement without a query")?.to_owned())
        });
        texts.collect()
    };
    let normalised = queries(&[])?;
    ensure!(normalised.len() == 1, "{normalised:?}");
    ensure!(!normalised[0].contains("secret") && !normalised[0].contains("48151623"), "{normalised:?}");
    let literal = queries(&["--show-literals", "--statements", "30"])?;
    ensure!(literal.iter().any(|text| text.contains("secret7")), "{literal:?}");
    Ok(())
}

/// Every precondition with what was found, what is needed and the fix; here all of them hold.
#[test]
fn doctor() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let text = pgstall(server.directory(), &["doctor"], LIMIT)?;
    ensure!(text.status.success(), "{}: {}{}", text.status, text.stdout, text.stderr);
    ensure!(text.stdout.contains(&server.pid().to_string()), "the server is not in\n{}", text.stdout);
    let json = pgstall(server.directory(), &["doctor", "--format", "json"], LIMIT)?;
    let document: Value = serde_json::from_str(&json.stdout)?;
    ensure!(document.to_string().contains("BTF"), "{document}");
    Ok(())
}
