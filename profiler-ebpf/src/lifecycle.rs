//! Backends come by fork of the postmaster and leave by exit.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::btf_tracepoint, programs::BtfTracePointContext};
use profiler_common::{backend::IN_UNIT, ledger::LossCounter, loss::Loss};

use crate::{
    config::POSTMASTER_PID,
    flush,
    maps::{self, BACKENDS, FREE_SLOTS, Losses},
    process,
    task::Task,
};

/// `sched_process_fork(task_struct *parent, task_struct *child)`
#[btf_tracepoint(function = "sched_process_fork")]
pub fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    let parent = Task::from_argument(ctx.arg(0));
    if parent.pid() != POSTMASTER_PID.load() {
        return 0;
    }
    let child = Task::from_argument(ctx.arg(1)).pid();
    let Ok(Some(slot)) = FREE_SLOTS.pop() else {
        Losses.count(Loss::SlotsExhausted);
        return 0;
    };
    let Some(backend) = BACKENDS.get_ptr_mut(slot) else { return 0 };
    // SAFETY: the slot was free and the child has not run yet.
    let backend = unsafe { &mut *backend };
    // SAFETY: the helper has no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    backend.begin_forked(child, now_ns);
    if !maps::set_slot(child, slot as u16) {
        Losses.count(Loss::SlotsExhausted);
    }
    0
}

/// `sched_process_exit(task_struct *task)`
#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit(ctx: BtfTracePointContext) -> i32 {
    let task = Task::from_argument(ctx.arg(0));
    let pid = task.pid();
    let slot = maps::slot_of(pid);
    if slot == 0 {
        return 0;
    }
    let Some(backend) = maps::backend(slot) else { return 0 };
    if backend.phase == IN_UNIT {
        Losses.count(Loss::EndedInTransaction);
    }
    // SAFETY: the helper has no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    // The task that ends is the one that runs: what it did last is charged like everything before.
    maps::advance(slot, backend, now_ns, task.sched_info());
    flush::end(backend);
    process::end(backend);
    maps::set_slot(pid, 0);
    if let Some(totals) = maps::totals() {
        totals.backends_ended += 1;
    }
    let _ = FREE_SLOTS.push(slot as u32, 0);
    0
}
