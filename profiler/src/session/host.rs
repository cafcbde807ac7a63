//! The machine, and what its CPUs did during the window.

use procfs::{Current as _, CurrentSI as _, KernelStats};

use crate::model::profile::Host;

/// CPU time of all processes and CPUs together since boot, ns.
#[derive(Clone, Copy)]
pub(super) struct CpuTimes {
    busy_ns: u64,
    steal_ns: Option<u64>,
}

impl CpuTimes {
    /// Reads `/proc/stat`; `None` where it cannot be.
    pub(super) fn now() -> Option<CpuTimes> {
        let total = KernelStats::current().ok()?.total;
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second().max(1);
        // guest time is part of user time already.
        let busy =
            total.user + total.nice + total.system + total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
        Some(CpuTimes { busy_ns: busy * tick_ns, steal_ns: total.steal.map(|ticks| ticks * tick_ns) })
    }
}

/// CPU time used between two readings, ns; `None` where one is missing.
pub(super) fn busy_ns(before: Option<CpuTimes>, after: Option<CpuTimes>) -> Option<u64> {
    Some(after?.busy_ns.saturating_sub(before?.busy_ns))
}

/// Describes the machine. `before` and `after` stand at the ends of the window.
pub(super) fn host(
    kernel: Option<String>,
    before: Option<CpuTimes>,
    after: Option<CpuTimes>,
    cgroup_throttled_ns: Option<u64>,
) -> Host {
    let both = before.zip(after);
    Host {
        name: text("/proc/sys/kernel/hostname"),
        kernel,
        architecture: Some(std::env::consts::ARCH.to_owned()),
        cpus: std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()),
        memory_bytes: procfs::Meminfo::current().ok().map(|memory| memory.mem_total),
        cpu_busy_ns: busy_ns(before, after),
        steal_ns: both.and_then(|(before, after)| Some(after.steal_ns?.saturating_sub(before.steal_ns?))),
        cgroup_throttled_ns,
    }
}

/// How long the control group of a process has been throttled, ns; `None` where its quota is not accounted.
pub(super) fn throttled_ns(pid: u32) -> Option<u64> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let stat = if controllers.is_empty() {
            format!("/sys/fs/cgroup{path}/cpu.stat")
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            format!("/sys/fs/cgroup/{controllers}{path}/cpu.stat")
        } else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(stat) else { continue };
        let figure = |key: &str| {
            stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse::<u64>().ok())
        };
        if let Some(ns) = figure("throttled_time") {
            return Some(ns);
        }
        if let Some(us) = figure("throttled_usec") {
            return Some(us * 1000);
        }
    }
    None
}

fn text(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim_end().to_owned())
}
