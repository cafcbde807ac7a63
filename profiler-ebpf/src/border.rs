//! Unit and statement borders: the backend's send, told apart by its state at that moment.
//!
//! PostgreSQL sets `st_state` to idle, or idle in transaction, just before the ready-for-query message whose send
//! ends the request for the client.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::btf_tracepoint, programs::BtfTracePointContext};
use profiler_common::{
    backend::{Backend, IDLE_OR_FIRST, IN_UNIT, NOT_A_CLIENT, STARTING, UNSEEN},
    event,
};

use crate::{
    config::{SENDTO, STATE_IDLE, STATE_IDLE_IN_TRANSACTION, STATE_IDLE_IN_TRANSACTION_ABORTED},
    count, held, maps, server,
    task::Task,
};

/// `sock_send_length(sock *sk, int ret, int flags)`, kernel 6.3 and later: after a send on any socket.
#[btf_tracepoint(function = "sock_send_length")]
pub fn sock_send_length(ctx: BtfTracePointContext) -> i32 {
    let task = Task::current();
    let slot = maps::slot_of(task.pid());
    if let Some(backend) = maps::backend(slot) {
        sent(&ctx, slot, backend, task);
    }
    0
}

/// `sys_enter(pt_regs *regs, long id)`: before a `sendto`, where the kernel has no tracepoint behind it.
#[btf_tracepoint(function = "sys_enter")]
pub fn sys_enter(ctx: BtfTracePointContext) -> i32 {
    if ctx.arg::<u64>(1) != SENDTO.load() as u64 {
        return 0;
    }
    let task = Task::current();
    let slot = maps::slot_of(task.pid());
    if let Some(backend) = maps::backend(slot) {
        sent(&ctx, slot, backend, task);
    }
    0
}

#[inline(always)]
#[cfg_attr(
    not(feature = "debug-probes"),
    expect(unused_variables, reason = "only the log needs the context")
)]
fn sent(ctx: &BtfTracePointContext, slot: u16, backend: &mut Backend, task: Task) {
    if backend.phase == NOT_A_CLIENT {
        return;
    }
    let Some(state) = server::state(backend) else { return };
    if backend.phase == NOT_A_CLIENT {
        return;
    }
    let idle = state == STATE_IDLE.load();
    let in_transaction =
        state == STATE_IDLE_IN_TRANSACTION.load() || state == STATE_IDLE_IN_TRANSACTION_ABORTED.load();
    if !idle && !in_transaction {
        // An answer in the middle of a request: from here on the backend is in a unit.
        if backend.phase == IDLE_OR_FIRST {
            backend.phase = IN_UNIT;
        }
        return;
    }
    // SAFETY: the helper has no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    maps::advance(slot, backend, now_ns, task.sched_info());
    if backend.slept_held != 0 {
        // Whatever it waited for, it has answered by now.
        backend.slept_held = 0;
        held::slept(slot, event::UNNAMED, false, now_ns);
    }
    #[cfg(feature = "debug-probes")]
    aya_log_ebpf::info!(
        ctx,
        "pid {} answers in state {}, phase {}, {} ns after the unit began",
        backend.pid,
        state,
        backend.phase,
        backend.wall_ns()
    );
    if idle {
        if let Some(counter) = server::local_transactions() {
            count::close_unit(backend, counter);
        }
    } else if backend.phase != UNSEEN && backend.phase != STARTING {
        count::close_statement(backend);
    }
}
