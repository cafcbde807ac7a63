//! Sums over one device's requests in a stretch of time.

use profiler_common::{
    block::{DeviceTotals, OPERATIONS, UserTotals},
    histogram::Histogram,
};

/// Sums over one device's requests.
#[derive(Clone, Default)]
pub struct DeviceSums {
    /// Over CPUs. `max_ns` and `min_inverted_ns` are zero where the extremes of the stretch are not known.
    pub totals: DeviceTotals,
    /// Time at the device by kind; empty where it was not read.
    pub latency: Vec<Histogram>,
    /// Users by index (see [`profiler_common::block::user`]), those that there are.
    pub users: Vec<(u32, UserTotals)>,
    /// Requests given back by the device, by kind.
    pub requeued: [u64; OPERATIONS],
    /// Requests whose completion was not seen; they are in no other figure.
    pub completions_unseen: u64,
    /// Most requests at the device at a time.
    pub in_flight_max: u64,
    /// Time in which at least one was there, ns.
    pub busy_ns: u64,
}

impl DeviceSums {
    /// What was done between `earlier` and `self`, two readings of the same ever-growing sums. The most at a time is
    /// the later reading's.
    pub fn minus(&self, earlier: &DeviceSums) -> DeviceSums {
        let mut grown = self.clone();
        for (now, then) in grown.totals.operations.iter_mut().zip(&earlier.totals.operations) {
            now.count = now.count.saturating_sub(then.count);
            now.bytes = now.bytes.saturating_sub(then.bytes);
            now.device_ns = now.device_ns.saturating_sub(then.device_ns);
            now.queued = now.queued.saturating_sub(then.queued);
            now.queue_ns = now.queue_ns.saturating_sub(then.queue_ns);
            now.failed = now.failed.saturating_sub(then.failed);
            if now.max_ns == then.max_ns {
                now.max_ns = 0;
            }
            if now.min_inverted_ns == then.min_inverted_ns {
                now.min_inverted_ns = 0;
            }
        }
        grown.totals.flushes_asked = self.totals.flushes_asked.saturating_sub(earlier.totals.flushes_asked);
        grown.totals.unseen = self.totals.unseen.saturating_sub(earlier.totals.unseen);
        for (now, then) in grown.latency.iter_mut().zip(&earlier.latency) {
            for (now, then) in now.counts.iter_mut().zip(then.counts) {
                *now = now.saturating_sub(then);
            }
        }
        for (user, now) in &mut grown.users {
            let Some((_, then)) = earlier.users.iter().find(|(earlier, _)| earlier == user) else { continue };
            now.reads = now.reads.saturating_sub(then.reads);
            now.read_bytes = now.read_bytes.saturating_sub(then.read_bytes);
            now.writes = now.writes.saturating_sub(then.writes);
            now.write_bytes = now.write_bytes.saturating_sub(then.write_bytes);
            now.flushes = now.flushes.saturating_sub(then.flushes);
            now.device_ns = now.device_ns.saturating_sub(then.device_ns);
        }
        grown.users.retain(|(_, user)| *user != UserTotals::default());
        for (now, then) in grown.requeued.iter_mut().zip(earlier.requeued) {
            *now = now.saturating_sub(then);
        }
        grown.completions_unseen = self.completions_unseen.saturating_sub(earlier.completions_unseen);
        grown.busy_ns = self.busy_ns.saturating_sub(earlier.busy_ns);
        grown
    }

    /// Σ time of all requests at the device, ns.
    pub fn device_ns(&self) -> u64 {
        self.totals.operations.iter().map(|operation| operation.device_ns).sum()
    }
}
