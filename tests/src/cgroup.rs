//! Control groups that starve a server of memory or CPU time, in whichever hierarchy this host has.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::{poll, process::run};

/// What a group limits.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Memory, page cache included, bytes.
    MemoryBytes(u64),
    /// CPU time per 100 ms, µs.
    CpuMicros(u64),
    /// Reads, and writes, of one block device per second.
    Iops(Device, u64),
}

/// A block device by its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    major: u32,
    minor: u32,
}

impl Device {
    /// The whole device a directory lies on; fails for file systems without one (overlay, tmpfs, btrfs).
    pub fn under(directory: &Path) -> Result<Device> {
        let number = fs::metadata(directory).with_context(|| directory.display().to_string())?.dev();
        let device = Device { major: rustix::fs::major(number), minor: rustix::fs::minor(number) };
        let system = PathBuf::from(format!("/sys/dev/block/{device}"));
        let parent =
            if system.join("partition").exists() { system.join("../dev") } else { system.join("dev") };
        let text = fs::read_to_string(&parent)
            .with_context(|| format!("{} lies on no block device of its own", directory.display()))?;
        let (major, minor) = text.trim().split_once(':').with_context(|| text.clone())?;
        Ok(Device { major: major.parse()?, minor: minor.parse()? })
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Limit {
    /// The controller's name, the files to write and what to write, in that hierarchy.
    fn settings(self, hierarchy: &Hierarchy) -> Vec<(&'static str, String)> {
        match (self, hierarchy) {
            (Limit::MemoryBytes(n), Hierarchy::One(_)) => vec![("memory.limit_in_bytes", n.to_string())],
            (Limit::MemoryBytes(n), Hierarchy::Two(_)) => vec![("memory.max", n.to_string())],
            (Limit::CpuMicros(n), Hierarchy::One(_)) => vec![("cpu.cfs_quota_us", n.to_string())],
            (Limit::CpuMicros(n), Hierarchy::Two(_)) => vec![("cpu.max", format!("{n} 100000"))],
            (Limit::Iops(device, n), Hierarchy::One(_)) => vec![
                ("blkio.throttle.read_iops_device", format!("{device} {n}")),
                ("blkio.throttle.write_iops_device", format!("{device} {n}")),
            ],
            (Limit::Iops(device, n), Hierarchy::Two(_)) => {
                vec![("io.max", format!("{device} riops={n} wiops={n}"))]
            }
        }
    }

    fn write(self, hierarchy: &Hierarchy, group: &Path) -> Result<()> {
        for (file, value) in self.settings(hierarchy) {
            let file = group.join(file);
            fs::write(&file, value).with_context(|| file.display().to_string())?;
        }
        Ok(())
    }

    /// Names of the controller in the two versions.
    fn controller(self) -> (&'static str, &'static str) {
        match self {
            Limit::MemoryBytes(_) => ("memory", "memory"),
            Limit::CpuMicros(_) => ("cpu", "cpu"),
            Limit::Iops(..) => ("blkio", "io"),
        }
    }
}

/// A group; removed when dropped, which must be after its processes are gone.
#[derive(Debug)]
pub struct Group {
    /// One directory per hierarchy: version 1 has one for each controller.
    paths: Vec<PathBuf>,
}

impl Group {
    /// Makes a group with the limits, or says why this host does not let one be made.
    pub fn new(limits: &[Limit]) -> Result<Group> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgstall-test-{}-{number}", process::id());
        let mut group = Group { paths: Vec::new() };
        for limit in limits {
            let hierarchy = hierarchy(limit.controller())?;
            let (Hierarchy::One(base) | Hierarchy::Two(base)) = &hierarchy;
            let path = base.join(&name);
            if !group.paths.contains(&path) {
                fs::create_dir(&path).with_context(|| path.display().to_string())?;
                group.paths.push(path.clone());
            }
            limit.write(&hierarchy, &path)?;
        }
        Ok(group)
    }

    /// Changes a limit of a kind the group was made with.
    pub fn change(&self, limit: Limit) -> Result<()> {
        let hierarchy = hierarchy(limit.controller())?;
        let (Hierarchy::One(base) | Hierarchy::Two(base)) = &hierarchy;
        let path = self.paths.iter().find(|path| path.parent() == Some(base));
        limit.write(&hierarchy, path.context("the group was not made with a limit of that kind")?)
    }

    /// The files a process id is written to to join.
    pub fn processes(&self) -> Vec<PathBuf> {
        self.paths.iter().map(|path| path.join("cgroup.procs")).collect()
    }

    /// Moves a process into the group.
    pub fn add(&self, pid: u32) -> Result<()> {
        for file in self.processes() {
            fs::write(file, pid.to_string()).with_context(|| format!("pid {pid}"))?;
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for path in &self.paths {
            // The kernel lets go of a group a moment after its last process was reaped.
            let gone = poll::until("the end of a control group", Duration::from_secs(5), || {
                Ok(fs::remove_dir(path).ok())
            });
            drop(gone);
        }
    }
}

enum Hierarchy {
    One(PathBuf),
    Two(PathBuf),
}

/// Where the controller is mounted; mounts a version 1 hierarchy in place where nothing holds the controller yet.
fn hierarchy((controller, in_version_2): (&str, &str)) -> Result<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let [_, path, "cgroup", options, ..] = fields[..]
            && options.split(',').any(|option| option == controller)
        {
            return Ok(Hierarchy::One(path.into()));
        }
    }
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let [_, path, "cgroup2", ..] = fields[..] {
            let root = Path::new(path);
            let offered = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            if offered.split_whitespace().any(|name| name == in_version_2) {
                let control = root.join("cgroup.subtree_control");
                fs::write(&control, format!("+{in_version_2}"))
                    .with_context(|| control.display().to_string())?;
                return Ok(Hierarchy::Two(root.into()));
            }
        }
    }
    let path = Path::new("/sys/fs/cgroup").join(controller);
    if !path.is_dir() && fs::create_dir(&path).is_err() {
        bail!("no {controller} control groups on this host");
    }
    run(process::Command::new("mount").args(["-t", "cgroup", "-o", controller, controller]).arg(&path))
        .with_context(|| format!("no {controller} control groups on this host"))?;
    Ok(Hierarchy::One(path))
}
