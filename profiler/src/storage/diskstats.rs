//! The kernel's own counters of a block device, `/proc/diskstats`: times in whole milliseconds, no percentiles, and no
//! word on who asked, but there on every kernel.

use std::time::Duration;

use anyhow::{Context as _, Result};
use procfs::DiskStat;

use super::sysfs::Number;

const SECTOR_BYTES: u64 = 512;

/// What a device has done since it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of the reads, submission to completion, all together, ns.
    pub read_time_ns: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time of the writes, ns.
    pub write_time_ns: u64,
    /// Flushes completed; `None`: this kernel does not count them.
    pub flushes: Option<u64>,
    /// Time of the flushes, ns.
    pub flush_time_ns: Option<u64>,
    /// Requests in flight at the moment.
    pub in_flight: u64,
    /// Time in which something was in flight, ns.
    pub busy_ns: u64,
}

impl DiskCounters {
    /// Reads the counters of one device or partition.
    ///
    /// # Errors
    /// `/proc/diskstats` could not be read, or does not have the device.
    pub fn read((major, minor): Number) -> Result<DiskCounters> {
        let all = procfs::diskstats().context("/proc/diskstats cannot be read")?;
        let own =
            |disk: &&DiskStat| disk.major.cast_unsigned() == major && disk.minor.cast_unsigned() == minor;
        let own = all.iter().find(own);
        own.map(DiskCounters::from).with_context(|| format!("/proc/diskstats has no device {major}:{minor}"))
    }

    /// What was done since an earlier reading; what is in flight is that of the later one.
    pub fn since(&self, earlier: &DiskCounters) -> DiskCounters {
        let between = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        DiskCounters {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            read_time_ns: self.read_time_ns.saturating_sub(earlier.read_time_ns),
            writes: self.writes.saturating_sub(earlier.writes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            write_time_ns: self.write_time_ns.saturating_sub(earlier.write_time_ns),
            flushes: between(self.flushes, earlier.flushes),
            flush_time_ns: between(self.flush_time_ns, earlier.flush_time_ns),
            in_flight: self.in_flight,
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
        }
    }
}

impl From<&DiskStat> for DiskCounters {
    fn from(disk: &DiskStat) -> DiskCounters {
        DiskCounters {
            reads: disk.reads,
            read_bytes: disk.sectors_read * SECTOR_BYTES,
            read_time_ns: ns(disk.time_reading),
            writes: disk.writes,
            write_bytes: disk.sectors_written * SECTOR_BYTES,
            write_time_ns: ns(disk.time_writing),
            flushes: disk.flushes,
            flush_time_ns: disk.time_flushing.map(ns),
            in_flight: disk.in_progress,
            busy_ns: ns(disk.time_in_progress),
        }
    }
}

fn ns(ms: u64) -> u64 {
    Duration::from_millis(ms).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn counters_and_their_differences() {
        let parse = |line: &str| DiskCounters::from(&DiskStat::from_line(line).unwrap());
        let then = parse(" 259 1 nvme1n1 10 0 80 5 20 0 160 9 0 12 14 0 0 0 0 3 4");
        let now = parse(" 259 1 nvme1n1 15 0 120 8 20 0 160 9 2 15 17 0 0 0 0 7 9");
        let done = now.since(&then);
        assert_eq!((done.reads, done.read_bytes, done.read_time_ns), (5, 40 * 512, 3_000_000));
        assert_eq!((done.writes, done.flushes, done.flush_time_ns), (0, Some(4), Some(5_000_000)));
        assert_eq!((done.in_flight, done.busy_ns), (2, 3_000_000));
        let old = parse("   8 0 sda 10 0 80 5 20 0 160 9 0 12 14");
        assert_eq!(old.flushes, None);
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = DiskCounters::read((4000, 1)).unwrap_err();
        assert_eq!(error.to_string(), "/proc/diskstats has no device 4000:1");
    }
}
