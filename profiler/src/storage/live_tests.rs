//! The real thing: a loop device with a partition, in a mount namespace of its own. Needs root and loop devices.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{diskstats::DiskCounters, of_server};

const SECTORS: u32 = 32 * 2048;
const FIRST_SECTOR: u32 = 2048;

/// A directory that is removed when dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A loop device that is detached when dropped.
struct Loop(String);

impl Loop {
    fn attach(image: &Path) -> Loop {
        let shown = run(Command::new("losetup").args(["-f", "--show"]).arg(image));
        let device = Loop(shown.trim().to_owned());
        // The kernel itself may not know this kind of table.
        run(Command::new("partx").args(["-u", &device.0]));
        device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").args(["-d", &self.0]).status());
    }
}

/// A process that is ended when dropped.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// An image with one partition in a table of the oldest kind.
fn image(path: &Path) {
    let image = File::create(path).unwrap();
    image.set_len(u64::from(SECTORS) * 512).unwrap();
    let mut entry = [0; 16];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&FIRST_SECTOR.to_le_bytes());
    entry[12..].copy_from_slice(&(SECTORS - FIRST_SECTOR).to_le_bytes());
    image.write_all_at(&entry, 446).unwrap();
    image.write_all_at(&[0x55, 0xaa], 510).unwrap();
}

#[test]
#[ignore = "needs root, loop devices, partx and mkfs.ext4"]
fn a_partition_of_a_loop_device_behind_a_bind_mount_and_a_link() {
    let scratch = Scratch(std::env::temp_dir().join(format!("pgstall-loop-{}", std::process::id())));
    for directory in ["mnt", "data/pg_tblspc", "bound"] {
        fs::create_dir_all(scratch.0.join(directory)).unwrap();
    }
    let file = scratch.0.join("image");
    image(&file);
    let device = Loop::attach(&file);
    let partition = format!("{}p1", device.0);
    run(Command::new("mkfs.ext4").args(["-q", &partition]));

    // Absolute links on purpose: in a root of one's own they lead elsewhere than here.
    std::os::unix::fs::symlink(scratch.0.join("bound"), scratch.0.join("data/pg_wal")).unwrap();
    let root = scratch.0.display();
    let script = format!(
        "mount {partition} {root}/mnt && mkdir {root}/mnt/wal && mount --bind {root}/mnt/wal {root}/bound && \
         echo ready && read wait; umount {root}/bound {root}/mnt"
    );
    let mut holder = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map(Holder)
        .unwrap();
    let mut ready = [0; 6];
    holder.0.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();

    let storage = of_server(holder.0.id(), &scratch.0.join("data"));
    let name = device.0.trim_start_matches("/dev/").to_owned();
    let loop_device = storage.devices.iter().find(|device| device.name == name);
    let loop_device = loop_device.unwrap_or_else(|| panic!("{storage:#?}"));
    assert_eq!(loop_device.places.len(), 1, "{storage:#?}");
    assert_eq!(loop_device.places[0].what, "WAL");
    assert_eq!(Path::new(&loop_device.places[0].path), scratch.0.join("bound"));
    assert_eq!(loop_device.places[0].filesystem.as_deref(), Some("ext4"));
    assert_eq!(loop_device.partitions.len(), 1);
    assert_eq!(loop_device.size_bytes, Some(u64::from(SECTORS) * 512));
    assert!(loop_device.has_requests);

    // What lies under the file is what the data directory is on, if that is a device at all.
    for below in storage.devices.iter().filter(|device| device.name != name) {
        let wal = below.places.iter().find(|place| place.what == "WAL").unwrap();
        assert_eq!(wal.through[0], name);
    }
    let nowhere = storage.notes.iter().any(|note| note.contains("the WAL"));
    assert!(storage.devices.len() > 1 || nowhere, "{storage:#?}");

    // The kernel counts on that device what is written there.
    let before = DiskCounters::read(loop_device.number).unwrap();
    let inside = PathBuf::from(format!("/proc/{}/root", holder.0.id()));
    let written = inside.join(scratch.0.join("bound/file").strip_prefix("/").unwrap());
    let mut written = File::create(written).unwrap();
    written.write_all(&[1; 1 << 20]).unwrap();
    written.sync_all().unwrap();
    let done = DiskCounters::read(loop_device.number).unwrap().since(&before);
    assert!(done.write_bytes >= 1 << 20, "{done:?}");

    // Closing its input lets it undo its mounts, without which the loop device cannot go.
    drop(written);
    drop(holder.0.stdin.take());
    assert!(holder.0.wait().unwrap().success());
}

#[test]
fn a_process_that_is_not_there_is_a_note() {
    let storage = of_server(u32::MAX, Path::new("/data"));
    assert!(storage.devices.is_empty());
    assert!(
        storage.notes[0]
            .starts_with("the devices under the server's files are not known: /proc/4294967295/root")
    );
}
