//! The file system on the device: made, mounted, and unmounted again.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, unmount},
};

use crate::process::run;

/// How long files that are still open may hold up an unmount.
const PATIENCE: Duration = Duration::from_secs(5);

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
}

impl Mounted {
    /// Makes an ext4 on the device and mounts it in that directory.
    ///
    /// Nothing is left to a thread of the kernel's that would write later, in somebody's measurement.
    pub fn new(device: &Path, at: &Path) -> Result<Mounted> {
        let extended = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        // One inode per 64 KiB: a server has few files, and the tables are written in full.
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-m", "0", "-i", "65536", "-E", extended])
            .arg(device))
        .context("mkfs.ext4 (package e2fsprogs)")?;
        mount(device, at, "ext4", MountFlags::NOATIME, None)
            .with_context(|| format!("mount of {} on {}", device.display(), at.display()))?;
        Ok(Mounted { at: at.to_owned() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = release(&self.at) {
            eprintln!("pgstall-volume: cannot unmount {}: {error}", self.at.display());
        }
    }
}

/// Unmounts what is mounted there. What stays busy is taken out of the tree, and goes when the last user has.
pub fn release(at: &Path) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match unmount(at, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            Err(Errno::BUSY) => return Ok(unmount(at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?),
            other => return Ok(other?),
        }
    }
}

/// Whether something is mounted there.
pub fn is_mounted(at: &Path) -> Result<bool> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let at = at.to_string_lossy();
    Ok(mounts.lines().any(|line| line.split(' ').nth(1) == Some(&*at)))
}
