//! What is known of the write-ahead log at the two ends of the window.

use anyhow::Result;
use profiler_common::flush::BACKEND_TYPES;

use super::attachment::Attachment;
use crate::{
    model::wal::{Flushes, WalInput},
    probe::Probes,
    target::WalSettings,
};

/// The flushes counted so far.
pub(super) fn flushes(probes: &Probes) -> Result<Flushes> {
    let mut flushes = Flushes { by_type: probes.flush_totals()?, ..Flushes::default() };
    for cpu in probes.flush_histogram()? {
        for (sum, count) in flushes.lengths.counts.iter_mut().zip(cpu.counts) {
            *sum += count;
        }
    }
    Ok(flushes)
}

impl Attachment {
    /// What the model needs, of the flushes in the window. Which waits are syncs was settled by `wal_settings` when the
    /// probes were loaded: where the method has changed since, none is named.
    pub(super) fn wal_input(&self, flushes: Flushes) -> WalInput {
        let now = self.cluster.wal_settings();
        let WalSettings { sync_method, full_page_writes, fsync } = self.wal_settings;
        let layout = self.cluster.layout;
        WalInput {
            flushes,
            type_names: (0..BACKEND_TYPES as u32).map(|number| layout.backend_type_name(number)).collect(),
            sync_method: sync_method.filter(|_| now.sync_method == sync_method).map(str::to_owned),
            full_page_writes: full_page_writes.filter(|_| now.full_page_writes == full_page_writes),
            fsync: fsync.filter(|_| now.fsync == fsync),
            writes_counted: self.features.offsets.as_ref().is_ok_and(|offsets| offsets.task_writes.is_some()),
        }
    }
}
