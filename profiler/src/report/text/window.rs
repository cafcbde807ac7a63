//! The window's course: what changed over it, and what was busy.

use std::collections::BTreeSet;

use profiler_common::bucket::Bucket;

use super::{
    approximate,
    page::{Line, Page, Paint},
};
use crate::{
    model::profile::{Interval, IntervalDevice, Profile},
    units::{count, counted, duration, rate},
};

/// Columns before a course and behind it; more intervals than fit between share a column.
const NAME: usize = 11;
const RANGE: usize = 28;

/// Fewer backends than this, at the worst, are not worth a course.
const WORTH_A_COURSE: f64 = 0.5;

/// Buckets whose backends are drawn: those another volume or another schema would change.
const DRAWN: [Bucket; 3] = [Bucket::PageRead, Bucket::WalFsync, Bucket::Lock];

pub(super) fn timeline(page: &mut Page, profile: &Profile) {
    let intervals = &profile.timeline;
    let has_backends = intervals.iter().any(|interval| !interval.backends.is_empty());
    if intervals.len() < 3 || profile.transactions.count == 0 && !has_backends {
        return;
    }
    let per_column = intervals.len().div_ceil(page.width().saturating_sub(NAME + RANGE + 4).max(1));
    let columns: Vec<&[Interval]> = intervals.chunks(per_column).collect();
    let length: u64 = columns[0].iter().map(|interval| interval.duration_ns).sum();
    let remark = format!("({} a column) {}", duration(length), approximate(profile));
    page.section("OVER TIME", remark.trim(), "");

    if profile.transactions.count != 0 {
        transactions(page, intervals, &columns);
    }
    for bucket in DRAWN {
        backends(page, bucket, &columns);
    }
    devices(page, &columns);
    for sentence in [waiting(profile), cpu_used(profile)].into_iter().flatten() {
        page.paragraph(Paint::Plain, "  ", &sentence, usize::MAX);
    }
}

fn transactions(page: &mut Page, intervals: &[Interval], columns: &[&[Interval]]) {
    let tps: Vec<f64> = columns.iter().map(|column| mean_of(column, |interval| interval.tps)).collect();
    let range = format!("{} to {}", rate(least(&tps)), rate(most(&tps)));
    course(page, "tps", &tps, &range);
    let worst = |of: fn(&Interval) -> Option<u64>| -> Vec<f64> {
        let worst_of = |column: &&[Interval]| column.iter().filter_map(of).max().unwrap_or(0) as f64;
        columns.iter().map(worst_of).collect()
    };
    for (name, values) in
        [("mean", worst(|interval| interval.mean_ns)), ("p99", worst(|interval| interval.p99_ns))]
    {
        let known: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
        let range = format!("{} to {}", duration(least(&known) as u64), duration(most(&known) as u64));
        course(page, name, &values, &range);
    }
    if let Some(worst) = intervals.iter().max_by_key(|interval| interval.p99_ns) {
        let largest = worst.buckets.iter().max_by_key(|bucket| bucket.mean_ns);
        let largest =
            largest.map(|bucket| format!(", mostly {}", bucket.bucket.0.name())).unwrap_or_default();
        let p99 = duration(worst.p99_ns.unwrap_or(0));
        page.line(format!("  worst: p99 {p99} at +{}{largest}", duration(worst.offset_ns)));
    }
}

/// How many client backends were in a bucket at a time.
fn backends(page: &mut Page, bucket: Bucket, columns: &[&[Interval]]) {
    let of = |interval: &Interval| backends_in(interval, bucket);
    let values: Vec<f64> = columns.iter().map(|column| mean_of(column, of)).collect();
    if most(&values) >= WORTH_A_COURSE {
        let range = format!("{} to {} backends", rate(least(&values)), rate(most(&values)));
        course(page, bucket.name(), &values, &range);
    }
}

fn backends_in(interval: &Interval, bucket: Bucket) -> f64 {
    let own = interval.backends.iter().find(|entry| entry.bucket.0 == bucket);
    own.map_or(0.0, |entry| entry.backends)
}

/// Requests per second and depth of every device that was seen.
fn devices(page: &mut Page, columns: &[&[Interval]]) {
    let names = columns.iter().copied().flatten().flat_map(|interval| &interval.devices);
    let names: BTreeSet<&str> = names.map(|device| device.device.as_str()).collect();
    for name in names {
        let drawn = |of: fn(&IntervalDevice) -> f64| -> Vec<f64> {
            let of = |interval: &Interval| {
                interval.devices.iter().find(|device| device.device == name).map_or(0.0, of)
            };
            columns.iter().map(|column| mean_of(column, of)).collect()
        };
        let rates = drawn(|device| device.reads_per_s + device.writes_per_s + device.flushes_per_s);
        let range = format!("{} to {} requests/s", rate(least(&rates)), rate(most(&rates)));
        course(page, name, &rates, &range);
        let depths = drawn(|device| device.depth_mean);
        let range = format!("{} to {} at it", rate(least(&depths)), rate(most(&depths)));
        course(page, "  depth", &depths, &range);
    }
}

/// `on average 29.0 of 64.0 client backends waited on page_read, 3.10 on lock`
fn waiting(profile: &Profile) -> Option<String> {
    let clients =
        profile.processes.iter().find(|one| one.backend_type.as_deref() == Some("client backend"))?;
    let window_ns = profile.window.duration_ns.max(1) as f64;
    let average = |ns: u64| ns as f64 / window_ns;
    let all = average(clients.buckets.iter().map(|time| time.time_ns).sum::<u64>() + clients.idle_ns);
    let mut waits: Vec<(&str, f64)> = clients
        .buckets
        .iter()
        .filter(|time| !matches!(time.bucket.0, Bucket::Cpu | Bucket::Client))
        .map(|time| (time.bucket.0.name(), average(time.time_ns)))
        .filter(|(_, average)| *average >= 0.05)
        .collect();
    waits.sort_by(|one, other| other.1.total_cmp(&one.1));
    let (first, rest) = waits.split_first()?;
    let mut sentence =
        format!("on average {} of {} client backends waited on {}", rate(first.1), population(all), first.0);
    for (name, average) in rest.iter().take(3) {
        sentence.push_str(&format!(", {} on {name}", rate(*average)));
    }
    Some(sentence)
}

/// How many there were on average: a whole number where connections stayed, a fraction where they came and went.
fn population(average: f64) -> String {
    let whole = average.round();
    if (average - whole).abs() < 0.05 { count(whole as u64) } else { rate(average) }
}

/// `CPU used: 251 s in 240 s (of 2 CPUs)`
fn cpu_used(profile: &Profile) -> Option<String> {
    let busy = duration(profile.host.cpu_busy_ns?);
    let cpus = profile.host.cpus.map(|cpus| format!(" (of {})", counted(cpus.into(), "CPU", "CPUs")));
    Some(format!(
        "CPU used: {busy} in {}{}, by everything on the host",
        duration(profile.window.duration_ns),
        cpus.unwrap_or_default()
    ))
}

fn course(page: &mut Page, name: &str, values: &[f64], range: &str) {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = most(values).max(f64::MIN_POSITIVE);
    let step = |value: &f64| STEPS[((value / top * 8.0).ceil() as usize).clamp(1, 8) - 1];
    // A gap, not the lowest step, where nothing happened.
    let line: String = values.iter().map(|value| if *value == 0.0 { ' ' } else { step(value) }).collect();
    page.write(
        Line::default()
            .add(Paint::Plain, format!("  {name:<NAME$}"))
            .add(Paint::Strong, line)
            .add(Paint::Plain, format!("  {range}")),
    );
}

fn mean_of(intervals: &[Interval], of: impl Fn(&Interval) -> f64) -> f64 {
    intervals.iter().map(of).sum::<f64>() / intervals.len().max(1) as f64
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).unwrap_or(0.0)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_that_stayed_are_a_whole_number() {
        assert_eq!(population(8.0003), "8");
        assert_eq!(population(7.98), "8");
        assert_eq!(population(64.0), "64");
        assert_eq!(population(0.42), "0.42");
        assert_eq!(population(2.5), "2.50");
    }
}
