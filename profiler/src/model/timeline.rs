//! One interval of the window, made as soon as it is over, so that a long run keeps no histograms.

use profiler_common::bucket::{BUCKET_SLOTS, Bucket};

use super::{
    aggregates::Aggregates,
    bucket_name::BucketName,
    histogram::Distribution,
    profile::{BucketBackends, BucketMean, Interval},
};
use crate::apportion::apportion;

/// The entry of the interval in which `aggregates` were counted. Offset and length in ns from the window's begin.
pub fn interval(offset_ns: u64, duration_ns: u64, aggregates: &Aggregates) -> Interval {
    let transactions = aggregates.totals.transactions;
    let by_bucket: Vec<u64> = Bucket::ALL.iter().map(|bucket| aggregates.bucket_ns(*bucket)).collect();
    let buckets = bucket_means(&by_bucket, transactions);
    Interval {
        offset_ns,
        duration_ns,
        transactions,
        tps: per_second(transactions, duration_ns),
        mean_ns: (transactions != 0).then(|| buckets.iter().map(|bucket| bucket.mean_ns).sum()),
        p99_ns: Distribution::new(&aggregates.wall)
            .within(aggregates.min_ns(), aggregates.max_ns())
            .quantile(0.99),
        buckets,
        backends: Vec::new(),
        cpu_busy_ns: None,
        devices: Vec::new(),
    }
}

/// How many backends were in each bucket at a time, mean over an interval in which they spent `time_ns` by bucket.
pub fn backends(time_ns: &[u64; BUCKET_SLOTS], duration_ns: u64) -> Vec<BucketBackends> {
    let mean = |ns: u64| (ns as f64 / duration_ns.max(1) as f64 * 1e3).round() / 1e3;
    let buckets = Bucket::ALL.into_iter().map(|bucket| (bucket, mean(time_ns[bucket as usize])));
    buckets
        .filter(|(_, backends)| *backends > 0.0)
        .map(|(bucket, backends)| BucketBackends { bucket: BucketName(bucket), backends })
        .collect()
}

/// Time by bucket (in the order of [`Bucket::ALL`]) divided by `n`, without the buckets that have none.
pub(super) fn bucket_means(by_bucket_ns: &[u64], n: u64) -> Vec<BucketMean> {
    let means = Bucket::ALL.into_iter().zip(apportion(by_bucket_ns, n));
    means
        .filter(|(_, mean_ns)| *mean_ns != 0)
        .map(|(bucket, mean_ns)| BucketMean { bucket: BucketName(bucket), mean_ns })
        .collect()
}

/// A rate per second with three decimals, which is all a count over a window can carry.
pub(super) fn per_second(count: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 {
        return 0.0;
    }
    (count as f64 / duration_ns as f64 * 1e12).round() / 1e3
}
