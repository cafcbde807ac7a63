//! Block devices: what the profile says they did, against the kernel's own count; who asked; and what waits were spent on.

use std::{
    fs::{self, File},
    io::Write as _,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    cgroup::{Device, Limit},
    checks::{close, nothing_lost},
    diskstats::DiskStats,
    environment::Scratch,
    gate,
    load::Load,
    pgbench, poll,
    profile::Profile,
    server::{Plan, Server},
};
use serde_json::Value;

/// pgbench scale: about 300 MB of accounts, three times the memory.
const SCALE: u32 = 20;
const MEMORY_BYTES: u64 = 112 << 20;
const LENGTH: Duration = Duration::from_secs(6);

/// Whether the test can run; prints the reason if not.
fn may_run() -> bool {
    if !gate::root() {
        return false;
    }
    let scratch = Scratch::new("device");
    let device = scratch.and_then(|scratch| Device::under(scratch.path()));
    if let Err(error) = &device {
        gate::skip(&format!("{error:#}"));
    }
    device.is_ok()
}

/// A server whose data does not fit its memory and that waits for its log to be on disk.
fn start() -> Result<Server> {
    let build = Build::installed()?;
    let server = Plan::new(&build)
        .limit(Limit::MemoryBytes(MEMORY_BYTES))
        .setting("shared_buffers", "16MB")
        .setting("fsync", "on")
        .start()?;
    pgbench::initialise(&server, SCALE)?;
    server.psql(["-c", "vacuum", "-c", "checkpoint"])?;
    Ok(server)
}

fn script(random: u64) -> Vec<String> {
    let account = random % (100_000 * u64::from(SCALE)) + 1;
    vec![format!("update pgbench_accounts set abalance = abalance + 1 where aid = {account}")]
}

/// A device's entry and what the kernel counted meanwhile.
struct Compared {
    profile: Profile,
    kernel: DiskStats,
    name: String,
}

impl Compared {
    fn device(&self) -> Result<&Value> {
        first_device(&self.profile)
    }

    /// A figure of one kind of requests; 0 if there were none.
    fn figure(&self, operation: &str, figure: &str) -> Result<u64> {
        let operations = self.device()?["operations"].as_array().context("no operations")?;
        let found = operations.iter().find(|one| one["operation"] == operation);
        found.map_or(Ok(0), |found| found[figure].as_u64().with_context(|| format!("{operation}: {figure}")))
    }

    /// A figure of one user; 0 if it did nothing.
    fn of_user(&self, user: &str, figure: &str) -> Result<u64> {
        let users = self.device()?["users"].as_array().context("no users")?;
        Ok(users.iter().find(|one| one["user"] == user).and_then(|found| found[figure].as_u64()).unwrap_or(0))
    }
}

/// The device the data directory is on.
fn first_device(profile: &Profile) -> Result<&Value> {
    let devices = profile.at("/devices")?.as_array().context("no device was watched")?;
    let holds = |device: &&Value| {
        let holds = device["holds"].as_array();
        holds.is_some_and(|holds| holds.iter().any(|place| place["what"] == "data directory"))
    };
    devices.iter().find(holds).context("no device holds the data directory")
}

/// Name of the device under the server, as a short run finds it.
fn device_name(server: &Server) -> Result<String> {
    let (profile, _) = Attach::start_without_records(server, &[])?.stop()?;
    Ok(first_device(&profile)?["name"].as_str().context("a device without a name")?.to_owned())
}

/// Runs the load and a checkpoint under the probes. The kernel's count is read while the server is idle on both sides.
fn run(server: &Server) -> Result<Compared> {
    let name = device_name(server)?;
    let mut load = Load::connect(server, 8, script)?;
    server.psql(["-c", "checkpoint"])?;
    let attach = Attach::start_without_records(server, &[])?;
    load.each("select 1")?;
    let before = DiskStats::of(&name)?;
    load.run(LENGTH, script)?;
    server.psql(["-c", "checkpoint"])?;
    let kernel = DiskStats::of(&name)?.since(before);
    let (profile, _) = attach.stop()?;
    Ok(Compared { profile, kernel, name })
}

#[test]
fn requests_are_those_the_kernel_counts() -> Result<()> {
    if !may_run() {
        return Ok(());
    }
    let compared = run(&start()?)?;
    nothing_lost(&compared.profile)?;
    let Compared { kernel, name, .. } = &compared;
    for note in compared.profile.at("/capture/notes")?.as_array().context("no notes")? {
        gate::note(&format!("{note}"));
    }
    // To the kernel an empty flush is a write as well; the journal's flushes come with data.
    let asked = compared.figure("flush", "asked")?;
    let empty = asked - compared.of_user("kernel: jbd2", "flushes")?;
    let figures = [
        ("reads", compared.figure("read", "count")?, kernel.reads),
        ("bytes read", compared.figure("read", "bytes")?, kernel.read_bytes),
        ("writes", compared.figure("write", "count")? + empty, kernel.writes),
        ("bytes written", compared.figure("write", "bytes")?, kernel.write_bytes),
        ("flushes", compared.figure("flush", "count")?, kernel.flushes),
    ];
    let apart: Vec<Result<()>> = figures
        .into_iter()
        .map(|(what, ours, kernels)| {
            gate::note(&format!("{name}, {what}: {ours}, the kernel counts {kernels}"));
            ensure!(kernels > 100, "{what}: too few to compare");
            close(&format!("{name}, {what}"), ours, kernels, 0.02, 20)
        })
        .collect();
    apart.into_iter().collect::<Result<()>>()?;
    // The kernel's time begins when a request is made, as queue and device together.
    let mean = |figure: &str| compared.device()?["operations"][0][figure].as_u64().context("no mean");
    let latency = compared.device()?["operations"][0]["latency_ns"]["mean"].as_u64().context("no mean")?;
    let whole = latency + mean("queue_mean_ns")?;
    let kernels = kernel.read_ns / kernel.reads.max(1);
    gate::note(&format!("{name}, mean of a read: {whole} ns, the kernel says {kernels} ns"));
    // Whole milliseconds are added up per CPU and kind.
    close(&format!("{name}, mean of a read"), whole, kernels, 0.03, 2000)?;
    ensure!(compared.of_user("client backend", "reads")? > 0, "nobody of the server's read");
    ensure!(compared.of_user("checkpointer", "write_bytes")? > 0, "the checkpointer wrote nothing");
    Ok(())
}

/// Blocked time of a bucket's waits for I/O of one's own, per transaction, ns.
fn own_waits_ns(bucket: &Value) -> Result<u64> {
    let events = bucket["events"].as_array().context("a bucket without events")?;
    let own = events.iter().filter(|event| event["class"] == "IO");
    own.map(|event| event["mean_ns"].as_u64().context("an event without a mean")).sum()
}

#[test]
fn waits_are_split_over_the_requests_that_ended_them() -> Result<()> {
    if !may_run() {
        return Ok(());
    }
    let Compared { profile, .. } = run(&start()?)?;
    let buckets = profile.at("/transactions/buckets")?.as_array().context("no buckets")?;
    for (name, least) in [("page_read", 0.95), ("wal_fsync", 0.90)] {
        let bucket = buckets.iter().find(|bucket| bucket["bucket"] == name).context("no such bucket")?;
        let storage = bucket["storage"].as_array().with_context(|| format!("{name} was not split"))?;
        let part = |wanted: &str| {
            let found = storage.iter().find(|part| part["part"] == wanted);
            found.and_then(|part| part["mean_ns"].as_u64()).with_context(|| format!("{name} has no {wanted}"))
        };
        let [queue, device, wake, unlinked] =
            [part("queue")?, part("device")?, part("wake")?, part("unlinked")?];
        let all = queue + device + wake + unlinked;
        gate::note(&format!("{name}: queue {queue}, device {device}, wake {wake}, unlinked {unlinked} ns"));
        // Each mean is rounded by itself.
        close(&format!("Σ storage of {name}"), all, own_waits_ns(bucket)?, 0.0, 10)?;
        let linked = (all - unlinked) as f64 / all.max(1) as f64;
        ensure!(linked >= least, "{name}: only {:.1} % linked to a request", 100.0 * linked);
        ensure!(device * 2 > all, "{name}: {device} ns of {all} at the device");
    }
    Ok(())
}

/// Whether an ext4 with a journal is mounted from the device or a partition of it.
fn has_journal(device: &str) -> bool {
    let journals = fs::read_dir("/proc/fs/jbd2").into_iter().flatten().flatten();
    let found = journals.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(device));
    if !found {
        gate::skip(&format!("{device} has no file system with a journal: its writes are not looked for"));
    }
    found
}

/// What others do on the device is not the server's, and what the kernel does is nobody's.
#[test]
fn others_and_the_kernel_are_told_apart() -> Result<()> {
    if !may_run() {
        return Ok(());
    }
    let server = start()?;
    let name = device_name(&server)?;
    let scratch = Scratch::new("others")?;
    let attach = Attach::start_without_records(&server, &[])?;
    // Synced by this process: its own write, and a commit of the file system's journal for the new file.
    let mut synced = File::create(scratch.path().join("synced"))?;
    synced.write_all(&vec![7; 8 << 20])?;
    synced.sync_all()?;
    // Not synced by anybody: written out when the kernel comes to it, which a sync of the file system hastens.
    fs::write(scratch.path().join("later"), vec![7; 32 << 20])?;
    let written = || -> Result<u64> { Ok(DiskStats::of(&name)?.write_bytes) };
    let before = written()?;
    rustix::fs::syncfs(File::open(scratch.path())?)?;
    poll::until("the page cache to be written out", Duration::from_secs(20), || {
        Ok((written()? >= before + (32 << 20)).then_some(()))
    })?;
    let (profile, _) = attach.stop()?;
    let compared = Compared { profile, kernel: DiskStats::default(), name };
    let device = compared.device()?;
    gate::note(&format!("{}", device["users"]));
    ensure!(compared.of_user("other processes", "write_bytes")? >= 8 << 20, "this process' own writes");
    let by_workers = compared.of_user("kernel: writeback", "write_bytes")?
        + compared.of_user("kernel: kworker", "write_bytes")?;
    ensure!(by_workers >= 24 << 20, "the kernel's workers wrote {by_workers} bytes of 32 MiB");
    if has_journal(&compared.name) {
        ensure!(compared.of_user("kernel: jbd2", "write_bytes")? > 0, "the journal's writes");
    }
    let backends = compared.of_user("client backend", "write_bytes")?;
    ensure!(backends < 1 << 20, "idle backends are charged with {backends} bytes");
    Ok(())
}

#[test]
fn without_the_block_layer_everything_else_is_there() -> Result<()> {
    if !may_run() {
        return Ok(());
    }
    let server = Server::installed()?;
    let mut client = server.connect()?;
    for arguments in [&["--without-block"][..], &["--simulate", "no-block_rq_issue"]] {
        let attach = Attach::start_without_records(&server, arguments)?;
        client.query("select 1")?;
        let (profile, _) = attach.stop()?;
        ensure!(profile.at("/devices")?.is_null(), "{arguments:?}: devices that were not watched");
        ensure!(profile.transactions()? == 1, "{arguments:?}: {}", profile.transactions()?);
        let probes = profile.at("/capture/probes")?.as_array().context("no probes")?.clone();
        let off = probes.iter().find(|probe| probe["attached"] == false).context("no probe is off")?;
        ensure!(off["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{off}");
    }
    Ok(())
}
