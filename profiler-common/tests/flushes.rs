//! Flushes: which sleeps belong together, how long a flush is, and that only sleeps in a sync are looked at.

use profiler_common::{
    backend::Backend,
    bucket::{Bucket, kind},
    event::PREEMPTED,
    flush::{Flush, FlushTotals, Flushed},
    ledger::{LossCounter, SchedInfo, SchedulerClock},
    loss::Loss,
};

/// Sleeps as (begin, end, writes so far); `None` = something else happened. Returns what was told: length and time asleep.
fn play(steps: &[Option<(u64, u64, u64)>]) -> Vec<(u64, u64)> {
    let (mut flush, mut open, mut told) = (Flush::default(), false, Vec::new());
    for step in steps {
        let ended = match step {
            Some((slept_ns, woke_ns, n_writes)) => {
                let ended = flush.sleep(open, *slept_ns, *n_writes);
                open = true;
                flush.wake(*woke_ns);
                ended
            }
            None => {
                let ended = flush.end(open);
                open = false;
                ended
            }
        };
        told.extend(ended.map(|flushed| (flushed.length_ns, flushed.blocked_ns)));
    }
    told
}

#[test]
fn the_sleeps_of_one_call_are_one_flush() {
    assert_eq!(play(&[Some((100, 150, 7)), Some((160, 180, 7)), Some((190, 300, 7)), None]), [(200, 180)]);
}

#[test]
fn something_else_between_makes_two() {
    assert_eq!(play(&[Some((100, 150, 7)), None, Some((200, 230, 7)), None]), [(50, 50), (30, 30)]);
    assert_eq!(play(&[None, None]), []);
}

#[test]
fn a_write_between_makes_two() {
    let steps = [Some((100, 150, 7)), Some((200, 230, 8)), Some((240, 250, 8)), None, None];
    assert_eq!(play(&steps), [(50, 50), (50, 40)]);
}

#[test]
fn a_sleep_whose_end_was_not_seen_tells_nothing() {
    let mut flush = Flush::default();
    assert_eq!(flush.sleep(false, 100, 1), None);
    assert_eq!(flush.end(true), None, "the sleep goes on");
    assert_eq!(flush.sleep(true, 200, 2), None);
    flush.wake(260);
    assert_eq!(flush.end(true), Some(Flushed { length_ns: 60, blocked_ns: 60 }));
    let mut sum = FlushTotals::default();
    sum.add(Flushed { length_ns: 60, blocked_ns: 50 });
    sum.add(Flushed { length_ns: 40, blocked_ns: 40 });
    assert_eq!(sum, FlushTotals { flushes: 2, length_ns: 100, blocked_ns: 90 });
}

struct Nothing;

impl LossCounter for Nothing {
    fn count(&mut self, loss: Loss) {
        panic!("lost: {loss:?}");
    }
}

/// A gap: the backend leaves at `out`, is woken at `woke` and runs from `back`.
fn gap(backend: &mut Backend, bucket: u32, event: u32, [out, woke, back]: [u64; 3]) {
    let mut clock = SchedulerClock::default();
    backend.switch_out(event, bucket, false, 0);
    assert_eq!(backend.ledger.charged_to_ns, out, "the steps follow each other");
    backend.ledger.wake(woke);
    backend.ledger.switch_in(back, &mut Nothing);
    let sched_info = SchedInfo { run_delay_ns: 0, last_arrival_ns: back };
    backend.advance(back + 10, sched_info, &mut clock, 0, &mut Nothing);
}

/// The backend as the programs drive it: the wake-up, not the end of the run queue, ends a flush, and what the process
/// does within the call without sleeping in the sync is part of the length only.
#[test]
fn a_flush_ends_with_the_wake_up() {
    let sync = Bucket::WalFsync as u32 | kind::WAL_SYNC | kind::STORAGE;
    let mut backend = Backend::default();
    backend.begin_unseen(4711, 0);
    let sched_info = SchedInfo::default();
    backend.advance(100, sched_info, &mut SchedulerClock::default(), 0, &mut Nothing);

    assert_eq!(backend.flush.sleep(false, 100, 3), None);
    backend.in_flush = 1;
    gap(&mut backend, sync, 9, [100, 150, 170]);
    gap(&mut backend, Bucket::RunQueue as u32, PREEMPTED, [180, 180, 300]);
    assert_eq!(backend.flush.sleep(true, 310, 3), None, "the same call");
    gap(&mut backend, sync, 9, [310, 360, 400]);
    // A follower's wait is somebody else's flush.
    let ended = backend.flush.end(backend.in_flush != 0);
    assert_eq!(ended, Some(Flushed { length_ns: 260, blocked_ns: 100 }));
    backend.in_flush = 0;
    gap(&mut backend, Bucket::WalFsync as u32 | kind::HELD, 8, [410, 500, 500]);
    assert_eq!(backend.flush.end(backend.in_flush != 0), None);
    assert_eq!(backend.ledger.buckets[Bucket::WalFsync as usize], 50 + 50 + 90);
}
