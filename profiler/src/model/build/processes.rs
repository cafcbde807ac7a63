//! What the server's processes did, by backend type.

use std::cmp::Reverse;

use profiler_common::{
    bucket::{BUCKET_SLOTS, Bucket, IDLE, WAKE_TO_RUN},
    totals::EventTotals,
};

use super::bucket_times;
use crate::{
    model::profile::{Device, DeviceShare, PageCache, Process, ProcessEvent, ProcessType, ProcessWork},
    wait::name_of_index,
};

/// The type whose waits are counted with its transactions.
const CLIENT_BACKEND: &str = "client backend";

/// All processes of a type over the window.
#[derive(Clone, Debug)]
pub struct TypeSample {
    /// Type as pg_stat_activity shows it; `None`: they never said.
    pub backend_type: Option<String>,
    /// How many were there at any time in the window.
    pub n: u64,
    /// Time by bucket in the window, ns, as in [`ProcessSample`].
    pub buckets: [u64; BUCKET_SLOTS],
    /// What they waited for, by dense index; not filled in for client backends.
    pub events: Vec<(u32, EventTotals)>,
    /// What they worked on.
    pub work: Vec<WorkSample>,
}

/// What some processes of a type worked on.
#[derive(Clone, Debug)]
pub struct WorkSample {
    /// In a few words.
    pub what: String,
    /// Processes seen at it.
    pub n: u64,
    /// Time by bucket, ns.
    pub buckets: [u64; BUCKET_SLOTS],
}

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

/// Client backends first, then by name, nameless ones last. `pids` are the processes to list one by one, `counted` the
/// waits in the transactions counted.
pub(super) fn by_type(
    major: u32,
    types: &[TypeSample],
    pids: &[ProcessSample],
    counted: &[(u32, EventTotals)],
) -> Vec<ProcessType> {
    let mut types: Vec<&TypeSample> = types.iter().collect();
    types.sort_by_key(|sample| {
        let name = sample.backend_type.as_deref();
        (name.is_none(), name != Some(CLIENT_BACKEND), name)
    });
    let types = types.into_iter().map(|sample| {
        let is_client = sample.backend_type.as_deref() == Some(CLIENT_BACKEND);
        let own = pids.iter().filter(|process| process.backend_type == sample.backend_type);
        ProcessType {
            backend_type: sample.backend_type.clone(),
            n: sample.n,
            idle_ns: sample.buckets[IDLE as usize],
            buckets: bucket_times(&sample.buckets),
            events: events(major, if is_client { counted } else { &sample.events }),
            work: work(&sample.work),
            devices: Vec::new(),
            page_cache: None,
            pids: own.map(process).collect(),
        }
    });
    types.collect()
}

fn process(sample: &ProcessSample) -> Process {
    Process {
        pid: sample.pid,
        idle_ns: sample.buckets[IDLE as usize],
        wake_to_run_ns: sample.buckets[WAKE_TO_RUN as usize],
        buckets: bucket_times(&sample.buckets),
    }
}

fn events(major: u32, events: &[(u32, EventTotals)]) -> Vec<ProcessEvent> {
    let named = events.iter().map(|(index, totals)| {
        let name = name_of_index(major, *index);
        ProcessEvent {
            class: name.class.to_owned(),
            event: name.event.into_owned(),
            waits: totals.waits,
            blocked_ns: totals.blocked_ns,
        }
    });
    let mut events: Vec<ProcessEvent> = named.collect();
    events.sort_by_key(|event| Reverse(event.blocked_ns));
    events
}

/// The busiest first: by what was neither sleep without a reason to hurry nor idle time.
fn work(samples: &[WorkSample]) -> Vec<ProcessWork> {
    let busy_ns = |sample: &&WorkSample| {
        let all: u64 = Bucket::ALL.iter().map(|bucket| sample.buckets[*bucket as usize]).sum();
        all - sample.buckets[Bucket::OtherWait as usize]
    };
    let mut samples: Vec<&WorkSample> = samples.iter().collect();
    samples.sort_by_key(|sample| (Reverse(busy_ns(sample)), &sample.what));
    let work = samples.into_iter().map(|sample| ProcessWork {
        what: sample.what.clone(),
        n: sample.n,
        buckets: bucket_times(&sample.buckets),
    });
    work.collect()
}

/// Gives each type what its processes read; `reads` are by type, in any order.
pub(super) fn add_reads(types: &mut [ProcessType], reads: &[(Option<String>, PageCache)]) {
    for process_type in types {
        for (_, one) in reads.iter().filter(|(name, _)| *name == process_type.backend_type) {
            let sum = process_type.page_cache.get_or_insert_default();
            sum.read_bytes += one.read_bytes;
            sum.from_device_bytes += one.from_device_bytes;
        }
    }
}

/// Gives each type its part of the devices' work, as the devices tell who asked for it.
pub(super) fn share_devices(types: &mut [ProcessType], devices: &[Device]) {
    for process_type in types {
        let Some(name) = &process_type.backend_type else { continue };
        let shares = devices.iter().filter_map(|device| {
            let user = device.users.iter().find(|user| user.user.as_ref() == Some(name))?;
            Some(DeviceShare {
                device: device.name.clone(),
                share: user.share?,
                requests: user.reads + user.writes + user.flushes,
                bytes: user.read_bytes + user.write_bytes,
            })
        });
        process_type.devices = shares.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::profile::DeviceUser;

    const MAJOR: u32 = 15;
    const WAL_SYNC: u32 = 0xA46;
    const DATA_FILE_READ: u32 = 0xA11;

    fn sample(name: Option<&str>, n: u64, events: &[(u32, u64)]) -> TypeSample {
        let totals = |waits| EventTotals { waits, blocked_ns: waits * 1000, run_queue_ns: 0 };
        TypeSample {
            backend_type: name.map(str::to_owned),
            n,
            buckets: [7; BUCKET_SLOTS],
            events: events.iter().map(|(event, waits)| (*event, totals(*waits))).collect(),
            work: Vec::new(),
        }
    }

    fn types() -> Vec<ProcessType> {
        let types = [
            sample(None, 1, &[]),
            sample(Some("walwriter"), 1, &[(WAL_SYNC, 3), (DATA_FILE_READ, 5)]),
            sample(Some("checkpointer"), 1, &[]),
            sample(Some("client backend"), 9, &[]),
        ];
        let counted = [(WAL_SYNC, EventTotals { waits: 2, blocked_ns: 9, run_queue_ns: 0 })];
        by_type(MAJOR, &types, &[], &counted)
    }

    #[test]
    fn client_backends_come_first_and_wait_as_their_transactions_do() {
        let types = types();
        let names: Vec<_> = types.iter().map(|one| one.backend_type.as_deref()).collect();
        assert_eq!(names, [Some("client backend"), Some("checkpointer"), Some("walwriter"), None]);
        assert_eq!((types[0].events[0].event.as_str(), types[0].events[0].waits), ("WALSync", 2));
        let waits: Vec<_> = types[2].events.iter().map(|event| (event.event.as_str(), event.waits)).collect();
        assert_eq!(waits, [("DataFileRead", 5), ("WALSync", 3)]);
    }

    #[test]
    fn the_busiest_work_comes_first() {
        let work_of = |what: &str, bucket: Bucket| {
            let mut buckets = [0; BUCKET_SLOTS];
            buckets[bucket as usize] = 5;
            WorkSample { what: what.to_owned(), n: 1, buckets }
        };
        let shown = work(&[work_of("sleeps", Bucket::OtherWait), work_of("reads", Bucket::PageRead)]);
        assert_eq!((shown[0].what.as_str(), shown[0].buckets[0].time_ns), ("reads", 5));
    }

    #[test]
    fn reads_add_up_by_type() {
        let mut types = types();
        let of = |read_bytes, from_device_bytes| PageCache { read_bytes, from_device_bytes };
        let client = || Some("client backend".to_owned());
        add_reads(&mut types, &[(client(), of(5, 1)), (None, of(1, 0)), (client(), of(7, 9))]);
        assert_eq!(types[0].page_cache, Some(of(12, 10)));
        assert_eq!(types[1].page_cache, None, "not read, which is not nothing");
        assert_eq!(types[3].page_cache, Some(of(1, 0)));
    }

    #[test]
    fn devices_tell_the_types_their_share() {
        let user = |name: Option<&str>, writes, share| DeviceUser {
            user: name.map(str::to_owned),
            reads: 1,
            read_bytes: 8192,
            writes,
            write_bytes: writes * 8192,
            flushes: 2,
            share,
        };
        let device = Device {
            name: "vda".to_owned(),
            number: "254:0".to_owned(),
            model: None,
            size_bytes: None,
            scheduler: None,
            holds: Vec::new(),
            operations: Vec::new(),
            depth_mean: None,
            depth_max: None,
            utilisation: None,
            users: vec![
                user(Some("kernel: jbd2"), 1, Some(0.1)),
                user(Some("checkpointer"), 10, Some(0.6)),
                user(Some("walwriter"), 1, None),
            ],
            ceiling: None,
            ebs: None,
        };
        let mut types = types();
        share_devices(&mut types, &[device]);
        assert_eq!(types[0].devices, []);
        let share = DeviceShare { device: "vda".to_owned(), share: 0.6, requests: 13, bytes: 11 * 8192 };
        assert_eq!(types[1].devices, [share]);
        assert_eq!(types[2].devices, [], "a share that is not known is none");
    }
}
