//! What outlives a process, and what the server's own processes waited for. Nothing here runs while a client backend
//! works.

use aya_ebpf::bindings::BPF_ANY;
use profiler_common::{
    backend::{Backend, FREE},
    bucket::BUCKET_SLOTS,
    flush::BACKEND_TYPES,
    ledger::{EVENT_ENTRIES, LossCounter},
    loss::Loss,
    process::{Moved, event_key},
    totals::EventTotals,
};

use crate::{
    config::TYPE_CLIENT_BACKEND,
    maps::{Losses, MOVED, TYPE_EVENTS},
};

/// Moves the events of a process that is no client backend to the sums of its type. Not inlined: it is the rare path.
#[inline(never)]
pub fn move_events(backend: &mut Backend) {
    let Some(moved) = moved() else { return };
    moved.begun += 1;
    add_events(backend);
    moved.done += 1;
}

/// Gives the slot of a process that ends back, and adds what it did to the sums of its type.
#[inline(never)]
pub fn end(backend: &mut Backend) {
    let Some(moved) = moved() else { return };
    moved.begun += 1;
    // The events of a client backend are those of a unit that never ended.
    if backend.backend_type != TYPE_CLIENT_BACKEND.load() {
        add_events(backend);
    }
    let ended = &mut moved.ended[backend.backend_type as usize & (BACKEND_TYPES - 1)];
    ended.n += 1;
    let mut bucket = 0;
    while bucket < BUCKET_SLOTS {
        ended.life[bucket] += backend.ledger.life[bucket];
        bucket += 1;
    }
    backend.phase = FREE;
    moved.done += 1;
}

#[inline(always)]
fn add_events(backend: &mut Backend) {
    let mut at = 0;
    while at < EVENT_ENTRIES {
        if at as u32 >= backend.ledger.n_events {
            break;
        }
        let charge = backend.ledger.events[at];
        match event_totals(event_key(backend.backend_type, charge.event)) {
            Some(totals) => {
                totals.waits += charge.waits as u64;
                totals.blocked_ns += charge.blocked_ns;
                totals.run_queue_ns += charge.run_queue_ns;
            }
            None => Losses.count(Loss::EventTableFull),
        }
        at += 1;
    }
    backend.ledger.n_events = 0;
}

#[inline(always)]
fn moved() -> Option<&'static mut Moved> {
    let moved = MOVED.get_ptr_mut(0)?;
    // SAFETY: this CPU's copy; programs run with preemption off and none of them nests in another's update.
    Some(unsafe { &mut *moved })
}

#[inline(always)]
fn event_totals(key: u32) -> Option<&'static mut EventTotals> {
    let totals = match TYPE_EVENTS.get_ptr_mut(key) {
        Some(totals) => totals,
        None => {
            let none = EventTotals::default();
            TYPE_EVENTS.insert(key, none, BPF_ANY as u64).ok()?;
            TYPE_EVENTS.get_ptr_mut(key)?
        }
    };
    // SAFETY: this CPU's copy, preemption is off, and entries are never removed.
    Some(unsafe { &mut *totals })
}
