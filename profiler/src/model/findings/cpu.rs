//! Too little CPU, or CPUs that have nothing to do.

use profiler_common::bucket::Bucket;

use super::{
    evidence::{Evidence, Found, list},
    facts::{
        LARGE_PART, MOST, cpu_busy, latency_ns, mean_ns, part_ns, ratio, severity, share, shares, steal,
    },
    storage::STORAGE,
};
use crate::model::profile::{Profile, Severity};

/// From this part of the window, or of the CPU time, on, a quota or a hypervisor is why CPUs are short: what it takes is
/// then no longer noise of a shared host.
const TAKEN: f64 = 0.05;

/// Backends are ready to run and have no CPU.
pub(super) fn run_queue_bound(profile: &Profile) -> Option<Found> {
    let run_queue_ns = mean_ns(profile, Bucket::RunQueue)?;
    let latency_ns = latency_ns(profile)?;
    // Rousing an idle CPU is no shortage of CPUs.
    let roused_ns = part_ns(profile, Bucket::RunQueue, "wake_to_run").unwrap_or(0);
    let queued_ns = run_queue_ns.saturating_sub(roused_ns);
    let part = ratio(queued_ns, latency_ns).filter(|part| *part >= LARGE_PART)?;
    let mut evidence = Evidence::default();
    let mut message = format!(
        "Waiting for a free CPU is {} of a transaction ({} of {})",
        evidence.share("queued_share", part),
        evidence.duration("queued_mean_ns", queued_ns),
        evidence.duration("latency_mean_ns", latency_ns)
    );
    let mut why = Vec::new();
    if let Some(busy) = cpu_busy(profile) {
        why.push(format!("the host's CPUs are {} busy", evidence.share("cpu_busy_share", busy)));
    }
    let throttled = throttled(profile).filter(|part| *part >= TAKEN);
    if let (Some(_), Some(ns)) = (throttled, profile.host.cgroup_throttled_ns) {
        let ns = evidence.duration("cgroup_throttled_ns", ns);
        why.push(format!("the CPU quota of the server's control group held it back for {ns}"));
    }
    let stolen = steal(profile).filter(|part| *part >= TAKEN);
    if let Some(part) = stolen {
        why.push(format!(
            "the hypervisor gave {} of the CPU time to others",
            evidence.share("steal_share", part)
        ));
    }
    if !why.is_empty() {
        message.push_str(&format!("; {}", list(&why)));
    }
    message.push('.');
    let after_ns = after_storage_ns(profile);
    if ratio(after_ns, latency_ns)? >= 0.05 {
        message.push_str(&format!(
            " {} of it comes after the storage has answered: the server's own timers show that as slow storage.",
            evidence.duration("after_storage_mean_ns", after_ns)
        ));
    }
    let advice = match (throttled, stolen) {
        (Some(_), _) => {
            "Raise the control group's CPU quota (cpu.max, a container's CPU limit); faster disks gain nothing."
        }
        (None, Some(_)) => "An instance whose CPUs are its own, or a larger one; faster disks gain nothing.",
        (None, None) => {
            "More or faster CPUs, less work per transaction, or fewer backends active at once (a connection pool); \
             faster disks gain nothing."
        }
    };
    evidence.found(severity(part), message, advice)
}

/// Run-queue time behind waits for storage, mean per transaction, ns.
fn after_storage_ns(profile: &Profile) -> u64 {
    let lines = profile.transactions.buckets.iter().filter(|line| STORAGE.contains(&line.bucket.0));
    let waits = lines.flat_map(|line| &line.events);
    waits.fold(0, |sum, event| sum.saturating_add(event.run_queue_mean_ns))
}

/// The part of the window in which the control group was off the CPU.
fn throttled(profile: &Profile) -> Option<f64> {
    ratio(profile.host.cgroup_throttled_ns?, profile.window.duration_ns)
}

/// What a backend waits for that no CPU makes shorter.
const WAITS: [Bucket; 5] =
    [Bucket::PageRead, Bucket::WalFsync, Bucket::OtherIo, Bucket::Lock, Bucket::Replication];

/// The CPUs idle while transactions wait for something else.
pub(super) fn cpu_idle_while_waiting(profile: &Profile) -> Option<Found> {
    let busy = cpu_busy(profile).filter(|busy| *busy <= 1.0 - MOST)?;
    let waiting = shares(profile, &WAITS).filter(|part| *part >= MOST)?;
    if throttled(profile) >= Some(TAKEN) {
        return None;
    }
    let mut evidence = Evidence::default();
    let mut message = format!(
        "The host's CPUs are {} busy while transactions spend {} of their time waiting for storage, locks or standbys",
        evidence.share("cpu_busy_share", busy),
        evidence.share("waiting_share", waiting),
    );
    if let Some((bucket, backends, all)) = waiting_backends(profile) {
        message.push_str(&format!(
            ": {} of {} backends at work are in {}",
            evidence.rate("backends_waiting", backends),
            evidence.rate("backends_at_work", all),
            evidence.text("waiting_bucket", bucket.name())
        ));
    }
    message.push('.');
    evidence.duration("latency_mean_ns", latency_ns(profile)?);
    evidence.share("cpu_share", share(profile, Bucket::Cpu)?);
    let advice = "More CPUs will not help: what the other findings name as the wait is what to shorten.";
    evidence.found(Severity::Info, message, advice)
}

/// The bucket most backends wait in, how many are in it on average, and how many are in any.
fn waiting_backends(profile: &Profile) -> Option<(Bucket, f64, f64)> {
    let seconds: f64 = profile.timeline.iter().map(|interval| interval.duration_ns as f64).sum();
    let of = |wanted: Option<Bucket>| -> f64 {
        let sum: f64 = profile
            .timeline
            .iter()
            .map(|interval| {
                let lines = interval.backends.iter();
                let lines = lines.filter(|line| wanted.is_none_or(|bucket| bucket == line.bucket.0));
                lines.map(|line| line.backends).sum::<f64>() * interval.duration_ns as f64
            })
            .sum();
        sum / seconds
    };
    let all = of(None);
    let waits = WAITS.into_iter().map(|bucket| (bucket, of(Some(bucket))));
    let (bucket, backends) = waits.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    (backends > 0.0 && all.is_finite()).then_some((bucket, backends, all))
}
