//! Reading what the programs counted of the write-ahead log's flushes.

use anyhow::{Context as _, Result};
use profiler_common::{
    flush::{BACKEND_TYPES, FlushTotals},
    histogram::Histogram,
};

use super::attach::Probes;

impl Probes {
    /// The sums of each backend type over the CPUs, by the server's number of the type.
    pub fn flush_totals(&self) -> Result<Vec<FlushTotals>> {
        let by_type = (0..BACKEND_TYPES as u32).map(|backend_type| {
            let cpus = self.flushes.get(&backend_type, 0).context("cannot read FLUSHES")?;
            let mut sum = FlushTotals::default();
            for cpu in cpus.iter() {
                sum.flushes += cpu.flushes;
                sum.length_ns += cpu.length_ns;
                sum.blocked_ns += cpu.blocked_ns;
            }
            Ok(sum)
        });
        by_type.collect()
    }

    /// Each CPU's distribution of the flushes' lengths.
    pub fn flush_histogram(&self) -> Result<Vec<Histogram>> {
        Ok(self.flush_histogram.get(&0, 0).context("cannot read FLUSH_HISTOGRAM")?.to_vec())
    }
}
