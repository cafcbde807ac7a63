//! The emulated volume itself, on which the tests of the storage part rest. Needs no pgstall.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    directio::{Target, Work},
    environment::{Scratch, pgstall_volume},
    gate, poll,
    process::{self, Owned},
    storage,
    volume::{
        clock::now_ns,
        filesystem::is_mounted,
        owner::Volume,
        shape::Operation,
        summary::{Summary, mean_depth},
    },
};
use rustix::process::Signal;

/// The file system's own thread may read some of its bitmaps meanwhile.
const METADATA_READS: u64 = 16;

const PATIENCE: Duration = Duration::from_secs(10);

/// The device itself, without its file system.
fn device(volume: &Volume) -> Result<Target> {
    Target::open(&Path::new("/dev").join(volume.device()), 32 << 20)
}

/// Waits until nothing is left: no mount, no loop device on the file.
fn nothing_left(at: &Path, device: &str) -> Result<()> {
    let backing = format!("/sys/block/{device}/loop/backing_file");
    poll::until("the volume to be undone", PATIENCE, || {
        let held = fs::read_to_string(&backing).is_ok_and(|file| file.trim() == "/volume");
        Ok((!held && !is_mounted(at)?).then_some(()))
    })
}

#[test]
fn answers_as_it_is_told() -> Result<()> {
    if !storage::possible() {
        return Ok(());
    }
    let scratch = Scratch::new("volume")?;
    let volume = storage::volume(&scratch, "v", 64)?;
    let file = device(&volume)?;

    // One at a time: the injected latency, and the caller sees little more.
    volume.reshape(&"read=5ms".parse()?)?;
    let start = now_ns();
    let count = file.run(Work::Read, 1, Duration::from_secs(1))?;
    let alone = start..now_ns();
    // Eight at a time, as many as the limit lets through.
    volume.reshape(&"read=2ms iops=1000".parse()?)?;
    let start = now_ns();
    let limited_count = file.run(Work::Read, 8, Duration::from_secs(2))?;
    let limited = start..now_ns();

    let log = volume.log()?;
    let reads = Summary::of(&log, &alone, Operation::Read);
    ensure!(
        (count..=count + METADATA_READS).contains(&reads.count),
        "{} reads in the log of {count}",
        reads.count
    );
    ensure!(reads.bytes >= count * 8192, "{} bytes in the log", reads.bytes);
    let mean = reads.mean_ns.context("no reads")?;
    let seen = (alone.end - alone.start) as f64 / count as f64;
    gate::note(&format!("alone: log {:.1} µs, the caller {:.1} µs", mean / 1e3, seen / 1e3));
    ensure!((5.0e6..6.0e6).contains(&mean), "a read takes {mean} ns in the log; 5 ms were asked for");
    ensure!(seen - mean < 1.0e6, "the caller waits {seen} ns, the log says {mean}");

    let reads = Summary::of(&log, &limited, Operation::Read);
    let wanted = limited_count..=limited_count + METADATA_READS;
    ensure!(wanted.contains(&reads.count), "{} reads in the log of {limited_count}", reads.count);
    let rate = reads.count as f64 * 1e9 / (limited.end - limited.start) as f64;
    let depth = mean_depth(&log, &limited);
    gate::note(&format!("limited: {rate:.1} per second at depth {depth:.2}"));
    ensure!((970.0..1010.0).contains(&rate), "{rate} reads per second; the limit is 1000");
    ensure!((7.0..=8.0).contains(&depth), "depth {depth} of eight readers");
    Ok(())
}

#[test]
fn writes_are_kept_and_flushes_are_slow() -> Result<()> {
    if !storage::possible() {
        return Ok(());
    }
    let scratch = Scratch::new("volume")?;
    let volume = storage::volume(&scratch, "v", 64)?;
    volume.reshape(&"write=1ms flush=20ms".parse()?)?;
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let path = volume.path().join("file");
    let start = now_ns();
    fs::write(&path, &content)?;
    let file = File::open(&path)?;
    file.sync_all()?;
    let window = start..now_ns();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    let mut back = Vec::new();
    File::open(&path)?.read_to_end(&mut back)?;
    ensure!(back == content, "the file is not what was written");

    let log = volume.log()?;
    let flushes = Summary::of(&log, &window, Operation::Flush);
    let flush = flushes.mean_ns.context("no flush in the log")?;
    ensure!((20.0e6..22.0e6).contains(&flush), "a flush takes {flush} ns; 20 ms were asked for");
    ensure!(window.end - window.start > 20_000_000, "the caller did not wait for the flush");
    let writes = Summary::of(&log, &window, Operation::Write);
    ensure!(writes.bytes >= content.len() as u64, "{} bytes written of {}", writes.bytes, content.len());
    ensure!(
        Summary::of(&log, &(window.end..u64::MAX), Operation::Read).bytes >= 1_000_000,
        "read from the cache"
    );
    Ok(())
}

/// However it ends, nothing stays.
#[test]
fn leaves_nothing_behind() -> Result<()> {
    if !storage::possible() {
        return Ok(());
    }
    let scratch = Scratch::new("volume")?;

    let volume = storage::volume(&scratch, "dropped", 64)?;
    let (at, device) = (volume.path().to_owned(), volume.device().to_owned());
    ensure!(is_mounted(&at)?, "not mounted");
    drop(volume);
    nothing_left(&at, &device).context("dropped")?;

    // Killed: its owner cleans up after it.
    let volume = storage::volume(&scratch, "killed", 64)?;
    let (at, device) = (volume.path().to_owned(), volume.device().to_owned());
    process::signal(volume.pid(), Signal::KILL)?;
    drop(volume);
    nothing_left(&at, &device).context("killed")?;

    // By itself: a signal; and an owner that was killed, which closes the pipe.
    for (name, controlled) in [("signalled", false), ("orphaned", true)] {
        let at = scratch.path().join(name);
        fs::create_dir(&at)?;
        let mut command = Command::new(pgstall_volume()?);
        command.args(["--size-mib", "64"]).args(controlled.then_some("--control")).arg(&at);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut alone = Owned::spawn(&mut command)?;
        let mut ready = [0; 64];
        let read = alone.child().stdout.take().context("no pipe")?.read(&mut ready)?;
        let line = String::from_utf8_lossy(&ready[..read]).into_owned();
        let device = line.trim().strip_prefix("ready ").with_context(|| format!("it said {line:?}"))?;
        ensure!(is_mounted(&at)?, "not mounted");
        if controlled {
            drop(alone.child().stdin.take());
        } else {
            alone.signal(Signal::TERM)?;
        }
        let status = alone.wait(PATIENCE)?;
        ensure!(status.success(), "{name}: {status}");
        nothing_left(&at, device).context(name)?;
    }
    Ok(())
}
