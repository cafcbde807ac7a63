//! The server's processes over the window, client backends or not, and how many of them waited for what when.

use std::{os::unix::fs::MetadataExt as _, process::Stdio, thread::sleep, time::Duration};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    checks::{close, nothing_lost},
    gate, pgbench, poll,
    process::Owned,
    profile::{ProcessType, Profile},
    scenarios::drop_from_page_cache,
    server::{Plan, Server, as_postgres},
};

/// Attaching, and ending the window, take a moment that is in no window.
const EDGES_NS: u64 = 30_000_000;

const PATIENCE: Duration = Duration::from_secs(30);

/// Every nanosecond of a process that was there for the whole window is in one bucket, and what was blocked is in one
/// event.
fn whole_life(profile: &Profile, kind: &ProcessType<'_>) -> Result<()> {
    let window_ns = profile.window_ns()?;
    close("life", kind.life_ns()?, window_ns * kind.n()?, 0.005, EDGES_NS)?;
    let awake_ns = kind.time_ns("cpu")? + kind.time_ns("run_queue")?;
    let blocked_ns: u64 = kind.events().values().sum();
    close("Σ events", blocked_ns, kind.life_ns()? - awake_ns, 0.001, 1_000_000)
        .with_context(|| kind.json().to_string())
}

#[test]
fn a_checkpoint_under_load() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let server = Plan::new(&build).setting("fsync", "on").setting("shared_buffers", "64MB").start()?;
    pgbench::initialise(&server, 2)?;
    let mut observer = server.connect()?;
    let mut load = pgbench::Running::start(&server, ["-n", "-N", "-c4", "-T4"])?;
    let attach = Attach::start_without_records(&server, &[])?;
    sleep(Duration::from_secs(1));
    observer.query("checkpoint")?;
    load.wait(PATIENCE)?;
    let (profile, _) = attach.stop()?;
    nothing_lost(&profile)?;

    let checkpointer = profile.process_type("checkpointer")?;
    let events = checkpointer.events();
    gate::note(&format!("checkpointer: {events:?}"));
    ensure!(checkpointer.n()? == 1, "{}", checkpointer.json());
    whole_life(&profile, &checkpointer)?;
    let writes = |name: &&String| {
        name.starts_with("IO/DataFile") || name.starts_with("IO/Wal") || name.starts_with("IO/WAL")
    };
    ensure!(events.keys().any(|name| writes(&name)), "no I/O of the checkpointer: {events:?}");
    ensure!(checkpointer.time_ns("cpu")? > 0, "{}", checkpointer.json());
    if profile.at("/devices")?.is_null() {
        gate::skip("the share of the device: no device is watched here");
        return Ok(());
    }
    // It writes what the load left in the buffers, and syncs it; most of that under its own name, for it waits for it.
    let (requests, bytes, share) =
        checkpointer.device().context("the checkpointer has no share of a device")?;
    gate::note(&format!("checkpointer: {requests} requests, {bytes} bytes, {share:.3} of the device"));
    ensure!(requests > 0 && bytes > 1 << 20 && share > 0.0 && share <= 1.0, "{}", checkpointer.json());
    for kind in ["walwriter", "background writer"] {
        whole_life(&profile, &profile.process_type(kind)?).context(kind)?;
    }
    Ok(())
}

#[test]
fn autovacuum_names_its_table_and_a_vacuum_by_hand_is_a_clients() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let server = Plan::new(&build)
        .setting("autovacuum", "on")
        .setting("autovacuum_naptime", "1s")
        .setting("autovacuum_vacuum_cost_delay", "20ms")
        .setting("autovacuum_vacuum_cost_limit", "30")
        .start()?;
    let mut client = server.connect()?;
    client.query("create table worn (id int8, note text) with (autovacuum_vacuum_threshold = 10)")?;
    client.query("create table other (id int8) with (autovacuum_enabled = off)")?;
    client.query("insert into worn select n, repeat('x', 200) from generate_series(1, 50000) n")?;
    client.query("insert into other select n from generate_series(1, 100000) n")?;
    let attach = Attach::start_without_records(&server, &["--interval", "200ms"])?;
    client.query("delete from worn where id % 2 = 0")?;
    client.query("delete from other where id % 2 = 0")?;
    client.query("vacuum other")?;
    poll::until("an autovacuum worker at the table", PATIENCE, || {
        let at_it = "select count(*) from pg_stat_activity where backend_type = 'autovacuum worker' and query like \
                     '%worn%'";
        Ok((client.number(at_it)? > 0.0).then_some(()))
    })?;
    sleep(Duration::from_secs(1));
    let (profile, _) = attach.stop()?;

    let workers = profile.process_type("autovacuum worker")?;
    gate::note(&format!("workers: {:?} {:?}", workers.work(), workers.events()));
    ensure!(workers.work().iter().any(|what| what.contains("public.worn")), "{}", workers.json());
    ensure!(!workers.work().iter().any(|what| what.contains("public.other")), "{}", workers.json());
    let delayed = workers.events().get("Timeout/VacuumDelay").copied().unwrap_or(0);
    ensure!(delayed > 300_000_000, "the worker's delays are missing: {}", workers.json());
    let statements = profile.statements()?;
    let by_hand = statements
        .iter()
        .any(|one| one["query"].as_str().is_some_and(|text| text.eq_ignore_ascii_case("vacuum other")));
    ensure!(by_hand, "no VACUUM among the statements: {statements:?}");
    Ok(())
}

#[test]
fn a_walsender_and_who_is_behind_it() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let server = Plan::new(&build).setting("wal_level", "replica").setting("max_wal_senders", "4").start()?;
    let mut client = server.connect()?;
    client.query("create table t (n int8)")?;
    let mut receive = as_postgres(&build.program("pg_receivewal"))?;
    let target = server.directory().join("received");
    std::fs::create_dir(&target)?;
    let owner = std::fs::metadata(server.data())?;
    std::os::unix::fs::chown(&target, Some(owner.uid()), Some(owner.gid()))?;
    receive.args(["--no-loop", "-U", "postgres", "-D"]).arg(&target);
    receive.stdout(Stdio::null()).stderr(Stdio::null());
    let receiver = Owned::spawn(server.reach(&mut receive))?;
    poll::until("a walsender", PATIENCE, || {
        Ok((client.number("select count(*) from pg_stat_replication")? > 0.0).then_some(()))
    })?;
    let attach = Attach::start_without_records(&server, &["--interval", "500ms"])?;
    client.query("insert into t select generate_series(1, 300000)")?;
    sleep(Duration::from_millis(1500));
    let (profile, _) = attach.stop()?;
    drop(receiver);
    // Switches the kernel did not trace cannot always be told where processes hardly run: what matters is that the
    // sender's own time is whole.
    let senders = profile.process_type("walsender")?;
    gate::note(&format!("walsender: {:?} {:?}", senders.work(), senders.events()));
    ensure!(senders.n()? == 1 && senders.work() == ["for pg_receivewal"], "{}", senders.json());
    whole_life(&profile, &senders)?;
    ensure!(senders.time_ns("cpu")? > 1_000_000, "it sent 20 MB: {}", senders.json());
    Ok(())
}

#[test]
fn parallel_workers_and_their_leader() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut client = server.connect()?;
    client.query("create table t as select n, n % 1000 as rest from generate_series(1, 400000) n")?;
    client.query("alter table t set (parallel_workers = 2)")?;
    client.query("analyze t")?;
    for setting in ["parallel_setup_cost = 0", "parallel_tuple_cost = 0", "min_parallel_table_scan_size = 0"]
    {
        client.query(&format!("set {setting}"))?;
    }
    let attach = Attach::start_without_records(&server, &["--interval", "100ms"])?;
    // Long enough to be looked at a few times.
    client.query(
        "select sum(length(repeat(md5(n::text || rest::text), 20))) from t where md5(md5(n::text)) > '0'",
    )?;
    let (profile, _) = attach.stop()?;
    nothing_lost(&profile)?;

    let workers = profile.process_type("background worker")?;
    gate::note(&format!("workers: {} {:?}", workers.n()?, workers.work()));
    let leader = format!("parallel worker for {}", client.pid());
    ensure!(workers.work().contains(&leader.as_str()), "{}", workers.json());
    let clients = profile.process_type("client backend")?;
    let (own, theirs) = (clients.time_ns("cpu")?, workers.time_ns("cpu")?);
    ensure!(theirs > own / 4, "two workers took {theirs} ns of CPU, their leader {own}");
    Ok(())
}

/// What a user read off the device the data lie on, and what everybody did, bytes.
fn read_off_the_device(profile: &Profile, user: &str) -> Result<(u64, u64)> {
    let devices = profile.at("/devices")?.as_array().context("/devices is no array")?;
    let users =
        devices.first().and_then(|device| device["users"].as_array()).context("no users of a device")?;
    let (mut own, mut all) = (0, 0);
    for one in users {
        let bytes = one["read_bytes"].as_u64().context("a user without read_bytes")?;
        all += bytes;
        own += if one["user"] == user { bytes } else { 0 };
    }
    Ok((own, all))
}

/// What the kernel says a process had read off devices, bytes.
fn read_by(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(line.context("no read_bytes")?.parse()?)
}

/// A parallel query, a VACUUM and a base backup each read the same table off the device: whoever read it has the bytes,
/// as the kernel's own account of the process has them.
#[test]
fn cold_reads_are_charged_to_who_asked() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let server = Plan::new(&build)
        .setting("shared_buffers", "1MB")
        .setting("wal_level", "replica")
        .setting("max_wal_senders", "4")
        .start()?;
    let mut client = server.connect()?;
    client.query("create table t as select n, repeat('x', 100) as note from generate_series(1, 400000) n")?;
    client.query("alter table t set (parallel_workers = 2)")?;
    let settings = ["set parallel_setup_cost = 0", "set parallel_tuple_cost = 0"];
    for command in ["vacuum analyze t", "checkpoint"].iter().chain(&settings) {
        client.query(command)?;
    }

    for (what, command) in
        [("parallel query", "select count(*) from t"), ("VACUUM", "vacuum (disable_page_skipping) t")]
    {
        drop_from_page_cache(&server)?;
        let attach = Attach::start_without_records(&server, &[])?;
        let before = read_by(client.pid())?;
        client.query(command)?;
        let by_kernel = read_by(client.pid())? - before;
        let (profile, _) = attach.stop()?;
        if profile.at("/devices")?.is_null() {
            gate::skip("the shares of the device: no device is watched here");
            return Ok(());
        }
        let (own, all) = read_off_the_device(&profile, "client backend")?;
        let (workers, _) = read_off_the_device(&profile, "background worker")?;
        gate::note(&format!(
            "{what}: read {own} bytes, by the kernel's account {by_kernel}; its workers {workers}; all {all}"
        ));
        ensure!(all > 16 << 20, "{what}: {all} bytes: the table was not cold");
        close(what, own, by_kernel, 0.02, 1 << 20)?;
        ensure!((own + workers) * 100 > all * 95, "{what}: {own} and {workers} of {all} bytes");
        // How much the workers get to read is a race with the leader.
        ensure!(workers == 0 || what == "parallel query", "{what}: workers read {workers} bytes");
    }

    drop_from_page_cache(&server)?;
    let attach = Attach::start_without_records(&server, &[])?;
    let mut backup = as_postgres(&build.program("pg_basebackup"))?;
    let target = server.directory().join("backup");
    std::fs::create_dir(&target)?;
    let owner = std::fs::metadata(server.data())?;
    std::os::unix::fs::chown(&target, Some(owner.uid()), Some(owner.gid()))?;
    backup.args(["-U", "postgres", "-X", "none", "-c", "fast", "-D"]).arg(&target);
    backup.stdout(Stdio::null()).stderr(Stdio::null());
    let status = Owned::spawn(server.reach(&mut backup))?.wait(PATIENCE)?;
    ensure!(status.success(), "pg_basebackup: {status}");
    let (profile, _) = attach.stop()?;
    let (sender, all) = read_off_the_device(&profile, "walsender")?;
    gate::note(&format!("base backup: the walsender read {sender} bytes of {all}"));
    ensure!(sender > 16 << 20 && sender * 100 > all * 90, "{sender} of {all} bytes");
    Ok(())
}

/// Σ over the intervals of backends × length, ns.
fn drawn_ns(profile: &Profile, bucket: &str) -> Result<u64> {
    let mut sum = 0.0;
    for interval in profile.timeline()? {
        let length = interval["duration_ns"].as_f64().context("an interval without length")?;
        let backends = interval["backends"].as_array().map(Vec::as_slice).unwrap_or_default();
        let own = backends.iter().find(|entry| entry["bucket"] == bucket);
        sum += own.and_then(|entry| entry["backends"].as_f64()).unwrap_or(0.0) * length;
    }
    Ok(sum as u64)
}

#[test]
fn backends_that_come_and_go_are_in_the_course() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    pgbench::initialise(&server, 1)?;
    let attach = Attach::start_without_records(&server, &["--interval", "250ms"])?;
    let children_before = children_cpu_ns(server.pid())?;
    let outcome = pgbench::bench(&server, ["-n", "-S", "-C", "-c4", "-T3"])?;
    pgstall_tests::checks::wait_for_clients_to_leave(&server, 0)?;
    let children_ns = children_cpu_ns(server.pid())? - children_before;
    sleep(Duration::from_millis(600));
    let (profile, _) = attach.stop()?;

    let clients = profile.process_type("client backend")?;
    gate::note(&format!("{} connections, {} backends", outcome.transactions, clients.n()?));
    ensure!(clients.n()? >= outcome.transactions, "{} backends of {}", clients.n()?, outcome.transactions);
    for bucket in ["cpu", "run_queue", "client"] {
        let (drawn, whole) = (drawn_ns(&profile, bucket)?, clients.time_ns(bucket)?);
        gate::note(&format!("{bucket}: {drawn} ns in the course, {whole} in all"));
        // An interval shows thousandths of a backend.
        close(bucket, drawn, whole, 0.02, 20_000_000)?;
    }
    // The kernel adds up the CPU time of children that ended. What they take after their end, to give back their
    // memory, is in it and not in ours.
    let cpu_ns = clients.time_ns("cpu")?;
    gate::note(&format!("CPU: {cpu_ns} ns of {children_ns} by the kernel's account of ended children"));
    ensure!(cpu_ns < children_ns + children_ns / 20 && cpu_ns > children_ns / 2, "{cpu_ns} of {children_ns}");
    Ok(())
}

/// CPU time of the children a process has waited for, ns.
fn children_cpu_ns(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("stat without a command")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| -> Result<u64> { Ok(fields.get(at).context("stat is short")?.parse()?) };
    Ok((ticks(13)? + ticks(14)?) * 10_000_000)
}

#[test]
fn waiting_backends_are_counted_second_by_second() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut holder = server.connect()?;
    holder.query("create table t (n int8)")?;
    let mut waiters = (0..5).map(|_| server.connect()).collect::<Result<Vec<_>>>()?;
    let attach = Attach::start_without_records(&server, &["--interval", "500ms"])?;
    holder.query("begin")?;
    holder.query("lock table t in access exclusive mode")?;
    for waiter in &mut waiters {
        waiter.send("select * from t")?;
    }
    let mut observer = server.connect()?;
    for waiter in &waiters {
        pgstall_tests::checks::wait_until_blocked(&mut observer, waiter.pid())?;
    }
    sleep(Duration::from_secs(2));
    holder.query("commit")?;
    for waiter in &mut waiters {
        waiter.receive()?;
    }
    let (profile, _) = attach.stop()?;

    let waiting = |interval: &serde_json::Value| -> f64 {
        let backends = interval["backends"].as_array().map(Vec::as_slice).unwrap_or_default();
        let own = backends.iter().find(|entry| entry["bucket"] == "lock");
        own.and_then(|entry| entry["backends"].as_f64()).unwrap_or(0.0)
    };
    let course: Vec<f64> = profile.timeline()?.iter().map(waiting).collect();
    gate::note(&format!("backends waiting for the lock: {course:?}"));
    // Three intervals at least lay wholly inside the wait.
    let whole = course.iter().filter(|backends| (**backends - 5.0).abs() < 0.05).count();
    ensure!(whole >= 3, "five waited for two seconds: {course:?}");
    ensure!(course.iter().all(|backends| *backends < 5.05), "{course:?}");
    close(
        "lock",
        drawn_ns(&profile, "lock")?,
        profile.process_type("client backend")?.time_ns("lock")?,
        0.02,
        EDGES_NS,
    )?;
    for interval in profile.timeline()? {
        ensure!(interval["cpu_busy_ns"].is_u64(), "no CPU time in {interval}");
    }
    Ok(())
}
