//! What the probes counted in a stretch of time, summed over CPUs.

use std::collections::BTreeMap;

use profiler_common::{
    bucket::{BUCKET_SLOTS, Bucket},
    histogram::{HISTOGRAM_BUCKETS, Histogram},
    loss::{LOSSES, Loss},
    storage::{LINKED, STORAGE_PARTS, StorageTotals},
    totals::{EventTotals, Totals},
};

/// Sums and histograms of the units that finished in a stretch of time.
#[derive(Clone)]
pub struct Aggregates {
    /// Sums over CPUs. `max_ns` and `min_inverted_ns` are zero where the extremes of the stretch are not known.
    pub totals: Totals,
    /// Waits by dense event index (see [`profiler_common::event`]), in any order, each index once.
    pub events: Vec<(u32, EventTotals)>,
    /// Units by wall time.
    pub wall: Box<Histogram>,
    /// Units by time in each bucket, in the order of [`Bucket::ALL`]; a unit with no time in a bucket is not in that
    /// bucket's histogram.
    pub buckets: Vec<Histogram>,
}

const NO_COUNTS: Histogram = Histogram { counts: [0; HISTOGRAM_BUCKETS] };

const NO_STORAGE: StorageTotals = StorageTotals { parts: [0; STORAGE_PARTS] };

/// Sums of nothing.
pub const NO_TOTALS: Totals = Totals {
    transactions: 0,
    units: 0,
    units_of_many: 0,
    statements: 0,
    wall_ns: 0,
    max_ns: 0,
    min_inverted_ns: 0,
    connections: 0,
    connections_ns: 0,
    backends_ended: 0,
    transactions_flushed: 0,
    buckets: [0; BUCKET_SLOTS],
    losses: [0; LOSSES],
    storage: [NO_STORAGE; LINKED],
};

impl Default for Aggregates {
    fn default() -> Self {
        Aggregates {
            totals: NO_TOTALS,
            events: Vec::new(),
            wall: Box::new(NO_COUNTS),
            buckets: vec![NO_COUNTS; Bucket::ALL.len()],
        }
    }
}

impl Aggregates {
    /// Adds what was counted elsewhere in the same stretch (another CPU) or in another stretch.
    pub fn merge(&mut self, other: &Aggregates) {
        add_totals(&mut self.totals, &other.totals);
        let mut events: BTreeMap<u32, EventTotals> = self.events.drain(..).collect();
        for (index, added) in &other.events {
            let sum = events.entry(*index).or_default();
            sum.waits += added.waits;
            sum.blocked_ns += added.blocked_ns;
            sum.run_queue_ns += added.run_queue_ns;
        }
        self.events = events.into_iter().collect();
        combine(&mut self.wall.counts, &other.wall.counts, |sum, added| sum + added);
        for (sum, added) in self.buckets.iter_mut().zip(&other.buckets) {
            combine(&mut sum.counts, &added.counts, |sum, added| sum + added);
        }
    }

    /// What was counted between `earlier` and `self`, two readings of the same ever-growing counters.
    ///
    /// The extremes of the stretch are known only where they are new extremes of the whole; otherwise they are zero.
    pub fn minus(&self, earlier: &Aggregates) -> Aggregates {
        let before: BTreeMap<u32, EventTotals> = earlier.events.iter().copied().collect();
        let mut events = Vec::new();
        for (index, now) in &self.events {
            let then = before.get(index).copied().unwrap_or_default();
            let grown = EventTotals {
                waits: now.waits.saturating_sub(then.waits),
                blocked_ns: now.blocked_ns.saturating_sub(then.blocked_ns),
                run_queue_ns: now.run_queue_ns.saturating_sub(then.run_queue_ns),
            };
            if grown.waits != 0 || grown.blocked_ns != 0 || grown.run_queue_ns != 0 {
                events.push((*index, grown));
            }
        }
        let mut grown = Aggregates {
            totals: subtract_totals(&self.totals, &earlier.totals),
            events,
            wall: self.wall.clone(),
            buckets: self.buckets.clone(),
        };
        combine(&mut grown.wall.counts, &earlier.wall.counts, u64::saturating_sub);
        for (now, then) in grown.buckets.iter_mut().zip(&earlier.buckets) {
            combine(&mut now.counts, &then.counts, u64::saturating_sub);
        }
        grown
    }

    /// Shortest unit, ns, where known.
    pub fn min_ns(&self) -> Option<u64> {
        (self.totals.min_inverted_ns != 0).then(|| u64::MAX - self.totals.min_inverted_ns)
    }

    /// Longest unit, ns, where known.
    pub fn max_ns(&self) -> Option<u64> {
        (self.totals.max_ns != 0).then_some(self.totals.max_ns)
    }

    /// Time of one bucket over all units, ns.
    pub fn bucket_ns(&self, bucket: Bucket) -> u64 {
        self.totals.buckets[bucket as usize]
    }

    /// One loss counter.
    pub fn loss(&self, loss: Loss) -> u64 {
        self.totals.losses[loss as usize]
    }

    /// Σ buckets − Σ wall, ns: zero, or the budget does not add up.
    pub fn imbalance_ns(&self) -> i64 {
        let charged: i128 = Bucket::ALL.iter().map(|bucket| i128::from(self.bucket_ns(*bucket))).sum();
        let difference = charged - i128::from(self.totals.wall_ns);
        i64::try_from(difference).unwrap_or(if difference > 0 { i64::MAX } else { i64::MIN })
    }
}

fn combine(into: &mut [u64], other: &[u64], operation: impl Fn(u64, u64) -> u64) {
    for (into, other) in into.iter_mut().zip(other) {
        *into = operation(*into, *other);
    }
}

fn add_totals(sum: &mut Totals, added: &Totals) {
    // Destructured so that a new counter cannot be forgotten here.
    let Totals {
        transactions,
        units,
        units_of_many,
        statements,
        wall_ns,
        max_ns,
        min_inverted_ns,
        connections,
        connections_ns,
        backends_ended,
        transactions_flushed,
        buckets,
        losses,
        storage,
    } = added;
    sum.transactions += transactions;
    sum.units += units;
    sum.units_of_many += units_of_many;
    sum.statements += statements;
    sum.wall_ns += wall_ns;
    sum.max_ns = sum.max_ns.max(*max_ns);
    sum.min_inverted_ns = sum.min_inverted_ns.max(*min_inverted_ns);
    sum.connections += connections;
    sum.connections_ns += connections_ns;
    sum.backends_ended += backends_ended;
    sum.transactions_flushed += transactions_flushed;
    combine(&mut sum.buckets, buckets, |sum, added| sum + added);
    combine(&mut sum.losses, losses, |sum, added| sum + added);
    for (sum, added) in sum.storage.iter_mut().zip(storage) {
        sum.merge(added);
    }
}

fn subtract_totals(now: &Totals, then: &Totals) -> Totals {
    let mut grown = Totals {
        transactions: now.transactions.saturating_sub(then.transactions),
        units: now.units.saturating_sub(then.units),
        units_of_many: now.units_of_many.saturating_sub(then.units_of_many),
        statements: now.statements.saturating_sub(then.statements),
        wall_ns: now.wall_ns.saturating_sub(then.wall_ns),
        max_ns: if now.max_ns > then.max_ns { now.max_ns } else { 0 },
        min_inverted_ns: if now.min_inverted_ns > then.min_inverted_ns { now.min_inverted_ns } else { 0 },
        connections: now.connections.saturating_sub(then.connections),
        connections_ns: now.connections_ns.saturating_sub(then.connections_ns),
        backends_ended: now.backends_ended.saturating_sub(then.backends_ended),
        transactions_flushed: now.transactions_flushed.saturating_sub(then.transactions_flushed),
        buckets: now.buckets,
        losses: now.losses,
        storage: now.storage,
    };
    combine(&mut grown.buckets, &then.buckets, u64::saturating_sub);
    combine(&mut grown.losses, &then.losses, u64::saturating_sub);
    for (now, then) in grown.storage.iter_mut().zip(&then.storage) {
        combine(&mut now.parts, &then.parts, u64::saturating_sub);
    }
    grown
}

#[cfg(test)]
mod tests {
    use profiler_common::histogram::bucket_of;

    use super::*;

    fn one_unit(cpu_ns: u64, lock_ns: u64) -> Aggregates {
        let mut one = Aggregates::default();
        let wall_ns = cpu_ns + lock_ns;
        one.totals.transactions = 1;
        one.totals.units = 1;
        one.totals.wall_ns = wall_ns;
        one.totals.max_ns = wall_ns;
        one.totals.min_inverted_ns = u64::MAX - wall_ns;
        one.totals.buckets[Bucket::Cpu as usize] = cpu_ns;
        one.totals.buckets[Bucket::Lock as usize] = lock_ns;
        one.totals.losses[Loss::RecordDropped as usize] = 2;
        one.wall.counts[bucket_of(wall_ns) as usize] = 1;
        if lock_ns != 0 {
            one.buckets[Bucket::Lock as usize].counts[bucket_of(lock_ns) as usize] = 1;
            one.events.push((0x305, EventTotals { waits: 1, blocked_ns: lock_ns, run_queue_ns: 7 }));
        }
        one
    }

    #[test]
    fn the_difference_of_two_readings_is_what_came_between() {
        let first = one_unit(100, 0);
        let second = one_unit(50, 900);
        let mut both = first.clone();
        both.merge(&second);
        assert_eq!(both.totals.transactions, 2);
        assert_eq!((both.min_ns(), both.max_ns()), (Some(100), Some(950)));
        assert_eq!(both.imbalance_ns(), 0);

        let mut other_way_round = second.clone();
        other_way_round.merge(&first);
        assert_eq!((other_way_round.min_ns(), other_way_round.max_ns()), (Some(100), Some(950)));

        let between = both.minus(&first);
        assert_eq!(between.totals.transactions, 1);
        assert_eq!(between.totals.wall_ns, 950);
        assert_eq!(between.bucket_ns(Bucket::Lock), 900);
        assert_eq!(between.loss(Loss::RecordDropped), 2);
        assert_eq!(between.wall.counts, second.wall.counts);
        assert_eq!(between.events.len(), 1);
        assert_eq!(between.events[0].1.blocked_ns, 900);
        // 950 is a new maximum, so it is this stretch's; its minimum is not known.
        assert_eq!((between.min_ns(), between.max_ns()), (None, Some(950)));
    }

    #[test]
    fn a_budget_that_does_not_add_up_is_seen() {
        let mut one = one_unit(100, 200);
        one.totals.wall_ns += 5;
        assert_eq!(one.imbalance_ns(), -5);
    }
}
