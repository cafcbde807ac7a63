//! Chains, sampling and holders' statements, on records made here.

use super::*;
use crate::model::statements::tests::record;

const TRANSACTIONID: u32 = profiler_common::event::index(0x0300_0005);
const TUPLE: u32 = profiler_common::event::index(0x0300_0004);
const WAL_WRITE: u32 = profiler_common::event::index(0x0100_0008);

/// A wait and the sums of all waits added.
fn wait_for(
    (locks, sums): (&mut Locks, &mut HeldSums),
    event: u32,
    (waiter, holder): (u32, u32),
    (since_ns, until_ns): (u64, u64),
    parts: &[(u32, u64)],
) {
    let mut buckets = [0; BUCKET_SLOTS];
    for (bucket, ns) in parts {
        buckets[*bucket as usize] += ns;
    }
    let covered_ns = buckets.iter().sum();
    locks.add(&HeldRecord {
        kind: profiler_common::held::KIND_HELD,
        event,
        waiter,
        holder,
        since_ns,
        until_ns,
        covered_ns,
        buckets,
    });
    let blocked_ns = until_ns - since_ns;
    sums.add(event, &HeldTotals { waits: 1, blocked_ns, max_ns: blocked_ns, covered_ns, buckets });
}

fn built(locks: &Locks, sums: &HeldSums) -> Vec<LockWait> {
    let holder =
        ProcessSample { pid: 1, backend_type: Some("client backend".to_owned()), buckets: [0; BUCKET_SLOTS] };
    locks.build(sums, &[holder], &mut Statements::new(false))
}

fn causes(wait: &LockWait) -> Vec<(Bucket, u64)> {
    wait.causes.iter().map(|cause| (cause.bucket.0, cause.time_ns)).collect()
}

const CPU: u32 = Bucket::Cpu as u32;
const LOCK: u32 = Bucket::Lock as u32;
const CLIENT: u32 = Bucket::Client as u32;
const READ: u32 = Bucket::PageRead as u32;

#[test]
fn a_chain_of_three_ends_at_its_first_link() {
    let (mut locks, mut sums) = (Locks::new(15), HeldSums::default());
    // 1 is idle in its transaction; 2 waits for it and then makes 3 wait a little more.
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (2, 1), (1_000, 5_000), &[(CLIENT, 3_900), (CPU, 100)]);
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (3, 2), (3_000, 5_200), &[(LOCK, 2_000), (CPU, 200)]);
    let waits = built(&locks, &sums);
    assert_eq!(waits.len(), 1);
    let wait = &waits[0];
    assert_eq!((wait.class.as_str(), wait.event.as_str()), ("Lock", "transactionid"));
    assert_eq!((wait.waits, wait.blocked_ns, wait.max_ns), (2, 6_200, 4_000));
    assert_eq!((wait.recorded, wait.in_chains, wait.chain_max), (2, 1, 2));
    // 3,900 of the first, and of the second's 2,000 behind a lock the same share.
    assert_eq!(causes(wait), [(Bucket::Client, 3_900 + 1_950), (Bucket::Cpu, 100 + 50 + 200)]);
    assert_eq!(wait.explained, 1.0);
    let holders: Vec<_> = wait.holders.iter().map(|holder| (holder.pid, holder.blocked_ns)).collect();
    assert_eq!(holders, [(1, 4_000), (2, 2_200)]);
    assert_eq!(wait.holders[0].backend_type.as_deref(), Some("client backend"));
    assert_eq!(wait.holders[1].backend_type, None);
}

#[test]
fn a_chain_leads_through_other_kinds_of_waits() {
    let (mut locks, mut sums) = (Locks::new(15), HeldSums::default());
    // 1 leads the group commit that 2 waits for, which holds the row that 3 waits for, behind whom 4 queues.
    let fsync = Bucket::WalFsync as u32;
    wait_for((&mut locks, &mut sums), WAL_WRITE, (2, 1), (100, 900), &[(fsync, 780), (CPU, 20)]);
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (3, 2), (100, 1_000), &[(fsync, 800), (CPU, 100)]);
    wait_for((&mut locks, &mut sums), TUPLE, (4, 3), (200, 1_050), &[(LOCK, 800), (CPU, 50)]);
    let waits = built(&locks, &sums);
    let tuple = waits.iter().find(|wait| wait.event == "tuple").expect("a wait for the tuple");
    assert_eq!((tuple.chain_max, tuple.in_chains), (3, 1));
    // Of 3's wait 880 of 900 were the flush (780 + 20 of it passed on with its own 20 of CPU).
    let told = causes(tuple);
    assert_eq!(told[0].0, Bucket::WalFsync);
    assert!(told[0].1 > 690 && told.iter().all(|(bucket, _)| *bucket != Bucket::Lock), "{told:?}");
    assert_eq!(told.iter().map(|(_, ns)| ns).sum::<u64>(), 850);
}

#[test]
fn only_the_explained_part_of_a_link_gives_way() {
    let (mut locks, mut sums) = (Locks::new(15), HeldSums::default());
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (2, 1), (0, 1_000), &[(READ, 250)]);
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (3, 2), (0, 1_000), &[(LOCK, 1_000)]);
    // Nobody is known to have ended this one.
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (4, 0), (0, 500), &[]);
    let waits = built(&locks, &sums);
    assert_eq!(causes(&waits[0]), [(Bucket::Lock, 750), (Bucket::PageRead, 500)]);
    assert_eq!(waits[0].explained, 0.5);
    assert_eq!((waits[0].waits, waits[0].recorded, waits[0].in_chains), (3, 3, 1));
}

#[test]
fn waits_before_or_of_others_are_no_links() {
    let (mut locks, mut sums) = (Locks::new(15), HeldSums::default());
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (2, 1), (0, 100), &[(READ, 100)]);
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (9, 1), (200, 300), &[(READ, 100)]);
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (3, 2), (100, 300), &[(LOCK, 200)]);
    let waits = built(&locks, &sums);
    assert_eq!(causes(&waits[0]), [(Bucket::PageRead, 200), (Bucket::Lock, 200)]);
    assert_eq!((waits[0].in_chains, waits[0].chain_max), (0, 1));
}

#[test]
fn what_was_recorded_divides_what_was_counted() {
    let (mut locks, mut sums) = (Locks::new(15), HeldSums::default());
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (2, 1), (0, 1_000), &[(CLIENT, 1_000)]);
    wait_for((&mut locks, &mut sums), TRANSACTIONID, (3, 2), (0, 1_000), &[(LOCK, 1_000)]);
    let mut buckets = [0; BUCKET_SLOTS];
    buckets[IDLE as usize] = 999;
    let more = HeldTotals { waits: 7, blocked_ns: 1_000, max_ns: 400, covered_ns: 999, buckets };
    sums.add(TRANSACTIONID, &more);
    let waits = built(&locks, &sums);
    assert_eq!(causes(&waits[0]), [(Bucket::Client, 2_999)]);
    assert_eq!((waits[0].waits, waits[0].recorded), (9, 2));
    // Nothing recorded at all: the sums stand as they are, a holder idle outside transactions with them.
    let alone = built(&Locks::new(15), &sums.minus(&HeldSums::default()));
    assert_eq!(causes(&alone[0]), [(Bucket::Client, 1_999), (Bucket::Lock, 1_000)]);
    assert_eq!(built(&locks, &sums.minus(&sums)), []);
}

#[test]
fn a_holder_is_shown_with_the_statement_that_held() {
    let statement = |text: &str, pid: u32, start_ns: u64, end_ns: u64| {
        let mut statement = record(text, 0);
        (statement.pid, statement.start_ns, statement.end_ns) = (pid, start_ns, end_ns);
        statement
    };
    let (mut locks, mut sums) = (Locks::new(15), HeldSums::default());
    // 1 commits what it updated before; 5 lets go at the end of a single statement; 6's was not recorded.
    locks.statement(&statement("update t set a = 5", 1, 100, 200));
    locks.statement(&statement("select 1", 5, 50, 60));
    for (waiter, holder) in [(2, 1), (3, 5), (4, 6)] {
        let span = (150, 290 + u64::from(holder));
        wait_for((&mut locks, &mut sums), TRANSACTIONID, (waiter, holder), span, &[(CPU, 140)]);
    }
    locks.statement(&statement("COMMIT;", 1, 280, 300));
    locks.statement(&statement("delete from t where a = 1", 5, 90, 310));
    locks.statement(&statement("select 2", 6, 500, 600));
    let waits = built(&locks, &sums);
    let text = |pid| {
        let holder = waits[0].holders.iter().find(|holder| holder.pid == pid).expect("a holder");
        holder.statement.as_deref()
    };
    assert_eq!(text(1), Some("update t set a = ?"));
    assert_eq!(text(5), Some("delete from t where a = ?"));
    assert_eq!(text(6), None);
}
