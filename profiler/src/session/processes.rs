//! What each of the server's processes did between two instants.

use std::collections::HashMap;

use profiler_common::{backend::Backend, bucket::BUCKET_SLOTS};

use super::attachment::Attachment;
use crate::model::build::ProcessSample;

/// Time by bucket of each process since it is followed, at one instant.
pub(super) type Lives = HashMap<u32, [u64; BUCKET_SLOTS]>;

impl Attachment {
    /// Reads every process' time up to `now_ns`, its current stretch included. Ended processes are there until their
    /// slot is used again.
    pub(super) fn lives(&self, now_ns: u64) -> Lives {
        self.probes.backends().map(|(_, backend)| (backend.pid, life(&backend, now_ns))).collect()
    }

    /// Asks for the type of processes that have none yet.
    pub(super) fn learn_types(&mut self) {
        let followed: Vec<(u32, u32)> =
            self.probes.backends().map(|(_, backend)| (backend.pid, backend.backend_type)).collect();
        for (pid, number) in followed {
            if self.types.get(&pid).is_some_and(Option::is_some) {
                continue;
            }
            let known = self.cluster.layout.backend_type_name(number).filter(|_| number != 0);
            let name = known.or_else(|| self.cluster.backend_type_of(pid).ok().flatten());
            self.types.insert(pid, name.map(str::to_owned));
        }
    }

    /// What each process did between two readings.
    pub(super) fn process_samples(&self, before: &Lives, after: &Lives) -> Vec<ProcessSample> {
        let samples = after.iter().map(|(pid, life)| {
            let mut buckets = *life;
            if let Some(before) = before.get(pid) {
                for (bucket, before) in buckets.iter_mut().zip(before) {
                    *bucket = bucket.saturating_sub(*before);
                }
            }
            ProcessSample { pid: *pid, backend_type: self.types.get(pid).cloned().flatten(), buckets }
        });
        let mut samples: Vec<ProcessSample> =
            samples.filter(|sample| sample.buckets.iter().any(|ns| *ns != 0)).collect();
        samples.sort_by_key(|sample| sample.pid);
        samples
    }
}

fn life(backend: &Backend, now_ns: u64) -> [u64; BUCKET_SLOTS] {
    let mut life = backend.ledger.life;
    if backend.phase != profiler_common::backend::FREE {
        let (bucket, ns) = backend.ledger.pending(now_ns);
        if let Some(time) = life.get_mut(bucket as usize) {
            *time += ns;
        }
    }
    life
}
