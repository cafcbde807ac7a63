//! Recorded hosts: what their sysfs and mountinfo show, and the devices that are to come out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result};

use super::{
    mounts::{self, Mount},
    namespace::{Located, Namespace},
    resolve::{BlockDevice, Storage, resolve},
    sysfs::Sysfs,
};

const DATA: &str = "/var/lib/postgresql/15/main";

/// A sysfs made of files; removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Tree {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("pgstall-sysfs-{}-{number}", std::process::id()));
        for directory in ["block", "class/block", "dev/block", "fs/btrfs"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        Tree(root)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// A device whose directory is `path`, below `devices`; with its links, as the kernel makes them.
    fn device(&self, path: &str, number: &str, files: &[(&str, &str)]) {
        let directory = format!("devices/{path}");
        let name = Path::new(path).file_name().unwrap();
        self.file(&format!("{directory}/dev"), number);
        for (file, text) in files {
            self.file(&format!("{directory}/{file}"), text);
        }
        let directory = self.0.join(directory);
        symlink(&directory, self.0.join("dev/block").join(number)).unwrap();
        symlink(&directory, self.0.join("class/block").join(name)).unwrap();
        if !directory.join("partition").exists() {
            symlink(&directory, self.0.join("block").join(name)).unwrap();
        }
    }

    /// A disk that works by requests.
    fn disk(&self, path: &str, number: &str, model: &str) {
        self.device(
            path,
            number,
            &[
                ("size", "209715200"),
                ("device/model", model),
                ("queue/scheduler", "[none] mq-deadline"),
                ("queue/rotational", "0"),
                ("mq/0/cpu_list", "0, 1"),
            ],
        );
    }

    fn partition(&self, path: &str, number: &str) {
        self.device(path, number, &[("partition", "1"), ("size", "2048")]);
    }

    /// A device made of others, which hands on what it is given.
    fn stacked(&self, name: &str, number: &str, slaves: &[&str], files: &[(&str, &str)]) {
        self.device(&format!("virtual/block/{name}"), number, files);
        for slave in slaves {
            let slaves = self.0.join(format!("devices/virtual/block/{name}/slaves"));
            fs::create_dir_all(&slaves).unwrap();
            symlink(self.0.join("class/block").join(slave), slaves.join(slave)).unwrap();
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A namespace made of a mountinfo, and of links from directories to others.
struct Recorded {
    mounts: Vec<Mount>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Recorded {
    fn new(mountinfo: &str, links: &[(&str, &str)]) -> Recorded {
        let links = links.iter().map(|(from, to)| (PathBuf::from(from), PathBuf::from(to)));
        Recorded { mounts: mounts::parse(mountinfo).unwrap(), links: links.collect() }
    }
}

impl Namespace for Recorded {
    fn locate(&self, path: &Path) -> Result<Located> {
        let path = self.links.get(path).map_or(path, PathBuf::as_path);
        let above = self.mounts.iter().filter(|mount| path.starts_with(&mount.point));
        // Of two mounts on one point the later hides the earlier.
        let mount =
            above.max_by_key(|mount| mount.point.iter().count()).context("no such file or directory")?;
        Ok(Located { path: path.to_owned(), mount: mount.clone() })
    }

    fn entries(&self, path: &Path) -> Result<Vec<String>> {
        let inside = self.links.keys().filter(|link| link.parent() == Some(path));
        Ok(inside.map(|link| link.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }
}

/// Resolves on a host where the server shares the reader's namespace.
fn resolved(tree: &Tree, mountinfo: &str, links: &[(&str, &str)]) -> Storage {
    let namespace = Recorded::new(mountinfo, links);
    resolve(&Sysfs::at(&tree.0), &namespace, &namespace, Path::new(DATA))
}

/// `name: what through a, b; …`
fn summary(device: &BlockDevice) -> String {
    let places = device.places.iter().map(|place| match place.through.is_empty() {
        true => place.what.clone(),
        false => format!("{} through {}", place.what, place.through.join(", ")),
    });
    format!("{}: {}", device.name, places.collect::<Vec<_>>().join("; "))
}

fn check(storage: &Storage, devices: &[&str], notes: &[&str]) {
    let found: Vec<String> = storage.devices.iter().map(summary).collect();
    assert_eq!(found, devices);
    assert_eq!(storage.notes, notes);
}

#[test]
fn a_plain_disk() {
    let tree = Tree::new();
    tree.disk("pci0000:00/0000:00:04.0/virtio1/block/vda", "254:0", "");
    let storage = resolved(&tree, "27 1 254:0 / / rw,relatime - ext4 /dev/root rw,discard\n", &[]);
    check(&storage, &["vda: data directory; WAL"], &[]);
    let disk = &storage.devices[0];
    assert_eq!((disk.number, disk.model.as_deref()), ((254, 0), None));
    assert_eq!(disk.size_bytes, Some(100 << 30));
    assert_eq!((disk.scheduler.as_deref(), disk.rotational), (Some("none"), Some(false)));
    assert_eq!(disk.places[1].path, format!("{DATA}/pg_wal"));
    assert_eq!(disk.places[1].filesystem.as_deref(), Some("ext4"));
}

#[test]
fn partitions_of_two_disks() {
    let tree = Tree::new();
    let nvme = "pci0000:00/0000:00:1e.0/nvme/nvme1/nvme1n1";
    tree.disk(nvme, "259:1", "Amazon Elastic Block Store");
    tree.partition(&format!("{nvme}/nvme1n1p1"), "259:3");
    tree.partition(&format!("{nvme}/nvme1n1p2"), "259:4");
    tree.disk("pci0000:00/0000:00:1f.0/nvme/nvme2/nvme2n1", "259:2", "Amazon EC2 NVMe Instance Storage");
    let mountinfo = "27 1 259:3 / / rw - xfs /dev/nvme1n1p1 rw\n\
                     30 27 259:2 / /fast rw - xfs /dev/nvme2n1 rw\n\
                     31 27 259:4 / /ts rw - ext4 /dev/nvme1n1p2 rw\n";
    let links = [
        (&*format!("{DATA}/pg_wal"), "/fast/wal"),
        (&*format!("{DATA}/pg_tblspc/16384"), "/ts/one"),
        (&*format!("{DATA}/pg_tblspc/16999"), "/fast/two"),
    ];
    let storage = resolved(&tree, mountinfo, &links);
    let devices = ["nvme1n1: data directory; tablespace 16384", "nvme2n1: WAL; tablespace 16999"];
    check(&storage, &devices, &[]);
    assert_eq!(storage.devices[0].partitions, [(259, 3), (259, 4)]);
    assert_eq!(storage.devices[0].model.as_deref(), Some("Amazon Elastic Block Store"));
    assert_eq!(storage.devices[1].places[0].path, "/fast/wal");
}

#[test]
fn a_logical_volume_on_a_raid_of_nvme_disks() {
    let tree = Tree::new();
    for (number, minor) in [(0, "259:0"), (1, "259:1")] {
        tree.disk(
            &format!("pci0000:00/nvme/nvme{number}/nvme{number}n1"),
            minor,
            "Amazon Elastic Block Store",
        );
    }
    tree.partition("pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p1", "259:5");
    tree.stacked("md127", "9:127", &["nvme0n1p1", "nvme1n1"], &[("md/level", "raid0")]);
    tree.stacked("dm-0", "253:0", &["md127"], &[("dm/name", "vg-data")]);
    let storage = resolved(&tree, "27 1 253:0 / /var rw - ext4 /dev/mapper/vg-data rw\n", &[]);
    let through = "data directory through dm-0, md127; WAL through dm-0, md127";
    check(&storage, &[&format!("nvme0n1: {through}"), &format!("nvme1n1: {through}")], &[]);
}

#[test]
fn multipath_and_its_paths() {
    let tree = Tree::new();
    tree.disk("pci0000:00/host0/sda", "8:0", "SAN");
    tree.disk("pci0000:00/host1/sdb", "8:16", "SAN");
    // The only device-mapper target that works by requests.
    tree.stacked("dm-3", "253:3", &["sda", "sdb"], &[("mq/0/cpu_list", "0"), ("dm/name", "mpatha")]);
    let storage = resolved(&tree, "27 1 253:3 / / rw - xfs /dev/mapper/mpatha rw\n", &[]);
    let paths = "data directory through dm-3; WAL through dm-3";
    check(&storage, &["dm-3: data directory; WAL", &format!("sda: {paths}"), &format!("sdb: {paths}")], &[]);
}

#[test]
fn a_loop_device_over_a_file() {
    let tree = Tree::new();
    tree.disk("pci0000:00/block/vda", "254:0", "");
    let backing = [("mq/0/cpu_list", "0"), ("loop/backing_file", "/images/pg.img")];
    tree.stacked("loop3", "7:3", &[], &backing);
    let mountinfo = "27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 7:3 / /var/lib rw - ext4 /dev/loop3 rw\n";
    let storage = resolved(&tree, mountinfo, &[]);
    check(
        &storage,
        &["loop3: data directory; WAL", "vda: data directory through loop3; WAL through loop3"],
        &[],
    );
    // The file of another that no block device serves.
    let mountinfo = "27 1 0:99 / / rw - fuse.slow slow rw\n28 27 7:3 / /var/lib rw - ext4 /dev/loop3 rw\n";
    let storage = resolved(&tree, mountinfo, &[]);
    let served = "a process serves it, and knows where the files are";
    let note =
        |what: &str, path: &str| format!("the {what} ({path}) is on loop3 on fuse.slow from slow: {served}");
    let (data, wal) = (note("data directory", DATA), note("WAL", &format!("{DATA}/pg_wal")));
    check(&storage, &["loop3: data directory; WAL"], &[&data, &wal]);
}

#[test]
fn circles_of_loop_devices_end() {
    let tree = Tree::new();
    tree.stacked("loop0", "7:0", &[], &[("loop/backing_file", "/var/image"), ("mq/0/cpu_list", "0")]);
    let storage = resolved(&tree, "27 1 7:0 / / rw - ext4 /dev/loop0 rw\n", &[]);
    assert_eq!(storage.devices.len(), 1);
    assert!(storage.notes[0].contains("more than 16 layers"), "{:?}", storage.notes);
}

#[test]
fn a_container_on_an_overlay() {
    let tree = Tree::new();
    tree.disk("pci0000:00/nvme/nvme0/nvme0n1", "259:0", "Amazon Elastic Block Store");
    tree.disk("pci0000:00/nvme/nvme1/nvme1n1", "259:1", "Amazon Elastic Block Store");
    let container = "500 400 0:60 / / rw - overlay overlay rw,lowerdir=/lower,upperdir=/docker/diff,workdir=/w\n\
                     501 500 259:1 /volume /var/lib/postgresql/15/main/pg_wal rw - ext4 /dev/nvme1n1 rw\n";
    let host = "27 1 259:0 / / rw - ext4 /dev/root rw\n";
    let (server, own) = (Recorded::new(container, &[]), Recorded::new(host, &[]));
    let storage = resolve(&Sysfs::at(&tree.0), &server, &own, Path::new(DATA));
    check(&storage, &["nvme0n1: data directory", "nvme1n1: WAL"], &[]);
    assert_eq!(storage.devices[0].places[0].filesystem.as_deref(), Some("overlay"));

    // Seen from another container, the upper directory is not there.
    let elsewhere = Recorded::new("27 1 259:0 / /other rw - ext4 /dev/root rw\n", &[]);
    let storage = resolve(&Sysfs::at(&tree.0), &server, &elsewhere, Path::new(DATA));
    let note = format!(
        "the data directory ({DATA}) is on overlay: the directory it writes to cannot be followed from here: no such \
         file or directory"
    );
    check(&storage, &["nvme1n1: WAL"], &[&note]);
}

#[test]
fn a_btrfs_of_two_devices() {
    let tree = Tree::new();
    tree.disk("pci0000:00/block/sda", "8:0", "ONE");
    tree.partition("pci0000:00/block/sda/sda2", "8:2");
    tree.disk("pci0000:00/block/sdb", "8:16", "TWO");
    tree.stacked("dm-1", "253:1", &["sdb"], &[("dm/name", "luks-home")]);
    for member in ["sda2", "dm-1"] {
        tree.file(&format!("fs/btrfs/4f1c-uuid/devices/{member}/dev_id"), "");
    }
    tree.file("fs/btrfs/features/skinny_metadata", "0");
    for source in ["/dev/sda2", "/dev/mapper/luks-home"] {
        let mountinfo = format!("27 1 0:33 /@ / rw - btrfs {source} rw,subvol=/@\n");
        let storage = resolved(&tree, &mountinfo, &[]);
        let devices = ["sdb: data directory through dm-1; WAL through dm-1", "sda: data directory; WAL"];
        check(&storage, &devices, &[]);
    }
    let storage = resolved(&tree, "27 1 0:33 /@ / rw - btrfs /dev/sdz rw\n", &[]);
    assert!(storage.devices.is_empty());
    let expected = format!(
        "the data directory ({DATA}) is on btrfs from /dev/sdz: sysfs does not tell the devices of this btrfs"
    );
    assert_eq!(storage.notes[0], expected);
}

#[test]
fn file_systems_without_a_device_are_named() {
    let tree = Tree::new();
    for (mountinfo, expected) in [
        ("27 1 0:40 / / rw - tmpfs tmpfs rw", "is on tmpfs: it is in memory, there is no device"),
        (
            "27 1 0:41 / / rw - nfs4 filer:/export/pg rw,vers=4.2",
            "is on nfs4 from filer:/export/pg: its requests go over the network, not to a block device of this host",
        ),
        (
            "27 1 0:42 / / rw - zfs tank/pg rw",
            "is on zfs from tank/pg: its pool has the devices, and the kernel does not tell which those are",
        ),
        (
            "27 1 259:77 / / rw - ext4 /dev/nvme9n1 rw",
            "is on ext4 from /dev/nvme9n1: sysfs has no device 259:77",
        ),
    ] {
        let storage = resolved(&tree, mountinfo, &[]);
        assert!(storage.devices.is_empty(), "{mountinfo}");
        assert_eq!(storage.notes[0], format!("the data directory ({DATA}) {expected}"));
    }
}

#[test]
fn memory_that_is_a_block_device_makes_no_requests() {
    let tree = Tree::new();
    tree.device("virtual/block/zram0", "253:0", &[("size", "2048")]);
    let storage = resolved(&tree, "27 1 253:0 / / rw - ext4 /dev/zram0 rw", &[]);
    assert!(!storage.devices[0].has_requests);
    assert!(storage.notes[0].contains("is on zram0, which takes what it is given without making requests"));
}
