//! Counting the flushes of the write-ahead log. Nothing here runs unless a process syncs the log, or has just done so.

use profiler_common::{
    backend::Backend,
    bucket::kind,
    flush::{BACKEND_TYPES, Flushed},
    histogram,
};

use crate::{
    maps::{FLUSH_HISTOGRAM, FLUSHES, LIVE},
    task::Task,
};

/// The backend goes to sleep in a wait of that bucket and kind: a flush begins, goes on, or is over. Not inlined: a
/// process comes here twice a commit at most.
#[inline(never)]
pub fn turn(backend: &mut Backend, task: Task, bucket: u32, now_ns: u64) {
    if bucket & kind::WAL_SYNC == 0 {
        end(backend);
        return;
    }
    let ended = backend.flush.sleep(backend.in_flush != 0, now_ns, task.writes());
    count(backend, ended);
    backend.in_flush = 1;
}

/// The backend does something else, or ends.
#[inline(always)]
pub fn end(backend: &mut Backend) {
    let ended = backend.flush.end(backend.in_flush != 0);
    count(backend, ended);
    backend.in_flush = 0;
}

#[inline(always)]
fn count(backend: &Backend, ended: Option<Flushed>) {
    let Some(flushed) = ended else { return };
    if LIVE.get(0).is_none_or(|live| live.window_open == 0) {
        return;
    }
    if let Some(totals) = FLUSHES.get_ptr_mut(backend.backend_type & (BACKEND_TYPES as u32 - 1)) {
        // SAFETY: this CPU's copy, preemption is off.
        unsafe { &mut *totals }.add(flushed);
    }
    if let Some(lengths) = FLUSH_HISTOGRAM.get_ptr_mut(0) {
        // SAFETY: this CPU's copy, preemption is off.
        let lengths = unsafe { &mut *lengths };
        if let Some(count) = lengths.counts.get_mut(histogram::bucket_of(flushed.length_ns)) {
            *count += 1;
        }
    }
}
