//! What several rules ask a profile. Unknown is `None`, and so is what is not a number.

use profiler_common::bucket::Bucket;

use crate::model::profile::{BucketBudget, EventBudget, Profile, Severity};

/// From this part of a transaction's time on, something is worth a sentence: halving it takes a tenth off.
pub(super) const LARGE_PART: f64 = 0.2;
/// From this part on, it is what a transaction consists of.
pub(super) const MOST: f64 = 0.5;

/// How much something matters that takes this part of the transactions' time.
pub(super) fn severity(share: f64) -> Severity {
    if share >= MOST {
        Severity::Critical
    } else if share >= LARGE_PART {
        Severity::Notable
    } else {
        Severity::Info
    }
}

/// `part` of `whole`; `None` where there is no whole.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole != 0).then(|| part as f64 / whole as f64)
}

/// A bucket's line of the budget.
pub(super) fn budget(profile: &Profile, bucket: Bucket) -> Option<&BucketBudget> {
    profile.transactions.buckets.iter().find(|line| line.bucket.0 == bucket)
}

/// A bucket's part of all transaction time.
pub(super) fn share(profile: &Profile, bucket: Bucket) -> Option<f64> {
    budget(profile, bucket)?.share.filter(|share| (0.0..=1.0).contains(share))
}

/// Several buckets' part of all transaction time.
pub(super) fn shares(profile: &Profile, buckets: &[Bucket]) -> Option<f64> {
    buckets.iter().map(|bucket| share(profile, *bucket)).sum()
}

/// A bucket's mean per transaction, ns.
pub(super) fn mean_ns(profile: &Profile, bucket: Bucket) -> Option<u64> {
    budget(profile, bucket)?.mean_ns
}

/// A named part of a bucket, mean per transaction, ns.
pub(super) fn part_ns(profile: &Profile, bucket: Bucket, name: &str) -> Option<u64> {
    budget(profile, bucket)?.parts.iter().find(|part| part.part == name).map(|part| part.mean_ns)
}

/// The mean latency, ns, if any transaction took any time.
pub(super) fn latency_ns(profile: &Profile) -> Option<u64> {
    profile.transactions.latency_ns.mean.filter(|ns| *ns != 0)
}

/// A wait event of a bucket; PostgreSQL 17 changed the case of some names.
pub(super) fn event<'a>(
    profile: &'a Profile,
    bucket: Bucket,
    class: &str,
    name: &str,
) -> Option<&'a EventBudget> {
    let of_bucket = budget(profile, bucket)?.events.iter();
    let mut named = of_bucket.filter(|event| event.class == class && event.event.eq_ignore_ascii_case(name));
    named.next()
}

/// The part of all CPU time of the host that was in use; `None` where it cannot be, because not every CPU was counted.
pub(super) fn cpu_busy(profile: &Profile) -> Option<f64> {
    of_cpu_time(profile, profile.host.cpu_busy_ns)
}

/// The part of all CPU time of the host that the hypervisor gave to others.
pub(super) fn steal(profile: &Profile) -> Option<f64> {
    of_cpu_time(profile, profile.host.steal_ns)
}

fn of_cpu_time(profile: &Profile, ns: Option<u64>) -> Option<f64> {
    let all_ns = u64::from(profile.host.cpus?).saturating_mul(profile.window.duration_ns);
    // The clock ticks of the one and the nanoseconds of the other do not begin together.
    ratio(ns?, all_ns).filter(|part| *part < 1.1).map(|part| part.min(1.0))
}

/// Of the lock time of a transaction, ns, what the holders spent in those buckets; `None` where holders were not
/// watched.
///
/// Holders are known by kind of wait over all processes; each kind's time in a transaction is split as all its waits
/// are. Where no holder was seen nothing is said about the cause, and nothing is added.
pub(super) fn lock_caused_by_ns(profile: &Profile, causes: &[Bucket]) -> Option<u64> {
    let kinds = profile.locks.as_ref()?;
    let sum: f64 = budget(profile, Bucket::Lock)?
        .events
        .iter()
        .map(|event| {
            let kind = kinds.iter().find(|kind| kind.class == event.class && kind.event == event.event);
            let Some(kind) = kind.filter(|kind| kind.blocked_ns != 0) else { return 0.0 };
            let caused = kind.causes.iter().filter(|cause| causes.contains(&cause.bucket.0));
            let caused: f64 = caused.map(|cause| cause.time_ns as f64).sum();
            event.mean_ns as f64 * (caused / kind.blocked_ns as f64).min(1.0)
        })
        .sum();
    Some(sum as u64)
}
