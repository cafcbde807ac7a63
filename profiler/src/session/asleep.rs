//! Processes that are asleep when the probes come. What they wait for is known from memory, and a client backend that
//! sleeps between two transactions will have its next one counted; if it is certain that they slept through the look at
//! them.

use profiler_common::event;

use crate::target::{BackendState, Cluster, Memory, procfs};

/// A process seen asleep.
pub(super) struct Asleep {
    /// Its run-queue clock, ns.
    pub run_delay_ns: u64,
    /// Dense index of the event it waits for.
    pub event: u32,
    /// Its local transaction counter, if it is a client backend between two transactions.
    pub idle_at: Option<u32>,
    switches: Switches,
}

/// How often a process has run and for how long: equal figures mean that it has not run in between.
#[derive(PartialEq, Eq)]
struct Switches {
    on_cpu_ns: u64,
    run_delay_ns: u64,
    timeslices: u64,
}

/// Looks at a process; `None`: it does not sleep, or was woken meanwhile.
pub(super) fn asleep(cluster: &Cluster, pid: u32) -> Option<Asleep> {
    let switches = Switches::of(pid)?;
    if !sleeps(pid)? {
        return None;
    }
    let memory = Memory::open(pid).ok()?;
    let wait_word = memory.u64(cluster.symbols.my_wait_event_info).ok()?;
    let event = event::index(memory.u32(wait_word).ok()?);
    let status = cluster.status_of(pid).ok().flatten();
    let idle = status.is_some_and(|status| {
        status.backend_type_number == cluster.layout.type_client_backend
            && status.state == BackendState::Idle
            && !status.in_transaction
    });
    // Idle is set some instructions before the sleep begins, and the wait event right before it.
    let idle = idle && event != event::UNNAMED;
    let idle_at = idle.then(|| memory.u32(cluster.symbols.local_transaction_counter).ok()).flatten();
    let asleep = Asleep { run_delay_ns: switches.run_delay_ns, event, idle_at, switches };
    asleep.still(pid).then_some(asleep)
}

impl Asleep {
    /// Whether the backend has slept on.
    pub(super) fn still(&self, pid: u32) -> bool {
        Switches::of(pid).as_ref() == Some(&self.switches)
    }
}

impl Switches {
    fn of(pid: u32) -> Option<Switches> {
        let text = std::fs::read_to_string(procfs::path(pid, "schedstat")).ok()?;
        let mut figures = text.split_ascii_whitespace().map(str::parse);
        let mut next = || figures.next()?.ok();
        Some(Switches { on_cpu_ns: next()?, run_delay_ns: next()?, timeslices: next()? })
    }
}

/// Whether the kernel has the process in interruptible sleep.
fn sleeps(pid: u32) -> Option<bool> {
    let stat = std::fs::read_to_string(procfs::path(pid, "stat")).ok()?;
    let (_, after_command) = stat.rsplit_once(')')?;
    Some(after_command.trim_start().starts_with('S'))
}
