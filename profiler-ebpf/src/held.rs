//! Waits that another process ends: told at the wake-up, in the context of whoever held what was waited for.

use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use profiler_common::{
    backend::Backend,
    held::{HeldRecord, HeldWait, KIND_HELD, held_index},
    history::Gap,
    ledger::LossCounter,
    loss::Loss,
};

use crate::{
    config::{FUTEX, KILL, REGISTERS_SYSCALL, SEMOP},
    maps::{self, HELD_RECORDS, HELD_TOTALS, HELD_WAITS, HISTORY, LIVE, Losses, RECORDS},
    task::Task,
};

/// The waiter in a slot, whose sleep another process ends, is being woken by the current task.
#[inline(never)]
pub fn woken(slot: u16, now_ns: u64) -> u32 {
    let current = Task::current();
    let holder = maps::slot_of(current.pid());
    if holder == 0 || holder == slot || !wakes_on_purpose(current) {
        return 0;
    }
    let Some(waiter) = maps::backend(slot) else { return 0 };
    let (slept_ns, event, pid) = (waiter.ledger.charged_to_ns, waiter.ledger.event, waiter.pid);
    let Some(wait) = wait(slot) else { return 0 };
    let Some(since_ns) = wait.let_go(slept_ns) else { return 0 };
    if now_ns < since_ns {
        // Stamped before the waiter's switch-out was, on another CPU: a wait of no length.
        Losses.count(Loss::WakeUnseen);
        return 0;
    }
    wait.since_ns = since_ns;
    wait.event = event;
    let covered_ns = explain(slot, holder, now_ns);
    let Some(holder) = maps::backend(holder) else { return 0 };
    finish(slot, Ended { waiter: pid, holder: holder.pid, until_ns: now_ns, covered_ns });
    0
}

/// Whether the current task is in a system call by which a server process wakes another. If not, what wakes the waiter is
/// an interrupt that the task has nothing to do with.
#[inline(always)]
fn wakes_on_purpose(current: Task) -> bool {
    if REGISTERS_SYSCALL.load() == 0 {
        return true;
    }
    let call = current.system_call();
    call == KILL.load() || call == FUTEX.load() || call == SEMOP.load()
}

/// The backend in a slot goes to sleep in `event`, after a sleep of this kind or into one.
#[inline(never)]
pub fn slept(slot: u16, event: u32, held: bool, now_ns: u64) -> u32 {
    let Some(wait) = wait(slot) else { return 0 };
    if !(held && wait.continues(event))
        && let Some(blocked_ns) = wait.leave()
        && let Some(waiter) = maps::backend(slot)
    {
        let ended =
            Ended { waiter: waiter.pid, holder: 0, until_ns: wait.since_ns + blocked_ns, covered_ns: 0 };
        finish(slot, ended);
    }
    if held {
        wait.sleep(event, now_ns);
    }
    0
}

/// A gap of the backend in a slot was closed that was such a sleep.
#[inline(always)]
pub fn roused(slot: u16, gap: &Gap) {
    if let Some(wait) = wait(slot) {
        wait.roused(gap.begin_ns(), gap.woke_ns);
    }
}

/// Keeps a closed gap in the backend's history.
#[inline(always)]
pub fn note(slot: u16, backend: &mut Backend, gap: Gap) {
    let Some(history) = HISTORY.get_ptr_mut(slot as u32) else { return };
    // SAFETY: written by the CPU its backend is on only, with preemption off.
    let history = unsafe { &mut *history };
    if history.add(&mut backend.ledger, gap) {
        snapshot(slot);
    }
}

#[inline(never)]
fn snapshot(slot: u16) -> u32 {
    let Some(backend) = maps::backend(slot) else { return 0 };
    let Some(history) = HISTORY.get_ptr_mut(slot as u32) else { return 0 };
    // SAFETY: as in `note`.
    let history = unsafe { &mut *history };
    history.snapshot(&mut backend.ledger);
    0
}

/// Writes what the holder, the current task, did during the wait of the backend in `slot`; returns how much of it is
/// known.
#[inline(never)]
fn explain(slot: u16, holder: u16, now_ns: u64) -> u64 {
    let Some(wait) = wait(slot) else { return 0 };
    let Some(backend) = maps::backend(holder) else { return 0 };
    let Some(history) = HISTORY.get_ptr(holder as u32) else { return 0 };
    // SAFETY: written by the CPU its backend is on only, and that is this one.
    let history = unsafe { &*history };
    history.explain(&backend.ledger, wait.since_ns, now_ns, &mut wait.buckets)
}

/// How a wait ended.
struct Ended {
    waiter: u32,
    holder: u32,
    until_ns: u64,
    covered_ns: u64,
}

#[inline(always)]
fn finish(slot: u16, ended: Ended) {
    let Some(live) = LIVE.get(0) else { return };
    if live.window_open == 0 {
        return;
    }
    let Some(wait) = wait(slot) else { return };
    let Some(index) = held_index(wait.event) else { return };
    let Some(totals) = HELD_TOTALS.get_ptr_mut(index) else { return };
    // SAFETY: this CPU's copy, preemption is off.
    let totals = unsafe { &mut *totals };
    let blocked_ns = ended.until_ns - wait.since_ns;
    totals.waits += 1;
    totals.blocked_ns += blocked_ns;
    if blocked_ns > totals.max_ns {
        totals.max_ns = blocked_ns;
    }
    if ended.covered_ns != 0 {
        totals.covered_ns += ended.covered_ns;
        let mut bucket = 0;
        while bucket < totals.buckets.len() {
            totals.buckets[bucket] += wait.buckets[bucket];
            bucket += 1;
        }
    }
    record(wait, &ended, live.tick, live.held_limit);
}

#[inline(always)]
fn record(wait: &HeldWait, ended: &Ended, now_tick: u32, limit: u32) {
    let Some(recorded) = HELD_RECORDS.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's copy, preemption is off.
    let [tick, n_recorded] = unsafe { &mut *recorded };
    if *tick != now_tick {
        (*tick, *n_recorded) = (now_tick, 0);
    }
    if *n_recorded >= limit {
        return;
    }
    *n_recorded += 1;
    let Some(mut entry) = RECORDS.reserve::<HeldRecord>(0) else {
        Losses.count(Loss::RecordDropped);
        return;
    };
    let record = entry.as_mut_ptr();
    // SAFETY: the entry is a HeldRecord; every field is written below before it is submitted.
    let record = unsafe { &mut *record };
    record.kind = KIND_HELD;
    record.event = wait.event;
    record.waiter = ended.waiter;
    record.holder = ended.holder;
    record.since_ns = wait.since_ns;
    record.until_ns = ended.until_ns;
    record.covered_ns = ended.covered_ns;
    record.buckets = wait.buckets;
    entry.submit(BPF_RB_NO_WAKEUP as u64);
}

#[inline(always)]
fn wait(slot: u16) -> Option<&'static mut HeldWait> {
    let wait = HELD_WAITS.get_ptr_mut(slot as u32)?;
    // SAFETY: written by its own backend while that runs and by one waker at a time while it sleeps.
    Some(unsafe { &mut *wait })
}
