//! What happens when a unit or a statement ends: sums, distributions, and now and then a record.

use aya_ebpf::{
    bindings::BPF_RB_NO_WAKEUP,
    helpers::{bpf_get_prandom_u32, generated::bpf_probe_read_user_str},
};
use profiler_common::{
    backend::{Backend, IDLE_OR_FIRST, IN_UNIT, NOT_A_CLIENT, STARTING, UNSEEN},
    bucket::{BUCKET_SLOTS, Bucket, WAKE_TO_RUN},
    histogram,
    ledger::{EVENT_ENTRIES, LossCounter},
    loss::Loss,
    record::{KIND_STATEMENT, KIND_TRANSACTION, Record, TEXT_BYTES},
    storage::LINKED,
    tunables::Live,
};

use crate::{
    config::{STATUS_ACTIVITY, STATUS_QUERY_ID},
    maps::{self, EVENTS, HISTOGRAMS, LIVE, Losses, RECORDS, STATEMENTS, WALL_HISTOGRAM},
    server,
};

/// The backend, advanced to now, answered in the idle state. `counter` is its local transaction counter.
#[inline(always)]
pub fn close_unit(backend: &mut Backend, counter: u32) {
    let transactions = counter.wrapping_sub(backend.local_transactions);
    let phase = backend.phase;
    if phase == IDLE_OR_FIRST || phase == IN_UNIT {
        if transactions == 0 {
            Losses.count(Loss::IdleSend);
        } else if let Some(live) = live()
            && wanted(backend, &live)
            && backend.wall_ns() >= live.min_latency_ns
        {
            record_statement(backend, &live);
            count_unit(backend, transactions, &live);
        }
    } else if phase == STARTING {
        server::read_owner(backend);
        if let Some(totals) = maps::totals() {
            totals.connections += 1;
            totals.connections_ns += backend.wall_ns();
        }
    } else if phase == NOT_A_CLIENT {
        return;
    } else if phase == UNSEEN && live().is_some_and(|live| live.window_open != 0) {
        Losses.count(Loss::BeganUnseen);
    }
    backend.close(counter);
}

/// The backend, advanced to now, answered inside a transaction.
#[inline(always)]
pub fn close_statement(backend: &mut Backend) {
    if let Some(live) = live()
        && wanted(backend, &live)
    {
        if let Some(totals) = maps::totals() {
            totals.statements += 1;
        }
        record_statement(backend, &live);
    }
    backend.close_statement();
}

#[inline(always)]
fn live() -> Option<Live> {
    LIVE.get(0).copied()
}

/// Whether units of this backend are counted now.
#[inline(always)]
fn wanted(backend: &Backend, live: &Live) -> bool {
    live.window_open != 0
        && (live.database == 0 || live.database == backend.database)
        && (live.role == 0 || live.role == backend.role)
}

#[inline(always)]
fn count_unit(backend: &mut Backend, transactions: u32, live: &Live) {
    let wall_ns = backend.wall_ns();
    let Some(totals) = maps::totals() else { return };
    totals.transactions += transactions as u64;
    totals.units += 1;
    totals.units_of_many += (transactions > 1) as u64;
    totals.statements += 1;
    totals.wall_ns += wall_ns;
    if wall_ns > totals.max_ns {
        totals.max_ns = wall_ns;
    }
    if u64::MAX - wall_ns > totals.min_inverted_ns {
        totals.min_inverted_ns = u64::MAX - wall_ns;
    }
    spread(WALL_HISTOGRAM, wall_ns);
    let mut bucket = 0;
    while bucket < Bucket::ALL.len() {
        let ns = backend.ledger.buckets[bucket];
        if ns != 0 {
            totals.buckets[bucket] += ns;
            spread(bucket as u32, ns);
        }
        bucket += 1;
    }
    totals.buckets[WAKE_TO_RUN as usize] += backend.ledger.buckets[WAKE_TO_RUN as usize];
    if backend.ledger.storage_used != 0 {
        let mut at = 0;
        while at < LINKED {
            totals.storage[at].merge(&backend.ledger.storage[at]);
            at += 1;
        }
    }
    if backend.ledger.buckets[Bucket::WalFsync as usize] != 0 {
        totals.transactions_flushed += transactions as u64;
    }
    let mut at = 0;
    while at < EVENT_ENTRIES {
        if at as u32 >= backend.ledger.n_events {
            break;
        }
        let charge = &backend.ledger.events[at];
        if let Some(event) = EVENTS.get_ptr_mut(charge.event) {
            // SAFETY: this CPU's copy, preemption is off.
            let event = unsafe { &mut *event };
            event.waits += charge.waits as u64;
            event.blocked_ns += charge.blocked_ns;
            event.run_queue_ns += charge.run_queue_ns;
        }
        at += 1;
    }
    if wall_ns >= live.slow_ns {
        emit(backend, KIND_TRANSACTION, transactions, 1);
    }
}

#[inline(always)]
fn spread(histogram: u32, ns: u64) {
    let Some(histogram) = HISTOGRAMS.get_ptr_mut(histogram) else { return };
    // SAFETY: this CPU's copy, preemption is off.
    let histogram = unsafe { &mut *histogram };
    if let Some(count) = histogram.counts.get_mut(histogram::bucket_of(ns)) {
        *count += 1;
    }
}

#[inline(always)]
fn record_statement(backend: &mut Backend, live: &Live) {
    let every = live.statement_every;
    let wall_ns = backend.ledger.charged_to_ns - backend.statement_start_ns;
    if every == 0 || wall_ns < live.min_latency_ns {
        return;
    }
    // By chance, not by count: a count falls into step with transactions of that many statements.
    // SAFETY: the helper has no arguments.
    if every > 1 && unsafe { bpf_get_prandom_u32() } % every != 0 {
        return;
    }
    let Some(recorded) = STATEMENTS.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's copy, preemption is off.
    let [tick, n_recorded] = unsafe { &mut *recorded };
    if *tick != live.tick {
        (*tick, *n_recorded) = (live.tick, 0);
    }
    if *n_recorded >= live.statement_limit {
        return;
    }
    *n_recorded += 1;
    emit(backend, KIND_STATEMENT, 0, every);
}

/// Sends one record. Not inlined: it is the rare path, and three copies of it would be most of the program.
#[inline(never)]
fn emit(backend: &mut Backend, kind: u32, transactions: u32, weight: u32) {
    let Some(mut entry) = RECORDS.reserve::<Record>(0) else {
        Losses.count(Loss::RecordDropped);
        return;
    };
    let record = entry.as_mut_ptr();
    // SAFETY: the entry is a Record; every field is written below before it is submitted.
    let record = unsafe { &mut *record };
    record.kind = kind;
    record.pid = backend.pid;
    record.transactions = transactions;
    record.weight = weight;
    record.end_ns = backend.ledger.charged_to_ns;
    record.buckets = backend.ledger.buckets;
    record.events = backend.ledger.events;
    record.n_events = backend.ledger.n_events;
    record.start_ns = backend.start_ns;
    if kind == KIND_STATEMENT {
        record.start_ns = backend.statement_start_ns;
        record.n_events = 0;
        let mut bucket = 0;
        while bucket < BUCKET_SLOTS {
            record.buckets[bucket] = backend.statement_ns(bucket);
            bucket += 1;
        }
    }
    record.query_id = server::read(backend.status + STATUS_QUERY_ID.load() as u64).unwrap_or(0);
    record.text_len = 0;
    if let Some(text) = server::read::<u64>(backend.status + STATUS_ACTIVITY.load() as u64) {
        // SAFETY: the destination is the record's text, whose length is passed.
        let len = unsafe {
            bpf_probe_read_user_str(record.text.as_mut_ptr().cast(), TEXT_BYTES as u32, text as *const _)
        };
        if len > 0 {
            record.text_len = len as u32;
        }
    }
    if record.text_len == 0 {
        Losses.count(Loss::TextUnreadable);
    }
    entry.submit(BPF_RB_NO_WAKEUP as u64);
}
