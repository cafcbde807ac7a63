//! What the devices did, and what the waits for them were spent on.

use super::{
    approximate,
    page::{Line, Page, Paint},
};
use crate::{
    model::profile::{Device, DeviceUser, Operation, Place, Profile},
    units::{bytes, counted, duration, duration_or_dash, rate, share},
};

const NAME: usize = 14;
/// Columns from which on all figures fit.
const NARROW: usize = 84;
/// Users listed of one device.
const USERS: usize = 6;

/// The waits for I/O, split over the parts of the requests they waited for.
pub(super) fn waits(page: &mut Page, profile: &Profile) {
    let split = || profile.transactions.buckets.iter().filter(|bucket| !bucket.storage.is_empty());
    let Some(first) = split().next() else { return };
    let heads: String = first.storage.iter().map(|part| format!("{:>11}", part.part)).collect();
    page.section("WAITS FOR I/O, BY REQUEST", approximate(profile), &format!("{heads}{:>11}", "linked"));
    for bucket in split() {
        let all_ns: u64 = bucket.storage.iter().map(|part| part.mean_ns).sum();
        let parts: String =
            bucket.storage.iter().map(|part| format!("{:>11}", duration(part.mean_ns))).collect();
        let unlinked = bucket.storage.iter().find(|part| part.part == "unlinked");
        let linked = unlinked.filter(|_| all_ns != 0).map_or_else(
            || "–".to_owned(),
            |unlinked| share((all_ns - unlinked.mean_ns) as f64 / all_ns as f64),
        );
        let room = page.width() - NAME - 11 * (bucket.storage.len() + 1);
        page.write(
            Line::default()
                .add(Paint::Of(bucket.bucket.0), format!("{:<NAME$}", bucket.bucket.0.name()))
                .add(Paint::Plain, format!("{:room$}{parts}{linked:>11}", "")),
        );
    }
    let text = "per transaction; queue: before the device had it, device: there, wake: done, not yet awake, unlinked: \
                no request explains it";
    page.paragraph(Paint::Faint, "  ", text, usize::MAX);
}

pub(super) fn write(page: &mut Page, profile: &Profile) {
    let Some(devices) = profile.devices.as_ref().filter(|devices| !devices.is_empty()) else { return };
    let heads = ["per second", "bytes/s", "size", "mean", "p50", "p99", "queue"].map(str::to_owned);
    page.section("DEVICES", "", &row(heads, page.width()));
    for device in devices {
        one(page, device);
    }
}

fn one(page: &mut Page, device: &Device) {
    let model = device.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
    let holds: Vec<String> = device.holds.iter().map(place).collect();
    let lead = format!("  {}  ", device.name);
    page.paragraph(Paint::Strong, &lead, &format!("{}{model}", holds.join(", ")), 3);
    let Some(depth_mean) = device.depth_mean else {
        page.paragraph(Paint::Plain, "    ", "its requests could not be watched", usize::MAX);
        return;
    };
    for operation in &device.operations {
        page.line(figures(operation, page.width()));
    }
    let mut text = format!("at the device: {} on average", rate(depth_mean));
    if let Some(most) = device.depth_max {
        text.push_str(&format!(", {} at most", counted(most, "request", "requests")));
    }
    if let Some(utilisation) = device.utilisation {
        text.push_str(&format!("; busy {} of the window", share(utilisation)));
    }
    page.paragraph(Paint::Plain, "    ", &text, usize::MAX);
    if !device.users.is_empty() {
        page.paragraph(Paint::Plain, "    ", &format!("its time: {}", users(&device.users)), usize::MAX);
    }
    for text in remarks(device) {
        page.paragraph(Paint::Plain, "    ", &text, usize::MAX);
    }
    if let Some(ceiling) = &device.ceiling {
        let unit = if ceiling.kind == "iops" {
            format!("{} requests/s", rate(ceiling.per_s))
        } else {
            format!("{}/s", bytes(ceiling.per_s))
        };
        let known = ceiling.known_as.as_ref().map(|known| format!(", {known}")).unwrap_or_default();
        let text = format!("held at {unit}{known}: {}", ceiling.evidence);
        page.paragraph(Paint::Warning, "    ! ", &text, usize::MAX);
    }
}

/// `data directory on ext4, through dm-0`
fn place(place: &Place) -> String {
    let mut text = place.what.clone();
    if let Some(filesystem) = &place.filesystem {
        text.push_str(&format!(" on {filesystem}"));
    }
    if !place.through.is_empty() {
        text.push_str(&format!(" through {}", place.through.join(", ")));
    }
    text
}

fn figures(operation: &Operation, width: usize) -> String {
    let latency = &operation.latency_ns;
    let moves = operation.bytes != 0 && operation.count != 0;
    let [per_s, size] = if moves {
        [
            format!("{}/s", bytes(operation.bytes_per_s)),
            bytes(operation.bytes as f64 / operation.count as f64),
        ]
    } else {
        [String::new(), String::new()]
    };
    let numbers = row(
        [
            rate(operation.per_s),
            per_s,
            size,
            duration_or_dash(latency.mean),
            duration_or_dash(latency.p50),
            duration_or_dash(latency.p99),
            duration_or_dash(operation.queue_mean_ns),
        ],
        width,
    );
    let room = width.saturating_sub(numbers.chars().count());
    format!("{:<room$}{numbers}", format!("    {}", operation.operation))
}

/// The columns; a narrow page has no room for the size.
fn row([per_s, bytes_per_s, size, mean, p50, p99, queue]: [String; 7], width: usize) -> String {
    let size = if width < NARROW { String::new() } else { format!("{size:>10}") };
    format!("{per_s:>11}{bytes_per_s:>12}{size}{mean:>9}{p50:>9}{p99:>9}{queue:>9}")
}

fn users(users: &[DeviceUser]) -> String {
    let parts = users.iter().take(USERS).map(|user| {
        let name = user.user.as_deref().unwrap_or("not seen who");
        format!("{name} {}", user.share.map_or_else(|| "–".to_owned(), share))
    });
    let mut text = parts.collect::<Vec<_>>().join(", ");
    if users.len() > USERS {
        text.push_str(&format!(" and {} more", users.len() - USERS));
    }
    text
}

fn remarks(device: &Device) -> Vec<String> {
    let mut remarks = Vec::new();
    for operation in &device.operations {
        if operation.failed != 0 {
            let failed = counted(operation.failed, "request", "requests");
            remarks.push(format!("{}: {failed} ended with an error", operation.operation));
        }
        if let Some(asked) = operation.asked.filter(|asked| *asked != operation.count) {
            let made = counted(operation.count, "flush", "flushes");
            remarks.push(format!("{made} for {asked} asked for"));
        }
    }
    remarks
}
