//! The longest units of a run, and how long a unit must be to become one of them.

use profiler_common::record::{KIND_TRANSACTION, Record};

/// Keeps the `n` longest units.
pub struct Slowest {
    n: usize,
    /// Longest first.
    records: Vec<Record>,
}

impl Slowest {
    /// Keeps up to `n` units.
    pub fn new(n: usize) -> Self {
        Slowest { n, records: Vec::with_capacity(n.min(1024)) }
    }

    /// Considers a finished unit; records of another kind are ignored. Of equals the earlier stays ahead.
    pub fn add(&mut self, record: &Record) {
        if record.kind != KIND_TRANSACTION {
            return;
        }
        let at = self.records.partition_point(|kept| wall_ns(kept) >= wall_ns(record));
        if at < self.n {
            self.records.truncate(self.n - 1);
            self.records.insert(at, *record);
        }
    }

    /// A unit must be longer than this, ns, to be kept: what the kernel side need not send. `u64::MAX` if none is
    /// wanted.
    pub fn threshold_ns(&self) -> u64 {
        if self.n == 0 {
            u64::MAX
        } else if self.records.len() < self.n {
            0
        } else {
            self.records.last().map_or(0, wall_ns)
        }
    }

    /// What was kept, longest first.
    pub fn records(&self) -> &[Record] {
        &self.records
    }
}

/// Wall time of a record, ns.
pub(super) fn wall_ns(record: &Record) -> u64 {
    record.end_ns.saturating_sub(record.start_ns)
}

#[cfg(test)]
mod tests {
    use profiler_common::record::KIND_STATEMENT;

    use super::*;
    use crate::model::statements::tests::record;

    #[test]
    fn keeps_the_longest_in_order_and_raises_its_threshold() {
        let mut slowest = Slowest::new(3);
        assert_eq!(slowest.threshold_ns(), 0);
        for (pid, ns) in [(1, 50), (2, 10), (3, 70), (4, 60), (5, 5), (6, 70)] {
            let mut unit = record("", ns);
            unit.kind = KIND_TRANSACTION;
            unit.pid = pid;
            slowest.add(&unit);
        }
        let kept: Vec<u32> = slowest.records().iter().map(|record| record.pid).collect();
        assert_eq!(kept, [3, 6, 4]);
        assert_eq!(slowest.threshold_ns(), 60);
    }

    #[test]
    fn statements_and_an_empty_wish_are_ignored() {
        let mut slowest = Slowest::new(1);
        let statement = record("SELECT 1", 10);
        assert_eq!(statement.kind, KIND_STATEMENT);
        slowest.add(&statement);
        assert!(slowest.records().is_empty());
        assert_eq!(Slowest::new(0).threshold_ns(), u64::MAX);
    }
}
