//! Checks several test files share: what must hold of every profile, on every server.

use anyhow::{Result, ensure};

use crate::{
    attach::Outcome, client::Client, poll, procfs, profile::Profile, records::Record, server::Server,
};

use std::time::Duration;

/// Fails unless `value` lies within `share` (0.02 = 2 %) or `slack` of `wanted`.
pub fn close(what: &str, value: u64, wanted: u64, share: f64, slack: u64) -> Result<()> {
    let allowed = (wanted as f64 * share) as u64 + slack;
    let apart = value.abs_diff(wanted);
    ensure!(
        apart <= allowed,
        "{what}: {value} is {apart} away from {wanted}; allowed are {allowed} ({:.2} % of it)",
        100.0 * apart as f64 / wanted as f64
    );
    Ok(())
}

/// The budget adds up: in every record to the nanosecond, in the means within rounding; the records are all the units,
/// and nothing was lost.
pub fn conservation(profile: &Profile, outcome: &Outcome) -> Result<Vec<Record>> {
    let records = outcome.records()?;
    for record in &records {
        let sum: u64 = record.buckets.values().sum();
        ensure!(sum == record.wall_ns(), "Σ buckets is {sum} ns of {} in {record:?}", record.wall_ns());
        ensure!(record.transactions > 0, "a unit without a transaction: {record:?}");
    }
    nothing_lost(profile)?;
    let units = profile.units()?;
    ensure!(records.len() as u64 == units, "{} records of {units} units", records.len());
    let in_records: u64 = records.iter().map(|record| record.transactions).sum();
    let transactions = profile.transactions()?;
    ensure!(in_records == transactions, "{in_records} transactions in the records of {transactions}");

    let mean = profile.mean_ns()?;
    let buckets = profile.buckets()?;
    let sum: u64 = buckets.values().sum();
    // Every mean is rounded by itself.
    let rounding = buckets.len() as u64;
    ensure!(sum.abs_diff(mean) <= rounding, "Σ bucket means is {sum} ns, the mean {mean}: {buckets:?}");
    Ok(records)
}

/// No loss that touches a number. A send in the idle state without a transaction is none, nor is a backend that left
/// in mid-transaction, nor a transaction begun before the attach, nor a switch-in or a wake-up whose instant the kernel kept elsewhere.
pub fn nothing_lost(profile: &Profile) -> Result<()> {
    let mut losses = profile.losses()?;
    for harmless in ["idle_send", "ended_in_transaction", "switch_in_unseen", "wake_unseen", "began_unseen"] {
        losses.remove(harmless);
    }
    ensure!(losses.is_empty(), "lost: {losses:?}");
    Ok(())
}

/// Transactions by the server's own counter, `pg_stat_database`, over a piece of work.
///
/// The observer's own connections count too; how much is measured first. Connections made by the work count one
/// transaction each for their start-up.
pub fn server_transactions<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
    let first = look(server)?;
    let second = look(server)?;
    let result = work()?;
    let third = look(server)?;
    Ok((result, third - second - (second - first)))
}

fn look(server: &Server) -> Result<u64> {
    // A backend hands in its counts when it leaves: wait for those that are leaving.
    wait_for_clients_to_leave(server, 0)?;
    let mut client = server.connect()?;
    let pid = client.pid();
    let count = client.number(
        "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()",
    )?;
    drop(client);
    wait_for_exit(server, pid)?;
    Ok(count as u64)
}

fn wait_for_exit(server: &Server, pid: u32) -> Result<()> {
    poll::until("the end of a backend", Duration::from_secs(10), || {
        Ok((!procfs::children(server.pid())?.contains(&pid)).then_some(()))
    })
}

/// Waits until at most `left` client backends (without the one that asks) are connected.
pub fn wait_for_clients_to_leave(server: &Server, left: u64) -> Result<()> {
    let background = server.background_pids()?;
    poll::until("the clients to leave", Duration::from_secs(10), || {
        let children = procfs::children(server.pid())?;
        let clients = children.iter().filter(|pid| !background.contains(pid)).count() as u64;
        Ok((clients <= left).then_some(()))
    })
}

/// Waits until the backend waits for a lock.
pub fn wait_until_blocked(observer: &mut Client, pid: u32) -> Result<()> {
    let sql = format!("select count(*) from pg_stat_activity where pid = {pid} and wait_event_type = 'Lock'");
    poll::until("a backend to wait for a lock", Duration::from_secs(10), || {
        Ok((observer.number(&sql)? > 0.0).then_some(()))
    })
}
