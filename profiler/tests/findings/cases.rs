//! For every rule: profiles on which it fires, profiles on which it does not, and the border between them.

use pgstall::model::profile::Profile;
use profiler_common::bucket::Bucket::{
    Client, Cpu, Lock, OtherIo, OtherWait, PageRead, Replication, RunQueue, Unattributed, WalFsync,
};

use crate::base::{
    MS, SECOND, US, budget, ceiling, device, ebs, event, lock, open, parts, share_of, timeline, user, wal,
};

/// A rule, what the profile is like, whether the rule fires on it, and how it is made of the unremarkable one.
pub type Case = (&'static str, &'static str, bool, fn(&mut Profile));

pub const CASES: &[Case] = &[
    ("no_answer", "nothing ended", true, |p| {
        p.transactions.count = 0;
        open(p, 77, None, None);
    }),
    ("no_answer", "a fifth without a name", true, |p| share_of(p, Unattributed, 200)),
    ("no_answer", "less than a fifth without a name", false, |p| share_of(p, Unattributed, 199)),
    ("no_answer", "an edge lost in every tenth transaction", true, |p| {
        p.capture.losses.insert("edge_missing".to_owned(), 1_000);
    }),
    ("no_answer", "fewer edges lost", false, |p| {
        p.capture.losses.insert("edge_missing".to_owned(), 999);
    }),
    ("no_answer", "only records lost", false, |p| {
        p.capture.losses.insert("record_dropped".to_owned(), 100_000);
    }),
    ("open_transaction", "open for 2 s and waiting", true, |p| {
        open(p, 77, Some(2 * SECOND), Some(("Lock", "relation", SECOND)));
    }),
    ("open_transaction", "open since before the window", true, |p| open(p, 77, None, None)),
    ("open_transaction", "open for a second", false, |p| open(p, 77, Some(SECOND), None)),
    ("open_transaction", "one that ended took longer", false, |p| {
        p.transactions.latency_ns.max = Some(3 * SECOND);
        open(p, 77, Some(2 * SECOND), None);
    }),
    ("device_at_ceiling", "a flat rate", true, |p| {
        let at = device(p, "nvme1n1", 30_000);
        ceiling(p, at, "iops", 2_998.0, Some("gp3 baseline (3,000 IOPS)"));
    }),
    ("device_at_ceiling", "a flat throughput", true, |p| {
        let at = device(p, "nvme1n1", 30_000);
        ceiling(p, at, "throughput", 131_000_000.0, None);
    }),
    ("device_at_ceiling", "EBS counts 5 % of the window", true, |p| {
        let at = device(p, "nvme1n1", 30_000);
        ebs(p, at, |ebs| ebs.instance_iops_exceeded_ns = 500 * MS);
    }),
    ("device_at_ceiling", "EBS counts less", false, |p| {
        let at = device(p, "nvme1n1", 30_000);
        ebs(p, at, |ebs| ebs.volume_iops_exceeded_ns = 499 * MS);
    }),
    ("device_at_ceiling", "a device with no ceiling", false, |p| {
        device(p, "nvme1n1", 30_000);
    }),
    ("fsync_bound_group_commit", "eight commits in a flush", true, |p| {
        share_of(p, WalFsync, 800);
        parts(p, WalFsync, &[("leader", 100 * US), ("follower", 700 * US)]);
        wal(p, Some(8.0));
    }),
    ("fsync_bound_group_commit", "flushes not counted, followers wait most", true, |p| {
        share_of(p, WalFsync, 300);
        parts(p, WalFsync, &[("leader", 150 * US), ("follower", 150 * US)]);
    }),
    ("fsync_bound_group_commit", "a smaller part", false, |p| {
        share_of(p, WalFsync, 299);
        wal(p, Some(8.0));
    }),
    ("fsync_bound_group_commit", "one commit in a flush", false, |p| {
        share_of(p, WalFsync, 800);
        wal(p, Some(1.49));
    }),
    ("fsync_bound_single", "one commit in a flush", true, |p| {
        share_of(p, WalFsync, 800);
        parts(p, WalFsync, &[("leader", 800 * US), ("follower", 0)]);
        wal(p, Some(1.49));
    }),
    ("fsync_bound_single", "flushes not counted, leaders wait most", true, |p| {
        share_of(p, WalFsync, 300);
        parts(p, WalFsync, &[("leader", 299 * US), ("follower", US)]);
    }),
    ("fsync_bound_single", "shared by two", false, |p| {
        share_of(p, WalFsync, 800);
        wal(p, Some(1.5));
    }),
    ("fsync_bound_single", "neither flushes nor parts known", false, |p| share_of(p, WalFsync, 800)),
    ("storage_share", "a fifth page reads", true, |p| share_of(p, PageRead, 200)),
    ("storage_share", "less than a fifth", false, |p| share_of(p, PageRead, 199)),
    ("storage_share", "less than a fifth, the rest in holders", true, |p| {
        budget(p, &[(PageRead, 100 * US), (Lock, 300 * US), (Cpu, 600 * US)]);
        event(p, Lock, "Lock", "transactionid", 300 * US, 100);
        lock(p, "Lock", "transactionid", &[(WalFsync, 400), (Cpu, 600)]);
    }),
    ("storage_share", "mostly temporary files", true, |p| share_of(p, OtherIo, 600)),
    ("storage_share", "no mean is known", false, |p| p.transactions.latency_ns.mean = None),
    ("lock_caused_by_storage", "a tenth of the time", true, |p| {
        share_of(p, Lock, 200);
        event(p, Lock, "Lock", "transactionid", 200 * US, 100);
        lock(p, "Lock", "transactionid", &[(WalFsync, 300), (PageRead, 200), (Cpu, 500)]);
    }),
    ("lock_caused_by_storage", "less than a tenth", false, |p| {
        share_of(p, Lock, 200);
        event(p, Lock, "Lock", "transactionid", 200 * US, 100);
        lock(p, "Lock", "transactionid", &[(WalFsync, 499), (Cpu, 501)]);
    }),
    ("lock_caused_by_storage", "holders not watched", false, |p| {
        share_of(p, Lock, 900);
        event(p, Lock, "Lock", "transactionid", 900 * US, 100);
    }),
    ("lock_caused_by_storage", "of another kind of wait", false, |p| {
        share_of(p, Lock, 900);
        event(p, Lock, "Lock", "transactionid", 900 * US, 100);
        lock(p, "LWLock", "WALWrite", &[(WalFsync, 1_000)]);
    }),
    ("idle_in_transaction", "a tenth of the time", true, |p| {
        share_of(p, Lock, 200);
        event(p, Lock, "Lock", "transactionid", 200 * US, 100);
        lock(p, "Lock", "transactionid", &[(Client, 500), (Cpu, 500)]);
    }),
    ("idle_in_transaction", "less than a tenth", false, |p| {
        share_of(p, Lock, 200);
        event(p, Lock, "Lock", "transactionid", 200 * US, 100);
        lock(p, "Lock", "transactionid", &[(Client, 499), (Cpu, 501)]);
    }),
    ("idle_in_transaction", "others still wait at the end", true, |p| {
        open(p, 77, None, Some(("Client", "ClientRead", 5 * SECOND)));
        open(p, 78, Some(4 * SECOND), Some(("Lock", "transactionid", 4 * SECOND)));
    }),
    ("idle_in_transaction", "nobody waits", false, |p| {
        open(p, 77, None, Some(("Client", "ClientRead", 5 * SECOND)));
    }),
    ("idle_in_transaction", "between two statements", false, |p| {
        open(p, 77, Some(SECOND), Some(("Client", "ClientRead", 999 * MS)));
        open(p, 78, Some(4 * SECOND), Some(("Lock", "transactionid", 500 * MS)));
    }),
    ("idle_in_transaction", "the wait is older", false, |p| {
        open(p, 77, Some(2 * SECOND), Some(("Client", "ClientRead", 2 * SECOND)));
        open(p, 78, Some(4 * SECOND), Some(("Lock", "transactionid", 4 * SECOND)));
    }),
    ("lock_waits", "a fifth, holders not watched", true, |p| {
        share_of(p, Lock, 200);
        event(p, Lock, "LWLock", "LockManager", 200 * US, 100);
    }),
    ("lock_waits", "holders sleep", true, |p| {
        share_of(p, Lock, 900);
        event(p, Lock, "Lock", "transactionid", 900 * US, 100);
        lock(p, "Lock", "transactionid", &[(OtherWait, 1_000)]);
    }),
    ("lock_waits", "less than a fifth", false, |p| share_of(p, Lock, 199)),
    ("lock_waits", "holders wait for storage", false, |p| {
        share_of(p, Lock, 900);
        event(p, Lock, "Lock", "transactionid", 900 * US, 100);
        lock(p, "Lock", "transactionid", &[(WalFsync, 1_000)]);
    }),
    ("run_queue_bound", "a fifth in the queue", true, |p| {
        share_of(p, RunQueue, 300);
        parts(p, RunQueue, &[("queued", 200 * US), ("wake_to_run", 100 * US)]);
        event(p, PageRead, "IO", "DataFileRead", US, 10);
        event(p, WalFsync, "IO", "WALSync", US, 10);
        event(p, OtherIo, "IO", "BufFileRead", US, 10);
        event(p, OtherIo, "IO", "BufFileWrite", US, 10);
        event(p, OtherIo, "IO", "SLRURead", US, 10);
        p.host.cpu_busy_ns = Some(39 * SECOND);
        p.host.steal_ns = Some(3 * SECOND);
    }),
    ("run_queue_bound", "a quota", true, |p| {
        share_of(p, RunQueue, 900);
        p.host.cgroup_throttled_ns = Some(8 * SECOND);
    }),
    ("run_queue_bound", "idle CPUs had to be roused", false, |p| {
        share_of(p, RunQueue, 300);
        parts(p, RunQueue, &[("queued", 199 * US), ("wake_to_run", 101 * US)]);
    }),
    ("client_round_trips", "three tenths of the time", true, |p| {
        share_of(p, Client, 300);
        event(p, Client, "Client", "ClientRead", 300 * US, 50_000);
    }),
    ("client_round_trips", "think time", true, |p| {
        budget(p, &[(Client, 50 * MS), (Cpu, MS)]);
        event(p, Client, "Client", "ClientRead", 50 * MS, 10_000);
    }),
    ("client_round_trips", "less than three tenths", false, |p| {
        share_of(p, Client, 300);
        event(p, Client, "Client", "ClientRead", 299 * US, 50_000);
    }),
    ("client_round_trips", "a client that reads slowly", false, |p| {
        share_of(p, Client, 900);
        event(p, Client, "Client", "ClientWrite", 900 * US, 50_000);
    }),
    ("standby_bound", "a fifth of the time", true, |p| share_of(p, Replication, 200)),
    ("standby_bound", "less than a fifth", false, |p| share_of(p, Replication, 199)),
    ("checkpoint_competes", "a quarter of a busy device", true, |p| {
        share_of(p, PageRead, 200);
        let at = device(p, "sdb", 5_000);
        user(p, at, "checkpointer", 0.25, 0);
    }),
    ("checkpoint_competes", "less than a quarter", false, |p| {
        share_of(p, PageRead, 200);
        let at = device(p, "sdb", 5_000);
        user(p, at, "checkpointer", 0.249, 0);
    }),
    ("checkpoint_competes", "nobody waits for storage", false, |p| {
        share_of(p, PageRead, 199);
        let at = device(p, "sdb", 5_000);
        user(p, at, "checkpointer", 0.9, 0);
    }),
    ("checkpoint_competes", "a device that is idle most of the time", false, |p| {
        share_of(p, PageRead, 500);
        let at = device(p, "sdb", 5_000);
        user(p, at, "checkpointer", 0.9, 0);
        p.devices.as_mut().expect("devices")[at].utilisation = Some(0.19);
    }),
    ("checkpoint_competes", "devices not watched", false, |p| share_of(p, PageRead, 900)),
    ("autovacuum_competes", "half of a busy device", true, |p| {
        share_of(p, WalFsync, 500);
        let at = device(p, "sdb", 5_000);
        user(p, at, "client backend", 0.5, 5_000);
        user(p, at, "autovacuum worker", 0.5, 5_000);
    }),
    ("autovacuum_competes", "the checkpointer's half", false, |p| {
        share_of(p, WalFsync, 500);
        let at = device(p, "sdb", 5_000);
        user(p, at, "checkpointer", 0.5, 5_000);
    }),
    ("backend_dirty_writes", "a tenth of the time", true, |p| {
        share_of(p, OtherIo, 150);
        event(p, OtherIo, "IO", "DataFileWrite", 60 * US, 100);
        event(p, OtherIo, "IO", "DataFileExtend", 40 * US, 100);
    }),
    ("backend_dirty_writes", "growing tables", true, |p| {
        share_of(p, OtherIo, 500);
        event(p, OtherIo, "IO", "DataFileExtend", 500 * US, 100);
    }),
    ("backend_dirty_writes", "less than a tenth", false, |p| {
        share_of(p, OtherIo, 150);
        event(p, OtherIo, "IO", "DataFileWrite", 99 * US, 100);
    }),
    ("backend_dirty_writes", "temporary files", false, |p| {
        share_of(p, OtherIo, 500);
        event(p, OtherIo, "IO", "BufFileWrite", 500 * US, 100);
    }),
    ("cold_cache_at_start", "from 30 % to 15 %", true, |p| timeline(p, &[300, 300, 200, 200, 150, 150])),
    ("cold_cache_at_start", "from less than 30 %", false, |p| timeline(p, &[299, 300, 200, 200, 10, 10])),
    ("cold_cache_at_start", "to more than half", false, |p| timeline(p, &[300, 300, 200, 200, 150, 151])),
    ("cold_cache_at_start", "too short a window", false, |p| timeline(p, &[900, 500, 200, 100, 10])),
    ("cold_cache_at_start", "shares fall because others grow", false, |p| {
        timeline(p, &[400, 400, 400, 400, 400, 400]);
        for interval in &mut p.timeline[4..] {
            interval.mean_ns = Some(10 * MS);
        }
    }),
    ("data_in_page_cache", "CPU and no reads", true, |p| {
        share_of(p, RunQueue, 200);
        let at = device(p, "nvme1n1", 400);
        user(p, at, "other processes", 1.0, 400);
    }),
    ("data_in_page_cache", "a read in a hundred transactions", true, |p| {
        share_of(p, PageRead, 10);
        device(p, "nvme1n1", 100);
    }),
    ("data_in_page_cache", "more reads", false, |p| {
        share_of(p, PageRead, 10);
        device(p, "nvme1n1", 101);
    }),
    ("data_in_page_cache", "reads take time", false, |p| {
        share_of(p, PageRead, 11);
        device(p, "nvme1n1", 0);
    }),
    ("data_in_page_cache", "commits take time", false, |p| {
        share_of(p, WalFsync, 51);
        device(p, "nvme1n1", 0);
    }),
    ("data_in_page_cache", "a standby takes time", false, |p| {
        share_of(p, Replication, 51);
        device(p, "nvme1n1", 0);
    }),
    ("data_in_page_cache", "something else takes the time", false, |p| {
        share_of(p, Lock, 501);
        device(p, "nvme1n1", 0);
    }),
    ("data_in_page_cache", "devices not watched", false, |p| share_of(p, RunQueue, 200)),
    ("data_in_page_cache", "one device's requests not seen", false, |p| {
        share_of(p, RunQueue, 200);
        device(p, "nvme1n1", 0);
        let at = device(p, "nvme2n1", 0);
        p.devices.as_mut().expect("devices")[at].depth_mean = None;
    }),
    ("data_in_page_cache", "no device found", false, |p| {
        share_of(p, RunQueue, 200);
        p.devices = Some(Vec::new());
    }),
    ("cpu_idle_while_waiting", "half busy, half waiting", true, |p| {
        share_of(p, PageRead, 500);
        p.host.cpu_busy_ns = Some(20 * SECOND);
        timeline(p, &[500; 3]);
    }),
    ("cpu_idle_while_waiting", "more than half busy", false, |p| {
        share_of(p, PageRead, 500);
        p.host.cpu_busy_ns = Some(20 * SECOND + MS);
    }),
    ("cpu_idle_while_waiting", "less than half waiting", false, |p| {
        share_of(p, PageRead, 499);
        p.host.cpu_busy_ns = Some(10 * SECOND);
    }),
    ("cpu_idle_while_waiting", "a quota keeps the CPUs idle", false, |p| {
        share_of(p, PageRead, 500);
        p.host.cpu_busy_ns = Some(10 * SECOND);
        p.host.cgroup_throttled_ns = Some(500 * MS);
    }),
    ("cpu_idle_while_waiting", "CPU time not known", false, |p| share_of(p, PageRead, 500)),
];
