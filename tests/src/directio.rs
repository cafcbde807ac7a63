//! Direct I/O from a number of threads: load whose requests reach the device one for one, none answered by a cache.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::load::Random;

/// Size of a request, bytes: one of PostgreSQL's pages.
pub const BLOCK: u64 = 8192;

/// What each thread does over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads a block.
    Read,
    /// Overwrites a block.
    Write,
    /// Overwrites a block and makes it durable.
    WriteAndSync,
}

/// A file or block device, open for direct I/O.
#[derive(Debug)]
pub struct Target {
    file: File,
    path: PathBuf,
    blocks: u64,
}

impl Target {
    /// A new file on the volume, already written, so that overwriting it changes nothing but its content.
    pub fn create(path: &Path, size_bytes: u64) -> Result<Target> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        fallocate(&file, FallocateFlags::empty(), 0, size_bytes).context("fallocate")?;
        let piece = vec![0xa5_u8; 1 << 20];
        for offset in (0..size_bytes).step_by(piece.len()) {
            file.write_all_at(&piece, offset)?;
        }
        file.sync_all()?;
        Target::open(path, size_bytes)
    }

    /// An existing file or device, of which that many bytes are used.
    pub fn open(path: &Path, size_bytes: u64) -> Result<Target> {
        let direct = OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Target { file, path: path.to_owned(), blocks: size_bytes / BLOCK })
    }

    /// Works on random blocks with that many threads for about `length`; returns how often the work was done.
    pub fn run(&self, work: Work, threads: u64, length: Duration) -> Result<u64> {
        let end = Instant::now() + length;
        let one = |number: u64| -> Result<u64> {
            let mut space = vec![0_u8; BLOCK as usize + 4096];
            // Direct I/O wants an aligned buffer.
            let start = space.as_ptr().align_offset(4096);
            let block = &mut space[start..start + BLOCK as usize];
            let mut random = Random::new(number);
            let mut count = 0;
            while Instant::now() < end {
                let offset = random.next() % self.blocks * BLOCK;
                match work {
                    Work::Read => self.file.read_exact_at(block, offset)?,
                    Work::Write => self.file.write_all_at(block, offset)?,
                    Work::WriteAndSync => {
                        self.file.write_all_at(block, offset)?;
                        self.file.sync_data()?;
                    }
                }
                count += 1;
            }
            Ok(count)
        };
        let counts = thread::scope(|scope| -> Result<Vec<u64>> {
            let running: Vec<_> = (0..threads).map(|number| scope.spawn(move || one(number))).collect();
            let ended = running.into_iter().map(|thread| match thread.join() {
                Ok(count) => count,
                Err(_) => Err(anyhow!("an I/O thread panicked")),
            });
            ended.collect()
        });
        Ok(counts.with_context(|| self.path.display().to_string())?.iter().sum())
    }
}
