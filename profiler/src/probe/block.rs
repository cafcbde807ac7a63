//! The probes of the block layer: what they are told at load time, attaching them, and reading what they counted.
//!
//! They are a part that can be missing: where the kernel refuses one, all of them stay off and the reason is kept.

use anyhow::{Context as _, Result};
use aya::{
    Btf, Ebpf,
    maps::{Array, MapData, PerCpuArray},
};
use profiler_common::{
    block::{DeviceState, DeviceTotals, MOST_DEVICES, OPERATIONS, USERS, UserTotals},
    histogram::Histogram,
    tunables::global,
};

use super::{
    attach::{Probes, program, take},
    mapped::Mapped,
};
use crate::kernel::block::BlockOffsets;

/// Bits of a device number that hold the minor, in the kernel's own form.
const MINOR_BITS: u32 = 20;

/// What to watch of the block layer, and with what.
#[derive(Clone, Debug)]
pub struct BlockPlan {
    /// What the probes read.
    pub offsets: BlockOffsets,
    /// Their tracepoints, in the order of attaching.
    pub tracepoints: Vec<&'static str>,
    /// Major and minor number of each whole device to watch, [`MOST_DEVICES`] at most.
    pub devices: Vec<(u32, u32)>,
}

/// The maps of the block layer's probes.
pub(super) struct BlockMaps {
    state: Mapped<DeviceState>,
    totals: PerCpuArray<MapData, DeviceTotals>,
    histograms: PerCpuArray<MapData, Histogram>,
    users: PerCpuArray<MapData, UserTotals>,
}

/// The load-time values; all zero where the block layer is not watched.
pub(super) fn globals(plan: Option<&BlockPlan>) -> [(&'static str, u32); 19] {
    let offsets = plan.map(|plan| plan.offsets).unwrap_or_default();
    [
        (global::TASK_TGID, offsets.task_tgid),
        (global::TASK_FLAGS, offsets.task_flags),
        (global::REQUEST_QUEUE, offsets.request_queue),
        (global::QUEUE_DISK, offsets.queue_disk),
        (global::REQUEST_DISK, offsets.request_disk.unwrap_or(0)),
        (global::DISK_IS_IN_REQUEST, u32::from(offsets.request_disk.is_some())),
        (global::DISK_MAJOR, offsets.disk_major),
        (global::DISK_MINOR, offsets.disk_minor),
        (global::REQUEST_FLAGS, offsets.request_flags),
        (global::REQUEST_BYTES, offsets.request_bytes),
        (global::OPERATION_MASK, offsets.operation_mask),
        (global::OPERATION_FLUSH, offsets.operation_flush),
        (global::OPERATION_DISCARD, offsets.operation_discard),
        (global::OPERATION_DRIVER, offsets.operation_driver),
        (global::FLAGS_FLUSH, offsets.flags_flush),
        (global::FLAG_SYNC, offsets.flag_sync),
        (global::QUEUE_IS_ARGUMENT, u32::from(offsets.queue_is_argument)),
        (global::BIO_DEVICE, offsets.bio.map_or(0, |bio| bio.device)),
        (global::DEVICE_DISK, offsets.bio.map_or(0, |bio| bio.disk)),
    ]
}

/// Maps that are sized by the number of devices, and their sizes.
pub(super) fn sizes(plan: Option<&BlockPlan>) -> [(&'static str, u32); 2] {
    let devices = plan.map_or(1, |plan| plan.devices.len().max(1)) as u32;
    [("DEVICE_HISTOGRAMS", devices * OPERATIONS as u32), ("DEVICE_USERS", devices * USERS)]
}

/// Loads the programs and fills the table of devices.
pub(super) fn load(ebpf: &mut Ebpf, btf: &Btf, plan: &BlockPlan) -> Result<()> {
    for tracepoint in &plan.tracepoints {
        program(ebpf, tracepoint)?
            .load(tracepoint, btf)
            .with_context(|| format!("the kernel refused the program for {tracepoint}"))?;
    }
    let mut numbers = [0; MOST_DEVICES];
    for (entry, (major, minor)) in numbers.iter_mut().zip(&plan.devices) {
        *entry = major << MINOR_BITS | minor;
    }
    let mut devices: Array<MapData, [u32; MOST_DEVICES]> = take(ebpf, "DEVICES")?.try_into()?;
    devices.set(0, numbers, 0).context("cannot fill DEVICES")
}

/// Attaches the programs; on failure none of them stays.
pub(super) fn attach(ebpf: &mut Ebpf, tracepoints: &[&'static str]) -> Result<()> {
    let attached = tracepoints.iter().try_for_each(|tracepoint| {
        let attached = program(ebpf, tracepoint)?.attach();
        attached.map(drop).with_context(|| format!("the kernel refused to attach to {tracepoint}"))
    });
    if attached.is_err() {
        unload(ebpf, tracepoints);
    }
    attached
}

/// Takes the programs out again, as far as they are in.
pub(super) fn unload(ebpf: &mut Ebpf, tracepoints: &[&'static str]) {
    for tracepoint in tracepoints {
        // One that was never loaded says so, which is what is wanted.
        drop(program(ebpf, tracepoint).map(|program| program.unload()));
    }
}

impl BlockMaps {
    pub(super) fn new(ebpf: &mut Ebpf) -> Result<BlockMaps> {
        Ok(BlockMaps {
            state: Mapped::new(take(ebpf, "DEVICE_STATE")?, MOST_DEVICES)?,
            totals: take(ebpf, "DEVICE_TOTALS")?.try_into()?,
            histograms: take(ebpf, "DEVICE_HISTOGRAMS")?.try_into()?,
            users: take(ebpf, "DEVICE_USERS")?.try_into()?,
        })
    }
}

impl Probes {
    /// Why the block layer is not watched although it was planned; `None`: it is.
    pub fn block_refused(&self) -> Option<&str> {
        self.block_refused.as_deref()
    }

    /// Each CPU's sums of one device, by its place in the plan.
    pub fn device_totals(&self, device: usize) -> Result<Vec<DeviceTotals>> {
        let at = u32::try_from(device)?;
        Ok(self.block.totals.get(&at, 0).context("cannot read DEVICE_TOTALS")?.to_vec())
    }

    /// What a device is doing now.
    pub fn device_state(&self, device: usize) -> DeviceState {
        self.block.state.read(device).unwrap_or_default()
    }

    /// Forgets the most requests at a time of every device.
    pub fn forget_depth(&self) {
        for device in 0..self.block.state.len() {
            let Some(state) = self.block.state.at(device) else { continue };
            let now = self.device_state(device).in_flight;
            // SAFETY: the element lies in the mapping and the field in the element.
            let most = unsafe { &raw mut (*state.as_ptr()).in_flight_max };
            // SAFETY: an aligned word; a CPU may raise it at the same time, and then either value is true.
            unsafe { most.write_volatile(now) };
        }
    }

    /// Each CPU's distribution of the time at a device, for one kind of requests.
    pub fn device_histogram(&self, device: usize, operation: usize) -> Result<Vec<Histogram>> {
        let at = u32::try_from(device * OPERATIONS + operation)?;
        Ok(self.block.histograms.get(&at, 0).context("cannot read DEVICE_HISTOGRAMS")?.to_vec())
    }

    /// Sums over CPUs of one user of a device.
    pub fn device_user(&self, device: usize, user: u32) -> Result<UserTotals> {
        let at = u32::try_from(device)? * USERS + user;
        let cpus = self.block.users.get(&at, 0).context("cannot read DEVICE_USERS")?;
        Ok(cpus.iter().fold(UserTotals::default(), |mut sum, cpu| {
            sum.merge(cpu);
            sum
        }))
    }
}
