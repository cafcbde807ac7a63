//! What the kernel itself says about a process: the independent source most checks compare with.

use std::fs;

use anyhow::{Context as _, Result};

/// The scheduler's own account of one task, `/proc/PID/schedstat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU, ns.
    pub cpu_ns: u64,
    /// Time runnable but not running, ns.
    pub run_queue_ns: u64,
    /// How often it came onto a CPU.
    pub switches: u64,
}

impl SchedStat {
    /// Reads it.
    pub fn of(pid: u32) -> Result<SchedStat> {
        let path = format!("/proc/{pid}/schedstat");
        let text = fs::read_to_string(&path).context(path)?;
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || -> Result<u64> { Ok(numbers.next().context("schedstat is too short")??) };
        Ok(SchedStat { cpu_ns: next()?, run_queue_ns: next()?, switches: next()? })
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: SchedStat) -> SchedStat {
        SchedStat {
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            run_queue_ns: self.run_queue_ns - earlier.run_queue_ns,
            switches: self.switches - earlier.switches,
        }
    }
}

/// A field of `/proc/PID/status`, without its name.
pub fn status(pid: u32, field: &str) -> Result<String> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).context(path)?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .with_context(|| format!("no {field} in the status of {pid}"))?;
    Ok(line.trim().to_owned())
}

/// Largest resident memory so far (`VmHWM`), bytes.
pub fn peak_memory_bytes(pid: u32) -> Result<u64> {
    let text = status(pid, "VmHWM")?;
    let kib: u64 = text.trim_end_matches("kB").trim().parse().with_context(|| text.clone())?;
    Ok(kib * 1024)
}

/// The processes whose parent is `pid`.
pub fn children(pid: u32) -> Result<Vec<u32>> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(&path).context(path)?;
    Ok(text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// Whether the process waits in the kernel (state S or D).
pub fn sleeps(pid: u32) -> Result<bool> {
    let state = status(pid, "State")?;
    Ok(state.starts_with('S') || state.starts_with('D'))
}

/// The file an open descriptor stands for, or `None` once it is closed.
pub fn file_of(pid: u32, fd: u64) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    Some(path.to_string_lossy().into_owned())
}
