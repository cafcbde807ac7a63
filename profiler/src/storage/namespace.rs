//! Paths as one process sees them: where they lead once every symbolic link is followed, and on which mount that is.

use std::{
    fs, io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use super::mounts::{self, Mount};

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The path without symbolic links.
    pub path: PathBuf,
    /// The mount it is on.
    pub mount: Mount,
}

/// A view on the tree of files.
pub trait Namespace {
    /// Follows a path to its end.
    ///
    /// # Errors
    /// Whatever forbids that.
    fn locate(&self, path: &Path) -> Result<Located>;

    /// Names in a directory, sorted.
    ///
    /// # Errors
    /// Whatever forbids that.
    fn entries(&self, path: &Path) -> Result<Vec<String>>;
}

/// The view of a running process.
#[derive(Debug)]
pub struct OfProcess {
    root: OwnedFd,
    mounts: Vec<Mount>,
}

impl OfProcess {
    /// Opens it; needs the right to trace the process.
    ///
    /// # Errors
    /// The entry of procfs that could not be read.
    pub fn open(pid: u32) -> Result<OfProcess> {
        let process = PathBuf::from("/proc").join(pid.to_string());
        let root = process.join("root");
        let root = openat(CWD, &root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .with_context(|| format!("{} cannot be opened", root.display()))?;
        let mountinfo = process.join("mountinfo");
        let text = fs::read_to_string(&mountinfo)
            .with_context(|| format!("{} cannot be read", mountinfo.display()))?;
        Ok(OfProcess { root, mounts: mounts::parse(&text)? })
    }

    /// The links of the path are followed inside the process' root. An ordinary open would follow an absolute link in
    /// ours.
    fn open_inside(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        Ok(openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?)
    }
}

impl Namespace for OfProcess {
    fn locate(&self, path: &Path) -> Result<Located> {
        let file = self.open_inside(path, OFlags::PATH).with_context(|| path.display().to_string())?;
        // The device number of a file is not enough: btrfs gives its files another one than its mounts.
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
        let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse::<i32>().ok());
        let id = id.context("the kernel does not tell which mount a file is on")?;
        let mount = self.mounts.iter().find(|mount| mount.id == id);
        Ok(Located {
            path: fs::read_link(descriptor(&file))?,
            mount: mount.with_context(|| format!("mount {id} is not listed"))?.clone(),
        })
    }

    fn entries(&self, path: &Path) -> Result<Vec<String>> {
        let directory = self.open_inside(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let entries = fs::read_dir(descriptor(&directory))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }
}

fn descriptor(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
