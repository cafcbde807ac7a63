//! The block devices under the server: which to watch, and reading what they did.

use anyhow::Result;
use profiler_common::{
    block::{DeviceTotals, MOST_DEVICES, OPERATIONS, USERS, UserTotals},
    histogram::{HISTOGRAM_BUCKETS, Histogram},
};

use super::{attachment::Attachment, options::Options};
use crate::{
    kernel::{block, features::Features},
    model::{
        devices::{self, DeviceIdentity, DeviceSums, user_name},
        profile::{Device, Interval, IntervalDevice, Probe},
    },
    probe::{BlockPlan, Probes},
    storage::{self, BlockDevice, Storage},
    target::Cluster,
};

/// Stands for all probes of the block layer where none of them is attached.
const PROBES: &str = "block_*";

/// The devices under the server, and whether they are watched.
pub(super) struct Block {
    storage: Storage,
    /// What the probes are told; or why there are none.
    pub plan: Result<BlockPlan, String>,
}

/// What the watched devices have done until an instant, in the order of the plan.
pub(super) type Reading = Vec<DeviceSums>;

impl Block {
    /// Finds the devices and decides on the probes.
    pub(super) fn of(features: &Features, cluster: &Cluster, options: &Options) -> Block {
        let postmaster = &cluster.postmaster;
        let storage = storage::of_server(postmaster.pid, &postmaster.data_directory);
        let plan = if options.without_block {
            Err("switched off with --without-block".to_owned())
        } else {
            plan(features, &storage)
        };
        Block { storage, plan }
    }

    /// The devices under the server's files, watched or not.
    pub(super) fn devices(&self) -> &[BlockDevice] {
        &self.storage.devices
    }

    fn watched(&self) -> impl Iterator<Item = &BlockDevice> {
        watchable(&self.storage)
    }

    /// Where in the plan a device is; `None`: it is not watched.
    fn place(&self, device: &BlockDevice) -> Option<usize> {
        let plan = self.plan.as_ref().ok()?;
        plan.devices.iter().position(|number| *number == device.number)
    }
}

fn watchable(storage: &Storage) -> impl Iterator<Item = &BlockDevice> {
    storage.devices.iter().filter(|device| device.has_requests).take(MOST_DEVICES)
}

fn plan(features: &Features, storage: &Storage) -> Result<BlockPlan, String> {
    let tracepoints = block::tracepoints(features)?;
    let offsets = features.block.clone()?;
    let devices: Vec<(u32, u32)> = watchable(storage).map(|device| device.number).collect();
    if devices.is_empty() {
        return Err("no block device with requests was found under the server's files".to_owned());
    }
    Ok(BlockPlan { offsets, tracepoints, devices })
}

/// Reads all sums; with `everything`, distributions and users too, which take a system call each.
fn read(probes: &Probes, n_devices: usize, everything: bool) -> Result<Reading> {
    let mut reading = Vec::new();
    for device in 0..n_devices {
        let mut sums = DeviceSums::default();
        let mut totals = DeviceTotals::default();
        for cpu in probes.device_totals(device)? {
            totals.merge(&cpu);
        }
        sums.totals = totals;
        let state = probes.device_state(device);
        sums.requeued = state.requeued;
        sums.completions_unseen = state.completions_unseen;
        sums.in_flight_max = state.in_flight_max;
        sums.busy_ns = state.busy_ns;
        if state.busy_since_ns != 0 {
            let now_ns = super::clock::monotonic_ns()?;
            sums.busy_ns += now_ns.saturating_sub(state.busy_since_ns);
        }
        if everything {
            for operation in 0..OPERATIONS {
                sums.latency.push(sum(probes.device_histogram(device, operation)?));
            }
            for user in 0..USERS {
                let totals = probes.device_user(device, user)?;
                if totals != UserTotals::default() {
                    sums.users.push((user, totals));
                }
            }
        }
        reading.push(sums);
    }
    Ok(reading)
}

fn sum(cpus: Vec<Histogram>) -> Histogram {
    let mut sum = Histogram { counts: [0; HISTOGRAM_BUCKETS] };
    for cpu in cpus {
        for (sum, count) in sum.counts.iter_mut().zip(cpu.counts) {
            *sum += count;
        }
    }
    sum
}

impl Attachment {
    /// Why the block layer is not watched; `None`: it is.
    pub(super) fn block_off(&self) -> Option<&str> {
        self.block.plan.as_ref().err().map(String::as_str).or_else(|| self.probes.block_refused())
    }

    /// What the watched devices have done so far.
    pub(super) fn read_devices(&self, everything: bool) -> Result<Reading> {
        let n_devices = match &self.block.plan {
            Ok(plan) if self.block_off().is_none() => plan.devices.len(),
            _ => 0,
        };
        read(&self.probes, n_devices, everything)
    }

    /// What the devices did in an interval, and the reading at its end.
    pub(super) fn interval_devices(
        &self,
        last: &Reading,
        duration_ns: u64,
    ) -> Result<(Vec<IntervalDevice>, Reading)> {
        let now = self.read_devices(false)?;
        let of_interval = self.block.watched().zip(now.iter().zip(last));
        let of_interval = of_interval
            .map(|(device, (now, last))| devices::interval(&device.name, &now.minus(last), duration_ns));
        Ok((of_interval.collect(), now))
    }

    /// The devices' entries of the profile; `None` where nothing was watched.
    pub(super) fn devices(
        &self,
        before: &Reading,
        after: &Reading,
        duration_ns: u64,
        timeline: &[Interval],
    ) -> Option<Vec<Device>> {
        if self.block_off().is_some() {
            return None;
        }
        let backend_type =
            |number: u32| self.cluster.layout.backend_type_name(number).filter(|_| number != 0);
        let user =
            |index: u32| user_name(index, &|number| backend_type(number).map(|name: &str| name.to_owned()));
        let devices = self.block.storage.devices.iter().map(|device| {
            let sums = self.block.place(device).and_then(|at| Some(after.get(at)?.minus(before.get(at)?)));
            devices::device(&identity(device), sums.as_ref(), duration_ns, timeline, &user)
        });
        Some(devices.collect())
    }

    /// The probes of the block layer as they are named in the profile, without their cost.
    pub(super) fn block_probes(&self) -> Vec<Probe> {
        let probe = |name: &str, reason: Option<&str>| Probe {
            name: name.to_owned(),
            attached: reason.is_none(),
            reason: reason.map(str::to_owned),
            runs: None,
            run_ns: None,
        };
        match (&self.block.plan, self.block_off()) {
            (Ok(plan), None) => plan.tracepoints.iter().map(|name| probe(name, None)).collect(),
            (_, reason) => vec![probe(PROBES, reason)],
        }
    }

    /// What could not be found out about the devices, and what was lost.
    pub(super) fn block_notes(&self, before: &Reading, after: &Reading) -> Vec<String> {
        let mut notes = self.block.storage.notes.clone();
        let left_out = self.block.storage.devices.iter().filter(|device| device.has_requests).count();
        if left_out > MOST_DEVICES {
            notes.push(format!(
                "the server uses {left_out} devices; only {MOST_DEVICES} of them were watched"
            ));
        }
        for (device, (before, after)) in self.block.watched().zip(before.iter().zip(after)) {
            let between = after.minus(before);
            let unseen = between.totals.unseen;
            if between.completions_unseen != 0 {
                notes.push(format!(
                    "the kernel did not trace the completion of {} requests to {}: they are in no figure",
                    between.completions_unseen, device.name
                ));
            }
            if unseen != 0 {
                notes.push(format!(
                    "{unseen} requests to {} completed whose issue was not seen: they are in no figure",
                    device.name
                ));
            }
        }
        notes
    }
}

fn identity(device: &BlockDevice) -> DeviceIdentity {
    DeviceIdentity {
        name: device.name.clone(),
        number: device.number,
        model: device.model.clone(),
        size_bytes: device.size_bytes,
        scheduler: device.scheduler.clone(),
        holds: device.places.clone(),
    }
}
