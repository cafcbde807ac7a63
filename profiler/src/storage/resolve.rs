//! From the places a server keeps its files in to the devices that take their requests, through everything stacked
//! between: partitions, device mapper, md, multipath, loop devices and the file systems their files are on.

use std::path::Path;

use anyhow::Context as _;

use super::{
    mounts::Mount,
    namespace::{Located, Namespace, OfProcess},
    sysfs::{Disk, Number, Sysfs},
};
use crate::model::profile::Place;

/// More layers than anybody stacks; ends a circle of loop devices.
const MOST_LAYERS: usize = 16;

/// A block device under something of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockDevice {
    /// The kernel's name, such as `nvme1n1`; always the whole disk.
    pub name: String,
    /// Major and minor number.
    pub number: Number,
    /// Numbers of its partitions.
    pub partitions: Vec<Number>,
    /// What it calls itself.
    pub model: Option<String>,
    /// Size.
    pub size_bytes: Option<u64>,
    /// The I/O scheduler chosen for it.
    pub scheduler: Option<String>,
    /// Whether it says that it turns.
    pub rotational: Option<bool>,
    /// Whether it issues and completes requests; where not, its work cannot be seen.
    pub has_requests: bool,
    /// What lives on it.
    pub places: Vec<Place>,
}

/// Where a server's files live.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    /// Devices, in the order of the places, a stacked device before those under it.
    pub devices: Vec<BlockDevice>,
    /// Sentences on what could not be traced to a device, and why.
    pub notes: Vec<String>,
}

/// Finds the devices under a running server's files. `pid` is its postmaster, `data_directory` as that sees it. What
/// cannot be found is in the notes; nothing is an error.
pub fn of_server(pid: u32, data_directory: &Path) -> Storage {
    let opened = OfProcess::open(pid).and_then(|server| Ok((server, OfProcess::open(std::process::id())?)));
    match opened {
        Ok((server, own)) => resolve(&Sysfs::host(), &server, &own, data_directory),
        Err(error) => Storage {
            devices: Vec::new(),
            notes: vec![format!("the devices under the server's files are not known: {error:#}")],
        },
    }
}

/// As [`of_server`], with everything that is read from given in: `server` is the view of the server, `own` that of
/// whoever reads `sysfs`.
pub fn resolve(sysfs: &Sysfs, server: &dyn Namespace, own: &dyn Namespace, data_directory: &Path) -> Storage {
    let mut resolver = Resolver { sysfs, own, storage: Storage::default() };
    resolver.place("data directory".to_owned(), data_directory, server);
    resolver.place("WAL".to_owned(), &data_directory.join("pg_wal"), server);
    let tablespaces = data_directory.join("pg_tblspc");
    match server.entries(&tablespaces) {
        Ok(names) => {
            for name in names {
                resolver.place(format!("tablespace {name}"), &tablespaces.join(&name), server);
            }
        }
        Err(error) => resolver.note(format!("the tablespaces are not known: {error:#}")),
    }
    resolver.storage
}

struct Resolver<'a> {
    sysfs: &'a Sysfs,
    own: &'a dyn Namespace,
    storage: Storage,
}

impl Resolver<'_> {
    fn note(&mut self, note: String) {
        if !self.storage.notes.contains(&note) {
            self.storage.notes.push(note);
        }
    }

    fn place(&mut self, what: String, path: &Path, namespace: &dyn Namespace) {
        match namespace.locate(path) {
            Ok(Located { path, mount }) => {
                let place = Place {
                    what,
                    path: path.display().to_string(),
                    filesystem: Some(mount.filesystem.clone()),
                    through: Vec::new(),
                };
                self.under_mount(&place, &mount, 0);
            }
            Err(error) => self.note(format!("the device of the {what} is not known: {error:#}")),
        }
    }

    /// Finds the devices of the file system a place, or the file behind a loop device under it, is on.
    fn under_mount(&mut self, place: &Place, mount: &Mount, layer: usize) {
        if layer > MOST_LAYERS {
            return self.note(format!("{}: more than {MOST_LAYERS} layers of devices", on(place, mount)));
        }
        if mount.number.0 != 0 {
            let (major, minor) = mount.number;
            match self.sysfs.disk(mount.number) {
                Some(disk) => self.under_disk(place, disk, layer),
                None => self.note(format!("{}: sysfs has no device {major}:{minor}", on(place, mount))),
            }
            return;
        }
        // The kernel gives these a number that is no device's.
        match mount.filesystem.as_str() {
            "overlay" => self.under_overlay(place, mount, layer),
            "btrfs" => self.under_btrfs(place, mount, layer),
            _ => self.note(format!("{}: {}", on(place, mount), why_nameless(&mount.filesystem))),
        }
    }

    /// An overlay writes into its upper directory, which the mount names as whoever mounted it saw it.
    fn under_overlay(&mut self, place: &Place, mount: &Mount, layer: usize) {
        let upper = mount.path_option("upperdir").context("it has no upper directory to write to");
        match upper.and_then(|upper| self.own.locate(upper)) {
            Ok(located) => self.under_mount(place, &located.mount, layer + 1),
            Err(error) => self.note(format!(
                "{}: the directory it writes to cannot be followed from here: {error:#}",
                on(place, mount)
            )),
        }
    }

    fn under_btrfs(&mut self, place: &Place, mount: &Mount, layer: usize) {
        let members = self.sysfs.btrfs_members(mount.source.as_deref().unwrap_or_default());
        if members.is_empty() {
            self.note(format!("{}: sysfs does not tell the devices of this btrfs", on(place, mount)));
        }
        self.under_names(place, &members, layer);
    }

    fn under_names(&mut self, place: &Place, names: &[String], layer: usize) {
        for name in names {
            match self.sysfs.disk_named(name) {
                Some(disk) => self.under_disk(place, disk, layer + 1),
                None => self.note(format!("{} is on {name}, which sysfs does not show", subject(place))),
            }
        }
    }

    /// Keeps the device if requests are made for it, and goes on below it.
    fn under_disk(&mut self, place: &Place, disk: Disk, layer: usize) {
        if layer > MOST_LAYERS {
            return self.note(format!("{} is on more than {MOST_LAYERS} layers of devices", subject(place)));
        }
        let slaves = disk.slaves();
        let backing_file = disk.backing_file();
        let has_requests = disk.has_requests();
        let is_last = slaves.is_empty() && backing_file.is_none();
        if has_requests || is_last {
            self.keep(&disk, place);
        }
        if is_last && !has_requests {
            self.note(format!(
                "{} is on {}, which takes what it is given without making requests of it: its work cannot be seen",
                subject(place),
                disk.name
            ));
        }
        let mut below = place.clone();
        below.through.push(disk.name.clone());
        self.under_names(&below, &slaves, layer);
        if let Some(file) = backing_file {
            self.under_file(&below, &disk.name, &file, layer);
        }
    }

    fn under_file(&mut self, place: &Place, name: &str, file: &Path, layer: usize) {
        match self.own.locate(file) {
            Ok(located) => self.under_mount(place, &located.mount, layer + 1),
            Err(error) => self.note(format!(
                "{} is on {name}, whose file cannot be followed from here: {error:#}",
                subject(place)
            )),
        }
    }

    fn keep(&mut self, disk: &Disk, place: &Place) {
        let devices = &mut self.storage.devices;
        if let Some(known) = devices.iter_mut().find(|device| device.number == disk.number) {
            if !known.places.contains(place) {
                known.places.push(place.clone());
            }
            return;
        }
        devices.push(BlockDevice {
            name: disk.name.clone(),
            number: disk.number,
            partitions: disk.partitions(),
            model: disk.model(),
            size_bytes: disk.size_bytes(),
            scheduler: disk.scheduler(),
            rotational: disk.rotational(),
            has_requests: disk.has_requests(),
            places: vec![place.clone()],
        });
    }
}

/// `the WAL (/srv/wal)`
fn subject(place: &Place) -> String {
    format!("the {} ({})", place.what, place.path)
}

/// `the WAL (/srv/wal) is on nfs4 from server:/export`, with what lies between.
fn on(place: &Place, mount: &Mount) -> String {
    let through: String = place.through.iter().map(|device| format!("{device} on ")).collect();
    let source = mount.source.as_deref().filter(|source| *source != mount.filesystem);
    let source = source.map(|source| format!(" from {source}")).unwrap_or_default();
    format!("{} is on {through}{}{source}", subject(place), mount.filesystem)
}

/// Why no block device can be named for a file system that has none of its own.
fn why_nameless(filesystem: &str) -> &'static str {
    match filesystem {
        "tmpfs" | "ramfs" | "hugetlbfs" => "it is in memory, there is no device",
        "zfs" => "its pool has the devices, and the kernel does not tell which those are",
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "lustre" | "glusterfs" | "9p" | "afs" => {
            "its requests go over the network, not to a block device of this host"
        }
        "virtiofs" => "its requests go to the hypervisor, not to a block device of this host",
        name if name == "fuse" || name.starts_with("fuse.") => {
            "a process serves it, and knows where the files are"
        }
        _ => "it has no block device of its own",
    }
}
