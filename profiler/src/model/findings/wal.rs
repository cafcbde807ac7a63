//! Commits that wait for the write-ahead log.

use profiler_common::bucket::Bucket;

use super::{
    evidence::{Evidence, Found},
    facts::{budget, latency_ns, mean_ns, part_ns, severity, share},
};
use crate::model::profile::Profile;

/// From this part of a transaction on, it is bound by the flush: a flush twice as fast takes 15 % off.
const FSYNC_BOUND: f64 = 0.3;
/// Commits per flush from which group commit works: nearer to two than to one.
const SHARED: f64 = 1.5;

const TRADE: &str = "synchronous_commit = off ends the wait at the price of the last commits before a crash (three times \
                     wal_writer_delay at most)";

/// Commits share flushes, and still wait for them.
pub(super) fn fsync_bound_group_commit(profile: &Profile) -> Option<Found> {
    let (share, true) = bound(profile)? else { return None };
    let mut evidence = Evidence::default();
    let (message, flush) = sentence(profile, share, &mut evidence)?;
    let message = match commits_per_flush(profile) {
        Some(commits) => format!(
            "{message} Group commit works: {} commits share a flush{flush}.",
            evidence.rate("commits_per_flush", commits)
        ),
        None => {
            let part = followers(profile)?;
            let part = evidence.share("follower_share", part);
            format!(
                "{message} Group commit works: {part} of that is waiting for another backend's flush{flush}."
            )
        }
    };
    let advice = format!(
        "A volume for pg_wal that completes a flush faster shortens every commit; more clients add no flushes; {TRADE}."
    );
    evidence.found(severity(share), message, advice)
}

/// Each commit makes a flush of its own and waits for it.
pub(super) fn fsync_bound_single(profile: &Profile) -> Option<Found> {
    let (share, false) = bound(profile)? else { return None };
    let mut evidence = Evidence::default();
    let (message, flush) = sentence(profile, share, &mut evidence)?;
    let message = match commits_per_flush(profile) {
        Some(commits) => format!(
            "{message} Commits do not share flushes: {} of them to a flush{flush}.",
            evidence.rate("commits_per_flush", commits)
        ),
        None => {
            let part = followers(profile).unwrap_or(0.0);
            let part = evidence.share("follower_share", part);
            format!(
                "{message} Commits do not share flushes: {part} of that is waiting for another's flush{flush}."
            )
        }
    };
    let advice = format!(
        "Do more per commit, or commit from several sessions at once so that they share flushes; a volume for pg_wal \
         that completes a flush faster; {TRADE}."
    );
    evidence.found(severity(share), message, advice)
}

/// The part of a transaction spent on the flush, and whether commits share it; `None` where it is small.
fn bound(profile: &Profile) -> Option<(f64, bool)> {
    let share = share(profile, Bucket::WalFsync).filter(|share| *share >= FSYNC_BOUND)?;
    let shared = match commits_per_flush(profile) {
        Some(commits) => commits >= SHARED,
        // Without the count of flushes: who waits for others more than for itself is one of several in a flush.
        None => followers(profile)? >= 0.5,
    };
    Some((share, shared))
}

fn commits_per_flush(profile: &Profile) -> Option<f64> {
    profile.wal.as_ref()?.commits_per_flush.filter(|commits| commits.is_finite())
}

/// The part of `wal_fsync` that is waiting for another backend's flush.
fn followers(profile: &Profile) -> Option<f64> {
    let follower_ns = part_ns(profile, Bucket::WalFsync, "follower")?;
    let leader_ns = part_ns(profile, Bucket::WalFsync, "leader")?;
    let sum = follower_ns as f64 + leader_ns as f64;
    (sum > 0.0).then(|| follower_ns as f64 / sum)
}

/// What both say first, and how long a flush takes.
fn sentence(profile: &Profile, share: f64, evidence: &mut Evidence) -> Option<(String, String)> {
    let message = format!(
        "Waiting for the write-ahead log to reach disk is {} of a transaction ({} of {}).",
        evidence.share("wal_fsync_share", share),
        evidence.duration("wal_fsync_mean_ns", mean_ns(profile, Bucket::WalFsync)?),
        evidence.duration("latency_mean_ns", latency_ns(profile)?),
    );
    let wal = profile.wal.as_ref();
    let flush = match wal.and_then(|wal| Some((wal.flush_latency_ns.mean?, wal.flushes_per_s))) {
        Some((mean_ns, per_s)) => format!(
            ", which takes {} ({} a second)",
            evidence.duration("flush_mean_ns", mean_ns),
            evidence.rate("flushes_per_s", per_s)
        ),
        None => String::new(),
    };
    // Where the block layer was seen, the part of a leader's wait that the device itself took.
    let storage = budget(profile, Bucket::WalFsync)?.storage.iter();
    for part in storage {
        evidence.duration(&format!("leader_{}_mean_ns", part.part), part.mean_ns);
    }
    Some((message, flush))
}
