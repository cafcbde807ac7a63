//! Lock waits and their causes: what the holder did while others waited for it, in scenarios with a known answer.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    cgroup::{Device, Limit},
    checks::wait_until_blocked,
    client::Client,
    environment::Scratch,
    gate,
    load::Load,
    pgbench, poll,
    profile::Profile,
    scenarios::drop_from_page_cache,
    server::{Plan, Server},
};
use serde_json::Value;

/// The part of a wait that has to be charged to the right cause.
const RIGHT: f64 = 0.95;

/// The part of a wait in which the holder may sleep for reasons the server has no name for.
const UNNAMED: f64 = 0.15;

/// The deadlock check runs once in every longer wait: a timer that ends no wait.
const DEADLOCK_TIMEOUT: &str = "60ms";

/// How long a lock is held at least.
const HOLD: Duration = Duration::from_millis(400);

/// Requests per second of the slow device.
const SLOW_IOPS: u64 = 200;

/// Beyond any device: no limit.
const ANY_IOPS: u64 = 10_000_000;

/// Sessions on one server: one holds, others wait, one looks on.
struct Sessions {
    server: Server,
    holder: Client,
    waiter: Client,
    observer: Client,
}

impl Sessions {
    fn on(server: Server) -> Result<Sessions> {
        let mut holder = server.connect()?;
        holder.query("create table locked as select id, 0 as value from generate_series(1, 9) id")?;
        let (waiter, observer) = (server.connect()?, server.connect()?);
        Ok(Sessions { holder, waiter, observer, server })
    }

    fn start() -> Result<Sessions> {
        let build = Build::installed()?;
        Sessions::on(Plan::new(&build).setting("deadlock_timeout", DEADLOCK_TIMEOUT).start()?)
    }

    /// Waits until a backend is seen in an event.
    fn see(&mut self, pid: u32, event: &str) -> Result<()> {
        let sql = format!("select 1 from pg_stat_activity where pid = {pid} and wait_event = '{event}'");
        poll::until(event, Duration::from_secs(20), || {
            Ok((!self.observer.query(&sql)?.is_empty()).then_some(()))
        })
    }

    /// A row is updated, `meanwhile` runs, and the transaction is committed, all in one request; another session waits
    /// for the row from when the holder is seen in `event`, or is otherwise sure to be busy, to the end.
    fn hold_while(&mut self, meanwhile: &str, event: Option<&str>) -> Result<Profile> {
        let attach = Attach::start(&self.server, &[])?;
        let update = update(1);
        self.holder.send(&format!("begin; {update}; {meanwhile}; commit"))?;
        match event {
            Some(event) => self.see(self.holder.pid(), event)?,
            None => thread::sleep(Duration::from_millis(50)),
        }
        self.waiter.send(&update)?;
        self.holder.receive()?;
        self.waiter.receive()?;
        Ok(attach.stop()?.0)
    }
}

fn update(id: u32) -> String {
    format!("update locked set value = value + 1 where id = {id}")
}

/// The waits for one event.
fn waits<'a>(profile: &'a Profile, class: &str, event: &str) -> Result<&'a Value> {
    let listed = profile.at("/locks")?.as_array().context("locks is not a list")?;
    let found = listed.iter().find(|wait| wait["class"] == class && wait["event"] == event);
    found.with_context(|| format!("{class}/{event} is not in {listed:#?}"))
}

/// Time of a wait's causes of those names, as a part of the wait's.
fn part(wait: &Value, causes: &[&str]) -> Result<f64> {
    let blocked = wait["blocked_ns"].as_u64().context("no blocked_ns")?;
    let listed = wait["causes"].as_array().context("no causes")?;
    let named = listed.iter().filter(|cause| causes.iter().any(|name| cause["bucket"] == *name));
    let sum: u64 = named.filter_map(|cause| cause["time_ns"].as_u64()).sum();
    Ok(sum as f64 / blocked.max(1) as f64)
}

/// So many waits, of at least that length together, for the right cause.
fn caused_by(what: &str, wait: &Value, n: u64, causes: &[&str]) -> Result<()> {
    // On a slowed device the holder also sleeps with no wait event set (its page faults are as slow as its reads, and
    // memory reclaim sleeps too): that is no wrong cause, as long as it is little.
    let unnamed = part(wait, &["unattributed"])?;
    let right = part(wait, causes)? / (1.0 - unnamed);
    gate::note(&format!(
        "{what}: {} waits, {:.1} ms, {:.2} % {causes:?} of what has a name, {:.2} % has none, explained {}",
        wait["waits"],
        wait["blocked_ns"].as_f64().unwrap_or_default() / 1e6,
        100.0 * right,
        100.0 * unnamed,
        wait["explained"],
    ));
    ensure!(unnamed < UNNAMED, "{what}: {:.2} % has no name in {wait:#}", 100.0 * unnamed);
    ensure!(right >= RIGHT, "{what}: {:.2} % is {causes:?} in {wait:#}", 100.0 * right);
    // The deadlock check makes no second wait of one.
    ensure!(wait["waits"] == n && wait["recorded"] == n, "{what}: not {n} waits but {wait:#}");
    Ok(())
}

#[test]
fn a_holder_that_sleeps() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let mut sessions = Sessions::start()?;
    let profile = sessions.hold_while("select pg_sleep(0.4)", Some("PgSleep"))?;
    let wait = waits(&profile, "Lock", "transactionid")?;
    caused_by("a holder that sleeps", wait, 1, &["other_wait"])?;
    let holder = &wait["holders"][0];
    ensure!(holder["pid"] == sessions.holder.pid() && holder["backend_type"] == "client backend", "{holder}");
    Ok(())
}

#[test]
fn a_holder_that_computes() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let mut sessions = Sessions::start()?;
    let burn = "do $$ declare n int8 := 0; begin for i in 1..9000000 loop n := n + i % 7; end loop; end $$";
    let profile = sessions.hold_while(burn, None)?;
    let wait = waits(&profile, "Lock", "transactionid")?;
    // Others may want the CPU as well.
    caused_by("a holder that computes", wait, 1, &["cpu", "run_queue"])?;
    ensure!(part(wait, &["cpu"])? > 0.5, "{wait:#}");
    Ok(())
}

#[test]
fn a_holder_idle_in_its_transaction() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let Sessions { server, mut holder, mut waiter, mut observer } = Sessions::start()?;
    let attach = Attach::start(&server, &[])?;
    holder.query(&format!("begin; {}", update(1)))?;
    let start = Instant::now();
    waiter.send(&update(1))?;
    wait_until_blocked(&mut observer, waiter.pid())?;
    thread::sleep(HOLD.saturating_sub(start.elapsed()));
    holder.query("commit")?;
    waiter.receive()?;
    let (profile, _) = attach.stop()?;
    let wait = waits(&profile, "Lock", "transactionid")?;
    caused_by("a holder idle in its transaction", wait, 1, &["client"])?;
    let statement = wait["holders"][0]["statement"].as_str().unwrap_or_default();
    ensure!(statement.contains("update locked"), "the holder's statement is {statement:?}");
    Ok(())
}

/// C waits for B, B for A, and A's client thinks.
#[test]
fn a_chain_of_three() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let Sessions { server, holder: mut first, waiter: mut second, mut observer } = Sessions::start()?;
    let mut third = server.connect()?;
    let attach = Attach::start(&server, &[])?;
    first.query(&format!("begin; {}", update(1)))?;
    second.query(&format!("begin; {}", update(2)))?;
    second.send(&format!("{}; commit", update(1)))?;
    wait_until_blocked(&mut observer, second.pid())?;
    third.send(&update(2))?;
    wait_until_blocked(&mut observer, third.pid())?;
    thread::sleep(HOLD);
    first.query("commit")?;
    second.receive()?;
    third.receive()?;
    let (profile, _) = attach.stop()?;
    let wait = waits(&profile, "Lock", "transactionid")?;
    caused_by("a chain of three", wait, 2, &["client"])?;
    ensure!(wait["in_chains"] == 1 && wait["chain_max"] == 2, "{wait:#}");
    Ok(())
}

/// A timer ends the wait, and no holder: unexplained, and nobody is blamed.
#[test]
fn a_wait_that_nobody_ended() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let Sessions { server, mut holder, mut waiter, .. } = Sessions::start()?;
    waiter.query("set lock_timeout = '300ms'")?;
    let attach = Attach::start(&server, &[])?;
    holder.query(&format!("begin; {}", update(1)))?;
    let refused = waiter.query(&update(1));
    ensure!(refused.is_err(), "the lock was not waited for");
    holder.query("commit")?;
    let (profile, _) = attach.stop()?;
    let wait = waits(&profile, "Lock", "transactionid")?;
    gate::note(&format!("a wait that nobody ended: {wait}"));
    ensure!(wait["waits"] == 1 && wait["explained"] == 0.0, "{wait:#}");
    let blocked = wait["blocked_ns"].as_u64().unwrap_or_default();
    ensure!((295_000_000..400_000_000).contains(&blocked), "{blocked} ns of 300 ms");
    ensure!(wait["holders"] == Value::Array(Vec::new()), "{wait:#}");
    Ok(())
}

/// A server on a device that can be slowed down, or why there is none.
fn on_slow_device(plan: Plan<'_>) -> Result<Option<(Server, Device)>> {
    let scratch = Scratch::new("device")?;
    let started = Device::under(scratch.path())
        .and_then(|device| Ok((plan.limit(Limit::Iops(device, ANY_IOPS)).start()?, device)));
    match started {
        Ok(started) => Ok(Some(started)),
        Err(error) => {
            gate::skip(&format!("the device cannot be slowed down: {error:#}"));
            Ok(None)
        }
    }
}

#[test]
fn a_holder_that_reads_cold_pages() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let plan =
        Plan::new(&build).setting("shared_buffers", "1MB").setting("deadlock_timeout", DEADLOCK_TIMEOUT);
    let Some((server, device)) = on_slow_device(plan)? else { return Ok(()) };
    pgbench::initialise(&server, 10)?;
    server.psql(["-c", "vacuum", "-c", "checkpoint"])?;
    // Random single reads: the kernel's read-ahead has nothing to guess.
    let read = |n: u32| {
        format!(
            "select count(abalance) from generate_series(1, {n}) n, \
             lateral (select abalance from pgbench_accounts where aid = (n * 791923) % 1000000 + 1) a"
        )
    };
    let mut sessions = Sessions::on(server)?;
    sessions
        .holder
        .query("set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off")?;
    // What a first run touches, the server's own code and its private memory, would be page faults on the slow device:
    // sleeps without a name, and rightly not page reads.
    sessions.holder.query(&read(5))?;
    drop_from_page_cache(&sessions.server)?;
    // The lock itself is to be taken at once: the first page read that is seen has to be one under it.
    sessions.holder.query(&update(1))?;
    sessions.server.change_limit(Limit::Iops(device, SLOW_IOPS))?;
    let profile = sessions.hold_while(&read(400), Some("DataFileRead"))?;
    let wait = waits(&profile, "Lock", "transactionid")?;
    caused_by("a holder that reads cold pages", wait, 1, &["page_read"])
}

#[test]
fn a_holder_that_waits_for_its_flushes() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let plan = Plan::new(&build)
        .setting("fsync", "on")
        .setting("wal_writer_delay", "10s")
        .setting("deadlock_timeout", DEADLOCK_TIMEOUT)
        .initdb("--wal-segsize=256");
    let Some((server, device)) = on_slow_device(plan)? else { return Ok(()) };
    let Sessions { server, mut holder, mut waiter, mut observer } = Sessions::on(server)?;
    server.change_limit(Limit::Iops(device, SLOW_IOPS))?;
    let attach = Attach::start(&server, &[])?;
    holder.query("select pg_advisory_lock(1)")?;
    holder.send(
        "do $$ begin for i in 1..40 loop insert into locked values (100 + i, 0); commit; end loop; end $$",
    )?;
    waiter.send("select pg_advisory_lock(1)")?;
    wait_until_blocked(&mut observer, waiter.pid())?;
    holder.receive()?;
    holder.query("select pg_advisory_unlock(1)")?;
    waiter.receive()?;
    // Commits that wait for each other's flush.
    let commit = |_| vec!["insert into locked values (1000, 0)".to_owned()];
    let mut load = Load::connect(&server, 8, commit)?;
    load.run(Duration::from_secs(3), commit)?;
    let (profile, _) = attach.stop()?;
    caused_by(
        "a holder that waits for its flushes",
        waits(&profile, "Lock", "advisory")?,
        1,
        &["wal_fsync"],
    )?;
    let followers = waits(&profile, "LWLock", "WALWrite")?;
    gate::note(&format!("followers: {followers}"));
    // The leader needs a CPU as well, and may be held up by a page fault while all the others wait for it.
    let right = part(followers, &["wal_fsync", "run_queue", "unattributed"])?;
    ensure!(
        right >= RIGHT && part(followers, &["wal_fsync"])? > 0.8,
        "{:.2} % is wal_fsync in {followers:#}",
        100.0 * right
    );
    Ok(())
}
