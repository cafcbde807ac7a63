//! Control groups that starve a server of memory or CPU time, in whichever hierarchy this host has.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
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
}

/// A group; removed when dropped, which must be after its processes are gone.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes a group with the limit, or says why this host does not let one be made.
    pub fn new(limit: Limit) -> Result<Group> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (controller, v1_file, v2_file, v2_value) = match limit {
            Limit::MemoryBytes(n) => ("memory", "memory.limit_in_bytes", "memory.max", n.to_string()),
            Limit::CpuMicros(n) => ("cpu", "cpu.cfs_quota_us", "cpu.max", format!("{n} 100000")),
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgstall-test-{}-{number}", process::id());
        let (base, file, value) = match hierarchy(controller)? {
            Hierarchy::One(base) => {
                let (Limit::MemoryBytes(n) | Limit::CpuMicros(n)) = limit;
                (base, v1_file, n.to_string())
            }
            Hierarchy::Two(base) => (base, v2_file, v2_value),
        };
        let path = base.join(name);
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        let group = Group { path };
        let file = group.path.join(file);
        fs::write(&file, value).with_context(|| file.display().to_string())?;
        Ok(group)
    }

    /// The file a process id is written to to join.
    pub fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Moves a process into the group.
    pub fn add(&self, pid: u32) -> Result<()> {
        fs::write(self.processes(), pid.to_string()).with_context(|| format!("pid {pid}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel lets go of a group a moment after its last process was reaped.
        drop(poll::until("the end of a control group", std::time::Duration::from_secs(5), || {
            Ok(fs::remove_dir(&self.path).ok())
        }));
    }
}

enum Hierarchy {
    One(PathBuf),
    Two(PathBuf),
}

/// Where the controller is mounted; mounts a version 1 hierarchy in place where nothing holds the controller yet.
fn hierarchy(controller: &str) -> Result<Hierarchy> {
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
            if offered.split_whitespace().any(|name| name == controller) {
                let control = root.join("cgroup.subtree_control");
                fs::write(&control, format!("+{controller}"))
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
