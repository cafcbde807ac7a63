//! Reading what the programs counted.

use anyhow::{Context as _, Result};
use profiler_common::{
    bucket::Bucket,
    held::{HeldRecord, HeldTotals},
    histogram::Histogram,
    record::Record,
    totals::{EventTotals, Totals},
};

use super::attach::Probes;

/// A record out of the ring.
pub enum Drained<'a> {
    /// A finished unit or statement.
    Finished(&'a Record),
    /// A finished wait that another process ended.
    Held(&'a HeldRecord),
}

impl Probes {
    /// Each CPU's sums.
    pub fn totals(&self) -> Result<Vec<Totals>> {
        Ok(self.totals.get(&0, 0).context("cannot read TOTALS")?.to_vec())
    }

    /// Each CPU's sums of one event, by dense index.
    pub fn event_totals(&self, event: u32) -> Result<Vec<EventTotals>> {
        Ok(self.events.get(&event, 0).context("cannot read EVENTS")?.to_vec())
    }

    /// Each CPU's distribution of one bucket's non-zero times per unit.
    pub fn bucket_histogram(&self, bucket: Bucket) -> Result<Vec<Histogram>> {
        self.histogram(bucket as u32)
    }

    /// Each CPU's distribution of the units' wall time.
    pub fn wall_histogram(&self) -> Result<Vec<Histogram>> {
        self.histogram(Bucket::ALL.len() as u32)
    }

    fn histogram(&self, at: u32) -> Result<Vec<Histogram>> {
        Ok(self.histograms.get(&at, 0).context("cannot read HISTOGRAMS")?.to_vec())
    }

    /// Each CPU's sums over the waits another process ended, by [`held_index`](profiler_common::held::held_index).
    pub fn held_totals(&self, index: u32) -> Result<Vec<HeldTotals>> {
        Ok(self.held.get(&index, 0).context("cannot read HELD_TOTALS")?.to_vec())
    }

    /// Hands every waiting record to `take`; returns how many there were.
    pub fn drain(&mut self, mut take: impl FnMut(Drained<'_>)) -> usize {
        #[cfg(feature = "debug-probes")]
        self.log.flush();
        let mut n_records = 0;
        while let Some(item) = self.records.next() {
            // The kinds of record differ in size; the kernel keeps the size of each.
            if item.len() == size_of::<Record>() {
                // SAFETY: long enough, and Record is plain data that any bytes make; alignment is not assumed.
                let record = unsafe { item.as_ptr().cast::<Record>().read_unaligned() };
                take(Drained::Finished(&record));
            } else if item.len() == size_of::<HeldRecord>() {
                // SAFETY: the same.
                let record = unsafe { item.as_ptr().cast::<HeldRecord>().read_unaligned() };
                take(Drained::Held(&record));
            } else {
                continue;
            }
            n_records += 1;
        }
        n_records
    }
}
