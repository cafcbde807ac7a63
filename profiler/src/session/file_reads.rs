//! What the server's processes read from files, by the kernel's own count: how much of it the page cache had, at no price
//! for the reads themselves.

use std::collections::HashMap;

use profiler_common::backend::FREE;

use super::attachment::Attachment;
use crate::{model::profile::PageCache, probe::Probes};

/// What each process has read since it began, by pid; those whose count could not be read are not there.
pub(super) type Reads = HashMap<u32, PageCache>;

/// Reads `/proc/PID/io` of every followed process.
pub(super) fn now(probes: &Probes) -> Reads {
    let pids = probes.backends().filter(|(_, backend)| backend.phase != FREE).map(|(_, backend)| backend.pid);
    let reads = pids.filter_map(|pid| {
        // It may end at any time, and then nobody knows any more.
        let io = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?.io().ok()?;
        Some((pid, PageCache { read_bytes: io.rchar, from_device_bytes: io.read_bytes }))
    });
    reads.collect()
}

impl Attachment {
    /// What each process read between two readings, with its type; one that was not there before has begun since.
    pub(super) fn file_reads(&self, before: &Reads, after: &Reads) -> Vec<(Option<String>, PageCache)> {
        let between = after.iter().map(|(pid, after)| {
            let before = before.get(pid).copied().unwrap_or_default();
            let read = PageCache {
                read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
                from_device_bytes: after.from_device_bytes.saturating_sub(before.from_device_bytes),
            };
            (self.types.get(pid).cloned().flatten(), read)
        });
        between.collect()
    }
}
