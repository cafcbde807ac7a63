//! The FUSE connection. It is mounted nowhere: a mount that is in no directory tree is gone with its descriptor.

use std::{
    fs::File,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::{
    fs::{Mode, OFlags},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags},
};

use super::disk::{Disk, NAME, THREADS};

/// Serves the disk; returns the file as the kernel sees it, open for direct I/O.
///
/// The threads end when the last holder of the file is gone.
pub fn serve(disk: Disk) -> Result<(BackgroundSession, File)> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).context(
        "cannot open /dev/fuse: this kernel has no FUSE, or its module is not loaded (modprobe fuse)",
    )?;
    let mount = detached_mount(&device).context("a FUSE mount")?;

    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    let session = Session::from_fd(disk, device, SessionACL::All, config).context("FUSE handshake")?;
    let session = session.spawn().context("threads that serve the volume")?;

    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&mount, NAME, flags, Mode::empty()).context("the served file")?;
    Ok((session, File::from(file)))
}

fn detached_mount(device: &OwnedFd) -> Result<OwnedFd> {
    use rustix::mount::{fsconfig_create, fsconfig_set_string, fsmount, fsopen};
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let number = device.as_fd().as_raw_fd().to_string();
    let options = [
        ("source", "pgstall-volume"),
        ("fd", &number),
        ("rootmode", "40000"),
        ("user_id", "0"),
        ("group_id", "0"),
    ];
    for (name, value) in options {
        fsconfig_set_string(&context, name, value).with_context(|| format!("{name}={value}"))?;
    }
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Waits for the threads' end, at most for `limit`; whether they ended.
pub fn wait(session: BackgroundSession, limit: Duration) -> bool {
    let end = std::time::Instant::now() + limit;
    while !session.guard.is_finished() {
        if std::time::Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
    true
}
