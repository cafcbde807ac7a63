//! The server's own writing: who competes with the clients for a device, and what clients write themselves.

use profiler_common::bucket::Bucket;

use super::{
    evidence::{Evidence, Found, list},
    facts::{LARGE_PART, event, latency_ns, ratio, severity, shares},
};
use crate::model::profile::{Device, DeviceUser, Profile, Severity};

/// From this part of a device's time on, its user is somebody to reckon with.
const COMPETING: f64 = 0.25;
/// A device at work for less of the window than this is nobody's bottleneck.
const AT_WORK: f64 = 0.2;
/// From this part of a transaction on, writing pages is no accident.
const WRITING: f64 = 0.1;

/// A checkpoint takes the device from the clients.
pub(super) fn checkpoint_competes(profile: &Profile) -> Option<Found> {
    competes(
        profile,
        "checkpointer",
        "Spread the checkpoints: raise max_wal_size and checkpoint_timeout, keep checkpoint_completion_target at 0.9; \
         or give pg_wal a volume of its own.",
    )
}

/// Autovacuum takes the device from the clients.
pub(super) fn autovacuum_competes(profile: &Profile) -> Option<Found> {
    competes(
        profile,
        "autovacuum worker",
        "Let it go slower (autovacuum_vacuum_cost_delay up, autovacuum_vacuum_cost_limit down) or more often in \
         smaller portions; switching it off only postpones the work.",
    )
}

fn competes(profile: &Profile, user: &str, advice: &str) -> Option<Found> {
    let waiting = shares(profile, &[Bucket::PageRead, Bucket::WalFsync]);
    let waiting = waiting.filter(|part| *part >= LARGE_PART)?;
    let devices = profile.devices.as_ref()?.iter();
    let devices = devices.filter(|device| device.utilisation.is_none_or(|part| part >= AT_WORK));
    let used = devices.filter_map(|device| used_by(device, user));
    let (device, its, part) = used.max_by(|(_, _, one), (_, _, other)| one.total_cmp(other))?;
    if part < COMPETING {
        return None;
    }
    let mut evidence = Evidence::default();
    let message = format!(
        "The {user} takes {} of the time of {} ({}, {}), while transactions spend {} of theirs on page reads and WAL \
         flushes.",
        evidence.share("device_share", part),
        evidence.text("device", &device.name),
        evidence.counted("reads", its.reads, "read", "reads"),
        evidence.counted("writes", its.writes, "write", "writes"),
        evidence.share("page_read_and_wal_fsync_share", waiting)
    );
    evidence.found(Severity::Notable, message, advice)
}

fn used_by<'a>(device: &'a Device, user: &str) -> Option<(&'a Device, &'a DeviceUser, f64)> {
    let its = device.users.iter().find(|its| its.user.as_deref() == Some(user))?;
    its.share.map(|share| (device, its, share))
}

/// Client backends write data pages themselves.
pub(super) fn backend_dirty_writes(profile: &Profile) -> Option<Found> {
    let latency_ns = latency_ns(profile)?;
    let mut evidence = Evidence::default();
    let mut parts = Vec::new();
    let (mut sum_ns, mut writing_ns) = (0_u64, 0_u64);
    for name in ["DataFileWrite", "DataFileExtend", "DataFileFlush"] {
        let Some(event) = event(profile, Bucket::OtherIo, "IO", name) else { continue };
        sum_ns = sum_ns.saturating_add(event.mean_ns);
        if name != "DataFileExtend" {
            writing_ns = writing_ns.saturating_add(event.mean_ns);
        }
        let written = evidence.duration(&format!("{name}_mean_ns"), event.mean_ns);
        parts.push(format!("{written} in IO/{name}"));
    }
    let part = ratio(sum_ns, latency_ns).filter(|part| *part >= WRITING)?;
    let message = format!(
        "Client backends write data pages themselves for {} of a transaction's {}: {}.",
        evidence.share("data_file_write_share", part),
        evidence.duration("latency_mean_ns", latency_ns),
        list(&parts)
    );
    let advice = if writing_ns.saturating_mul(2) >= sum_ns {
        "Leave it to the background writer (bgwriter_lru_maxpages and bgwriter_lru_multiplier up, bgwriter_delay \
         down), or enlarge shared_buffers so that fewer dirty pages must make room."
    } else {
        "Tables grow faster than the volume takes new blocks: load in larger batches (COPY), or a volume with faster \
         writes."
    };
    evidence.found(severity(part), message, advice)
}
