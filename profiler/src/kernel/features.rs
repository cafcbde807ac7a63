//! What the running kernel can do, found by asking it or by trying. A question that could not be answered stays
//! unanswered: [`Support::Unknown`] or `None`, never a guess.

use std::{collections::BTreeMap, fs, path::PathBuf};

use aya::{
    maps::MapType,
    sys::{Stats, enable_stats, is_map_supported},
};

use super::{
    block::BlockOffsets,
    btf::{KernelBtf, KernelOffsets, VMLINUX_BTF},
    privilege::Privileges,
};

/// Tracepoints the probes attach to, or would rather.
pub const TRACEPOINTS: [&str; 13] = [
    "sched_switch",
    "sched_waking",
    "sched_process_fork",
    "sched_process_exit",
    "sock_send_length",
    "sys_enter",
    "block_bio_queue",
    "block_io_start",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_requeue",
    "block_rq_merge",
    "block_rq_complete",
];

/// Map types the probes need.
const MAPS: [(&str, MapType); 3] =
    [("array", MapType::Array), ("percpu_array", MapType::PerCpuArray), ("ringbuf", MapType::RingBuf)];

/// Inode of the initial pid namespace:
/// <https://github.com/torvalds/linux/blob/v6.12/include/linux/proc_ns.h#L44>
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether something works here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It was tried and works.
    Yes,
    /// It does not; the reason.
    No(String),
    /// Could not be found out; the reason.
    Unknown(String),
}

impl Support {
    /// Known to work.
    pub fn is_yes(&self) -> bool {
        *self == Support::Yes
    }
}

/// Said of what only a process that may load programs can find out.
const NOT_ALLOWED: &str = "not known without the privileges above";

/// Why each offset of `task_struct` could not be resolved, or what it is.
pub type Offsets = Result<KernelOffsets, String>;

/// Everything about the kernel that decides what can be measured.
#[derive(Clone, Debug)]
pub struct Features {
    /// `uname -r`.
    pub release: Option<String>,
    /// Privileges of this process.
    pub privileges: Option<Privileges>,
    /// Whether the kernel's type information can be read.
    pub btf: Support,
    /// Offsets from it.
    pub offsets: Offsets,
    /// Number of arguments of each of [`TRACEPOINTS`] the kernel has.
    pub tracepoints: BTreeMap<String, usize>,
    /// What the probes of the block layer read, or why they cannot.
    pub block: Result<BlockOffsets, String>,
    /// Active lockdown mode; `None`: no lockdown module, or securityfs is not mounted.
    pub lockdown: Option<String>,
    /// Whether this process lives in the initial pid namespace, whose numbers the probes see.
    pub initial_pid_namespace: Option<bool>,
    /// Version of the control group hierarchy in use.
    pub cgroup_version: Option<u32>,
    /// `RLIMIT_MEMLOCK`, bytes or `unlimited`.
    pub memlock: Option<String>,
    /// Largest process id plus one.
    pub pid_max: Option<u32>,
    /// Map types by name.
    pub maps: BTreeMap<String, Support>,
    /// Whether the kernel counts run-queue time per task.
    pub run_delay: Support,
    /// Whether BPF programs are compiled (`net.core.bpf_jit_enable`).
    pub jit: Option<bool>,
    /// Whether BPF run-time statistics can be switched on for as long as a file descriptor is open.
    pub bpf_statistics: Support,
    /// Where tracefs is mounted.
    pub tracefs: Option<PathBuf>,
}

impl Features {
    /// Asks the running kernel.
    pub fn gather() -> Self {
        let btf = KernelBtf::load();
        let privileges = Privileges::current();
        let may_load = privileges.as_ref().is_none_or(|privileges| privileges.bpf || privileges.sys_admin);
        let (support, offsets, block, tracepoints) = match &btf {
            Ok(btf) => (
                Support::Yes,
                KernelOffsets::resolve(btf).map_err(|error| error.to_string()),
                BlockOffsets::resolve(btf).map_err(|error| error.to_string()),
                tracepoints(btf),
            ),
            Err(error) => {
                let reason = || error.to_string();
                (Support::No(reason()), Err(reason()), Err(reason()), BTreeMap::new())
            }
        };
        Self {
            release: text("/proc/sys/kernel/osrelease"),
            privileges,
            btf: support,
            offsets,
            block,
            tracepoints,
            lockdown: text("/sys/kernel/security/lockdown").and_then(|modes| active_lockdown(&modes)),
            initial_pid_namespace: fs::read_link("/proc/self/ns/pid")
                .ok()
                .map(|namespace| namespace.as_os_str() == INITIAL_PID_NAMESPACE),
            cgroup_version: cgroup_version(),
            memlock: text("/proc/self/limits").and_then(|limits| memlock(&limits)),
            pid_max: text("/proc/sys/kernel/pid_max").and_then(|value| value.parse().ok()),
            maps: MAPS.iter().map(|&(name, kind)| (name.to_owned(), map_support(kind, may_load))).collect(),
            run_delay: run_delay(text("/proc/self/schedstat").as_deref()),
            jit: text("/proc/sys/net/core/bpf_jit_enable").map(|value| value != "0"),
            bpf_statistics: match enable_stats(Stats::RunTime) {
                _ if !may_load => Support::Unknown(NOT_ALLOWED.to_owned()),
                Ok(_) => Support::Yes,
                Err(error) => Support::No(error.io_error.to_string()),
            },
            tracefs: text("/proc/self/mounts").and_then(|mounts| tracefs(&mounts)),
        }
    }

    /// Major and minor number of the kernel.
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release.as_deref()?.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// Whether the kernel has a BTF tracepoint; only those of [`TRACEPOINTS`] are known.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoints.contains_key(name)
    }

    /// The file the kernel's types were looked for in.
    pub fn btf_path(&self) -> &'static str {
        VMLINUX_BTF
    }
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn tracepoints(btf: &KernelBtf) -> BTreeMap<String, usize> {
    TRACEPOINTS
        .iter()
        .filter_map(|&name| Some((name.to_owned(), btf.tracepoint_arguments(name).ok()?)))
        .collect()
}

fn active_lockdown(modes: &str) -> Option<String> {
    let (_, rest) = modes.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn cgroup_version() -> Option<u32> {
    let mounts = text("/proc/self/mounts")?;
    let has = |kind| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    match (has("cgroup"), has("cgroup2")) {
        (true, _) => Some(1),
        (false, true) => Some(2),
        (false, false) => None,
    }
}

fn memlock(limits: &str) -> Option<String> {
    let rest = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn map_support(kind: MapType, may_load: bool) -> Support {
    if !may_load {
        return Support::Unknown(NOT_ALLOWED.to_owned());
    }
    match is_map_supported(kind) {
        Ok(true) => Support::Yes,
        Ok(false) => Support::No("the kernel does not know this map type".to_owned()),
        Err(error) => Support::Unknown(error.io_error.to_string()),
    }
}

/// A kernel that keeps no run-queue clock prints three zeros; one that does has counted this process' own starts:
/// <https://github.com/torvalds/linux/blob/v6.12/fs/proc/base.c#L532>
fn run_delay(schedstat: Option<&str>) -> Support {
    let Some(schedstat) = schedstat else {
        return Support::No(
            "/proc/self/schedstat does not exist: the kernel lacks CONFIG_SCHED_INFO".to_owned(),
        );
    };
    match schedstat.split_whitespace().nth(2).and_then(|starts| starts.parse::<u64>().ok()) {
        Some(0) => {
            Support::No("the kernel keeps no run-queue clock (/proc/self/schedstat is all zero)".to_owned())
        }
        Some(_) => Support::Yes,
        None => Support::Unknown(format!("/proc/self/schedstat reads {schedstat:?}")),
    }
}

fn tracefs(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind) = (fields.next()?, fields.next()?);
        (kind == "tracefs").then(|| PathBuf::from(at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procfs_forms_are_understood() {
        assert_eq!(active_lockdown("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert_eq!(active_lockdown(""), None);
        assert_eq!(run_delay(Some("934940 59559 2")), Support::Yes);
        assert!(matches!(run_delay(Some("0 0 0")), Support::No(_)));
        assert!(matches!(run_delay(Some("1")), Support::Unknown(_)));
        assert!(matches!(run_delay(None), Support::No(_)));
        let limits = "Limit  Soft Limit Hard Limit Units\nMax locked memory         8388608              8388608              bytes";
        assert_eq!(memlock(limits).as_deref(), Some("8388608"));
        let mounts = "proc /proc proc rw 0 0\nx /sys/kernel/tracing tracefs rw 0 0";
        assert_eq!(tracefs(mounts), Some(PathBuf::from("/sys/kernel/tracing")));
        assert_eq!(tracefs("proc /proc proc rw 0 0"), None);
    }

    #[test]
    fn the_running_kernel_answers() {
        let features = Features::gather();
        assert!(features.kernel_version().is_some_and(|version| version > (4, 0)), "{:?}", features.release);
        assert!(features.pid_max.is_some_and(|most| most >= 32768));
        assert_eq!(features.btf.is_yes(), fs::exists(VMLINUX_BTF).unwrap_or(false));
        assert_eq!(features.offsets.is_ok(), features.btf.is_yes(), "{:?}", features.offsets);
    }
}
