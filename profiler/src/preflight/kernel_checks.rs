//! The preconditions the host must meet.

use super::{Check, State};
use crate::kernel::{
    border::{self, BorderSignal},
    features::{Features, Support, TRACEPOINTS},
};

/// Tracepoints without which nothing can be measured.
const REQUIRED: [&str; 4] = ["sched_switch", "sched_waking", "sched_process_fork", "sched_process_exit"];

/// First kernel with the ring buffer and the capabilities used.
const OLDEST_KERNEL: (u32, u32) = (5, 8);

/// Examines the kernel and this process' privileges. `exact` is whether exact transaction borders are wanted.
pub fn kernel_checks(features: &Features, exact: bool) -> Vec<Check> {
    vec![
        privileges(features),
        kernel(features),
        btf(features),
        task_struct(features),
        tracepoints(features),
        border_signal(features, exact),
        run_queue_clock(features),
        lockdown(features),
        pid_namespace(features),
        ring_buffer(features),
        map_types(features),
        memlock(features),
        jit(features),
        bpf_statistics(features),
        tracefs(features),
        cgroup(features),
    ]
}

fn privileges(features: &Features) -> Check {
    let needed = "CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, all of which root has";
    let fix = "run it as root: sudo pgstall …";
    match &features.privileges {
        None => Check::not_ok(
            "privileges",
            State::Failed,
            "unknown: /proc/self/status could not be read",
            needed,
            "mount -t proc proc /proc",
        ),
        Some(privileges) => {
            let lacking = privileges.lacking();
            let held = if lacking.is_empty() {
                "has all capabilities".to_owned()
            } else {
                format!("lacks {}", lacking.join(", "))
            };
            let found = format!("user id {}, {held}", privileges.user);
            Check::ok("privileges", found, needed).unless(lacking.is_empty(), State::Failed, fix)
        }
    }
}

fn kernel(features: &Features) -> Check {
    let (major, minor) = OLDEST_KERNEL;
    let needed = format!("Linux {major}.{minor} or later");
    let Some(version) = features.kernel_version() else {
        let found = "unknown: /proc/sys/kernel/osrelease could not be read";
        return Check::not_ok("kernel", State::Warning, found, needed, "mount -t proc proc /proc");
    };
    let release = features.release.as_deref().unwrap_or_default();
    let found = format!("{release} on {}", std::env::consts::ARCH);
    Check::ok("kernel", found, needed).unless(version >= OLDEST_KERNEL, State::Failed, "boot a newer kernel")
}

fn btf(features: &Features) -> Check {
    let needed = "the kernel's types, a kernel built with CONFIG_DEBUG_INFO_BTF=y";
    let fix = "boot a distribution kernel with BTF (check: ls /sys/kernel/btf/vmlinux)";
    supported("btf", &features.btf, features.btf_path(), needed, State::Failed, fix)
}

fn task_struct(features: &Features) -> Check {
    let needed = "the offsets of pid, state, sched_info.run_delay and last_arrival in task_struct";
    match &features.offsets {
        Ok(offsets) => {
            let state =
                if offsets.state_is_argument { "passed by sched_switch" } else { "read from the task" };
            let found = format!(
                "pid at {}, run_delay at {}, last_arrival at {}; the state is {state}",
                offsets.task_pid, offsets.task_run_delay, offsets.task_last_arrival
            );
            Check::ok("task_struct", found, needed)
        }
        Err(reason) => Check::not_ok(
            "task_struct",
            State::Failed,
            reason,
            needed,
            "boot a kernel with BTF and CONFIG_SCHED_INFO=y",
        ),
    }
}

fn tracepoints(features: &Features) -> Check {
    let missing: Vec<&str> = TRACEPOINTS.into_iter().filter(|name| !features.has_tracepoint(name)).collect();
    let fatal = REQUIRED.iter().any(|name| missing.contains(name));
    let needed = format!("BTF tracepoints {}", REQUIRED.join(", "));
    let found = match (missing.is_empty(), features.btf.is_yes()) {
        (true, _) => format!("all of {}", TRACEPOINTS.join(", ")),
        (false, true) => format!("this kernel lacks {}", missing.join(", ")),
        (false, false) => "unknown without BTF".to_owned(),
    };
    Check::ok("tracepoints", found, needed).unless(
        !fatal,
        State::Failed,
        "boot a distribution kernel with BTF",
    )
}

fn border_signal(features: &Features, exact: bool) -> Check {
    let needed = "BTF tracepoint sock_send_length or sys_enter, to see where transactions end";
    match border::choose(features, exact) {
        Some(border) => {
            let found = format!("{}: {}", border.signal.name(), border.reason);
            Check::ok("border_signal", found, needed).unless(
                border.signal != BorderSignal::Scheduler,
                State::Warning,
                "leave out --borders sched",
            )
        }
        None => Check::not_ok(
            "border_signal",
            State::Failed,
            "no exact signal on this kernel",
            needed,
            "accept approximate borders: pgstall attach --borders sched",
        ),
    }
}

fn run_queue_clock(features: &Features) -> Check {
    let needed = "a kernel that counts each task's run-queue time (CONFIG_SCHED_INFO=y)";
    let fix = "boot a kernel with CONFIG_SCHEDSTATS=y or CONFIG_TASK_DELAY_ACCT=y";
    supported("run_queue_clock", &features.run_delay, "counted per task", needed, State::Failed, fix)
}

fn lockdown(features: &Features) -> Check {
    let needed = "any mode but confidentiality, which forbids reading kernel memory";
    let confidential = features.lockdown.as_deref() == Some("confidentiality");
    let found = match &features.lockdown {
        Some(mode) => mode.clone(),
        None => "not in use, or securityfs is not mounted".to_owned(),
    };
    let fix = "boot without lockdown=confidentiality on the kernel command line";
    Check::ok("lockdown", found, needed).unless(!confidential, State::Failed, fix)
}

fn pid_namespace(features: &Features) -> Check {
    let needed = "the initial pid namespace, whose process ids the probes see";
    let fix = "run it on the host, or with the host's pid namespace (docker run --pid=host --privileged)";
    match features.initial_pid_namespace {
        Some(true) => Check::ok("pid_namespace", "initial", needed),
        Some(false) => {
            Check::not_ok("pid_namespace", State::Failed, "a pid namespace of its own", needed, fix)
        }
        None => Check::not_ok(
            "pid_namespace",
            State::Warning,
            "unknown: /proc/self/ns/pid could not be read",
            needed,
            fix,
        ),
    }
}

fn ring_buffer(features: &Features) -> Check {
    let needed = "a BPF ring buffer (kernel 5.8 and later)";
    let unknown = Support::Unknown("not tried".to_owned());
    let support = features.maps.get("ringbuf").unwrap_or(&unknown);
    supported(
        "ring_buffer",
        support,
        "can be created",
        needed,
        State::Failed,
        "boot kernel 5.8 or later, run as root",
    )
}

fn map_types(features: &Features) -> Check {
    let needed = "BPF maps of type array and percpu_array";
    let others = || features.maps.iter().filter(|(name, _)| *name != "ringbuf");
    let found: Vec<String> = others()
        .map(|(name, support)| match support {
            Support::Yes => name.clone(),
            Support::No(reason) => format!("{name} does not work: {reason}"),
            Support::Unknown(reason) => format!("{name} could not be tried: {reason}"),
        })
        .collect();
    let works = others().all(|(_, support)| support.is_yes());
    Check::ok("map_types", found.join(", "), needed).unless(
        works,
        State::Failed,
        "run it as root on a kernel with BPF",
    )
}

fn memlock(features: &Features) -> Check {
    let limit = match features.memlock.as_deref() {
        Some("unlimited") => "unlimited".to_owned(),
        Some(bytes) => format!("{bytes} bytes"),
        None => "unknown".to_owned(),
    };
    // Before 5.11 maps counted against the limit: https://github.com/torvalds/linux/commit/80ee81e0403c
    let counts = features.kernel_version().is_none_or(|version| version < (5, 11));
    let needed = if counts {
        "unlimited, since BPF maps count against it before kernel 5.11"
    } else {
        "nothing: this kernel does not count BPF maps against it"
    };
    Check::ok("memlock", limit.clone(), needed).unless(
        !counts || limit == "unlimited",
        State::Warning,
        "ulimit -l unlimited",
    )
}

fn jit(features: &Features) -> Check {
    let needed = "compiled BPF programs; interpreted ones cost several times as much";
    let found = match features.jit {
        Some(true) => "on",
        Some(false) => "off",
        None => "no setting: the kernel always compiles, or cannot",
    };
    Check::ok("bpf_jit", found, needed).unless(
        features.jit != Some(false),
        State::Warning,
        "sysctl net.core.bpf_jit_enable=1",
    )
}

fn bpf_statistics(features: &Features) -> Check {
    let needed = "run-time statistics while attached, to print what the probes themselves cost";
    let fix = "sysctl kernel.bpf_stats_enabled=1, at the price of slowing every BPF program";
    supported("bpf_statistics", &features.bpf_statistics, "can be switched on", needed, State::Warning, fix)
}

fn tracefs(features: &Features) -> Check {
    let found = match &features.tracefs {
        Some(path) => format!("mounted at {}", path.display()),
        None => "not mounted".to_owned(),
    };
    Check::ok("tracefs", found, "nothing: the probes attach without it")
}

fn cgroup(features: &Features) -> Check {
    let found = match features.cgroup_version {
        Some(version) => format!("version {version}"),
        None => "not mounted".to_owned(),
    };
    Check::ok("cgroup", found, "nothing: throttled time is shown beside the run queue where there is one")
}

fn supported(
    name: &'static str,
    support: &Support,
    works: &str,
    needed: &str,
    otherwise: State,
    fix: &str,
) -> Check {
    match support {
        Support::Yes => Check::ok(name, works, needed),
        Support::No(reason) => Check::not_ok(name, otherwise, reason, needed, fix),
        Support::Unknown(reason) => {
            let found = format!("could not be tried: {reason}");
            Check::not_ok(name, State::Warning, found, needed, "meet the other checks, then try again")
        }
    }
}
