//! What the storage did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latency;

/// A block device on which something of the server lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// The kernel's name, such as `nvme1n1`.
    pub name: String,
    /// Major and minor number, such as `259:1`.
    pub number: String,
    /// What the device calls itself, such as `Amazon Elastic Block Store`.
    pub model: Option<String>,
    /// Size.
    pub size_bytes: Option<u64>,
    /// The kernel's I/O scheduler for it, such as `none`.
    pub scheduler: Option<String>,
    /// What of the server lives on it.
    pub holds: Vec<Place>,
    /// Reads, writes, flushes and discards, those that occurred, in this order.
    pub operations: Vec<Operation>,
    /// Requests at the device (issued, not completed), mean over the window; null where it was not seen.
    pub depth_mean: Option<f64>,
    /// Most requests at the device at one time.
    pub depth_max: Option<u64>,
    /// Part of the window in which at least one request was at the device, 0 to 1.
    pub utilisation: Option<f64>,
    /// Who asked for the requests, the most device time first.
    pub users: Vec<DeviceUser>,
    /// A rate it did not go beyond, where one was seen.
    pub ceiling: Option<Ceiling>,
    /// Amazon EBS's own counters over the window; null where the device has none.
    pub ebs: Option<Ebs>,
}

/// Something of the server that lives on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// `data directory`, `WAL`, or `tablespace OID`: a tablespace's name is in the catalogue, which is not asked.
    pub what: String,
    /// Where, as the server sees it, symbolic links resolved.
    pub path: String,
    /// Type of the file system, such as `ext4`.
    pub filesystem: Option<String>,
    /// Devices between the file system and this one, from the top down, such as `dm-0`, `md127`, `loop3`.
    pub through: Vec<String>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// `read`, `write`, `flush` or `discard`.
    pub operation: String,
    /// Requests completed in the window.
    pub count: u64,
    /// Requests per second.
    pub per_s: f64,
    /// Bytes moved; zero for flushes.
    pub bytes: u64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Time at the device, issue to completion.
    pub latency_ns: Latency,
    /// Time before it, submission to issue, mean; null where no submission was seen.
    pub queue_mean_ns: Option<u64>,
    /// Requests the device did not take at once and that were issued again.
    pub requeued: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Of flushes: how many were asked for; those who ask at the same time share one. Null for the other operations, and
    /// where it was not seen.
    #[serde(default)]
    pub asked: Option<u64>,
}

/// Who asked for a device's requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUser {
    /// A backend type as in `processes`; `kernel: NAME` for a thread of the kernel's own (`kernel: jbd2`,
    /// `kernel: writeback`), whose work nobody is charged for; `other processes`; null where it was not seen.
    pub user: Option<String>,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes asked for; several users share one of the device.
    pub flushes: u64,
    /// Part of all requests' time at the device, 0 to 1.
    pub share: Option<f64>,
}

/// A rate a device did not go beyond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// `iops` or `throughput`.
    pub kind: String,
    /// Requests, or bytes, per second.
    pub per_s: f64,
    /// What is sold with that limit, such as `gp3 baseline (3,000 IOPS)`; null: none known is near.
    pub known_as: Option<String>,
    /// What it rests on, a sentence.
    pub evidence: String,
}

/// Amazon EBS's counters (NVMe log page 0xD0) over the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ebs {
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Time the reads took at the volume, all together.
    pub read_time_ns: u64,
    /// Time the writes took at the volume, all together.
    pub write_time_ns: u64,
    /// Time over the volume's IOPS limit.
    pub volume_iops_exceeded_ns: u64,
    /// Time over the volume's throughput limit.
    pub volume_throughput_exceeded_ns: u64,
    /// Time over the instance's IOPS limit.
    pub instance_iops_exceeded_ns: u64,
    /// Time over the instance's throughput limit.
    pub instance_throughput_exceeded_ns: u64,
    /// Queue length when it was read last.
    pub queue_length: u64,
    /// Reads by latency at the volume; bins with none are left out.
    pub read_latency: Vec<EbsBin>,
    /// Writes by latency at the volume; bins with none are left out.
    pub write_latency: Vec<EbsBin>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

/// One bin of a latency histogram of EBS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EbsBin {
    /// From here.
    pub from_ns: u64,
    /// To here; null: no end.
    pub to_ns: Option<u64>,
    /// Requests.
    pub count: u64,
}
