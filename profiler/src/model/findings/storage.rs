//! How much of a transaction storage is.

use profiler_common::bucket::Bucket;

use super::{
    evidence::{Evidence, Found, list},
    facts::{LARGE_PART, latency_ns, lock_caused_by_ns, mean_ns, ratio, severity},
};
use crate::model::profile::Profile;

/// The buckets in which a backend waits for storage itself.
pub(super) const STORAGE: [Bucket; 3] = [Bucket::PageRead, Bucket::WalFsync, Bucket::OtherIo];

/// The part of a transaction that faster storage could save at most, the lock time included in which the holder waited
/// for storage.
pub(super) fn storage_part(profile: &Profile) -> Option<f64> {
    let mut sum_ns = lock_caused_by_ns(profile, &STORAGE).unwrap_or(0);
    for bucket in STORAGE {
        sum_ns = sum_ns.saturating_add(mean_ns(profile, bucket)?);
    }
    ratio(sum_ns, latency_ns(profile)?)
}

/// Storage is a large part of a transaction.
pub(super) fn storage_share(profile: &Profile) -> Option<Found> {
    let share = storage_part(profile).filter(|share| *share >= LARGE_PART)?;
    let mut evidence = Evidence::default();
    let mut parts = Vec::new();
    let (mut largest, mut largest_ns) = (Bucket::PageRead, 0);
    for bucket in STORAGE {
        let ns = mean_ns(profile, bucket)?;
        if ns > largest_ns {
            (largest, largest_ns) = (bucket, ns);
        }
        if ns != 0 {
            let written = evidence.duration(&format!("{}_mean_ns", bucket.name()), ns);
            parts.push(format!("{written} {}", bucket.name()));
        }
    }
    if let Some(ns) = lock_caused_by_ns(profile, &STORAGE).filter(|ns| *ns != 0) {
        let written = evidence.duration("lock_caused_by_storage_mean_ns", ns);
        parts.push(format!("{written} of lock time in which the holder waited for storage"));
    }
    let message = format!(
        "Storage is {} of the {} a transaction takes ({}); that is the most faster storage can save.",
        evidence.share("storage_share", share),
        evidence.duration("latency_mean_ns", latency_ns(profile)?),
        list(&parts)
    );
    let advice = match largest {
        Bucket::WalFsync => {
            "What counts here is how fast the volume of pg_wal completes a write and a flush."
        }
        Bucket::PageRead => {
            "What counts here is the latency of a single read, or memory enough (shared_buffers, page cache) to read \
             less."
        }
        _ => {
            "What counts here is how fast the volume takes writes: see which files the waits above are for, \
             temporary ones (work_mem) or the tables' own."
        }
    };
    evidence.found(severity(share), message, advice)
}
