//! Amazon EBS's own counters: a volume on a Nitro instance answers an NVMe log page with what it did and for how long it
//! was over one of its limits. Read before and after a window; nothing is written to the device.
//!
//! Layout: <https://github.com/amazonlinux/amazon-ec2-utils/blob/main/ebsnvme>, meaning:
//! <https://docs.aws.amazon.com/ebs/latest/userguide/nvme-detailed-performance-stats.html>.

use std::{
    fs::File,
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::Path,
};

use anyhow::{Context as _, Result, ensure};

use super::resolve::BlockDevice;
use crate::model::profile::{Ebs, EbsBin};

/// Model of the devices that have the page.
pub const MODEL: &str = "Amazon Elastic Block Store";

/// Bytes of the page.
const PAGE_BYTES: usize = 4096;

const MAGIC: u32 = 0x3C23_B510;

/// Where the latency histograms of reads and writes begin.
const READ_HISTOGRAM: usize = 512;
const WRITE_HISTOGRAM: usize = READ_HISTOGRAM + 8 + MOST_BINS * BIN_BYTES;

const MOST_BINS: usize = 64;
const BIN_BYTES: usize = 24;

/// What a volume has done since it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EbsCounters {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    read_time_us: u64,
    write_time_us: u64,
    volume_iops_exceeded_us: u64,
    volume_throughput_exceeded_us: u64,
    instance_iops_exceeded_us: u64,
    instance_throughput_exceeded_us: u64,
    queue_length: u64,
    read_latency: Vec<Bin>,
    write_latency: Vec<Bin>,
}

/// One bin of a histogram: bounds in µs, and a counter that wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bin {
    lower_us: u64,
    upper_us: u64,
    count: u32,
}

/// Reads the counters of a device. `None`: it is no EBS volume.
///
/// # Errors
/// It is one by its name, and its page could not be read; the sentence says why.
pub fn read(device: &BlockDevice) -> Option<Result<EbsCounters>> {
    let is_ebs = device.model.as_deref().map(str::trim) == Some(MODEL);
    is_ebs.then(|| {
        let counters = read_page(device).and_then(|page| EbsCounters::parse(&page));
        counters.with_context(|| format!("the counters of the EBS volume {} are not known", device.name))
    })
}

fn read_page(device: &BlockDevice) -> Result<Vec<u8>> {
    let path = Path::new("/dev").join(&device.name);
    let file = File::open(&path).with_context(|| {
        format!("{} cannot be opened; inside a container, give it the device node", path.display())
    })?;
    // Under that name may be anything, in a /dev of a container's own.
    let metadata = file.metadata()?;
    let (major, minor) = device.number;
    let number = metadata.rdev();
    ensure!(
        metadata.file_type().is_block_device()
            && (rustix::fs::major(number), rustix::fs::minor(number)) == (major, minor),
        "{} is not the device {major}:{minor}",
        path.display()
    );
    log_page(&file).with_context(|| format!("{} refused NVMe log page 0xD0", path.display()))
}

/// `struct nvme_admin_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved_1: u16,
    namespace: u32,
    data: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words: [u32; 6],
    timeout_ms: u32,
    result: u32,
}
const _: () = assert!(size_of::<AdminCommand>() == 72);

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`
const NVME_IOCTL_ADMIN_CMD: u32 = 0xC048_4E41;

const GET_LOG_PAGE: u8 = 0x02;
const LOG_PAGE: u32 = 0xD0;
const NAMESPACE: u32 = 1;
const TIMEOUT_MS: u32 = 1000;

fn log_page(device: &File) -> Result<Vec<u8>> {
    let mut page = vec![0_u8; PAGE_BYTES];
    // The number of 32-bit words, less one, stands in the upper half.
    let words = (PAGE_BYTES / 4 - 1) as u32;
    let mut command = AdminCommand {
        opcode: GET_LOG_PAGE,
        namespace: NAMESPACE,
        address: page.as_mut_ptr() as u64,
        data_bytes: PAGE_BYTES as u32,
        words: [LOG_PAGE | words << 16, 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
        ..AdminCommand::default()
    };
    // SAFETY: the command is the structure this ioctl takes, and the buffer it names is as long as it says and outlives
    // the call; the command only reads from the device.
    let status =
        unsafe { libc::ioctl(device.as_raw_fd(), libc::Ioctl::from(NVME_IOCTL_ADMIN_CMD), &raw mut command) };
    if status < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    ensure!(status == 0, "NVMe status {status:#x}");
    Ok(page)
}

impl EbsCounters {
    /// Takes a page apart.
    ///
    /// # Errors
    /// It is too short, does not begin as such a page does, or has more bins than there is room for.
    pub fn parse(page: &[u8]) -> Result<EbsCounters> {
        ensure!(page.len() >= PAGE_BYTES, "the page has {} bytes, {PAGE_BYTES} are needed", page.len());
        let magic = u32_at(page, 0);
        ensure!(magic == MAGIC, "the page begins with {magic:#010x}, not {MAGIC:#010x}");
        let counter = |index: usize| u64_at(page, 8 + 8 * index);
        Ok(EbsCounters {
            reads: counter(0),
            writes: counter(1),
            read_bytes: counter(2),
            write_bytes: counter(3),
            read_time_us: counter(4),
            write_time_us: counter(5),
            volume_iops_exceeded_us: counter(6),
            volume_throughput_exceeded_us: counter(7),
            instance_iops_exceeded_us: counter(8),
            instance_throughput_exceeded_us: counter(9),
            queue_length: counter(10),
            read_latency: bins(page, READ_HISTOGRAM)?,
            write_latency: bins(page, WRITE_HISTOGRAM)?,
        })
    }

    /// What the volume did since an earlier reading.
    pub fn since(&self, earlier: &EbsCounters) -> Ebs {
        let ns = |now_us: u64, then_us: u64| now_us.saturating_sub(then_us).saturating_mul(1000);
        Ebs {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            read_time_ns: ns(self.read_time_us, earlier.read_time_us),
            write_time_ns: ns(self.write_time_us, earlier.write_time_us),
            volume_iops_exceeded_ns: ns(self.volume_iops_exceeded_us, earlier.volume_iops_exceeded_us),
            volume_throughput_exceeded_ns: ns(
                self.volume_throughput_exceeded_us,
                earlier.volume_throughput_exceeded_us,
            ),
            instance_iops_exceeded_ns: ns(self.instance_iops_exceeded_us, earlier.instance_iops_exceeded_us),
            instance_throughput_exceeded_ns: ns(
                self.instance_throughput_exceeded_us,
                earlier.instance_throughput_exceeded_us,
            ),
            queue_length: self.queue_length,
            read_latency: bins_since(&self.read_latency, &earlier.read_latency),
            write_latency: bins_since(&self.write_latency, &earlier.write_latency),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
        }
    }
}

fn bins(page: &[u8], at: usize) -> Result<Vec<Bin>> {
    let n_bins = u64_at(page, at);
    ensure!(n_bins <= MOST_BINS as u64, "a histogram of the page has {n_bins} bins, at most {MOST_BINS} fit");
    let bins = (0..n_bins as usize).map(|bin| at + 8 + bin * BIN_BYTES).map(|at| Bin {
        lower_us: u64_at(page, at),
        upper_us: u64_at(page, at + 8),
        count: u32_at(page, at + 16),
    });
    Ok(bins.collect())
}

/// The bins that grew. Bins whose bounds changed meanwhile cannot be compared and are left out.
fn bins_since(now: &[Bin], earlier: &[Bin]) -> Vec<EbsBin> {
    let bounds = |bin: &Bin| (bin.lower_us, bin.upper_us);
    let pairs = now.iter().zip(earlier).filter(|(now, then)| bounds(now) == bounds(then));
    let grown = pairs.map(|(now, then)| EbsBin {
        from_ns: now.lower_us.saturating_mul(1000),
        to_ns: now.upper_us.checked_mul(1000),
        count: now.count.wrapping_sub(then.count).into(),
    });
    grown.filter(|bin| bin.count != 0).collect()
}

/// A little-endian number; zero beyond the end, which [`EbsCounters::parse`] has checked.
fn u64_at(page: &[u8], at: usize) -> u64 {
    page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    page.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
#[path = "ebs_tests.rs"]
mod tests;
