//! What the flushes of the write-ahead log amount to.

use profiler_common::{
    flush::FlushTotals,
    histogram::{HISTOGRAM_BUCKETS, Histogram},
};

use super::{
    aggregates::Aggregates,
    histogram::Distribution,
    profile::{FlushedBy, Latency, Wal},
    timeline::per_second,
};

/// The type whose flushes commits share.
const CLIENT: &str = "client backend";

/// Flushes counted so far, or in a stretch of time.
#[derive(Clone)]
pub struct Flushes {
    /// Sums by the server's number of the backend type.
    pub by_type: Vec<FlushTotals>,
    /// Flushes by length.
    pub lengths: Box<Histogram>,
}

impl Default for Flushes {
    fn default() -> Self {
        Flushes { by_type: Vec::new(), lengths: Box::new(Histogram { counts: [0; HISTOGRAM_BUCKETS] }) }
    }
}

impl Flushes {
    /// What was counted between `earlier` and `self`, two readings of the same ever-growing counters.
    pub fn minus(&self, earlier: &Flushes) -> Flushes {
        let mut grown = self.clone();
        for (now, then) in grown.by_type.iter_mut().zip(&earlier.by_type) {
            now.flushes = now.flushes.saturating_sub(then.flushes);
            now.length_ns = now.length_ns.saturating_sub(then.length_ns);
            now.blocked_ns = now.blocked_ns.saturating_sub(then.blocked_ns);
        }
        for (now, then) in grown.lengths.counts.iter_mut().zip(earlier.lengths.counts) {
            *now = now.saturating_sub(then);
        }
        grown
    }
}

/// What is known of the log in the window.
pub struct WalInput {
    /// The flushes in it.
    pub flushes: Flushes,
    /// Name of each backend type, by the server's number.
    pub type_names: Vec<Option<&'static str>>,
    /// `wal_sync_method`, where it is known and was the same all the time.
    pub sync_method: Option<String>,
    /// `full_page_writes`, where it is known.
    pub full_page_writes: Option<bool>,
    /// `fsync`, where it is known.
    pub fsync: Option<bool>,
    /// Whether the kernel counts the writes of a task.
    pub writes_counted: bool,
}

/// Sums it up. `all_units`: no unit was left out on request, so that units and flushes are of the same transactions.
pub(super) fn wal(input: WalInput, aggregates: &Aggregates, all_units: bool, duration_ns: u64) -> Wal {
    let mut sum = FlushTotals::default();
    let mut by_clients = 0;
    let mut flushed_by = Vec::new();
    for (number, totals) in input.flushes.by_type.iter().enumerate().filter(|(_, totals)| totals.flushes != 0)
    {
        sum.flushes += totals.flushes;
        sum.length_ns += totals.length_ns;
        sum.blocked_ns += totals.blocked_ns;
        let name = input.type_names.get(number).copied().flatten();
        if name == Some(CLIENT) {
            by_clients = totals.flushes;
        }
        flushed_by.push(FlushedBy {
            backend_type: name.map(str::to_owned),
            flushes: totals.flushes,
            mean_ns: totals.length_ns.checked_div(totals.flushes),
        });
    }
    flushed_by.sort_by_key(|by| std::cmp::Reverse(by.flushes));
    let waited = aggregates.totals.transactions_flushed;
    let of_flushes = Distribution::new(&input.flushes.lengths);
    Wal {
        flushes: sum.flushes,
        flushes_per_s: per_second(sum.flushes, duration_ns),
        commits_per_flush: (all_units && by_clients != 0).then(|| waited as f64 / by_clients as f64),
        flush_latency_ns: Latency {
            mean: sum.length_ns.checked_div(sum.flushes),
            stddev: of_flushes.stddev_ns(),
            min: None,
            p50: of_flushes.quantile(0.50),
            p90: of_flushes.quantile(0.90),
            p95: of_flushes.quantile(0.95),
            p99: of_flushes.quantile(0.99),
            p999: of_flushes.quantile(0.999),
            max: None,
        },
        flush_blocked_mean_ns: sum.blocked_ns.checked_div(sum.flushes),
        flushed_by,
        source: Some(source(&input).to_owned()),
        sync_method: input.sync_method,
        full_page_writes: input.full_page_writes,
        fsync: input.fsync,
    }
}

fn source(input: &WalInput) -> &'static str {
    if input.writes_counted {
        "sleeps in a sync of the log; two calls in a row are told apart by the kernel's count of the process' writes"
    } else {
        "sleeps in a sync of the log; this kernel does not count a process' writes (CONFIG_TASK_XACCT), so calls that \
         follow each other without another sleep between them count as one"
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use profiler_common::{flush::Flushed, histogram::bucket_of};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// `lengths_ns` by the server's number of the type.
    fn flushes(lengths_ns: &[&[u64]]) -> Flushes {
        let mut flushes = Flushes::default();
        for lengths_ns in lengths_ns {
            let mut totals = FlushTotals::default();
            for &length_ns in *lengths_ns {
                totals.add(Flushed { length_ns, blocked_ns: length_ns / 2 });
                flushes.lengths.counts[bucket_of(length_ns)] += 1;
            }
            flushes.by_type.push(totals);
        }
        flushes
    }

    fn summed(flushes: Flushes, transactions_flushed: u64, all_units: bool) -> Wal {
        let input = WalInput {
            flushes,
            type_names: vec![None, Some(CLIENT), Some("walwriter")],
            sync_method: Some("fdatasync".to_owned()),
            full_page_writes: None,
            fsync: Some(true),
            writes_counted: true,
        };
        let mut aggregates = Aggregates::default();
        aggregates.totals.transactions_flushed = transactions_flushed;
        wal(input, &aggregates, all_units, 2 * SECOND)
    }

    #[test]
    fn commits_share_the_flushes_of_client_backends_only() {
        let wal = summed(flushes(&[&[], &[1000, 3000], &[8000, 8000, 8000]]), 7, true);
        assert_eq!((wal.flushes, wal.flushes_per_s, wal.commits_per_flush), (5, 2.5, Some(3.5)));
        assert_eq!((wal.flush_latency_ns.mean, wal.flush_blocked_mean_ns), (Some(5600), Some(2800)));
        let p50 = wal.flush_latency_ns.p50.unwrap();
        assert!((7900..8200).contains(&p50), "{p50}");
        let by: Vec<_> = wal.flushed_by.iter().map(|by| (by.backend_type.as_deref(), by.flushes)).collect();
        assert_eq!(by, [(Some("walwriter"), 3), (Some(CLIENT), 2)]);
        assert_eq!(wal.flushed_by[1].mean_ns, Some(2000));
    }

    #[test]
    fn what_is_not_known_is_null() {
        let nothing = summed(flushes(&[]), 0, true);
        assert_eq!((nothing.flushes, nothing.commits_per_flush), (0, None));
        assert_eq!(nothing.flush_latency_ns, Latency::default());
        assert_eq!(nothing.flush_blocked_mean_ns, None);
        let others = summed(flushes(&[&[], &[], &[8000]]), 3, true);
        assert_eq!(others.commits_per_flush, None, "no client flushed");
        let filtered = summed(flushes(&[&[], &[1000]]), 3, false);
        assert_eq!(filtered.commits_per_flush, None, "flushes are everybody's, units are not");
        let unnamed = summed(flushes(&[&[1000]]), 0, true);
        assert_eq!(unnamed.flushed_by[0].backend_type, None);
    }

    #[test]
    fn a_stretch_is_the_difference_of_two_readings() {
        let (then, now) = (flushes(&[&[], &[1000]]), flushes(&[&[], &[1000, 2000, 2000]]));
        let grown = now.minus(&then);
        assert_eq!(grown.by_type[1], FlushTotals { flushes: 2, length_ns: 4000, blocked_ns: 2000 });
        assert_eq!(grown.lengths.counts.iter().sum::<u64>(), 2);
        assert_eq!(now.minus(&Flushes::default()).by_type[1].flushes, 3, "nothing was read before");
    }
}
