//! Commits that wait for a standby.

use profiler_common::bucket::Bucket;

use super::{
    evidence::{Evidence, Found},
    facts::{LARGE_PART, latency_ns, mean_ns, severity, share},
};
use crate::model::profile::Profile;

/// Synchronous replication is a large part of a transaction.
pub(super) fn standby_bound(profile: &Profile) -> Option<Found> {
    let part = share(profile, Bucket::Replication).filter(|part| *part >= LARGE_PART)?;
    let mut evidence = Evidence::default();
    let message = format!(
        "Waiting for a synchronous standby is {} of a transaction ({} of {}).",
        evidence.share("replication_share", part),
        evidence.duration("replication_mean_ns", mean_ns(profile, Bucket::Replication)?),
        evidence.duration("latency_mean_ns", latency_ns(profile)?)
    );
    let advice = "Look at the standby's own write and flush times and the way there (pg_stat_replication: write_lag, \
                  flush_lag, replay_lag); synchronous_commit = remote_write, or local, trades safety for it.";
    evidence.found(severity(part), message, advice)
}
