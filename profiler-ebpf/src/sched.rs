//! `sched_switch`: the time line of every followed backend.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::btf_tracepoint, programs::BtfTracePointContext};
use profiler_common::{
    backend::{Backend, IDLE_OR_FIRST, IN_UNIT, STARTING, UNSEEN},
    bucket::{Bucket, kind},
    event::{self, EVENT_SLOTS, PREEMPTED, UNNAMED},
    ledger::LossCounter,
    loss::Loss,
};

use crate::{
    block,
    config::{BORDERS_FROM_SCHEDULER, CLIENT_READ, STATE_IDLE, STATE_IS_ARGUMENT},
    count, flush, held,
    maps::{self, BUCKET_OF_EVENT, Losses},
    server,
    task::Task,
};

/// `__TASK_STOPPED | __TASK_TRACED`: <https://github.com/torvalds/linux/blob/v6.12/include/linux/sched.h#L101>
const STOPPED_OR_TRACED: u32 = 0x4 | 0x8;

/// `sched_switch(bool preempt, task_struct *prev, task_struct *next[, unsigned int prev_state])`
#[btf_tracepoint(function = "sched_switch")]
pub fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let prev = Task::from_argument(ctx.arg(1));
    let next = Task::from_argument(ctx.arg(2));
    // Slots, not references: a stranger leaves after two loads, and the verifier forbids combining two pointers.
    let leaving = maps::slot_of(prev.pid());
    let coming = maps::slot_of(next.pid());
    if leaving | coming == 0 {
        return 0;
    }
    // SAFETY: the helper has no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    if let Some(backend) = maps::backend(coming) {
        backend.ledger.switch_in(now_ns, &mut Losses);
    }
    if let Some(backend) = maps::backend(leaving) {
        let preempted = ctx.arg::<u32>(0) & 1 != 0;
        let state = if STATE_IS_ARGUMENT.load() != 0 { ctx.arg::<u32>(3) } else { prev.state() };
        switch_out(leaving, backend, prev, now_ns, preempted || state == 0, state & STOPPED_OR_TRACED != 0);
    }
    0
}

/// `sched_waking(task_struct *task)`: in the context of whoever wakes it.
#[btf_tracepoint(function = "sched_waking")]
pub fn sched_waking(ctx: BtfTracePointContext) -> i32 {
    let slot = maps::slot_of(Task::from_argument(ctx.arg(0)).pid());
    if let Some(backend) = maps::backend(slot) {
        // SAFETY: the helper has no arguments.
        let now_ns = unsafe { bpf_ktime_get_ns() };
        backend.ledger.wake(now_ns);
        if backend.ledger.waits_for_storage() {
            block::link(backend, slot, now_ns);
        }
        if backend.ledger.is_held() {
            held::woken(slot, now_ns);
        }
    }
    0
}

#[inline(always)]
fn switch_out(slot: u16, backend: &mut Backend, task: Task, now_ns: u64, runnable: bool, stopped: bool) {
    let sched_info = task.sched_info();
    let run_delay_ns = sched_info.run_delay_ns;
    maps::advance(slot, backend, now_ns, sched_info);
    // Before anything else: a parallel worker may never sleep.
    if backend.status == 0 {
        server::resolve_status(backend);
    }
    if runnable {
        if BORDERS_FROM_SCHEDULER.load() != 0 {
            close_answered(backend);
        }
        backend.switch_out(PREEMPTED, Bucket::RunQueue as u32, false, run_delay_ns);
        return;
    }
    if stopped {
        // By a signal or a debugger: whatever it waited for last is not what holds it.
        backend.switch_out(UNNAMED, Bucket::Unattributed as u32, false, run_delay_ns);
        return;
    }
    let event = match server::wait_event_info(backend) {
        Some(word) => event::index(word),
        None => {
            Losses.count(Loss::WaitUnreadable);
            UNNAMED
        }
    };
    let idle = event == CLIENT_READ.load() && sleeps_idle(backend);
    let bucket = match BUCKET_OF_EVENT.get(0) {
        Some(buckets) => buckets[event as usize & (EVENT_SLOTS - 1)],
        None => Bucket::Unattributed as u32,
    };
    let held = bucket & kind::HELD != 0;
    if held || backend.slept_held != 0 {
        backend.slept_held = held as u8;
        held::slept(slot, event, held, now_ns);
    }
    if backend.in_flush != 0 || bucket & kind::WAL_SYNC != 0 {
        flush::turn(backend, task, bucket, now_ns);
    }
    backend.switch_out(event, bucket, idle, run_delay_ns);
}

/// Closes the unit of a backend that was sent off the CPU while idle: most often by the client its answer woke, which
/// may have the next request there before the backend runs again.
#[inline(always)]
fn close_answered(backend: &mut Backend) {
    if backend.phase != IDLE_OR_FIRST && backend.phase != IN_UNIT {
        return;
    }
    if server::state(backend) != Some(STATE_IDLE.load()) {
        return;
    }
    if let Some(counter) = server::local_transactions()
        && counter != backend.local_transactions
    {
        count::close_unit(backend, counter);
    }
}

/// Whether a backend about to sleep in `ClientRead` waits for a new request with no transaction open. Between the
/// messages of one request, and inside a transaction, it does not.
#[inline(always)]
fn sleeps_idle(backend: &mut Backend) -> bool {
    let by_scheduler = BORDERS_FROM_SCHEDULER.load() != 0;
    let phase = backend.phase;
    if phase != IDLE_OR_FIRST && phase != UNSEEN && !(by_scheduler && (phase == IN_UNIT || phase == STARTING))
    {
        return false;
    }
    let Some(state) = server::state(backend) else { return false };
    if state != STATE_IDLE.load() {
        if phase == IDLE_OR_FIRST {
            backend.phase = IN_UNIT;
        }
        return false;
    }
    if by_scheduler || phase == UNSEEN || backend.slept_idle != 0 {
        let Some(counter) = server::local_transactions() else { return false };
        if by_scheduler && phase != UNSEEN && (phase == STARTING || counter != backend.local_transactions) {
            count::close_unit(backend, counter);
        }
        // Where borders come from sends, this is the first idle sleep seen, or one after a wake-up that was no request:
        // the server may have run a transaction of its own in between (sinval catch-up), which belongs to nobody.
        backend.local_transactions = counter;
        backend.phase = IDLE_OR_FIRST;
    }
    backend.slept_idle = 1;
    true
}
