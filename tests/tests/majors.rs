//! The same answers on every supported major version, on a stripped build and on builds linked to a fixed address.
//!
//! The installed build's `pgbench` drives all of them. A build that cannot be fetched is skipped with the reason.

use anyhow::Result;
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    checks::{conservation, server_transactions},
    fetch::{SOURCES, Source, fetch},
    gate,
    pgbench::{self, bench},
    scenarios,
    server::{Plan, Server},
};

fn check(name: &str) -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let source = SOURCES.iter().find(|source| source.name == name);
    let build = match source.map(|source: &Source| fetch(*source)) {
        None => panic!("no build is called {name}"),
        Some(Ok(build)) => build,
        Some(Err(error)) => {
            gate::skip(&format!("{name}: {error:#}"));
            return Ok(());
        }
    };
    gate::note(&build.label);
    let server = Plan::new(&build).start()?;
    counts(&server, &build)?;
    scenarios::row_lock(&server)?;
    scenarios::sleep(&server)?;
    scenarios::think_time(&server)
}

fn counts(server: &Server, build: &Build) -> Result<()> {
    const CLIENTS: u64 = 4;
    const RUNS: u64 = 200;
    // pgbench's look-ups, see counts.rs.
    const LOOK_UPS: u64 = 2;

    pgbench::initialise(server, 1)?;
    let arguments = ["-n", "-N", "-c4", "-j2", "-t200"];
    let work = || {
        let attach = Attach::start(server, &[])?;
        let driver = bench(server, arguments)?;
        let (profile, outcome) = attach.stop()?;
        Ok((driver, profile, outcome))
    };
    // PostgreSQL 14's counters arrive late, by way of a collector process.
    let (driver, profile, outcome) = if build.major >= 15 {
        let (result, by_server) = server_transactions(server, work)?;
        assert_eq!(by_server, CLIENTS * RUNS + LOOK_UPS + CLIENTS + 1, "the server's own counter");
        result
    } else {
        work()?
    };
    assert_eq!(driver.transactions, CLIENTS * RUNS);
    assert_eq!(profile.transactions()?, CLIENTS * RUNS + LOOK_UPS, "transactions");
    assert_eq!(profile.connections()?, CLIENTS + 1, "connections");
    conservation(&profile, &outcome)?;
    assert_eq!(profile.number("/postgres/major")?, u64::from(build.major));
    Ok(())
}

#[test]
fn postgresql_14() -> Result<()> {
    check("pg14")
}

#[test]
fn postgresql_16() -> Result<()> {
    check("pg16")
}

#[test]
fn postgresql_16_fixed_address() -> Result<()> {
    check("pg16-fixed-address")
}

#[test]
fn postgresql_17_stripped() -> Result<()> {
    check("pg17-stripped")
}

#[test]
fn postgresql_18() -> Result<()> {
    check("pg18")
}

#[test]
fn postgresql_18_fixed_address() -> Result<()> {
    check("pg18-fixed-address")
}

/// The names promise something about the files: check it, so that a package that changes does not hollow the tests out.
#[test]
fn the_builds_are_what_they_are_called() -> Result<()> {
    for source in SOURCES {
        let build = match fetch(*source) {
            Ok(build) => build,
            Err(error) => {
                gate::skip(&format!("{}: {error:#}", source.name));
                continue;
            }
        };
        let elf = std::fs::read(build.program("postgres"))?;
        // ELF header: e_type at byte 16; 2 = fixed address, 3 = position independent.
        let wanted = if source.name.ends_with("fixed-address") { 2 } else { 3 };
        assert_eq!(elf.get(16), Some(&wanted), "{}", build.label);
        let has_symbols = elf.windows(8).any(|window| window == b".symtab\0");
        assert_eq!(has_symbols, !source.strip, "{}", build.label);
    }
    Ok(())
}
