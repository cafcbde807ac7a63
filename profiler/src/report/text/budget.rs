//! The budget table.

use profiler_common::bucket::Bucket;

use super::{
    approximate,
    page::{Line, Page, Paint, bar},
};
use crate::{
    model::profile::{BucketBudget, Profile},
    units::{column, duration, duration_or_dash, share, shares},
};

const NAME: usize = 14;
const NUMBERS: usize = 14 + 9 + 3 * 10;

pub(super) fn write(page: &mut Page, profile: &Profile) {
    let transactions = &profile.transactions;
    let remark = approximate(profile);
    let heads = format!("{:>14}{:>9}{:>10}{:>10}{:>10}", "mean", "share", "p50", "p95", "p99");
    page.section("WHERE THE TIME WENT", remark, &heads);

    let means: Vec<u64> = transactions.buckets.iter().map(|bucket| bucket.mean_ns.unwrap_or(0)).collect();
    let (written, total) = column(&means, means.iter().sum());
    let shares = shares(&means);
    let bar_width = page.width() - NAME - NUMBERS;
    let mut empty = Vec::new();
    for ((bucket, mean), share) in transactions.buckets.iter().zip(written).zip(shares) {
        if is_empty(bucket) {
            empty.push(bucket.bucket.0.name());
            continue;
        }
        let name = bucket.bucket.0;
        let bar = bar(bucket.share.unwrap_or(0.0), bar_width);
        let percentiles = percentiles([bucket.p50_ns, bucket.p95_ns, bucket.p99_ns]);
        page.write(
            Line::default()
                .add(Paint::Plain, format!("{:<NAME$}", name.name()))
                .add(Paint::Of(name), format!("{bar:<bar_width$}"))
                .add(Paint::Plain, format!("{mean:>14}{share:>9}{percentiles}")),
        );
    }
    let latency = &transactions.latency_ns;
    let percentiles = percentiles([latency.p50, latency.p95, latency.p99]);
    let blank = " ".repeat(bar_width);
    page.write(Line::default().add(
        Paint::Strong,
        format!("{:<NAME$}{blank}{total:>14}{:>9}{percentiles}", "= latency", "100.0 %"),
    ));
    if !empty.is_empty() {
        page.paragraph(Paint::Faint, "  ", &format!("nothing in {}", empty.join(", ")), usize::MAX);
    }
    let spread = [
        ("min", latency.min),
        ("p90", latency.p90),
        ("p99.9", latency.p999),
        ("max", latency.max),
        ("standard deviation", latency.stddev.filter(|_| transactions.units > 1)),
    ];
    let spread: Vec<String> =
        spread.iter().filter_map(|(name, ns)| ns.map(|ns| format!("{name} {}", duration(ns)))).collect();
    page.paragraph(Paint::Plain, "  ", &format!("latency: {}", spread.join(", ")), usize::MAX);
    if let Some(note) = transactions.units_note() {
        page.paragraph(Paint::Plain, "  ", &note, usize::MAX);
    }
    if let Some(text) = roused(profile) {
        page.paragraph(Paint::Plain, "  ", &text, usize::MAX);
    }
    if let Some(text) = cpu_taken(profile) {
        page.paragraph(Paint::Plain, "  ", &text, usize::MAX);
    }
}

fn is_empty(bucket: &BucketBudget) -> bool {
    bucket.mean_ns.unwrap_or(0) == 0 && bucket.share.unwrap_or(0.0) == 0.0 && bucket.events.is_empty()
}

fn percentiles(values: [Option<u64>; 3]) -> String {
    values.iter().map(|ns| format!("{:>10}", duration_or_dash(*ns))).collect()
}

/// How much of `run_queue` was no queueing.
fn roused(profile: &Profile) -> Option<String> {
    let buckets = &profile.transactions.buckets;
    let run_queue = buckets.iter().find(|bucket| bucket.bucket.0 == Bucket::RunQueue)?;
    let part =
        run_queue.parts.iter().find(|part| part.part == "wake_to_run").filter(|part| part.mean_ns != 0)?;
    Some(format!(
        "inside run_queue: {} from a wake-up until an idle CPU was roused; the rest is queueing",
        duration(part.mean_ns)
    ))
}

/// What took CPU time away from the whole host or group, beside `run_queue`.
fn cpu_taken(profile: &Profile) -> Option<String> {
    let host = &profile.host;
    let mut parts = Vec::new();
    if let (Some(cpus), Some(steal_ns)) = (host.cpus, host.steal_ns)
        && steal_ns != 0
    {
        let all_ns = u64::from(cpus).saturating_mul(profile.window.duration_ns).max(1);
        let part = share(steal_ns as f64 / all_ns as f64);
        parts.push(format!("the hypervisor took {part} of the CPU time (steal)"));
    }
    if let Some(throttled_ns) = host.cgroup_throttled_ns.filter(|ns| *ns != 0) {
        parts.push(format!(
            "the control group's CPU quota held the server back for {}",
            duration(throttled_ns)
        ));
    }
    (!parts.is_empty()).then(|| format!("beside run_queue: {}", parts.join("; ")))
}
