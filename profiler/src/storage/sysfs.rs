//! Block devices as sysfs shows them: partitions, what lies under a stacked device, and a device's own facts.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Major and minor number of a device.
pub type Number = (u32, u32);

/// Bytes of a sector, whatever the device's own are.
const SECTOR_BYTES: u64 = 512;

/// `259:1` as numbers.
pub fn parse_number(text: &str) -> Option<Number> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A mounted sysfs, or a recorded one.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

/// A whole disk, real or made by the kernel of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    directory: PathBuf,
    /// The kernel's name.
    pub name: String,
    /// Its number.
    pub number: Number,
}

impl Sysfs {
    /// The running kernel's.
    pub fn host() -> Sysfs {
        Sysfs::at("/sys")
    }

    /// The one whose `block`, `dev` and `fs` directories are in `root`.
    pub fn at(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs { root: root.into() }
    }

    /// The disk with that number, or the one that has a partition with it.
    pub fn disk(&self, (major, minor): Number) -> Option<Disk> {
        Disk::around(&self.root.join(format!("dev/block/{major}:{minor}")))
    }

    /// The disk of that name, or the one that has a partition of that name.
    pub fn disk_named(&self, name: &str) -> Option<Disk> {
        Disk::around(&self.root.join("class/block").join(name))
            .or_else(|| Disk::around(&self.root.join("block").join(name)))
    }

    /// Names of the devices of the btrfs that was mounted from `source`; empty where it is not found.
    pub fn btrfs_members(&self, source: &str) -> Vec<String> {
        let Some(wanted) = self.kernel_name(source) else { return Vec::new() };
        let filesystems = names(&self.root.join("fs/btrfs"));
        let members =
            filesystems.into_iter().map(|id| names(&self.root.join("fs/btrfs").join(id).join("devices")));
        members.into_iter().find(|members| members.contains(&wanted)).unwrap_or_default()
    }

    /// The kernel's name of a device that goes by a path in `/dev`.
    fn kernel_name(&self, path: &str) -> Option<String> {
        let path = path.strip_prefix("/dev/")?;
        let Some(mapped) = path.strip_prefix("mapper/") else { return Some(path.replace('/', "!")) };
        let disks = names(&self.root.join("block")).into_iter();
        disks
            .into_iter()
            .find(|disk| text(&self.root.join("block").join(disk).join("dm/name")).as_deref() == Some(mapped))
    }
}

impl Disk {
    /// The disk a directory is of, or lies in as a partition.
    fn around(directory: &Path) -> Option<Disk> {
        let mut directory = fs::canonicalize(directory).ok()?;
        if directory.join("partition").exists() {
            directory.pop();
        }
        // A name with a slash has an exclamation mark in its place.
        let name = directory.file_name()?.to_str()?.replace('!', "/");
        Some(Disk { number: parse_number(&text(&directory.join("dev"))?)?, name, directory })
    }

    /// Names of the devices it was made of; for most none.
    pub fn slaves(&self) -> Vec<String> {
        names(&self.directory.join("slaves"))
    }

    /// The file behind a loop device, as the reading process sees it.
    pub fn backing_file(&self) -> Option<PathBuf> {
        text(&self.directory.join("loop/backing_file")).map(PathBuf::from)
    }

    /// Whether it works by requests that it queues, issues and completes. Device mapper and md hand what they are given
    /// on instead, and memory answers at once.
    pub fn has_requests(&self) -> bool {
        self.directory.join("mq").is_dir()
    }

    /// What it calls itself.
    pub fn model(&self) -> Option<String> {
        text(&self.directory.join("device/model"))
    }

    /// Its size.
    pub fn size_bytes(&self) -> Option<u64> {
        text(&self.directory.join("size"))?.parse::<u64>().ok().map(|sectors| sectors * SECTOR_BYTES)
    }

    /// The I/O scheduler chosen for it.
    pub fn scheduler(&self) -> Option<String> {
        let schedulers = text(&self.directory.join("queue/scheduler"))?;
        let chosen = schedulers.split_whitespace().find_map(|one| one.strip_prefix('[')?.strip_suffix(']'));
        Some(chosen.unwrap_or(&schedulers).to_owned())
    }

    /// Whether it says that it turns.
    pub fn rotational(&self) -> Option<bool> {
        text(&self.directory.join("queue/rotational")).map(|flag| flag == "1")
    }

    /// Numbers of its partitions.
    pub fn partitions(&self) -> Vec<Number> {
        let inside = names(&self.directory).into_iter().map(|name| self.directory.join(name));
        let partitions = inside.filter(|directory| directory.join("partition").exists());
        partitions.filter_map(|directory| parse_number(&text(&directory.join("dev"))?)).collect()
    }
}

/// A file's text without the blanks around it; `None` if there is none.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Names in a directory, sorted; none if it is not there.
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}
