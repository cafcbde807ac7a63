//! What is said of a device is what happened there: held against the log of an emulated volume, the kernel's own
//! counters, and fio.
//!
//! The log's arrival and reply lie inside the block layer's issue and completion: 30 to 50 µs of the loop device's
//! worker, FUSE and a softirq are in between (docs/journal). The latencies injected here are long enough for 2 % to be
//! more than that.

use std::{ops::Range, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    cgroup::Limit,
    directio::{Target, Work},
    environment::Scratch,
    fio, gate, pgbench,
    profile::Profile,
    server::{Plan, Server},
    storage::{self, Account},
    volume::{
        clock::now_ns,
        log::Entry,
        owner::Volume,
        shape::Operation,
        summary::{Summary, mean_depth},
    },
};

/// A server on a volume, and a file there for load that is not the server's.
struct Stage {
    // Dropped in this order.
    server: Server,
    volume: Arc<Volume>,
    _scratch: Scratch,
}

impl Stage {
    fn new() -> Result<Stage> {
        let scratch = Scratch::new("storage")?;
        let volume = storage::volume(&scratch, "data", 512)?;
        let server = Plan::new(&Build::installed()?).data_on(volume.clone()).start()?;
        // The server's start is written out before anybody looks.
        rustix::fs::sync();
        Ok(Stage { server, volume, _scratch: scratch })
    }

    fn file(&self) -> Result<Target> {
        Target::create(&self.volume.path().join("load"), 64 << 20)
    }

    /// Runs the load under `pgstall`, with what else is known of it.
    fn watch<T>(&self, load: impl FnOnce() -> Result<T>) -> Result<Watched<T>> {
        watch(&self.server, &self.volume, load)
    }
}

/// A load, and what three sources say about it.
struct Watched<T> {
    result: T,
    profile: Profile,
    log: Vec<Entry>,
    /// From attaching to detaching, by the log's clock.
    window: Range<u64>,
    kernel: [Account; 3],
}

fn watch<T>(server: &Server, volume: &Volume, load: impl FnOnce() -> Result<T>) -> Result<Watched<T>> {
    let read = || -> Result<Vec<Account>> {
        Operation::ALL.into_iter().map(|operation| Account::of(volume.device(), operation)).collect()
    };
    let attach = Attach::start_without_records(server, &[])?;
    let before = read()?;
    let start = now_ns();
    let result = load()?;
    let window = start..now_ns();
    let after = read()?;
    let (profile, _) = attach.stop()?;
    let kernel = [0, 1, 2].map(|at| after[at].since(before[at]));
    Ok(Watched { result, profile, log: volume.log()?, window, kernel })
}

impl<T> Watched<T> {
    fn logged(&self, operation: Operation) -> Summary {
        Summary::of(&self.log, &self.window, operation)
    }
}

fn percent(value: f64, wanted: f64) -> f64 {
    100.0 * (value / wanted - 1.0)
}

/// Fails unless `value` lies within that many percent, or that much, of `wanted`.
fn near(what: &str, value: f64, wanted: f64, allowed_percent: f64, slack: f64) -> Result<()> {
    let off = (value - wanted).abs();
    ensure!(
        off <= wanted * allowed_percent / 100.0 || off <= slack,
        "{what}: {value:.1} is {:+.2} % off {wanted:.1}; allowed are {allowed_percent} % or {slack}",
        percent(value, wanted)
    );
    Ok(())
}

fn unsigned(value: &serde_json::Value, key: &str) -> Result<f64> {
    let number = value.pointer(key).and_then(serde_json::Value::as_f64);
    number.with_context(|| format!("no number {key} in {value}"))
}

/// Count, mean and percentiles of one operation are the log's.
fn check_operation<T>(watched: &Watched<T>, device: &str, operation: Operation) -> Result<()> {
    let name = operation.name();
    let shown = watched.profile.operation(device, name)?;
    let logged = watched.logged(operation);
    let (count, mean) = (unsigned(shown, "/count")?, unsigned(shown, "/latency_ns/mean")?);
    let wanted = logged.mean_ns.with_context(|| format!("no {name} in the log"))?;
    gate::note(&format!(
        "{name}: {count} ({:+.2} %), mean {:.1} µs ({:+.1} µs, {:+.2} % of the log's)",
        percent(count, logged.count as f64),
        mean / 1e3,
        (mean - wanted) / 1e3,
        percent(mean, wanted)
    ));
    near(&format!("count of {name}"), count, logged.count as f64, 2.0, 2.0)?;
    near(&format!("mean of {name}"), mean, wanted, 2.0, 20e3)?;
    near(&format!("bytes of {name}"), unsigned(shown, "/bytes")?, logged.bytes as f64, 2.0, 16384.0)?;
    for (part, key) in [(0.5, "p50"), (0.99, "p99")] {
        let wanted = logged.quantile_ns(part).context("no quantile")? as f64;
        // A histogram's step is 3.1 % wide.
        let shown = unsigned(shown, &format!("/latency_ns/{key}"))?;
        near(&format!("{key} of {name}"), shown, wanted, 5.2, 20e3)?;
    }
    Ok(())
}

/// The kernel's own counters say the same of an operation as the profile.
fn check_kernel<T>(watched: &Watched<T>, device: &str, operation: Operation) -> Result<()> {
    let name = operation.name();
    let shown = watched.profile.operation(device, name)?;
    let kernel = watched.kernel[operation as usize];
    near(
        &format!("the kernel's count of {name}"),
        unsigned(shown, "/count")?,
        kernel.count as f64,
        2.0,
        2.0,
    )?;
    let mean = kernel.mean_ns().with_context(|| format!("the kernel saw no {name}"))?;
    let shown = unsigned(shown, "/latency_ns/mean")?;
    gate::note(&format!("{name}: {:+.2} % of the kernel's mean", percent(shown, mean)));
    near(&format!("the kernel's mean of {name}"), shown, mean, 3.0, 20e3)
}

#[test]
fn injected_latencies_are_recovered() -> Result<()> {
    if !storage::possible() {
        return Ok(());
    }
    let stage = Stage::new()?;
    let (file, device) = (stage.file()?, stage.volume.device());
    let length = Duration::from_secs(2);

    stage.volume.reshape(&"read=4ms write=6ms flush=8ms".parse()?)?;
    let reads = stage.watch(|| file.run(Work::Read, 4, length))?;
    ensure!(reads.result >= 1000, "only {} reads", reads.result);
    check_operation(&reads, device, Operation::Read)?;
    check_kernel(&reads, device, Operation::Read)?;

    let writes = stage.watch(|| file.run(Work::Write, 4, length))?;
    check_operation(&writes, device, Operation::Write)?;
    check_kernel(&writes, device, Operation::Write)?;

    // One at a time: the loop device does nothing else while it flushes, so that what comes meanwhile waits before it
    // reaches the log. The kernel counts an empty write with each flush, so its writes cannot be compared.
    let flushes = stage.watch(|| file.run(Work::WriteAndSync, 1, length))?;
    check_operation(&flushes, device, Operation::Write)?;
    check_operation(&flushes, device, Operation::Flush)?;
    check_kernel(&flushes, device, Operation::Flush)?;

    // A long tail.
    stage.volume.reshape(&"read=3ms/30ms".parse()?)?;
    let tail = stage.watch(|| file.run(Work::Read, 8, length))?;
    check_operation(&tail, device, Operation::Read)
}

#[test]
fn a_rate_limit_is_found_and_depth_obeys_littles_law() -> Result<()> {
    const LIMIT: f64 = 1000.0;
    if !storage::possible() {
        return Ok(());
    }
    let stage = Stage::new()?;
    let (file, device) = (stage.file()?, stage.volume.device());
    stage.volume.reshape(&format!("read=2ms iops={LIMIT}").parse()?)?;
    // The rate stays where it is whatever is asked for: that is what a limit looks like.
    let watched = stage.watch(|| {
        [4, 8, 16, 32]
            .into_iter()
            .try_for_each(|threads| file.run(Work::Read, threads, Duration::from_secs(3)).map(drop))
    })?;
    check_operation(&watched, device, Operation::Read)?;

    let own = watched.profile.device(device)?;
    let ceiling = &own["ceiling"];
    ensure!(ceiling["kind"] == "iops", "no ceiling of requests: {ceiling}");
    let found = unsigned(ceiling, "/per_s")?;
    gate::note(&format!("ceiling {found:.1} per second: {}", ceiling["evidence"]));
    near("the ceiling", found, LIMIT, 3.0, 0.0)?;

    let read = watched.profile.operation(device, "read")?;
    let depth = unsigned(own, "/depth_mean")?;
    let law = unsigned(read, "/per_s")? * unsigned(read, "/latency_ns/mean")? / 1e9;
    // The profile's window is a little longer than the log's; nothing happens in the difference.
    let seconds = unsigned(read, "/count")? / unsigned(read, "/per_s")?;
    let window = (watched.window.end - watched.window.start) as f64 / 1e9;
    let logged = mean_depth(&watched.log, &watched.window) * window / seconds;
    gate::note(&format!("depth {depth:.2}; rate × latency {law:.2}; the log's {logged:.2}"));
    near("depth by Little's law", depth, law, 5.0, 0.0)?;
    near("depth by the log", depth, logged, 5.0, 0.0)?;
    let most = unsigned(own, "/depth_max")?;
    ensure!((32.0..=40.0).contains(&most), "{most} requests at one time, of 32 threads");
    let utilisation = unsigned(own, "/utilisation")?;
    ensure!(
        utilisation * seconds >= window * 0.98,
        "utilisation {utilisation} of a device that is never idle"
    );
    Ok(())
}

#[test]
fn page_reads_are_linked_to_their_requests() -> Result<()> {
    const MEMORY: u64 = 80 << 20;
    if !storage::possible() {
        return Ok(());
    }
    let scratch = Scratch::new("storage")?;
    let volume = storage::volume(&scratch, "data", 1024)?;
    let server = Plan::new(&Build::installed()?)
        .data_on(volume.clone())
        .setting("shared_buffers", "16MB")
        .limit(Limit::MemoryBytes(1 << 30))
        .start()?;
    pgbench::initialise(&server, 20)?;
    server.psql(["-c", "checkpoint"])?;
    rustix::fs::sync();
    // From here on the table is several times as large as what may be cached.
    server.change_limit(Limit::MemoryBytes(MEMORY))?;
    volume.reshape(&"read=3ms write=3ms flush=3ms".parse()?)?;

    let watched =
        watch(&server, &volume, || pgbench::bench(&server, ["-S", "-n", "-c", "8", "-j", "2", "-T", "5"]))?;
    let device = volume.device();
    check_operation(&watched, device, Operation::Read)?;
    let profile = &watched.profile;
    let own = profile.device(device)?;
    let place = own["holds"]
        .as_array()
        .and_then(|places| places.iter().find(|place| place["what"] == "data directory"));
    let place = place.with_context(|| format!("the data directory is not on it: {}", own["holds"]))?;
    let path = place["path"].as_str().context("a place without a path")?;
    ensure!(Path::new(path) == server.data(), "the data directory is said to be {path}");

    let parts = profile.storage_parts("page_read")?;
    let part = |name: &str| parts.get(name).copied().with_context(|| format!("no {name} in {parts:?}"));
    let all: u64 = parts.values().sum();
    let unlinked = part("unlinked")? as f64 / all as f64;
    gate::note(&format!(
        "{} transactions, page read {:.1} µs: {parts:?}, unlinked {:.2} %",
        watched.result.transactions,
        profile.bucket_ns("page_read")? as f64 / 1e3,
        unlinked * 100.0
    ));
    ensure!(unlinked <= 0.05, "{:.1} % of the time of page reads is linked to no request", unlinked * 100.0);
    ensure!(part("device")? as f64 >= 0.9 * all as f64, "an idle device's waits are not its own: {parts:?}");
    Ok(())
}

#[test]
fn fio_sees_the_same() -> Result<()> {
    const SECONDS: u32 = 3;
    if !storage::possible() || !fio::available() {
        return Ok(());
    }
    let stage = Stage::new()?;
    let device = stage.volume.device();
    stage.volume.reshape(&"read=5ms".parse()?)?;
    let watched = stage.watch(|| fio::read(device, 4, SECONDS))?;
    check_operation(&watched, device, Operation::Read)?;
    let shown = watched.profile.operation(device, "read")?;
    let (count, mean) = (unsigned(shown, "/count")?, unsigned(shown, "/latency_ns/mean")?);
    let fio = watched.result;
    gate::note(&format!(
        "fio: {} reads ({:+.2} %), mean {:.1} µs ({:+.2} %)",
        fio.count,
        percent(count, fio.count as f64),
        fio.latency_ns / 1e3,
        percent(mean, fio.latency_ns)
    ));
    // Before it begins, fio reads a little to find out what the device is.
    near("fio's count", count, fio.count as f64, 2.0, 8.0)?;
    near("fio's mean", mean, fio.latency_ns, 3.0, 0.0)
}
