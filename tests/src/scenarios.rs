//! Scenarios with a known answer, the same on every build of PostgreSQL.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::{
    attach::{Attach, Outcome},
    checks::{close, conservation, wait_until_blocked},
    gate, poll,
    process::run,
    profile::Profile,
    records::Record,
    server::Server,
};

/// How far a forced wait may be off, ns.
pub const TOLERANCE_NS: u64 = 5_000_000;

/// The longest unit of a backend.
pub fn longest(records: &[Record], pid: u32) -> Result<&Record> {
    let own = records.iter().filter(|record| record.pid == pid);
    own.max_by_key(|record| record.wall_ns()).with_context(|| format!("no record of {pid}"))
}

/// The bucket of the unit is `wanted_ns` long, and the profile names the event.
fn named(
    what: &str,
    profile: &Profile,
    record: &Record,
    (bucket, class, event): (&str, &str, &str),
    wanted_ns: u64,
) -> Result<()> {
    gate::note(&format!("{what}: {bucket} {:.3} ms", record.bucket_ns(bucket) as f64 / 1e6));
    close(what, record.bucket_ns(bucket), wanted_ns, 0.0, TOLERANCE_NS)?;
    let total = profile.event_total_ns(bucket, class, event)?;
    close(&format!("{what}, {class}/{event}"), total, wanted_ns, 0.0, TOLERANCE_NS)
}

fn finish(attach: Attach) -> Result<(Profile, Outcome, Vec<Record>)> {
    let (profile, outcome) = attach.stop()?;
    let records = conservation(&profile, &outcome)?;
    Ok((profile, outcome, records))
}

/// A row lock held for 200 ms: `lock`, named Lock/transactionid.
pub fn row_lock(server: &Server) -> Result<()> {
    let hold = Duration::from_millis(200);
    let mut holder = server.connect()?;
    let mut waiter = server.connect()?;
    let mut observer = server.connect()?;
    holder.query("create table if not exists locked as select 1 as id, 0 as value")?;
    let attach = Attach::start(server, &[])?;
    holder.query("begin; update locked set value = value + 1 where id = 1")?;
    let start = Instant::now();
    waiter.send("update locked set value = value + 1 where id = 1")?;
    wait_until_blocked(&mut observer, waiter.pid())?;
    thread::sleep(hold.saturating_sub(start.elapsed()));
    // 200 ms, unless this machine slept in.
    let held_ns = start.elapsed().as_nanos() as u64;
    holder.query("commit")?;
    waiter.receive()?;
    let (profile, _, records) = finish(attach)?;
    let record = longest(&records, waiter.pid())?;
    named("row lock", &profile, record, ("lock", "Lock", "transactionid"), held_ns)
}

/// `pg_sleep(0.3)`: `other_wait`, named Timeout/PgSleep.
pub fn sleep(server: &Server) -> Result<()> {
    let mut client = server.connect()?;
    let attach = Attach::start(server, &[])?;
    client.query("select pg_sleep(0.3)")?;
    let (profile, _, records) = finish(attach)?;
    let record = longest(&records, client.pid())?;
    let event = ("other_wait", "Timeout", "PgSleep");
    named("pg_sleep", &profile, record, event, 300_000_000)
}

/// 50 ms of think time inside a transaction: `client`, named Client/ClientRead.
pub fn think_time(server: &Server) -> Result<()> {
    let mut client = server.connect()?;
    let attach = Attach::start(server, &[])?;
    client.query("begin")?;
    thread::sleep(Duration::from_millis(50));
    client.query("select 1")?;
    client.query("commit")?;
    // Idle time between transactions is nobody's.
    thread::sleep(Duration::from_millis(100));
    client.query("select 2")?;
    let (profile, _, records) = finish(attach)?;
    let record = longest(&records, client.pid())?;
    let event = ("client", "Client", "ClientRead");
    named("think time", &profile, record, event, 50_000_000)?;
    anyhow::ensure!(profile.transactions()? == 2, "{} transactions of 2", profile.transactions()?);
    Ok(())
}

/// Lets go of the cached pages of the server's data files, and of nobody else's.
pub fn drop_from_page_cache(server: &Server) -> Result<()> {
    poll::until("the data files to be clean", Duration::from_secs(20), || {
        run(&mut Command::new("sync")).map(Some)
    })?;
    let mut command = Command::new("find");
    command.arg(server.data().join("base")).args([
        "-type",
        "f",
        "-exec",
        "dd",
        "if={}",
        "iflag=nocache",
        "count=0",
        "status=none",
        ";",
    ]);
    run(&mut command)?;
    Ok(())
}
