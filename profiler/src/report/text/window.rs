//! The window as a whole: its course, and what the server's processes did in it.

use super::{
    approximate,
    page::{Line, Page, Paint},
};
use crate::{
    model::profile::{Interval, ProcessType, Profile},
    units::{duration, rate},
};

/// Columns of a course; more intervals share a column.
const COLUMNS: usize = 60;

pub(super) fn timeline(page: &mut Page, profile: &Profile) {
    let intervals = &profile.timeline;
    if intervals.len() < 3 || profile.transactions.count == 0 {
        return;
    }
    let per_column = intervals.len().div_ceil(COLUMNS);
    let columns: Vec<&[Interval]> = intervals.chunks(per_column).collect();
    let length: u64 = columns[0].iter().map(|interval| interval.duration_ns).sum();
    let remark = format!("({} a column) {}", duration(length), approximate(profile));
    page.section("OVER TIME", remark.trim(), "");

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

fn course(page: &mut Page, name: &str, values: &[f64], range: &str) {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = most(values).max(f64::MIN_POSITIVE);
    let step = |value: &f64| STEPS[((value / top * 8.0).ceil() as usize).clamp(1, 8) - 1];
    // A gap, not the lowest step, where nothing happened.
    let line: String = values.iter().map(|value| if *value == 0.0 { ' ' } else { step(value) }).collect();
    page.write(
        Line::default()
            .add(Paint::Plain, format!("  {name:<6}"))
            .add(Paint::Strong, line)
            .add(Paint::Plain, format!("  {range}")),
    );
}

fn mean_of(intervals: &[Interval], of: fn(&Interval) -> f64) -> f64 {
    intervals.iter().map(of).sum::<f64>() / intervals.len().max(1) as f64
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).unwrap_or(0.0)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).unwrap_or(0.0)
}

pub(super) fn processes(page: &mut Page, profile: &Profile) {
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
