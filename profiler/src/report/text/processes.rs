//! What the server's processes did, by type.

use super::page::{Page, Paint};
use crate::{
    model::profile::{ProcessType, Profile},
    units::{bytes, count, duration, rate, share},
};

/// Waits, and works, named of one type.
const NAMED: usize = 4;

/// Reads worth a line.
const SOME_BYTES: u64 = 1 << 20;

/// The class of the waits of a process that has nothing to do.
const IDLE_CLASS: &str = "Activity";

pub(super) fn write(page: &mut Page, profile: &Profile) {
    if profile.processes.is_empty() || profile.window.duration_ns == 0 {
        return;
    }
    page.section("PROCESSES", "(how many were where, on average over the window)", "");
    for process_type in &profile.processes {
        let name = process_type.backend_type.as_deref().unwrap_or("(unnamed type)");
        let lead = format!("  {name:<24}{:>5}  ", process_type.n);
        page.paragraph(
            Paint::Plain,
            &lead,
            &whereabouts(process_type, profile.window.duration_ns),
            usize::MAX,
        );
        let details = [waits, work, devices, files].map(|detail| detail(process_type));
        for detail in details.into_iter().flatten() {
            page.paragraph(Paint::Faint, &format!("  {:29}  ", ""), &detail, usize::MAX);
        }
    }
}

fn whereabouts(process_type: &ProcessType, window_ns: u64) -> String {
    let buckets = process_type.buckets.iter().map(|time| (time.bucket.0.name(), time.time_ns));
    let parts = buckets.chain([("idle", process_type.idle_ns)]).filter_map(|(name, ns)| {
        let average = ns as f64 / window_ns as f64;
        (average >= 0.005).then(|| format!("{name} {}", rate(average)))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "hardly ran".to_owned() } else { parts.join(", ") }
}

/// What they waited for while there was something to do; of client backends that is in a section of its own.
fn waits(process_type: &ProcessType) -> Option<String> {
    if process_type.backend_type.as_deref() == Some("client backend") {
        return None;
    }
    let waits = process_type.events.iter().filter(|event| event.class != IDLE_CLASS && event.blocked_ns != 0);
    let waits = waits.take(NAMED).map(|event| {
        format!("{}/{} {} ({}×)", event.class, event.event, duration(event.blocked_ns), count(event.waits))
    });
    listed("waits", waits.collect())
}

fn work(process_type: &ProcessType) -> Option<String> {
    let works = process_type.work.iter().take(NAMED).map(|work| {
        let largest = work.buckets.iter().max_by_key(|time| time.time_ns);
        let largest =
            largest.map(|time| format!(" (mostly {} {})", time.bucket.0.name(), duration(time.time_ns)));
        format!("{}{}", work.what, largest.unwrap_or_default())
    });
    let rest = process_type.work.len().saturating_sub(NAMED);
    let rest = (rest != 0).then(|| format!("{rest} more"));
    listed("seen at", works.chain(rest).collect())
}

fn devices(process_type: &ProcessType) -> Option<String> {
    let devices = process_type.devices.iter().map(|device| {
        format!("{} of {} ({} requests)", share(device.share), device.device, count(device.requests))
    });
    listed("device time", devices.collect())
}

/// What they read from files, if it was anything to speak of.
fn files(process_type: &ProcessType) -> Option<String> {
    let read = process_type.page_cache.filter(|read| read.read_bytes >= SOME_BYTES)?;
    let [all, fetched] = [read.read_bytes, read.from_device_bytes].map(|size| bytes(size as f64));
    Some(format!("files: {all} read, {fetched} of it fetched from devices, read-ahead included"))
}

fn listed(what: &str, parts: Vec<String>) -> Option<String> {
    (!parts.is_empty()).then(|| format!("{what}: {}", parts.join(", ")))
}
