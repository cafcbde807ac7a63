//! From runs to a table: the ratio within each pair, then the median and the quartiles of the ratios.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

/// What one window gave.
#[derive(Debug, Clone)]
pub struct Run {
    /// Transactions per second by pgbench.
    pub tps: f64,
    /// Transactions by pgbench.
    pub transactions: u64,
    /// CPU time of the server's processes, probes included: they run on the account of whom they interrupt.
    pub server_cpu: Duration,
    /// CPU time of the observer's own process; `None` when nobody watched.
    pub observer_cpu: Option<Duration>,
}

impl Run {
    /// Server CPU per transaction in microseconds.
    fn server_us(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.transactions as f64
    }

    fn observer_us(&self) -> Option<f64> {
        Some(self.observer_cpu?.as_secs_f64() * 1e6 / self.transactions as f64)
    }

    /// Both together, as one window of their mean length.
    pub fn mean(&self, other: &Self) -> Self {
        Self {
            tps: f64::midpoint(self.tps, other.tps),
            transactions: u64::midpoint(self.transactions, other.transactions),
            server_cpu: (self.server_cpu + other.server_cpu) / 2,
            observer_cpu: None,
        }
    }
}

/// A window and its neighbours.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The mean of the windows before and after it, in which nobody watched.
    pub without: Run,
    /// The window with the observer (in the null pair, nobody either).
    pub with: Run,
}

/// All pairs of one observer.
#[derive(Debug)]
pub struct Arm {
    name: String,
    /// In the order they were run.
    pub pairs: Vec<Pair>,
}

impl Arm {
    /// An arm without runs.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), pairs: Vec::new() }
    }

    fn spread(&self, value: impl Fn(&Pair) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.pairs.iter().filter_map(value).filter(|value| value.is_finite()).collect())
    }
}

/// One load's results.
#[derive(Debug)]
pub struct Table {
    /// The load, as a command line.
    pub workload: String,
    /// Connections.
    pub clients: u32,
    /// Length of a window.
    pub seconds: u64,
    /// The null pair first.
    pub arms: Vec<Arm>,
}

/// Median and quartiles, interpolated between neighbours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    q1: f64,
    median: f64,
    q3: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (low, part) = (place.floor() as usize, place.fract());
            values[low] + (values[last.min(low + 1)] - values[low]) * part
        };
        Some(Self { q1: at(0.25), median: at(0.5), q3: at(0.75) })
    }

    /// Ratios as changes in per cent.
    fn as_change(self) -> String {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        format!("{:+.2} % [{:+.2}, {:+.2}]", percent(self.median), percent(self.q1), percent(self.q3))
    }

    fn json(self) -> Value {
        json!({ "q1": self.q1, "median": self.median, "q3": self.q3 })
    }
}

impl Table {
    /// The table as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let pairs = self.arms.iter().map(|arm| arm.pairs.len()).max().unwrap_or(0);
        let unknown = || "unknown".to_owned();
        // Writing to a string cannot fail.
        writeln!(
            text,
            "\n{}, {} clients, {} windows of {} s, each between two without; median [quartiles] of the ratios",
            self.workload, self.clients, pairs, self.seconds
        )
        .ok();
        writeln!(
            text,
            "{:<20} {:>10}  {:<27} {:>10}  {:<27} {:>11}",
            "observer", "tps base", "throughput", "CPU/tx", "server CPU per transaction", "observer/tx"
        )
        .ok();
        for arm in &self.arms {
            let number = |value: Option<Spread>, digits: usize| {
                value.map_or_else(unknown, |spread| format!("{:.digits$}", spread.median))
            };
            let change = |value: Option<Spread>| value.map_or_else(unknown, Spread::as_change);
            let observer = arm.spread(|pair| pair.with.observer_us());
            writeln!(
                text,
                "{:<20} {:>10}  {:<27} {:>7} us  {:<27} {:>11}",
                arm.name,
                number(arm.spread(|pair| Some(pair.without.tps)), 0),
                change(arm.spread(throughput)),
                number(arm.spread(|pair| Some(pair.without.server_us())), 2),
                change(arm.spread(server_cpu)),
                observer.map_or_else(|| "-".to_owned(), |spread| format!("{:.2} us", spread.median))
            )
            .ok();
        }
        text
    }

    fn json(&self) -> Value {
        let arms = self.arms.iter().map(|arm| {
            json!({
                "observer": arm.name,
                "throughput_ratio": arm.spread(throughput).map(Spread::json),
                "server_cpu_per_transaction_ratio": arm.spread(server_cpu).map(Spread::json),
                "pairs": arm.pairs.iter().map(pair_json).collect::<Vec<_>>(),
            })
        });
        json!({ "workload": self.workload, "clients": self.clients, "seconds": self.seconds, "arms": arms.collect::<Vec<_>>() })
    }
}

fn throughput(pair: &Pair) -> Option<f64> {
    Some(pair.with.tps / pair.without.tps)
}

fn server_cpu(pair: &Pair) -> Option<f64> {
    Some(pair.with.server_us() / pair.without.server_us())
}

fn pair_json(pair: &Pair) -> Value {
    let run = |run: &Run| {
        json!({
            "tps": run.tps,
            "transactions": run.transactions,
            "server_cpu_ns": nanoseconds(run.server_cpu),
            "observer_cpu_ns": run.observer_cpu.map(nanoseconds),
        })
    };
    json!({ "without": run(&pair.without), "with": run(&pair.with) })
}

fn nanoseconds(time: Duration) -> Option<u64> {
    u64::try_from(time.as_nanos()).ok()
}

/// Everything as one document.
pub fn document(server: &str, tables: &[Table]) -> String {
    let kernel =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned());
    let cpus = std::thread::available_parallelism().ok().map(std::num::NonZero::get);
    let tables: Vec<Value> = tables.iter().map(Table::json).collect();
    let document = json!({ "schema": "pgstall.overhead/1", "server": server, "kernel": kernel, "cpus": cpus, "workloads": tables });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

    use super::*;

    fn run(tps: f64, cpu_ms: u64) -> Run {
        let cpu = Duration::from_millis(cpu_ms);
        Run { tps, transactions: 1000, server_cpu: cpu, observer_cpu: None }
    }

    #[test]
    fn quartiles() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
        assert_eq!(spread, Spread { q1: 2.0, median: 3.0, q3: 4.0 });
        assert_eq!(Spread::of(vec![1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of(vec![7.0]).unwrap(), Spread { q1: 7.0, median: 7.0, q3: 7.0 });
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn neighbours_are_averaged() {
        let mean = run(100.0, 100).mean(&run(200.0, 300));
        assert_eq!((mean.tps, mean.server_cpu, mean.transactions), (150.0, Duration::from_millis(200), 1000));
    }

    #[test]
    fn a_table_shows_changes_within_pairs_and_never_a_number_for_unknown() {
        let pair = Pair { without: run(100.0, 100), with: run(98.0, 103) };
        let arm = Arm { name: "attach exact".to_owned(), pairs: vec![pair] };
        let table = Table {
            workload: "pgbench -S".to_owned(),
            clients: 8,
            seconds: 1,
            arms: vec![arm, Arm::new("none")],
        };
        let text = table.text();
        assert!(text.contains("-2.00 % [-2.00, -2.00]"), "{text}");
        assert!(text.contains("+3.00 % [+3.00, +3.00]"), "{text}");
        assert!(text.contains("100.00 us"), "{text}");
        assert!(text.lines().last().unwrap().contains("unknown"), "{text}");
        let document: Value = serde_json::from_str(&document("15", &[table])).unwrap();
        assert_eq!(document["workloads"][0]["arms"][0]["pairs"][0]["with"]["server_cpu_ns"], 103_000_000);
        assert!(document["workloads"][0]["arms"][1]["throughput_ratio"].is_null());
    }
}
