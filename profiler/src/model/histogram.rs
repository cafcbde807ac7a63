//! Percentiles, mean and spread from a fixed-bound histogram.

use profiler_common::histogram::{HISTOGRAM_BUCKETS, Histogram, lower_bound};

/// The values of a histogram, and those the histogram leaves out because they are zero.
#[derive(Clone, Copy)]
pub struct Distribution<'a> {
    histogram: &'a Histogram,
    zeros: u64,
    min_ns: u64,
    max_ns: u64,
}

impl<'a> Distribution<'a> {
    /// The values the histogram counted.
    pub fn new(histogram: &'a Histogram) -> Self {
        Distribution { histogram, zeros: 0, min_ns: 0, max_ns: u64::MAX }
    }

    /// The values the histogram counted, and zeros up to `n` values in all.
    pub fn among(histogram: &'a Histogram, n: u64) -> Self {
        let counted: u64 = histogram.counts.iter().sum();
        Distribution { zeros: n.saturating_sub(counted), ..Distribution::new(histogram) }
    }

    /// Bounds no percentile can leave, where the extremes are known exactly, ns.
    pub fn within(self, min_ns: Option<u64>, max_ns: Option<u64>) -> Self {
        Distribution { min_ns: min_ns.unwrap_or(0), max_ns: max_ns.unwrap_or(u64::MAX), ..self }
    }

    /// Number of values.
    pub fn n(&self) -> u64 {
        self.zeros + self.histogram.counts.iter().sum::<u64>()
    }

    /// The value below which the share `q` of all values lies, ns; `None` of no values.
    ///
    /// Interpolated as if a bucket's values were spread evenly over it. A bucket is 1/32 of its value wide, so the
    /// result is never off by more than 3.1 %, and by far less where neighbouring buckets are filled alike.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let n = self.n();
        if n == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * n as f64).ceil() as u64).clamp(1, n);
        if rank <= self.zeros {
            return Some(0);
        }
        let mut below = self.zeros;
        for (bucket, count) in self.histogram.counts.iter().enumerate() {
            if below + count >= rank {
                let within = ((rank - below) as f64 - 0.5) / *count as f64;
                let (low, width) = bounds(bucket);
                let value = low + (within * width as f64) as u64;
                return Some(value.clamp(self.min_ns, self.max_ns));
            }
            below += count;
        }
        None
    }

    /// Standard deviation, ns; `None` of no values. Every value is taken as the middle of its bucket.
    pub fn stddev_ns(&self) -> Option<u64> {
        let n = self.n();
        if n == 0 {
            return None;
        }
        let mean = self.middles().map(|(middle, count)| middle * count).sum::<f64>() / n as f64;
        let squares: f64 = self.middles().map(|(middle, count)| (middle - mean).powi(2) * count).sum();
        let squares = squares + mean * mean * self.zeros as f64;
        Some((squares / n as f64).sqrt().round() as u64)
    }

    fn middles(&self) -> impl Iterator<Item = (f64, f64)> {
        let counts = self.histogram.counts.iter().enumerate().filter(|(_, count)| **count != 0);
        counts.map(|(bucket, count)| {
            let (low, width) = bounds(bucket);
            (low as f64 + (width - 1) as f64 / 2.0, *count as f64)
        })
    }
}

/// Smallest value and width of a bucket, ns. The last bucket has no end; it is taken to be as wide as its step.
fn bounds(bucket: usize) -> (u64, u64) {
    let low = lower_bound(bucket as u32);
    let next = if bucket + 1 < HISTOGRAM_BUCKETS { lower_bound(bucket as u32 + 1) } else { low + low / 63 };
    (low, next - low)
}

#[cfg(test)]
mod tests {
    use profiler_common::histogram::bucket_of;
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Box<Histogram> {
        let mut histogram = Box::new(Histogram { counts: [0; HISTOGRAM_BUCKETS] });
        for value in values {
            histogram.counts[bucket_of(value) as usize] += 1;
        }
        histogram
    }

    fn exact(sorted: &[u64], q: f64) -> u64 {
        let rank = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
        sorted[rank - 1]
    }

    #[test]
    fn quantiles_of_a_smooth_distribution_are_within_one_point_six_percent() {
        // Exponential with a mean of 3 ms, drawn at even steps of its distribution function.
        let mut values: Vec<u64> =
            (0..100_000).map(|step| (-(1.0 - (step as f64 + 0.5) / 1e5).ln() * 3e6) as u64).collect();
        values.sort_unstable();
        let histogram = histogram(values.iter().copied());
        let distribution = Distribution::new(&histogram);
        for q in [0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999] {
            let (found, wanted) =
                (distribution.quantile(q).expect("not empty") as f64, exact(&values, q) as f64);
            assert!((found / wanted - 1.0).abs() <= 0.016, "q {q}: found {found}, exact {wanted}");
        }
        let stddev = distribution.stddev_ns().expect("not empty") as f64;
        assert!(
            (stddev / 3e6 - 1.0).abs() < 0.005,
            "standard deviation of an exponential is its mean: {stddev}"
        );
    }

    proptest! {
        #[test]
        fn no_quantile_is_further_off_than_its_bucket_is_wide(
            mut values in prop::collection::vec(0u64..1 << 39, 1..200), q in 0.0..=1.0f64
        ) {
            values.sort_unstable();
            let histogram = histogram(values.iter().copied());
            let found = Distribution::new(&histogram).quantile(q).expect("not empty");
            let wanted = exact(&values, q);
            prop_assert!(found.abs_diff(wanted) * 32 <= wanted.max(found), "found {} exact {}", found, wanted);
        }
    }

    #[test]
    fn known_extremes_bound_the_percentiles() {
        let histogram = histogram([1_000_000, 1_000_000, 1_000_000]);
        let distribution = Distribution::new(&histogram).within(Some(1_000_000), Some(1_000_000));
        assert_eq!(distribution.quantile(0.5), Some(1_000_000));
        assert_eq!(distribution.quantile(0.999), Some(1_000_000));
    }

    #[test]
    fn values_left_out_count_as_zeros() {
        let histogram = histogram([5_000; 10]);
        let distribution = Distribution::among(&histogram, 100);
        assert_eq!(distribution.n(), 100);
        assert_eq!(distribution.quantile(0.5), Some(0));
        assert_eq!(distribution.quantile(0.90), Some(0));
        assert!(distribution.quantile(0.95).expect("not empty") > 4_800);
        // Mean 500, E[x²] = 2.5e6.
        assert!(distribution.stddev_ns().expect("not empty").abs_diff(1500) < 30);
    }

    #[test]
    fn nothing_has_no_percentile() {
        let nothing = histogram([]);
        assert_eq!(Distribution::new(&nothing).quantile(0.5), None);
        assert_eq!(Distribution::new(&nothing).stddev_ns(), None);
    }

    #[test]
    fn the_open_last_bucket_ends_at_the_known_maximum() {
        let histogram = histogram([u64::MAX]);
        assert!(Distribution::new(&histogram).quantile(1.0).expect("not empty") >= 1 << 39);
    }
}
