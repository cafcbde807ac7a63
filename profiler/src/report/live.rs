//! One line per interval while the window is open.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    model::profile::Interval,
    report::text::MAX_WIDTH,
    units::{duration, duration_or_dash, rate},
};

/// Name and version of a line of JSON.
pub const INTERVAL_SCHEMA: &str = "pgstall.interval/1";

/// Buckets named on a line.
const NAMED_BUCKETS: usize = 4;

/// One interval as a line for a terminal, without line feed and at most 100 columns wide. With approximate borders
/// (`exact` false) the counts and latencies carry a `~`.
pub fn line(interval: &Interval, exact: bool) -> String {
    let about = if exact { "" } else { "~" };
    let end_s = (interval.offset_ns + interval.duration_ns) as f64 / 1e9;
    let end =
        if interval.duration_ns < 950_000_000 { format!("+{end_s:.1} s") } else { format!("+{end_s:.0} s") };
    let tps = format!("{about}{}", rate(interval.tps));
    let mut line = format!("{end:>9}  {tps:>8} tps");
    let Some(mean_ns) = interval.mean_ns else {
        line.push_str("  no transaction ended");
        return line;
    };
    let (mean, p99) = (duration(mean_ns), duration_or_dash(interval.p99_ns));
    let _ = write!(line, "  mean {:>9}  p99 {:>9} ", format!("{about}{mean}"), format!("{about}{p99}"));
    let mut buckets: Vec<_> = interval.buckets.iter().collect();
    buckets.sort_by_key(|bucket| std::cmp::Reverse(bucket.mean_ns));
    for bucket in buckets.into_iter().take(NAMED_BUCKETS) {
        let percent = bucket.mean_ns as f64 / mean_ns.max(1) as f64 * 100.0;
        let part = format!(" {} {percent:.0}%", bucket.bucket.0.name());
        if percent >= 0.5 && line.chars().count() + part.len() <= MAX_WIDTH {
            line.push_str(&part);
        }
    }
    line
}

/// One interval as a line of JSON, without line feed; `schema` comes first, then whether the borders are `exact`.
pub fn json_line(interval: &Interval, exact: bool) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        schema: &'static str,
        exact: bool,
        #[serde(flatten)]
        interval: &'a Interval,
    }
    serde_json::to_string(&Line { schema: INTERVAL_SCHEMA, exact, interval })
}

#[cfg(test)]
mod tests {
    use profiler_common::bucket::Bucket;

    use super::*;
    use crate::model::{bucket_name::BucketName, profile::BucketMean};

    fn interval() -> Interval {
        let means = [(Bucket::PageRead, 7_000_000), (Bucket::WalFsync, 22_000_000), (Bucket::Cpu, 1_000_000)];
        Interval {
            offset_ns: 11_000_000_000,
            duration_ns: 1_000_000_000,
            transactions: 412,
            tps: 412.0,
            mean_ns: Some(30_000_000),
            p99_ns: Some(88_000_000),
            buckets: means
                .map(|(bucket, mean_ns)| BucketMean { bucket: BucketName(bucket), mean_ns })
                .to_vec(),
            backends: vec![],
            cpu_busy_ns: None,
            devices: vec![],
        }
    }

    #[test]
    fn the_largest_buckets_come_first() {
        assert_eq!(
            line(&interval(), true),
            "    +12 s       412 tps  mean   30.0 ms  p99   88.0 ms  wal_fsync 73% page_read 23% cpu 3%"
        );
    }

    #[test]
    fn an_empty_interval_says_so() {
        let empty = Interval {
            transactions: 0,
            tps: 0.0,
            mean_ns: None,
            p99_ns: None,
            buckets: vec![],
            ..interval()
        };
        assert_eq!(line(&empty, true), "    +12 s         0 tps  no transaction ended");
        let json: serde_json::Value =
            serde_json::from_str(&json_line(&empty, false).expect("JSON")).expect("JSON");
        assert_eq!(json["schema"], INTERVAL_SCHEMA);
        assert_eq!(json["exact"], false);
        assert!(json["mean_ns"].is_null());
    }

    #[test]
    fn no_line_is_too_wide() {
        let mut widest = interval();
        widest.offset_ns = 3_599_000_000_000;
        widest.tps = 123_456.0;
        widest.buckets = Bucket::ALL
            .into_iter()
            .map(|bucket| BucketMean { bucket: BucketName(bucket), mean_ns: 3_000_000 })
            .collect();
        widest.buckets[9].mean_ns = 4_000_000;
        assert!(line(&widest, false).chars().count() <= 100, "{}", line(&widest, false));
    }
}
