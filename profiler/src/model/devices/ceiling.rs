//! Whether a device was held at a rate: asked for more, it did the same.
//!
//! A rate that stays the same is no ceiling by itself: a fixed number of clients that each wait for the last answer makes
//! a steady rate on any device. What tells them apart is that more requests at the device brought no more of them done:
//! either the number there changed and the rate did not, or they took far longer than the device needs for one.

use profiler_common::block::operation;

use super::sums::DeviceSums;
use crate::{
    model::profile::{Ceiling, IntervalDevice},
    units::{duration, rate},
};

/// Fewest intervals with requests waiting at the device.
const FEWEST: usize = 5;
/// Requests at the device from which on more were asked for than it did at once.
const DEPTH: f64 = 2.0;
/// How far the upper end of a flat rate may lie above its middle, and a known limit from the rate.
const FLAT: f64 = 0.03;
/// How far the number at the device has to move for a flat rate to mean something.
const DEPTH_SPREAD: f64 = 1.3;
/// How much longer than the fastest requests take on average that wait inside the device.
const QUEUEING: f64 = 3.0;

/// Limits that are sold, requests per second.
const KNOWN_IOPS: [(f64, &str); 9] = [
    (100.0, "gp2 minimum (100 IOPS)"),
    (500.0, "Azure P10 (500 IOPS)"),
    (3_000.0, "gp3 baseline (3,000 IOPS)"),
    (5_000.0, "Azure P30 (5,000 IOPS)"),
    (16_000.0, "gp2 and gp3 maximum (16,000 IOPS)"),
    (20_000.0, "Azure P80 (20,000 IOPS)"),
    (64_000.0, "io1 maximum (64,000 IOPS)"),
    (80_000.0, "gp3 maximum since 2025 (80,000 IOPS)"),
    (256_000.0, "io2 Block Express maximum (256,000 IOPS)"),
];

/// Limits that are sold, bytes per second.
const KNOWN_THROUGHPUT: [(f64, &str); 5] = [
    (125.0 * MIB, "gp3 baseline (125 MiB/s)"),
    (250.0 * MIB, "gp2 maximum (250 MiB/s)"),
    (500.0 * MIB, "st1 and io1 (500 MiB/s)"),
    (1000.0 * MIB, "gp3 and io1 maximum (1,000 MiB/s)"),
    (2000.0 * MIB, "gp3 maximum since 2025 (2,000 MiB/s)"),
];

const MIB: f64 = 1024.0 * 1024.0;

/// The ceiling a device was at, if it was at one for most of the time it was busy.
pub(super) fn ceiling(sums: &DeviceSums, course: &[&IntervalDevice]) -> Option<Ceiling> {
    let busy: Vec<&IntervalDevice> = course.iter().copied().filter(|one| one.depth_mean >= DEPTH).collect();
    let active = course.iter().filter(|one| one.depth_mean > 0.05).count();
    if busy.len() < FEWEST || busy.len() * 2 < active {
        return None;
    }
    let iops = Flat::of(&busy, |one| one.reads_per_s + one.writes_per_s)
        .and_then(|flat| flat.ceiling("iops", &KNOWN_IOPS, sums, &busy));
    iops.or_else(|| {
        Flat::of(&busy, |one| one.bytes_per_s)?.ceiling("throughput", &KNOWN_THROUGHPUT, sums, &busy)
    })
}

/// A rate that hardly moved.
struct Flat {
    median: f64,
    upper: f64,
}

impl Flat {
    fn of(busy: &[&IntervalDevice], rate: fn(&IntervalDevice) -> f64) -> Option<Flat> {
        let mut rates: Vec<f64> = busy.iter().map(|one| rate(one)).collect();
        rates.sort_by(f64::total_cmp);
        let (median, upper) = (quantile(&rates, 0.5), quantile(&rates, 0.9));
        (median > 0.0 && upper <= median * (1.0 + FLAT)).then_some(Flat { median, upper })
    }

    fn ceiling(
        &self,
        kind: &str,
        known: &[(f64, &str)],
        sums: &DeviceSums,
        busy: &[&IntervalDevice],
    ) -> Option<Ceiling> {
        let known_as = known.iter().find(|(limit, _)| (self.median / limit - 1.0).abs() <= FLAT);
        let mut depths: Vec<f64> = busy.iter().map(|one| one.depth_mean).collect();
        depths.sort_by(f64::total_cmp);
        let (low, high) = (quantile(&depths, 0.1), quantile(&depths, 0.9));
        let held = if high >= low * DEPTH_SPREAD {
            format!("while the requests at the device went from {low:.1} to {high:.1}")
        } else if let Some((mean_ns, min_ns)) = queueing(sums) {
            format!(
                "at {:.1} requests at the device, which took {} on average where the fastest took {}",
                quantile(&depths, 0.5),
                duration(mean_ns),
                duration(min_ns)
            )
        } else {
            known_as?;
            format!("at {:.1} requests at the device", quantile(&depths, 0.5))
        };
        let written = |value: f64| {
            if kind == "iops" { format!("{}/s", rate(value)) } else { format!("{:.0} MiB/s", value / MIB) }
        };
        Some(Ceiling {
            kind: kind.to_owned(),
            per_s: (self.median * 10.0).round() / 10.0,
            known_as: known_as.map(|(_, name)| (*name).to_owned()),
            evidence: format!(
                "the middle of {} intervals is {}, nine in ten are at or below {}, {held}",
                busy.len(),
                written(self.median),
                written(self.upper)
            ),
        })
    }
}

/// Mean and shortest time at the device of the most frequent kind of request, ns, if they tell of waiting inside it.
fn queueing(sums: &DeviceSums) -> Option<(u64, u64)> {
    let of = |operation: u32| &sums.totals.operations[operation as usize];
    let totals = [of(operation::READ), of(operation::WRITE)].into_iter().max_by_key(|totals| totals.count)?;
    let mean_ns = totals.device_ns.checked_div(totals.count)?;
    let min_ns = (totals.min_inverted_ns != 0).then(|| u64::MAX - totals.min_inverted_ns)?;
    (mean_ns as f64 >= QUEUEING * min_ns as f64).then_some((mean_ns, min_ns))
}

/// The value at a share of a sorted, non-empty list.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = ((sorted.len() as f64 * q).ceil() as usize).clamp(1, sorted.len());
    sorted[at - 1]
}
