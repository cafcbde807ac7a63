//! What the probes counted so far, as the model wants it.

use anyhow::Result;
use profiler_common::{bucket::Bucket, event::EVENT_SLOTS, histogram::Histogram, totals::EventTotals};

use crate::{model::aggregates::Aggregates, probe::Probes};

/// Reads sums and distributions; with `events`, the sums per wait event too, which takes a system call each.
pub(super) fn read(probes: &Probes, events: bool) -> Result<Aggregates> {
    let mut sum = Aggregates::default();
    for totals in probes.totals()? {
        sum.merge(&Aggregates { totals, ..Aggregates::default() });
    }
    add(&mut sum.wall, probes.wall_histogram()?);
    for bucket in Bucket::ALL {
        if let Some(histogram) = sum.buckets.get_mut(bucket as usize) {
            add(histogram, probes.bucket_histogram(bucket)?);
        }
    }
    if events {
        for event in 0..EVENT_SLOTS as u32 {
            let mut total = EventTotals::default();
            for cpu in probes.event_totals(event)? {
                total.waits += cpu.waits;
                total.blocked_ns += cpu.blocked_ns;
                total.run_queue_ns += cpu.run_queue_ns;
            }
            if total.waits != 0 {
                sum.events.push((event, total));
            }
        }
    }
    Ok(sum)
}

fn add(sum: &mut Histogram, cpus: Vec<Histogram>) {
    for cpu in cpus {
        for (sum, count) in sum.counts.iter_mut().zip(cpu.counts) {
            *sum += count;
        }
    }
}
