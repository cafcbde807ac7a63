//! A loop device with direct I/O. It clears itself when the last that has it open closes it.

use std::{
    ffi::c_void,
    fs::{self, File, OpenOptions},
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};
use linux_raw_sys::loop_device::{
    LO_FLAGS_AUTOCLEAR, LO_FLAGS_DIRECT_IO, LOOP_CONFIGURE, LOOP_CTL_GET_FREE, loop_config, loop_info64,
};
use rustix::{
    io::Errno,
    ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl},
};

/// How often another process may take the device that was found free.
const ATTEMPTS: u32 = 50;

/// Largest request, KiB: the limit of Amazon's NVMe devices, and below the one of the FUSE connection, so that one
/// request of the device is one of the volume.
const MAX_REQUEST_KIB: u32 = 256;

/// A loop device; gone when it and its mount are.
#[derive(Debug)]
pub struct LoopDevice {
    number: u32,
    /// Keeps it from clearing itself.
    _open: OwnedFd,
}

impl LoopDevice {
    /// Takes a free device for that file.
    pub fn new(file: &File) -> Result<LoopDevice> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control");
        let control = control.context("cannot open /dev/loop-control: no loop devices (modprobe loop)")?;
        for _ in 0..ATTEMPTS {
            // SAFETY: the request takes no argument and returns a number.
            let number = unsafe { ioctl(&control, GetFree) }.context("no free loop device")?;
            let path = format!("/dev/loop{number}");
            let device = OpenOptions::new().read(true).write(true).open(&path).context(path)?;
            let config = configuration(file)?;
            // SAFETY: this request reads a `loop_config`, and that is what it is given.
            let set = unsafe { Setter::<{ LOOP_CONFIGURE as Opcode }, loop_config>::new(config) };
            // SAFETY: as above; the descriptor within stays open during the call.
            match unsafe { ioctl(&device, set) } {
                Ok(()) => {
                    let device = LoopDevice { number, _open: device.into() };
                    device.set_up_queue()?;
                    return Ok(device);
                }
                Err(Errno::BUSY) => {}
                Err(error) => return Err(error).with_context(|| format!("loop device {number}")),
            }
        }
        bail!("every loop device that was free was taken by another, {ATTEMPTS} times in a row")
    }

    /// The kernel's name, such as `loop3`.
    pub fn name(&self) -> String {
        format!("loop{}", self.number)
    }

    /// The node in `/dev`.
    pub fn node(&self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.number))
    }

    fn set_up_queue(&self) -> Result<()> {
        let queue = PathBuf::from(format!("/sys/block/loop{}/queue", self.number));
        let direct = fs::read_to_string(queue.join("../loop/dio")).context("loop/dio")?;
        if direct.trim() != "1" {
            bail!("the kernel gave loop{} no direct I/O on the volume's file", self.number);
        }
        let settings =
            [("scheduler", "none"), ("max_sectors_kb", &MAX_REQUEST_KIB.to_string()), ("rotational", "0")];
        for (name, value) in settings {
            fs::write(queue.join(name), value)
                .with_context(|| format!("loop{}: {name}={value}", self.number))?;
        }
        Ok(())
    }
}

fn configuration(file: &File) -> Result<loop_config> {
    let mut lo_file_name = [0; 64];
    let name = b"pgstall-volume";
    lo_file_name[..name.len()].copy_from_slice(name);
    Ok(loop_config {
        fd: u32::try_from(file.as_raw_fd())?,
        block_size: 512,
        info: loop_info64 {
            lo_device: 0,
            lo_inode: 0,
            lo_rdevice: 0,
            lo_offset: 0,
            lo_sizelimit: 0,
            lo_number: 0,
            lo_encrypt_type: 0,
            lo_encrypt_key_size: 0,
            lo_flags: LO_FLAGS_AUTOCLEAR as u32 | LO_FLAGS_DIRECT_IO as u32,
            lo_file_name,
            lo_crypt_name: [0; 64],
            lo_encrypt_key: [0; 32],
            lo_init: [0; 2],
        },
        __reserved: [0; 8],
    })
}

/// Asks for the number of a free device, which is the call's own return value.
struct GetFree;

// SAFETY: the request has no argument that it could read or write.
unsafe impl Ioctl for GetFree {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _argument: *mut c_void) -> rustix::io::Result<u32> {
        u32::try_from(out).map_err(|_| Errno::INVAL)
    }
}
