//! What a holder was doing during somebody's wait, against the truth, and when a wait is over.

use profiler_common::{
    backend::Backend,
    bucket::{BUCKET_SLOTS, Bucket, IDLE, kind},
    event,
    held::{HELD_SLOTS, HeldWait, event_of, held_index},
    history::{GAPS, History},
    ledger::{LossCounter, SchedInfo, SchedulerClock},
    loss::Loss,
};

struct NoLoss;

impl LossCounter for NoLoss {
    fn count(&mut self, loss: Loss) {
        panic!("{}", loss.name());
    }
}

/// A backend that runs, with what is known of it and what is true.
struct Holder {
    backend: Backend,
    history: History,
    clock: SchedulerClock,
    run_delay_ns: u64,
    now_ns: u64,
    truth: Vec<(u64, u64, u32)>,
}

const BORN_NS: u64 = 5_000_000_000_000;

impl Holder {
    fn new() -> Holder {
        let mut holder = Holder {
            backend: Backend::default(),
            history: History::default(),
            clock: SchedulerClock::default(),
            run_delay_ns: 0,
            now_ns: BORN_NS,
            truth: Vec::new(),
        };
        holder.be_born();
        holder
    }

    /// The slot gets a new owner.
    fn be_born(&mut self) {
        self.backend.begin_forked(7, self.now_ns);
        self.truth.clear();
        self.run_delay_ns = 0;
        self.resume(10);
    }

    fn resume(&mut self, queued_ns: u64) {
        self.pass(Bucket::RunQueue as u32, queued_ns);
        self.run_delay_ns += queued_ns;
        self.backend.ledger.switch_in(self.now_ns, &mut NoLoss);
    }

    fn pass(&mut self, bucket: u32, ns: u64) {
        self.truth.push((self.now_ns, self.now_ns + ns, bucket));
        self.now_ns += ns;
    }

    fn run(&mut self, ns: u64) {
        self.pass(Bucket::Cpu as u32, ns);
    }

    fn sleep(&mut self, bucket: u32, blocked_ns: u64, queued_ns: u64) {
        let info = SchedInfo { run_delay_ns: self.run_delay_ns, last_arrival_ns: 0 };
        let gap = self.backend.advance(self.now_ns, info, &mut self.clock, 0, &mut NoLoss);
        if gap.resumed_ns != 0 && self.history.add(&mut self.backend.ledger, gap) {
            self.history.snapshot(&mut self.backend.ledger);
        }
        self.backend.ledger.switch_out(event::index(0x0a00_0001), bucket, self.run_delay_ns);
        self.pass(bucket, blocked_ns);
        self.backend.ledger.wake(self.now_ns);
        self.resume(queued_ns);
    }

    /// What is said, what is true, and how much of the time is in the wrong bucket, ns.
    fn explain(&self, since_ns: u64) -> ([u64; BUCKET_SLOTS], u64, u64) {
        let mut said = [1; BUCKET_SLOTS];
        let covered_ns = self.history.explain(&self.backend.ledger, since_ns, self.now_ns, &mut said);
        let mut truth = [0; BUCKET_SLOTS];
        for (from, to, bucket) in &self.truth {
            truth[*bucket as usize & (BUCKET_SLOTS - 1)] += to.max(&since_ns) - from.max(&since_ns);
        }
        let wrong: u64 = said.iter().zip(truth).map(|(said, truth)| said.abs_diff(truth)).sum();
        (said, covered_ns, wrong / 2)
    }
}

const READ: u32 = Bucket::PageRead as u32 | kind::STORAGE;

#[test]
fn a_wait_inside_the_kept_gaps_is_explained_to_the_nanosecond() {
    let mut holder = Holder::new();
    holder.run(1000);
    for at in 0..20 {
        holder.sleep(if at % 3 == 0 { READ } else { IDLE }, 700 + at, 90);
        holder.run(300 + at);
    }
    for since_ns in (BORN_NS..holder.now_ns).step_by(37) {
        let (said, covered_ns, wrong_ns) = holder.explain(since_ns);
        assert_eq!((wrong_ns, covered_ns), (0, holder.now_ns - since_ns), "since {since_ns}: {said:?}");
        assert_eq!(said.iter().sum::<u64>(), covered_ns);
    }
}

#[test]
fn a_holder_that_has_not_been_seen_since_its_wake_up_is_explained() {
    let mut holder = Holder::new();
    let since_ns = holder.now_ns;
    holder.sleep(READ, 5000, 40);
    let (said, covered_ns, wrong_ns) = holder.explain(since_ns + 1000);
    assert_eq!((said[0], said[Bucket::RunQueue as usize], covered_ns, wrong_ns), (4000, 40, 4040, 0));
    assert_eq!(holder.explain(holder.now_ns).1, 0);
}

#[test]
fn a_wait_of_thousands_of_gaps_is_explained() {
    let mut holder = Holder::new();
    let mut worst = 0.0_f64;
    for at in 0..30_000_u64 {
        holder.run(20_000);
        holder.sleep(READ, 100_000 + at % 7 * 20_000, 5_000);
        if at % 977 == 976 {
            for part in [2, 3, 5, 10, 30, 100, 1000] {
                let since_ns = BORN_NS + 1000 + (holder.now_ns - BORN_NS) / part * (part - 1);
                let (_, covered_ns, wrong_ns) = holder.explain(since_ns);
                let asked_ns = holder.now_ns - since_ns;
                // Rounding of eleven sums.
                assert!(covered_ns + 20_000 >= asked_ns, "{covered_ns} of {asked_ns} at {at}");
                worst = worst.max(wrong_ns as f64 / asked_ns as f64);
            }
        }
    }
    assert!(worst < 0.02, "{worst} of a wait is charged to the wrong bucket");
}

/// The holder took the lock and changed its ways at one instant, which is where the wait begins.
#[test]
fn an_abrupt_change_at_the_begin_of_a_wait_costs_a_few_per_cent_at_most() {
    let mut worst = 0.0_f64;
    let mut sum = 0.0;
    for n_gaps in (1..4000).step_by(61) {
        let mut holder = Holder::new();
        for _ in 0..777 + n_gaps {
            holder.run(50_000);
            holder.sleep(Bucket::WalFsync as u32, 100_000, 1000);
        }
        let since_ns = holder.now_ns;
        for _ in 0..n_gaps {
            holder.sleep(READ, 150_000, 1000);
            holder.run(100);
        }
        let (_, covered_ns, wrong_ns) = holder.explain(since_ns);
        let asked_ns = holder.now_ns - since_ns;
        assert!(covered_ns + 20_000 >= asked_ns, "{covered_ns} of {asked_ns}");
        worst = worst.max(wrong_ns as f64 / asked_ns as f64);
        sum += wrong_ns as f64 / asked_ns as f64;
    }
    assert!(worst < 0.065, "{worst}");
    assert!(sum / 66.0 < 0.03, "{}", sum / 66.0);
}

#[test]
fn an_idle_minute_before_a_burst_does_not_blur_it() {
    let mut holder = Holder::new();
    for _ in 0..100 {
        holder.run(10_000);
        holder.sleep(IDLE, 60_000_000_000, 1000);
    }
    let since_ns = holder.now_ns + 5_000;
    for _ in 0..GAPS * 3 {
        holder.run(10_000);
        holder.sleep(READ, 100_000, 1000);
    }
    let (said, covered_ns, wrong_ns) = holder.explain(since_ns);
    assert!(covered_ns + 20_000 >= holder.now_ns - since_ns);
    assert!(wrong_ns * 50 < covered_ns, "{wrong_ns} of {covered_ns} wrong: {said:?}");
}

#[test]
fn what_was_before_its_time_is_not_known() {
    let mut holder = Holder::new();
    for _ in 0..500 {
        holder.sleep(READ, 1_000_000, 100);
    }
    // The slot's next owner: nothing of the last one's past may show.
    holder.now_ns += 1_000_000;
    let born_ns = holder.now_ns;
    holder.be_born();
    for n_gaps in [0, 3, 60] {
        for _ in 0..n_gaps {
            holder.run(1000);
            holder.sleep(Bucket::Client as u32, 2_000_000, 100);
        }
        let (said, covered_ns, _) = holder.explain(born_ns - 400_000_000);
        assert_eq!(said[Bucket::PageRead as usize], 0, "after {n_gaps}: {said:?}");
        assert!(covered_ns <= holder.now_ns - born_ns, "after {n_gaps}");
    }
}

#[test]
fn indexes_of_events_another_process_ends_are_one_to_one() {
    let mut seen = vec![false; HELD_SLOTS];
    for index in 0..event::EVENT_SLOTS as u32 {
        let Some(held) = held_index(index) else { continue };
        assert_eq!(event_of(held), index);
        assert!(!std::mem::replace(&mut seen[held as usize], true), "{index}");
    }
    assert!(seen.iter().all(|seen| *seen));
    assert_eq!(held_index(event::index(0x0a00_0001)), None);
    assert_eq!(held_index(event::PREEMPTED), None);
}

const TRANSACTIONID: u32 = event::index(0x0300_0005);
const WAL_WRITE: u32 = event::index(0x0100_0008);

#[test]
fn a_wait_ends_with_the_wake_up_by_its_holder() {
    let mut wait = HeldWait::default();
    wait.sleep(WAL_WRITE, 100);
    assert_eq!(wait.let_go(100), Some(100));
    assert_eq!(wait.let_go(100), None, "one end is enough");
    wait.roused(100, 150);
    assert_eq!(wait.leave(), None);
    // The next is another wait, though it follows at once.
    wait.sleep(TRANSACTIONID, 200);
    assert_eq!(wait.let_go(200), Some(200));
    assert!(!wait.continues(TRANSACTIONID));
    wait.sleep(TRANSACTIONID, 230);
    assert_eq!(wait.let_go(230), Some(230));
}

#[test]
fn an_interrupted_wait_for_a_lock_goes_on() {
    let mut wait = HeldWait::default();
    wait.sleep(TRANSACTIONID, 100);
    // The deadlock check: roused by an interrupt, asleep again.
    wait.roused(100, 1_000);
    assert!(wait.continues(TRANSACTIONID));
    wait.sleep(TRANSACTIONID, 1_010);
    assert_eq!(wait.let_go(1_010), Some(100), "the wait began before the check");
}

#[test]
fn a_wait_nobody_ended_is_over_when_the_waiter_does_something_else() {
    let mut wait = HeldWait::default();
    wait.sleep(TRANSACTIONID, 100);
    wait.roused(100, 700);
    assert!(!wait.continues(WAL_WRITE));
    assert_eq!(wait.leave(), Some(600));
    assert_eq!(wait.leave(), None);
    // An LWLock is not waited for twice in one wait.
    wait.sleep(WAL_WRITE, 800);
    wait.roused(800, 850);
    assert!(!wait.continues(WAL_WRITE));
    assert_eq!(wait.leave(), Some(50));
    // Its wake-up was lost as well: no length is better than a wrong one.
    wait.sleep(WAL_WRITE, 900);
    assert_eq!(wait.leave(), None);
}

#[test]
fn a_wait_that_began_before_anybody_looked_counts_from_there() {
    let mut wait = HeldWait::default();
    assert_eq!(wait.let_go(5_000), Some(5_000));
    assert_eq!(wait.let_go(5_000), None);
}
