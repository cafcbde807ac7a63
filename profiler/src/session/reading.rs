//! What the probes counted so far, as the model wants it.

use anyhow::Result;
use profiler_common::{
    bucket::Bucket,
    event::EVENT_SLOTS,
    held::{HELD_SLOTS, event_of},
    histogram::Histogram,
    totals::EventTotals,
};

use crate::{
    model::{aggregates::Aggregates, locks::HeldSums},
    probe::Probes,
};

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

/// Reads the sums over the waits other processes ended: a system call for each event there can be.
pub(super) fn held(probes: &Probes) -> Result<HeldSums> {
    let mut sums = HeldSums::default();
    for index in 0..HELD_SLOTS as u32 {
        for totals in probes.held_totals(index)? {
            sums.add(event_of(index), &totals);
        }
    }
    Ok(sums)
}

fn add(sum: &mut Histogram, cpus: Vec<Histogram>) {
    for cpu in cpus {
        for (sum, count) in sum.counts.iter_mut().zip(cpu.counts) {
            *sum += count;
        }
    }
}
