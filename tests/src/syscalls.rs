//! The test-only probe set that times system calls (`syscalls.bt`, run by `bpftrace`).
//!
//! It knows nothing of wait events: which file a call was on is looked up afterwards in `/proc/PID/fd`, so the
//! processes must still be there and must not have replaced their files (no WAL segment switch in between).

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;

use crate::{environment, poll, process::Owned, procfs};

const SCRIPT: &str = include_str!("syscalls.bt");

/// bpftrace looks for tracefs in its usual places only: mount it there, for this process alone, where it is not.
const LAUNCHER: &str = "\
test -d /sys/kernel/tracing/events || mount -t tracefs tracefs /sys/kernel/tracing
test -d /sys/kernel/debug/tracing || mount -t debugfs debugfs /sys/kernel/debug
exec bpftrace -f json \"$0\" \"$1\"";

const PATIENCE: Duration = Duration::from_secs(60);

/// Kind of call, by the file it was on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// A read of a data file.
    DataRead,
    /// A write of a data file.
    DataWrite,
    /// A write of the log.
    WalWrite,
    /// A sync of the log.
    WalSync,
    /// Anything else: other files, or a file that is no longer open.
    Other,
}

/// Sums over calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// How many.
    pub calls: u64,
    /// From entry to exit, ns.
    pub inside_ns: u64,
    /// How many times blocked.
    pub sleeps: u64,
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// How many times blocked and woken unseen.
    pub unseen: u64,
}

/// A running probe set.
#[derive(Debug)]
pub struct Probes {
    process: Owned,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Probes {
    /// Whether `bpftrace` is installed.
    pub fn are_available() -> bool {
        Command::new("bpftrace").arg("--version").output().is_ok()
    }

    /// Starts timing the children of the postmaster, and waits until the probes are in place.
    pub fn start(postmaster: u32, directory: &Path) -> Result<Probes> {
        let named = |name: &str| directory.join(format!("bpftrace.{name}"));
        let (script, stdout, stderr) = (named("bt"), named("out"), named("err"));
        std::fs::write(&script, SCRIPT)?;
        let file = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        let process = Owned::spawn(
            Command::new("unshare")
                .args(["-m", "sh", "-c", LAUNCHER])
                .arg(&script)
                .arg(postmaster.to_string())
                .stdin(Stdio::null())
                .stdout(file(&stdout)?)
                .stderr(file(&stderr)?),
        )?;
        let mut probes = Probes { process, stdout, stderr };
        probes.wait_until_attached()?;
        Ok(probes)
    }

    fn wait_until_attached(&mut self) -> Result<()> {
        // The word that they are attached comes before the attaching, one after the other: they are all there when
        // their number stands still.
        let mut last = (0, 0);
        poll::until("bpftrace to attach", PATIENCE, || {
            let stderr = std::fs::read_to_string(&self.stderr)?;
            let stdout = std::fs::read_to_string(&self.stdout)?;
            if let Some(status) = self.process.ended()? {
                anyhow::bail!("bpftrace: {status}\n{stderr}");
            }
            if !stdout.contains("attached_probes") {
                return Ok(None);
            }
            let links = count_perf_events(self.process.pid());
            last = if links == last.0 && links > 0 { (links, last.1 + 1) } else { (links, 0) };
            Ok((last.1 >= 50).then_some(()))
        })
    }

    /// Ends the timing and reads the sums by process. Call it while the processes still run.
    pub fn stop(mut self) -> Result<BTreeMap<(u32, Call), Time>> {
        self.process.signal(Signal::INT)?;
        let status = self.process.wait(PATIENCE)?;
        let stderr = std::fs::read_to_string(&self.stderr)?;
        ensure!(status.success(), "bpftrace: {status}\n{stderr}");
        ensure!(!stderr.contains("Lost"), "bpftrace lost events: {stderr}");
        let text = std::fs::read_to_string(&self.stdout)?;
        read(&text, &|pid, fd| procfs::file_of(pid, fd))
    }
}

/// Perf events the process holds open: one per attached tracepoint.
fn count_perf_events(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let targets = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|path| path.to_string_lossy().contains("perf_event")).count()
}

/// Reads bpftrace's JSON lines: `{"type": "map", "data": {"@inside": {"TID,CALL,FD": NUMBER}}}`.
fn read(text: &str, file_of: &dyn Fn(u32, u64) -> Option<String>) -> Result<BTreeMap<(u32, Call), Time>> {
    let mut times: BTreeMap<(u32, Call), Time> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let value: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let Some(maps) = value["data"].as_object().filter(|_| value["type"] == "map") else {
            continue;
        };
        for (map, entries) in maps {
            let Some(entries) = entries.as_object() else { continue };
            for (key, number) in entries {
                let parts: Vec<u64> =
                    key.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
                let [tid, call, fd] = parts[..] else { continue };
                let tid = u32::try_from(tid)?;
                let number = number.as_u64().with_context(|| line.to_owned())?;
                let time = times.entry((tid, kind(call, file_of(tid, fd)))).or_default();
                match map.as_str() {
                    "@calls" => time.calls += number,
                    "@inside" => time.inside_ns += number,
                    "@sleeps" => time.sleeps += number,
                    "@unseen" => time.unseen += number,
                    "@blocked" => time.blocked_ns += number,
                    _ => {}
                }
            }
        }
    }
    Ok(times)
}

fn kind(call: u64, file: Option<String>) -> Call {
    let Some(file) = file else { return Call::Other };
    let in_log = file.contains("/pg_wal/");
    let in_data = file.contains("/base/") || file.contains("/global/");
    match call {
        1 | 2 if in_data => Call::DataRead,
        3 | 4 if in_data => Call::DataWrite,
        3 | 4 if in_log => Call::WalWrite,
        5 | 6 if in_log => Call::WalSync,
        _ => Call::Other,
    }
}

/// Whether the probe set can run here; the reason if not.
pub fn unavailable() -> Option<String> {
    if !Probes::are_available() {
        return Some("bpftrace is not installed: run `cargo xtask setup`".into());
    }
    environment::pgstall().err().map(|error| error.to_string())
}
