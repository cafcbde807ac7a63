//! What EBS volumes say of themselves, at both ends of the window.

use super::attachment::Attachment;
use crate::{
    model::profile::Device,
    storage::ebs::{self, EbsCounters},
};

/// The counters of each of the server's devices, in their order; `None`: the device is no EBS volume.
pub(super) type Reading = Vec<Option<Result<EbsCounters, String>>>;

impl Attachment {
    /// Reads the counters of every device that is an EBS volume.
    pub(super) fn read_ebs(&self) -> Reading {
        let devices = self.block.devices().iter();
        devices.map(|device| Some(ebs::read(device)?.map_err(|error| format!("{error:#}")))).collect()
    }
}

/// Adds to the devices, in the same order, what the volumes counted between two readings.
pub(super) fn add(devices: &mut [Device], before: &Reading, after: &Reading) {
    for (device, (before, after)) in devices.iter_mut().zip(before.iter().zip(after)) {
        if let (Some(Ok(before)), Some(Ok(after))) = (before, after) {
            device.ebs = Some(after.since(before));
        }
    }
}

/// Which volumes did not tell, and why.
pub(super) fn notes(reading: &Reading) -> impl Iterator<Item = String> + '_ {
    reading.iter().filter_map(|counters| counters.as_ref()?.as_ref().err().cloned())
}
