//! A profile in which nothing is remarkable, and the strokes that make something so.

use pgstall::model::{
    bucket_name::BucketName,
    profile::{
        BucketBackends, BucketMean, BucketTime, Ceiling, Device, DeviceUser, Ebs, EventBudget, Interval,
        Latency, LockHolder, LockWait, OpenTransaction, Operation, Part, Profile, Waiting, Wal,
    },
};
use profiler_common::bucket::Bucket;

use crate::common::scenarios;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// Ten thousand transactions of 1 ms in ten seconds, half of it on a CPU, the rest spread thin; nothing of storage, locks
/// and processes was watched.
pub fn base() -> Profile {
    let all = scenarios::all();
    let (_, mut profile) = all.into_iter().find(|(name, _)| *name == "select_only").expect("the scenario");
    profile.findings = None;
    profile.window.duration_ns = 10 * SECOND;
    profile.host.cpus = Some(4);
    profile.host.cpu_busy_ns = None;
    profile.host.steal_ns = None;
    profile.capture.losses.clear();
    profile.timeline.clear();
    let transactions = &mut profile.transactions;
    transactions.count = 10_000;
    transactions.units = 10_000;
    transactions.tps = 1_000.0;
    transactions.latency_ns = Latency { mean: Some(MS), max: Some(10 * MS), ..Latency::default() };
    for line in &mut transactions.buckets {
        line.events.clear();
        line.parts.clear();
    }
    budget(
        &mut profile,
        &[
            (Bucket::Cpu, 500 * US),
            (Bucket::PageRead, 70 * US),
            (Bucket::WalFsync, 70 * US),
            (Bucket::Lock, 80 * US),
            (Bucket::RunQueue, 80 * US),
            (Bucket::Client, 80 * US),
            (Bucket::Replication, 80 * US),
            (Bucket::OtherWait, 40 * US),
        ],
    );
    profile
}

/// Gives these buckets these means and the others none.
pub fn budget(profile: &mut Profile, means: &[(Bucket, u64)]) {
    let all: u64 = means.iter().map(|(_, ns)| ns).sum();
    profile.transactions.latency_ns.mean = Some(all);
    for line in &mut profile.transactions.buckets {
        let mean = means.iter().find(|(bucket, _)| *bucket == line.bucket.0).map_or(0, |(_, ns)| *ns);
        line.mean_ns = Some(mean);
        line.share = Some(mean as f64 / all as f64);
    }
}

/// Gives a bucket this part of a millisecond, in thousandths, and the CPU the rest.
pub fn share_of(profile: &mut Profile, bucket: Bucket, thousandths: u64) {
    budget(profile, &[(bucket, thousandths * US), (Bucket::Cpu, (1_000 - thousandths) * US)]);
}

pub fn parts(profile: &mut Profile, bucket: Bucket, parts: &[(&str, u64)]) {
    let line =
        profile.transactions.buckets.iter_mut().find(|line| line.bucket.0 == bucket).expect("a bucket");
    let parts = parts.iter().map(|(part, mean_ns)| Part { part: (*part).to_owned(), mean_ns: *mean_ns });
    line.parts = parts.collect();
}

pub fn event(profile: &mut Profile, bucket: Bucket, class: &str, name: &str, mean_ns: u64, waits: u64) {
    let line =
        profile.transactions.buckets.iter_mut().find(|line| line.bucket.0 == bucket).expect("a bucket");
    line.events.push(EventBudget {
        class: class.to_owned(),
        event: name.to_owned(),
        mean_ns,
        run_queue_mean_ns: 10 * US,
        waits,
    });
}

pub fn wal(profile: &mut Profile, commits_per_flush: Option<f64>) {
    profile.wal = Some(Wal {
        flushes: 5_000,
        flushes_per_s: 500.0,
        commits_per_flush,
        flush_latency_ns: Latency { mean: Some(1_800 * US), ..Latency::default() },
        flush_blocked_mean_ns: None,
        flushed_by: Vec::new(),
        sync_method: None,
        full_page_writes: None,
        fsync: None,
        source: None,
    });
}

/// A device with nothing on it but these reads.
pub fn device(profile: &mut Profile, name: &str, reads: u64) -> usize {
    let devices = profile.devices.get_or_insert_default();
    devices.push(Device {
        name: name.to_owned(),
        number: "259:1".to_owned(),
        model: None,
        size_bytes: None,
        scheduler: None,
        holds: Vec::new(),
        operations: vec![Operation {
            asked: None,
            operation: "read".to_owned(),
            count: reads,
            per_s: reads as f64 / 10.0,
            bytes: reads * 8192,
            bytes_per_s: reads as f64 * 819.2,
            latency_ns: Latency::default(),
            queue_mean_ns: None,
            requeued: 0,
            failed: 0,
        }],
        depth_mean: Some(3.5),
        depth_max: Some(31),
        utilisation: Some(0.9),
        users: Vec::new(),
        ceiling: None,
        ebs: None,
    });
    devices.len() - 1
}

pub fn user(profile: &mut Profile, device: usize, user: &str, share: f64, reads: u64) {
    profile.devices.as_mut().expect("devices")[device].users.push(DeviceUser {
        user: Some(user.to_owned()),
        reads,
        read_bytes: reads * 8192,
        writes: 1_234,
        write_bytes: 1_234 * 8192,
        flushes: 3,
        share: Some(share),
    });
}

pub fn ceiling(profile: &mut Profile, device: usize, kind: &str, per_s: f64, known_as: Option<&str>) {
    profile.devices.as_mut().expect("devices")[device].ceiling = Some(Ceiling {
        kind: kind.to_owned(),
        per_s,
        known_as: known_as.map(str::to_owned),
        evidence: "flat while the depth grew".to_owned(),
    });
}

pub fn ebs(profile: &mut Profile, device: usize, set: impl FnOnce(&mut Ebs)) {
    let mut ebs = Ebs {
        read_bytes: 0,
        write_bytes: 0,
        reads: 100,
        writes: 100,
        read_time_ns: SECOND,
        write_time_ns: SECOND,
        volume_iops_exceeded_ns: 0,
        volume_throughput_exceeded_ns: 0,
        instance_iops_exceeded_ns: 0,
        instance_throughput_exceeded_ns: 0,
        queue_length: 3,
        read_latency: Vec::new(),
        write_latency: Vec::new(),
    };
    set(&mut ebs);
    profile.devices.as_mut().expect("devices")[device].ebs = Some(ebs);
}

/// Waits of a kind, a second of them, with what the holders were doing in thousandths of it.
pub fn lock(profile: &mut Profile, class: &str, name: &str, causes: &[(Bucket, u64)]) {
    let causes =
        causes.iter().map(|(bucket, part)| BucketTime { bucket: BucketName(*bucket), time_ns: part * MS });
    profile.locks.get_or_insert_default().push(LockWait {
        class: class.to_owned(),
        event: name.to_owned(),
        waits: 100,
        blocked_ns: SECOND,
        max_ns: 100 * MS,
        explained: 1.0,
        causes: causes.collect(),
        recorded: 100,
        in_chains: 0,
        chain_max: 1,
        holders: vec![LockHolder {
            pid: 77,
            backend_type: Some("client backend".to_owned()),
            waits: 100,
            blocked_ns: SECOND,
            statement: Some("UPDATE pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?".to_owned()),
        }],
    });
}

/// Intervals of a second with a thousand transactions of a millisecond, this many microseconds of it page reads.
pub fn timeline(profile: &mut Profile, page_read_us: &[u64]) {
    profile.timeline = page_read_us
        .iter()
        .enumerate()
        .map(|(at, us)| Interval {
            offset_ns: at as u64 * SECOND,
            duration_ns: SECOND,
            transactions: 1_000,
            tps: 1_000.0,
            mean_ns: Some(MS),
            p99_ns: Some(5 * MS),
            buckets: vec![
                BucketMean { bucket: BucketName(Bucket::PageRead), mean_ns: us * US },
                BucketMean { bucket: BucketName(Bucket::Cpu), mean_ns: MS - us * US },
            ],
            backends: vec![
                BucketBackends { bucket: BucketName(Bucket::PageRead), backends: 29.0 },
                BucketBackends { bucket: BucketName(Bucket::Cpu), backends: 35.0 },
            ],
            cpu_busy_ns: None,
            devices: Vec::new(),
        })
        .collect();
}

/// A transaction open at the end that waits for `waiting`.
pub fn open(profile: &mut Profile, pid: u32, age_ns: Option<u64>, waiting: Option<(&str, &str, u64)>) {
    profile.open.push(OpenTransaction {
        pid,
        age_ns,
        waiting: waiting.map(|(class, event, since_ns)| Waiting {
            class: class.to_owned(),
            event: event.to_owned(),
            bucket: BucketName(if class == "Lock" { Bucket::Lock } else { Bucket::Client }),
            since_ns: Some(since_ns),
        }),
        statement: None,
        buckets: Vec::new(),
    });
}
