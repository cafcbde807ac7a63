//! Waits for I/O are split so that the parts add up, whatever the instants are.

use profiler_common::{
    backend::Backend,
    block::{Completion, FRESH_NS, operation, user},
    bucket::{Bucket, kind},
    ledger::{LossCounter, SchedInfo, SchedulerClock},
    loss::Loss,
    storage::{Link, STORAGE_PARTS, StorageTotals, part},
};
use proptest::prelude::*;

const READS: u32 = Bucket::PageRead as u32 | kind::STORAGE;
const SYNCS: u32 = Bucket::WalFsync as u32 | kind::STORAGE | kind::WAL_SYNC;
const OTHER: u32 = Bucket::OtherIo as u32 | kind::STORAGE;
const FOLLOWS: u32 = Bucket::WalFsync as u32 | kind::HELD;

fn link(made_ns: u64, issued_ns: u64, completed_ns: u64) -> Link {
    Link { made_ns, issued_ns, completed_ns }
}

#[test]
fn a_wait_is_cut_at_the_instants_of_its_request() {
    let check = |link: Link, expected: [u64; STORAGE_PARTS]| {
        assert_eq!(link.split(100, 200), expected, "{link:?}");
    };
    // Asked for before the backend slept, issued after.
    check(link(90, 120, 195), [20, 75, 5, 0]);
    // At the device already when it went to sleep.
    check(link(80, 95, 195), [0, 95, 5, 0]);
    // Made by a kernel thread in the middle of the wait.
    check(link(150, 160, 200), [10, 40, 0, 50]);
    // The same by one whose instant says nothing.
    check(link(0, 160, 200), [60, 40, 0, 0]);
    // No request, one that was over before, one that is not over yet.
    check(Link::default(), [0, 0, 0, 100]);
    check(link(10, 20, 99), [0, 0, 0, 100]);
    check(link(110, 120, 201), [0, 0, 0, 100]);
    // Disorder of clocks moves borders, never the sum.
    check(link(180, 120, 150), [0, 30, 50, 20]);
}

proptest! {
    #[test]
    fn the_parts_of_a_wait_add_up(
        instants in prop::array::uniform3(0u64..1000), out_ns in 0u64..500, blocked_ns in 0u64..500
    ) {
        let [made_ns, issued_ns, completed_ns] = instants;
        let mut totals = StorageTotals::default();
        totals.add(link(made_ns, issued_ns, completed_ns), out_ns, out_ns + blocked_ns);
        prop_assert_eq!(totals.parts.iter().sum::<u64>(), blocked_ns);
        if !link(made_ns, issued_ns, completed_ns).ended(out_ns, out_ns + blocked_ns) {
            prop_assert_eq!(totals.parts[part::UNLINKED], blocked_ns);
        }
    }
}

#[test]
fn a_backend_waits_for_its_own_requests_for_the_kernels_and_for_pages_others_read() {
    let completion =
        |slot, user, operation| Completion { link: link(10, 20, 1000), slot, user, operation, reserved: 0 };
    let backend = user::BACKEND_TYPE + 3;
    assert!(completion(7, backend, operation::WRITE).is_of(7));
    assert!(completion(8, backend, operation::READ).is_of(7));
    assert!(!completion(8, backend, operation::WRITE).is_of(7), "another backend's write");
    assert!(!completion(0, user::OTHER_PROCESS, operation::WRITE).is_of(7), "a stranger's write");
    assert!(completion(0, user::JBD2, operation::WRITE).is_of(7));
    let own = completion(7, backend, operation::WRITE);
    assert_eq!(own.instants(1000 + FRESH_NS), Some(link(10, 20, 1000)));
    assert_eq!(own.instants(1001 + FRESH_NS), None, "long ago");
    assert_eq!(Completion::default().instants(10), None, "nothing completed on this CPU yet");
    let by_worker = completion(0, user::KWORKER, operation::WRITE).instants(1010);
    assert_eq!(by_worker, Some(link(0, 20, 1000)), "when a worker asked says nothing of the waiter");
    let by_journal = completion(0, user::JBD2, operation::WRITE).instants(1010);
    assert_eq!(by_journal, Some(link(10, 20, 1000)));
}

struct NoLoss;

impl LossCounter for NoLoss {
    fn count(&mut self, loss: Loss) {
        panic!("{} in a time line without one", loss.name());
    }
}

/// A backend that runs at even hundreds and waits in between.
struct Life {
    backend: Backend,
    clock: SchedulerClock,
    now_ns: u64,
}

impl Life {
    fn new() -> Life {
        let mut backend = Backend::default();
        backend.begin_forked(1, 1000);
        let mut life = Life { backend, clock: SchedulerClock::default(), now_ns: 1000 };
        life.come_back();
        life.backend.close(1);
        life
    }

    fn come_back(&mut self) {
        self.backend.ledger.switch_in(self.now_ns, &mut NoLoss);
        self.advance();
    }

    fn advance(&mut self) {
        let info = SchedInfo { run_delay_ns: 0, last_arrival_ns: self.now_ns };
        self.backend.advance(self.now_ns, info, &mut self.clock, 99, &mut NoLoss);
    }

    /// Waits for `blocked_ns` and is woken by a completion.
    fn wait(&mut self, bucket: u32, blocked_ns: u64, link: Option<Link>) {
        self.now_ns += 10;
        self.advance();
        self.backend.switch_out(5, bucket, false, 0);
        self.now_ns += blocked_ns;
        self.backend.ledger.wake(self.now_ns);
        if let Some(link) = link {
            self.backend.ledger.link(link, true);
        }
        self.now_ns += 3;
        self.come_back();
    }
}

#[test]
fn storage_adds_up_to_the_blocked_time_of_the_waits_for_io_of_its_bucket() {
    let mut life = Life::new();
    let at = life.now_ns + 10;
    life.wait(READS, 100, Some(link(at - 5, at + 20, at + 90)));
    assert!(life.backend.ledger.waits_for_storage());
    // The same link is stale in the next wait.
    life.wait(READS, 40, None);
    life.wait(SYNCS, 70, None);
    life.wait(OTHER, 1000, Some(link(1, 2, life.now_ns + 500)));
    life.wait(FOLLOWS, 30, None);
    assert!(!life.backend.ledger.waits_for_storage());
    let ledger = &life.backend.ledger;
    let [reads, syncs] = ledger.storage;
    assert_eq!(reads, StorageTotals { parts: [20, 70, 10, 40] });
    assert_eq!(syncs, StorageTotals { parts: [0, 0, 0, 70] });
    assert_eq!(reads.parts.iter().sum::<u64>(), ledger.buckets[Bucket::PageRead as usize]);
    // Waiting for another's flush is no I/O of one's own.
    assert_eq!(syncs.parts.iter().sum::<u64>() + 30, ledger.buckets[Bucket::WalFsync as usize]);
    life.backend.close(2);
    assert_eq!(life.backend.ledger.storage, [StorageTotals::default(); 2], "the next unit begins with none");
}

impl Life {
    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        self.advance();
    }

    fn queued_ns(&self) -> u64 {
        self.backend.ledger.storage[1].parts[part::QUEUE]
    }
}

#[test]
fn waiting_for_the_turn_to_make_a_request_is_queueing() {
    let mut life = Life::new();
    life.pass(5);
    let asked_ns = life.now_ns;
    life.backend.ledger.ask(asked_ns);
    // Woken in between without getting its turn, then with it.
    life.wait(SYNCS, 300, None);
    life.wait(SYNCS, 200, None);
    assert_eq!(life.backend.ledger.made(life.now_ns), asked_ns);
    // The next request needs no turn, and is waited for itself.
    life.backend.ledger.ask(life.now_ns);
    assert_eq!(life.backend.ledger.made(life.now_ns + 2), life.now_ns, "asked for just now");
    let at = life.now_ns;
    life.wait(SYNCS, 100, Some(link(at, at + 5, at + 100)));
    let syncs = life.backend.ledger.storage[1];
    assert_eq!(syncs.parts, [500, 90, 10, 0], "{syncs:?}");
    life.wait(SYNCS, 60, None);
    assert_eq!(life.backend.ledger.storage[1].parts[part::UNLINKED], 60, "nothing was asked for");
}

#[test]
fn a_request_made_before_the_gap_is_split_is_remembered_with_the_gap() {
    let mut life = Life::new();
    life.pass(5);
    life.backend.ledger.ask(life.now_ns);
    // Back from its turn, not seen in its own context again before two requests are made.
    life.now_ns += 10;
    life.advance();
    life.backend.switch_out(5, SYNCS, false, 0);
    life.now_ns += 400;
    life.backend.ledger.wake(life.now_ns);
    life.backend.ledger.switch_in(life.now_ns + 1, &mut NoLoss);
    let asked_ns = life.now_ns - 410;
    assert_eq!(life.backend.ledger.made(life.now_ns + 2), asked_ns);
    life.backend.ledger.ask(life.now_ns + 3);
    assert_eq!(life.backend.ledger.made(life.now_ns + 4), life.now_ns + 3);
    // A third one has to wait for its turn again.
    life.backend.ledger.ask(life.now_ns + 5);
    life.now_ns += 10;
    life.wait(SYNCS, 300, None);
    assert_eq!(life.queued_ns(), 700);
    assert_eq!(life.backend.ledger.made(life.now_ns), life.now_ns - 318);
    life.wait(SYNCS, 60, None);
    assert_eq!(life.queued_ns(), 700, "only those gaps were spent asking");
}

#[test]
fn a_wait_ended_by_ones_request_is_over_with_asking() {
    let mut life = Life::new();
    life.pass(5);
    // Merged into a request that was there already: it is never made.
    life.backend.ledger.ask(life.now_ns);
    let at = life.now_ns + 10;
    life.wait(SYNCS, 100, Some(link(at - 50, at - 40, at + 90)));
    life.wait(SYNCS, 70, None);
    assert_eq!(life.backend.ledger.storage[1].parts, [0, 90, 10, 70]);
}

#[test]
fn a_request_asked_for_before_an_earlier_wait_is_split_is_still_waited_for() {
    let mut life = Life::new();
    life.pass(15);
    life.backend.switch_out(5, SYNCS, false, 0);
    let out_ns = life.now_ns;
    life.backend.ledger.wake(out_ns + 100);
    life.backend.ledger.link(link(out_ns - 5, out_ns, out_ns + 98), true);
    life.now_ns += 101;
    life.backend.ledger.switch_in(life.now_ns, &mut NoLoss);
    life.backend.ledger.ask(life.now_ns + 1);
    life.wait(SYNCS, 70, None);
    assert_eq!(life.backend.ledger.storage[1].parts, [70, 98, 2, 0]);
}

#[test]
fn anothers_completion_ends_a_wait_for_ones_turn_or_for_the_page_it_wrote() {
    let mut life = Life::new();
    life.pass(5);
    life.backend.ledger.ask(life.now_ns);
    for queued_ns in [50, 0] {
        life.now_ns += 10;
        life.advance();
        life.backend.switch_out(5, SYNCS, false, 0);
        let out_ns = life.now_ns;
        life.backend.ledger.link(link(out_ns - 30, out_ns - 20, out_ns + 48), false);
        life.now_ns += 50;
        life.backend.ledger.wake(life.now_ns);
        life.backend.ledger.switch_in(life.now_ns, &mut NoLoss);
        life.backend.ledger.made(life.now_ns);
        life.advance();
        let expected = if queued_ns != 0 { [50, 0, 0, 0] } else { [50, 48, 2, 0] };
        assert_eq!(life.backend.ledger.storage[1].parts, expected);
    }
}
