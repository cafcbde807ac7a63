//! What a log says about a window of time: the truth that others' numbers are held against. Values only.

use std::ops::Range;

use super::{log::Entry, shape::Operation};

/// Requests of one kind that were answered within a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Mean from arrival to reply, ns; `None` where there were none.
    pub mean_ns: Option<f64>,
    /// The latencies in ascending order, ns.
    sorted_ns: Vec<u64>,
}

impl Summary {
    /// Of the entries of that operation with their reply within the window (ns of CLOCK_MONOTONIC).
    pub fn of(entries: &[Entry], window: &Range<u64>, operation: Operation) -> Summary {
        let mut sorted_ns = Vec::new();
        let mut bytes = 0;
        for entry in entries {
            if entry.operation == operation && window.contains(&entry.reply_ns) {
                sorted_ns.push(entry.latency_ns());
                bytes += u64::from(entry.bytes);
            }
        }
        sorted_ns.sort_unstable();
        let count = sorted_ns.len() as u64;
        let total: u64 = sorted_ns.iter().sum();
        let mean_ns = (count > 0).then(|| total as f64 / count as f64);
        Summary { count, bytes, mean_ns, sorted_ns }
    }

    /// The latency that this part (0 to 1) of the requests does not exceed, ns.
    pub fn quantile_ns(&self, part: f64) -> Option<u64> {
        let rank = (part * self.sorted_ns.len() as f64).ceil() as usize;
        self.sorted_ns.get(rank.saturating_sub(1)).copied()
    }
}

/// Mean number of requests at the volume over the window: each counts for the time it was there.
pub fn mean_depth(entries: &[Entry], window: &Range<u64>) -> f64 {
    let inside = |entry: &Entry| {
        entry.reply_ns.min(window.end).saturating_sub(entry.arrival_ns.max(window.start)) as f64
    };
    entries.iter().map(inside).sum::<f64>() / (window.end - window.start) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(operation: Operation, arrival_ns: u64, reply_ns: u64) -> Entry {
        Entry { operation, arrival_ns, reply_ns, offset: 0, bytes: 10 }
    }

    #[test]
    fn counts_what_was_answered_inside() {
        let entries = [
            entry(Operation::Read, 0, 100),
            entry(Operation::Read, 90, 120),
            entry(Operation::Write, 90, 120),
            entry(Operation::Read, 150, 200),
        ];
        let reads = Summary::of(&entries, &(100..200), Operation::Read);
        assert_eq!((reads.count, reads.bytes, reads.mean_ns), (2, 20, Some(65.0)));
        assert_eq!((reads.quantile_ns(0.5), reads.quantile_ns(0.99)), (Some(30), Some(100)));
        let flushes = Summary::of(&entries, &(100..200), Operation::Flush);
        assert_eq!((flushes.count, flushes.mean_ns, flushes.quantile_ns(0.5)), (0, None, None));
    }

    #[test]
    fn depth_is_time_there_over_time() {
        let entries = [
            entry(Operation::Read, 0, 150),
            entry(Operation::Write, 120, 300),
            entry(Operation::Flush, 300, 310),
        ];
        let depth = mean_depth(&entries, &(100..200));
        assert!((depth - 1.3).abs() < 1e-9, "{depth}");
    }
}
