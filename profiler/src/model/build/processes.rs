//! What the server's processes did, by backend type.

use std::collections::BTreeMap;

use profiler_common::bucket::{BUCKET_SLOTS, IDLE, WAKE_TO_RUN};

use super::bucket_times;
use crate::model::profile::{Process, ProcessType};

/// One process over the window.
#[derive(Clone, Debug)]
pub struct ProcessSample {
    /// Process id.
    pub pid: u32,
    /// Type as pg_stat_activity shows it; `None` where the server's number has no name.
    pub backend_type: Option<String>,
    /// Time by bucket in the window, ns, idle time at [`IDLE`], the part of `run_queue` at [`WAKE_TO_RUN`].
    pub buckets: [u64; BUCKET_SLOTS],
}

/// Client backends first, then by name, nameless ones last.
pub(super) fn by_type(samples: &[ProcessSample], list_pids: bool) -> Vec<ProcessType> {
    let mut types: BTreeMap<(u8, Option<&str>), Vec<&ProcessSample>> = BTreeMap::new();
    for sample in samples {
        let name = sample.backend_type.as_deref();
        let rank = match name {
            Some("client backend") => 0,
            Some(_) => 1,
            None => 2,
        };
        types.entry((rank, name)).or_default().push(sample);
    }
    types.into_iter().map(|((_, name), samples)| process_type(name, &samples, list_pids)).collect()
}

fn process_type(name: Option<&str>, samples: &[&ProcessSample], list_pids: bool) -> ProcessType {
    let mut sum = [0; BUCKET_SLOTS];
    for sample in samples {
        for (sum, ns) in sum.iter_mut().zip(sample.buckets) {
            *sum += ns;
        }
    }
    let pids = samples.iter().filter(|_| list_pids).map(|sample| Process {
        pid: sample.pid,
        idle_ns: sample.buckets[IDLE as usize],
        wake_to_run_ns: sample.buckets[WAKE_TO_RUN as usize],
        buckets: bucket_times(&sample.buckets),
    });
    ProcessType {
        backend_type: name.map(str::to_owned),
        n: samples.len() as u64,
        idle_ns: sum[IDLE as usize],
        buckets: bucket_times(&sum),
        events: Vec::new(),
        devices: Vec::new(),
        pids: pids.collect(),
    }
}
