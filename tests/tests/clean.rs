//! pgstall leaves nothing behind and touches nothing: however it ends, and whatever it measured.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Result, ensure};
use pgstall_tests::{
    attach::Attach,
    bpf::program_ids,
    checks::{conservation, server_transactions},
    gate, poll,
    server::Server,
};
use rustix::process::Signal;

/// The kernel frees programs a moment after their last reference is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// The programs loaded between `before` and now.
fn loaded_since(before: &BTreeSet<u32>) -> Result<BTreeSet<u32>> {
    Ok(program_ids()?.difference(before).copied().collect())
}

fn wait_until_unloaded(programs: &BTreeSet<u32>) -> Result<()> {
    poll::until("the kernel to free pgstall's programs", PATIENCE, || {
        let left: Vec<u32> = program_ids()?.intersection(programs).copied().collect();
        Ok(left.is_empty().then_some(()))
    })
}

#[test]
fn kill_leaves_no_program_behind() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let before = program_ids()?;
    let mut attach = Attach::start(&server, &[])?;
    let programs = loaded_since(&before)?;
    gate::note(&format!("{} programs while attached", programs.len()));
    ensure!(!programs.is_empty(), "no program was loaded: this test sees nothing");
    attach.signal(Signal::KILL)?;
    let outcome = attach.wait()?;
    ensure!(!outcome.status.success(), "killed, yet {}", outcome.status);
    wait_until_unloaded(&programs)
}

#[test]
fn a_finished_window_leaves_no_program_behind() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let before = program_ids()?;
    let attach = Attach::start(&server, &[])?;
    let programs = loaded_since(&before)?;
    attach.stop()?;
    wait_until_unloaded(&programs)
}

fn ends_with_a_result(signal: Signal) -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut client = server.connect()?;
    let mut attach = Attach::start(&server, &[])?;
    for _ in 0..10 {
        client.query("select 1")?;
    }
    attach.signal(signal)?;
    let outcome = attach.wait()?;
    let profile = outcome.profile()?;
    conservation(&profile, &outcome)?;
    ensure!(profile.transactions()? == 10, "{} transactions of 10", profile.transactions()?);
    ensure!(profile.is_partial()?, "ten minutes were asked for and not given");
    Ok(())
}

#[test]
fn interrupt_prints_the_result() -> Result<()> {
    ends_with_a_result(Signal::INT)
}

#[test]
fn terminate_prints_the_result() -> Result<()> {
    ends_with_a_result(Signal::TERM)
}

#[test]
fn hang_up_prints_the_result() -> Result<()> {
    ends_with_a_result(Signal::HUP)
}

/// A transaction that was open when pgstall came is not counted, one that is open when it goes neither.
#[test]
fn transactions_cut_by_the_window_are_not_counted() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut early = server.connect()?;
    let mut whole = server.connect()?;
    let mut late = server.connect()?;
    early.query("begin")?;
    early.query("select 1")?;
    let attach = Attach::start(&server, &[])?;
    early.query("select 2")?;
    early.query("commit")?;
    whole.query("begin")?;
    whole.query("commit")?;
    early.query("select 3")?;
    late.query("begin")?;
    late.query("select 4")?;
    let (profile, outcome) = attach.stop()?;
    late.query("commit")?;
    let records = conservation(&profile, &outcome)?;
    let counted = |pid: u32| records.iter().filter(|record| record.pid == pid).count();
    assert_eq!(counted(early.pid()), 1, "only what began and ended in the window: {records:?}");
    assert_eq!(counted(whole.pid()), 1, "{records:?}");
    assert_eq!(counted(late.pid()), 0, "{records:?}");
    Ok(())
}

/// No connection, no transaction, no file of the server's touched.
#[test]
fn attaching_does_nothing_to_the_server() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let files = || -> Result<Vec<_>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(server.data())? {
            names.push(entry?.file_name());
        }
        names.sort();
        Ok(names)
    };
    let before = files()?;
    let ((), transactions) = server_transactions(&server, || {
        let (profile, _) = Attach::start(&server, &[])?.stop()?;
        ensure!(profile.connections()? == 0, "a connection was made while nobody did");
        Ok(())
    })?;
    assert_eq!(transactions, 0, "transactions of pgstall's own");
    assert_eq!(before, files()?, "the data directory");
    Ok(())
}

/// The window asked for is the window measured, and then it is not partial.
#[test]
fn a_whole_window_is_not_partial() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut client = server.connect()?;
    let attach = Attach::start_for(&server, "2s", &[])?;
    client.query("select 1")?;
    let outcome = attach.wait()?;
    let profile = outcome.profile()?;
    ensure!(!profile.is_partial()?, "a whole window is called partial");
    let length = profile.number("/window/duration_ns")?;
    ensure!((1_900_000_000..2_500_000_000).contains(&length), "2 s asked, {length} ns given");
    Ok(())
}
