//! The kernel's own count of what a block device did: `/proc/diskstats`.

use std::fs;

use anyhow::{Context as _, Result};

const SECTOR_BYTES: u64 = 512;

/// Counts since the device came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of the reads, from being made to completion, ns.
    pub read_ns: u64,
    /// Writes; a flush asked for without data is one to the kernel.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
}

impl DiskStats {
    /// Reads them, by the device's name.
    pub fn of(name: &str) -> Result<DiskStats> {
        let text = fs::read_to_string("/proc/diskstats").context("/proc/diskstats")?;
        let fields = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let own = fields.into_iter().find(|fields| fields.get(2) == Some(&name));
        let own = own.with_context(|| format!("/proc/diskstats has no {name}"))?;
        // Field numbers of https://docs.kernel.org/admin-guide/iostats.html, which start behind the name.
        let field = |number: usize| -> Result<u64> {
            let text = own.get(number + 2).with_context(|| format!("{name} has no field {number}"))?;
            Ok(text.parse()?)
        };
        Ok(DiskStats {
            reads: field(1)?,
            read_bytes: field(3)? * SECTOR_BYTES,
            read_ns: field(4)? * 1_000_000,
            writes: field(5)?,
            write_bytes: field(7)? * SECTOR_BYTES,
            flushes: field(16)?,
        })
    }

    /// What was done since.
    #[must_use]
    pub fn since(self, earlier: DiskStats) -> DiskStats {
        DiskStats {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            read_ns: self.read_ns - earlier.read_ns,
            writes: self.writes - earlier.writes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            flushes: self.flushes - earlier.flushes,
        }
    }
}
