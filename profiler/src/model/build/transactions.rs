//! The budget.

use profiler_common::{
    block::LINKED_BUCKETS,
    bucket::{Bucket, WAKE_TO_RUN},
    storage::{STORAGE_PARTS, part},
    totals::{EventTotals, Totals},
};

use crate::{
    apportion::apportion,
    model::{
        aggregates::Aggregates,
        bucket_name::BucketName,
        histogram::Distribution,
        profile::{BucketBudget, EventBudget, Latency, Part, Transactions},
        statements::share,
        timeline::per_second,
    },
    wait::{bucket_table, name_of_index},
};

/// `storage_watched`: whether waits for I/O could be linked to requests at all.
pub(super) fn transactions(
    major: u32,
    aggregates: &Aggregates,
    duration_ns: u64,
    storage_watched: bool,
) -> Transactions {
    let totals = &aggregates.totals;
    let n = totals.transactions;
    let sums: Vec<u64> = Bucket::ALL.iter().map(|bucket| aggregates.bucket_ns(*bucket)).collect();
    let means = apportion(&sums, n);
    let mut events = events_by_bucket(major, aggregates);
    let buckets = Bucket::ALL.into_iter().zip(means).map(|(bucket, mean_ns)| {
        let of_units = Distribution::among(&aggregates.buckets[bucket as usize], totals.units)
            .within(None, aggregates.max_ns());
        let events = std::mem::take(&mut events[bucket as usize]);
        BucketBudget {
            bucket: BucketName(bucket),
            mean_ns: (n != 0).then_some(mean_ns),
            share: share(aggregates.bucket_ns(bucket), totals.wall_ns),
            p50_ns: of_units.quantile(0.50),
            p95_ns: of_units.quantile(0.95),
            p99_ns: of_units.quantile(0.99),
            parts: parts(bucket, &events, totals, n),
            storage: if storage_watched { storage(bucket, totals, n) } else { Vec::new() },
            events: events.into_iter().map(|event| event.budget(n)).collect(),
        }
    });
    let buckets: Vec<BucketBudget> = buckets.collect();
    Transactions {
        count: n,
        units: totals.units,
        units_with_several: totals.units_of_many,
        committed: None,
        rolled_back: None,
        tps: per_second(n, duration_ns),
        latency_ns: latency(aggregates),
        buckets,
    }
}

fn latency(aggregates: &Aggregates) -> Latency {
    let of_units = Distribution::new(&aggregates.wall).within(aggregates.min_ns(), aggregates.max_ns());
    let n = aggregates.totals.transactions;
    Latency {
        mean: (n != 0).then(|| apportion(&[aggregates.totals.wall_ns], n)[0]),
        stddev: of_units.stddev_ns(),
        min: aggregates.min_ns(),
        p50: of_units.quantile(0.50),
        p90: of_units.quantile(0.90),
        p95: of_units.quantile(0.95),
        p99: of_units.quantile(0.99),
        p999: of_units.quantile(0.999),
        max: aggregates.max_ns(),
    }
}

struct Event {
    class: &'static str,
    event: String,
    totals: EventTotals,
}

impl Event {
    fn budget(self, n: u64) -> EventBudget {
        let [mean_ns, run_queue_mean_ns] =
            [self.totals.blocked_ns, self.totals.run_queue_ns].map(|ns| apportion(&[ns], n)[0]);
        EventBudget {
            class: self.class.to_owned(),
            event: self.event,
            mean_ns,
            run_queue_mean_ns,
            waits: self.totals.waits,
        }
    }
}

/// The events of each bucket, the most blocked time first.
fn events_by_bucket(major: u32, aggregates: &Aggregates) -> Vec<Vec<Event>> {
    let bucket_of = bucket_table(major);
    let mut by_bucket: Vec<Vec<Event>> = Bucket::ALL.iter().map(|_| Vec::new()).collect();
    for (index, totals) in &aggregates.events {
        let Some(bucket) = bucket_of.get(*index as usize) else { continue };
        let name = name_of_index(major, *index);
        let event = Event { class: name.class, event: name.event.into_owned(), totals: *totals };
        if totals.waits != 0 || totals.blocked_ns != 0 {
            by_bucket[*bucket as usize].push(event);
        }
    }
    for events in &mut by_bucket {
        events.sort_by(|one, other| {
            (other.totals.blocked_ns, &one.event).cmp(&(one.totals.blocked_ns, &other.event))
        });
    }
    by_bucket
}

/// What the bucket's waits for I/O were spent on.
fn storage(bucket: Bucket, totals: &Totals, n: u64) -> Vec<Part> {
    let at = LINKED_BUCKETS.iter().position(|linked| *linked == bucket);
    let Some(waits) =
        at.map(|at| &totals.storage[at]).filter(|waits| n != 0 && waits.parts != [0; STORAGE_PARTS])
    else {
        return Vec::new();
    };
    let means = part::NAMES.iter().zip(apportion(&waits.parts, n));
    means.map(|(part, mean_ns)| Part { part: (*part).to_owned(), mean_ns }).collect()
}

/// `wal_fsync` is the backend's own write and sync (`leader`), or waiting for another backend's (`follower`); `run_queue`
/// is queueing for a CPU (`queued`), or rousing an idle one (`wake_to_run`).
fn parts(bucket: Bucket, events: &[Event], totals: &Totals, n: u64) -> Vec<Part> {
    if n == 0 {
        return Vec::new();
    }
    let named = |names: [&str; 2], sums: [u64; 2]| {
        let means = names.iter().zip(apportion(&sums, n));
        means.map(|(part, mean_ns)| Part { part: (*part).to_owned(), mean_ns }).collect()
    };
    if bucket == Bucket::RunQueue {
        let all_ns = totals.buckets[Bucket::RunQueue as usize];
        let wake_ns = totals.buckets[WAKE_TO_RUN as usize].min(all_ns);
        return if all_ns == 0 {
            Vec::new()
        } else {
            named(["queued", "wake_to_run"], [all_ns - wake_ns, wake_ns])
        };
    }
    if bucket != Bucket::WalFsync || events.is_empty() {
        return Vec::new();
    }
    let sum = |follower: bool| -> u64 {
        events
            .iter()
            .filter(|event| (event.class == "LWLock") == follower)
            .map(|event| event.totals.blocked_ns)
            .sum()
    };
    named(["leader", "follower"], [sum(false), sum(true)])
}
