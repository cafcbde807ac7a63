//! The invented runs.

use std::sync::LazyLock;

use pgstall::model::{
    profile::{EndedBy, Filters, Probe, Profile},
    wal::Flushes,
};
use profiler_common::{
    bucket::Bucket,
    flush::{FlushTotals, Flushed},
    loss::Loss,
};

use super::*;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// Every scenario by the name of its files.
pub fn all() -> Vec<(&'static str, Profile)> {
    static ALL: LazyLock<Vec<(&'static str, Profile)>> = LazyLock::new(invent);
    ALL.clone()
}

fn invent() -> Vec<(&'static str, Profile)> {
    vec![
        ("update_heavy", update_heavy()),
        ("select_only", select_only()),
        ("lock_pile_up", lock_pile_up()),
        ("idle", idle()),
        ("approximate_partial", approximate_partial()),
    ]
}

/// Group commit on a slow volume, some page reads, one table lock somebody still waits for.
fn update_heavy() -> Profile {
    let (mut run, mut draw) = (Run::new(), Draw::new());
    let texts = [
        "UPDATE pgbench_accounts SET abalance = abalance + -4242 WHERE aid = 91;",
        "UPDATE pgbench_branches SET bbalance = bbalance + 17 WHERE bid = 3;",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, -4, CURRENT_TIMESTAMP);",
        "END;",
    ];
    let mut flushes: [Vec<u64>; 2] = Default::default();
    for second in 0..30 {
        let stalled = second == 21;
        for at in 0..(if stalled { 60 } else { 400 + second as usize }) {
            let mut waits = vec![];
            for _ in 0..2 {
                if draw.once_in(3) {
                    waits.push((DATA_FILE_READ, draw.around(2 * MS)));
                }
            }
            if draw.once_in(4) {
                waits.push((WAL_WRITE, draw.around(300 * US)));
                let sync_ns = draw.around(if stalled { 190 * MS } else { 14 * MS });
                flushes[at % 50 / 49].push(sync_ns);
                waits.push((WAL_SYNC, sync_ns));
            } else {
                waits.push((WAL_WRITE_LOCK, draw.around(if stalled { 230 * MS } else { 19 * MS })));
            }
            if draw.once_in(20) {
                waits.push((TRANSACTIONID, draw.around(28 * MS)));
            }
            if draw.once_in(60) {
                waits.push((TUPLE, draw.around(9 * MS)));
            }
            if draw.once_in(500) {
                waits.push((UNKNOWN_LWLOCK, draw.around(90 * US)));
            }
            if draw.once_in(40) {
                waits.push((0, draw.around(70 * US)));
            }
            waits.push((CLIENT_READ, draw.around(120 * US)));
            run.unit(&Unit {
                cpu_ns: draw.around(430 * US),
                run_queue_ns: draw.around(210 * US),
                waits,
                transactions: 1,
                text: texts[at % texts.len()],
            });
        }
        run.end_second();
    }
    run.connection(3 * MS);
    run.connection(4 * MS);
    run.open.push(open(
        4099,
        Some(12 * SECOND),
        Some(RELATION),
        30,
        Some("ALTER TABLE pgbench_accounts ADD COLUMN note text"),
    ));
    run.open.push(open(4003, Some(9 * MS), Some(WAL_WRITE_LOCK), 30, Some("END;")));
    run.open.push(open(4005, Some(4 * MS), None, 30, None));
    let of = |bucket: Bucket| bucket as u32;
    for pid in 0..16 {
        let parts = [
            (of(Bucket::WalFsync), 0.72),
            (of(Bucket::PageRead), 0.05),
            (of(Bucket::Lock), 0.06),
            (of(Bucket::Cpu), 0.02),
            (of(Bucket::RunQueue), 0.01),
            (IDLE_SLOT, 0.14),
        ];
        run.process(4000 + pid, Some("client backend"), &parts);
    }
    run.process(1240, Some("checkpointer"), &[(of(Bucket::OtherWait), 0.9), (of(Bucket::OtherIo), 0.1)]);
    run.process(1241, Some("walwriter"), &[(of(Bucket::OtherWait), 0.98), (of(Bucket::WalFsync), 0.02)]);
    run.of_type(&[(WAL_WRITER_MAIN, 140, 29_400 * MS), (WAL_SYNC, 31, 600 * MS)], &[]);
    run.process(
        1300,
        Some("autovacuum worker"),
        &[(of(Bucket::OtherWait), 0.2), (of(Bucket::PageRead), 0.1)],
    );
    run.of_type(
        &[(VACUUM_DELAY, 2_900, 6_000 * MS), (DATA_FILE_READ, 4_100, 3_000 * MS)],
        &[("VACUUM public.pgbench_accounts", Bucket::PageRead, 3_000 * MS)],
    );
    run.process(1242, None, &[(of(Bucket::OtherWait), 1.0)]);
    run.backends(&[(Bucket::WalFsync, 11.5), (Bucket::PageRead, 0.8), (Bucket::Cpu, 0.3)], 1_900 * MS);
    run.host.cpu_busy_ns = Some(57_000 * MS);
    run.host.steal_ns = Some(2_400 * MS);
    run.wal = Some(wal(&flushes));
    run.profile(30)
}

/// The log, flushed by client backends (first) and the WAL writer (second).
fn wal(flushes: &[Vec<u64>; 2]) -> WalInput {
    let mut counted = Flushes::default();
    for lengths in flushes {
        let mut totals = FlushTotals::default();
        for length_ns in lengths {
            totals.add(Flushed { length_ns: *length_ns, blocked_ns: length_ns * 9 / 10 });
            counted.lengths.counts[bucket_of(*length_ns)] += 1;
        }
        counted.by_type.push(totals);
    }
    WalInput {
        flushes: counted,
        type_names: vec![Some("client backend"), Some("walwriter")],
        sync_method: Some("fdatasync".to_owned()),
        full_page_writes: Some(true),
        fsync: Some(true),
        writes_counted: true,
    }
}

/// Everything cached, many transactions, statements sampled.
fn select_only() -> Profile {
    let (mut run, mut draw) = (Run::new(), Draw::new());
    run.weight = 16;
    run.capture.statement_every = Some(16);
    for _ in 0..5 {
        for _ in 0..4000 {
            let unit = Unit {
                cpu_ns: draw.around(38 * US),
                run_queue_ns: if draw.once_in(3) { draw.around(9 * US) } else { 0 },
                waits: vec![],
                transactions: 1,
                text: "SELECT abalance FROM pgbench_accounts WHERE aid = 4711;",
            };
            run.unit(&unit);
        }
        run.end_second();
    }
    run.profile(5)
}

/// A row everybody wants; requests that hold several transactions; losses.
fn lock_pile_up() -> Profile {
    let (mut run, mut draw) = (Run::new(), Draw::new());
    let mut held = Draw::new();
    let long = "WITH candidates AS (SELECT o.id, o.customer_id, o.total FROM sales.orders o JOIN sales.customers c ON \
                c.id = o.customer_id WHERE o.state IN ('open', 'held', 'late') AND o.created_at > '2026-02-01' AND \
                c.region = 'north') UPDATE sales.orders SET state = 'closed', closed_at = now() FROM candidates WHERE \
                orders.id = candidates.id AND orders.total < 1000 RETURNING orders.id";
    for _ in 0..10 {
        for at in 0..30 {
            run.unit(&Unit {
                cpu_ns: draw.around(900 * US),
                run_queue_ns: draw.around(80 * US),
                waits: vec![
                    (TRANSACTIONID, draw.around(260 * MS)),
                    (TUPLE, draw.around(110 * MS)),
                    (WAL_SYNC, draw.around(MS)),
                ],
                transactions: if at == 0 { 3 } else { 1 },
                text: long,
            });
        }
        // One holder whose client thinks; behind it another waiter, and one that nobody is known to have let go.
        let of = |bucket: Bucket| bucket as u32;
        let thinking = [(of(Bucket::Client), 0.7), (of(Bucket::WalFsync), 0.27), (of(Bucket::Cpu), 0.03)];
        run.held(TRANSACTIONID, (4002, 4001), held.around(800 * MS).min(SECOND), &thinking);
        run.held(TUPLE, (4003, 4002), held.around(400 * MS).min(SECOND), &[(of(Bucket::Lock), 1.0)]);
        run.held(TUPLE, (4004, 0), held.around(20 * MS), &[]);
        for pid in 4005..4010 {
            run.held(WAL_WRITE_LOCK, (pid, 4001), held.around(MS), &[(of(Bucket::WalFsync), 1.0)]);
        }
        run.end_second();
    }
    run.lose(Loss::RecordDropped, 12);
    run.lose(Loss::WaitUnreadable, 3);
    run.lose(Loss::IdleSend, 40);
    run.open.push(open(
        7001,
        None,
        Some(CLIENT_READ),
        10,
        Some("UPDATE sales.orders SET state = 'held' WHERE id = 77"),
    ));
    for pid in 0..14 {
        run.open.push(open(
            7100 + pid,
            Some(2 * SECOND + u64::from(pid) * MS),
            Some(TRANSACTIONID),
            10,
            Some(long),
        ));
    }
    run.host.cgroup_throttled_ns = Some(900 * MS);
    run.profile(10)
}

/// Nobody did anything.
fn idle() -> Profile {
    let mut run = Run::new();
    for _ in 0..30 {
        run.end_second();
    }
    run.capture.filters = Filters { min_latency_ns: Some(5 * MS), ..Filters::default() };
    run.capture.statement_every = None;
    run.profile(30)
}

/// The cheapest borders, the postmaster stopped, most of it without a name, one transaction in all.
fn approximate_partial() -> Profile {
    let mut run = Run::new();
    run.capture.borders.signal = "sched_switch".to_owned();
    run.capture.borders.exact = false;
    run.capture.borders.reason = Some("asked for with --borders sched".to_owned());
    run.capture.backends_followed = None;
    run.capture.agent_cpu_ns = None;
    run.capture.probes = vec![Probe {
        name: "sock_send_length".to_owned(),
        attached: false,
        reason: Some("not wanted".to_owned()),
        runs: None,
        run_ns: None,
    }];
    run.unit(&Unit {
        cpu_ns: 700 * US,
        run_queue_ns: 0,
        waits: vec![(0, 4 * MS)],
        transactions: 1,
        text: "SELECT count(*) FROM big WHERE note LIKE 'abc",
    });
    run.end_second();
    run.ended_by = EndedBy::PostmasterExit;
    run.profile(30)
}
