//! What memory holds: caches that fill during the window, and data that is there already.

use profiler_common::bucket::Bucket;

use super::{
    evidence::{Evidence, Found},
    facts::{MOST, latency_ns, ratio, share, shares},
    storage::storage_part,
};
use crate::model::profile::{Device, Interval, Profile, Severity};

/// A window of fewer intervals has no beginning and end to compare.
const INTERVALS: usize = 6;
/// From this part of the time on, page reads at the start are worth a look.
const COLD: f64 = 0.3;
/// Page reads fall strongly: to this part of what they were.
const FALLEN: f64 = 0.5;
/// Storage below this part of a transaction is nothing to gain from.
const NO_STORAGE: f64 = 0.05;
/// Page reads below this part of a transaction are none.
const NO_READS: f64 = 0.01;
/// Fewer device reads per transaction than this are none.
const READS_PER_TRANSACTION: f64 = 0.01;

/// Page reads are many at the start of the window and few at its end.
pub(super) fn cold_cache_at_start(profile: &Profile) -> Option<Found> {
    let intervals = &profile.timeline;
    if intervals.len() < INTERVALS {
        return None;
    }
    let third = intervals.len() / 3;
    let (first_ns, first) = page_reads(&intervals[..third])?;
    let (last_ns, last) = page_reads(&intervals[intervals.len() - third..])?;
    // Both: a share can fall because something else grew, and time because transactions became shorter.
    let fell = last <= first * FALLEN && last_ns as f64 <= first_ns as f64 * FALLEN;
    if first < COLD || !fell {
        return None;
    }
    let mut evidence = Evidence::default();
    let message = format!(
        "Page reads fall from {} of a transaction ({}) in the first third of the window to {} ({}) in the last: caches \
         were cold at its start.",
        evidence.share("first_third_page_read_share", first),
        evidence.duration("first_third_page_read_mean_ns", first_ns),
        evidence.share("last_third_page_read_share", last),
        evidence.duration("last_third_page_read_mean_ns", last_ns)
    );
    let advice = "Measure again once the caches are warm before judging the storage; pg_prewarm shortens this after a \
                  restart.";
    evidence.found(Severity::Notable, message, advice)
}

/// Page-read time per transaction, ns, and its part of the time; `None` of no transaction.
fn page_reads(intervals: &[Interval]) -> Option<(u64, f64)> {
    let (mut n, mut all_ns, mut reads_ns) = (0.0, 0.0, 0.0);
    for interval in intervals {
        let transactions = interval.transactions as f64;
        let reads = interval.buckets.iter().find(|line| line.bucket.0 == Bucket::PageRead);
        n += transactions;
        all_ns += interval.mean_ns.unwrap_or(0) as f64 * transactions;
        reads_ns += reads.map_or(0, |line| line.mean_ns) as f64 * transactions;
    }
    (n > 0.0 && all_ns > 0.0).then(|| ((reads_ns / n) as u64, reads_ns / all_ns))
}

/// Nothing is read from the devices and storage is no part of a transaction.
pub(super) fn data_in_page_cache(profile: &Profile) -> Option<Found> {
    let cpu = shares(profile, &[Bucket::Cpu, Bucket::RunQueue]).filter(|part| *part >= MOST)?;
    let page_read = share(profile, Bucket::PageRead).filter(|part| *part <= NO_READS)?;
    let storage = storage_part(profile).filter(|part| *part <= NO_STORAGE)?;
    // A standby has disks too.
    share(profile, Bucket::Replication).filter(|part| *part <= NO_STORAGE)?;
    let devices = profile.devices.as_ref().filter(|devices| !devices.is_empty())?;
    let reads = devices.iter().try_fold(0_u64, |sum, device| Some(sum.saturating_add(reads(device)?)))?;
    let each = ratio(reads, profile.transactions.count).filter(|each| *each <= READS_PER_TRANSACTION)?;
    let mut evidence = Evidence::default();
    let message = format!(
        "The data is in memory: page reads are {} of a transaction, all storage {}, and the server made {} ({} per \
         transaction); faster disks gain nothing.",
        evidence.share("page_read_share", page_read),
        evidence.share("storage_share", storage),
        evidence.counted("device_reads", reads, "device read", "device reads"),
        evidence.rate("device_reads_per_transaction", each)
    );
    let advice = format!(
        "What is left is {} of the time on a CPU or waiting for one, of {} in all: better plans, fewer calls, or \
         faster CPUs.",
        evidence.share("cpu_and_run_queue_share", cpu),
        evidence.duration("latency_mean_ns", latency_ns(profile)?)
    );
    evidence.found(Severity::Info, message, advice)
}

/// Reads of a device by the server, or by anybody where askers were not seen; `None` where its requests were not.
fn reads(device: &Device) -> Option<u64> {
    device.depth_mean?;
    if device.users.is_empty() {
        let reads = device.operations.iter().filter(|line| line.operation == "read");
        return Some(reads.fold(0, |sum, line| sum.saturating_add(line.count)));
    }
    let ours = device.users.iter().filter(|user| user.user.as_deref() != Some("other processes"));
    Some(ours.fold(0, |sum, user| sum.saturating_add(user.reads)))
}
