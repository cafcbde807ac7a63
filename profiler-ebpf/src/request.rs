//! The only place that reads the kernel's block requests.

use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::block::operation;

use crate::config::{
    BIO_DEVICE, DEVICE_DISK, DISK_IS_IN_REQUEST, DISK_MAJOR, DISK_MINOR, FLAG_SYNC, FLAGS_FLUSH,
    OPERATION_DISCARD, OPERATION_DRIVER, OPERATION_FLUSH, OPERATION_MASK, QUEUE_DISK, QUEUE_IS_ARGUMENT,
    REQUEST_BYTES, REQUEST_DISK, REQUEST_FLAGS, REQUEST_QUEUE,
};

/// Bits of a device number that hold the minor:
/// <https://github.com/torvalds/linux/blob/v6.12/include/linux/kdev_t.h#L7>
const MINOR_BITS: u32 = 20;

/// A `request` the verifier trusts: an argument of a BTF tracepoint.
#[derive(Clone, Copy)]
pub struct KernelRequest(*const u8);

impl KernelRequest {
    /// The request of a tracepoint whose first argument it is in every kernel.
    #[inline(always)]
    pub fn first(ctx: &BtfTracePointContext) -> Self {
        KernelRequest(ctx.arg(0))
    }

    /// The request of a tracepoint that passed the queue before it until kernel 5.10.
    #[inline(always)]
    pub fn of(ctx: &BtfTracePointContext) -> Self {
        KernelRequest(if QUEUE_IS_ARGUMENT.load() != 0 { ctx.arg(1) } else { ctx.arg(0) })
    }

    /// What it is known by while it lives.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// Number of the whole device, as the kernel writes it; 0 = none.
    #[inline(always)]
    pub fn device(self) -> u32 {
        let disk: *const u8 = if DISK_IS_IN_REQUEST.load() != 0 {
            load(self.0, REQUEST_DISK.load())
        } else {
            load(load(self.0, REQUEST_QUEUE.load()), QUEUE_DISK.load())
        };
        number_of(disk)
    }

    /// Operation and flags.
    #[inline(always)]
    pub fn flags(self) -> Flags {
        Flags(load(self.0, REQUEST_FLAGS.load()))
    }

    /// Bytes that are left to do.
    #[inline(always)]
    pub fn bytes(self) -> u32 {
        load(self.0, REQUEST_BYTES.load())
    }
}

/// A `bio` the verifier trusts: what a task asks for; requests are made of one or several.
#[derive(Clone, Copy)]
pub struct KernelBio(*const u8);

impl KernelBio {
    /// The bio of a tracepoint whose first argument it is.
    #[inline(always)]
    pub fn first(ctx: &BtfTracePointContext) -> Self {
        KernelBio(ctx.arg(0))
    }

    /// Number of the whole device, as the kernel writes it; 0 = none.
    #[inline(always)]
    pub fn device(self) -> u32 {
        number_of(load(load(self.0, BIO_DEVICE.load()), DEVICE_DISK.load()))
    }
}

/// Number of a `gendisk`.
#[inline(always)]
fn number_of(disk: *const u8) -> u32 {
    let major: u32 = load(disk, DISK_MAJOR.load());
    let minor: u32 = load(disk, DISK_MINOR.load());
    major << MINOR_BITS | minor
}

/// `cmd_flags` of a request.
#[derive(Clone, Copy)]
pub struct Flags(u32);

impl Flags {
    /// The kind of the request, see [`operation`]; `None` for a driver's own commands.
    #[inline(always)]
    pub fn operation(self) -> Option<u32> {
        let found = self.0 & OPERATION_MASK.load();
        if found >= OPERATION_DRIVER.load() {
            None
        } else if found == OPERATION_FLUSH.load() {
            Some(operation::FLUSH)
        } else if found == OPERATION_DISCARD.load() {
            Some(operation::DISCARD)
        } else {
            // The lowest bit of an operation is the direction of its data.
            Some(if found & 1 != 0 { operation::WRITE } else { operation::READ })
        }
    }

    /// Whether a flush of the device's cache goes before or after it.
    #[inline(always)]
    pub fn asks_for_flush(self) -> bool {
        self.0 & FLAGS_FLUSH.load() != 0
    }

    /// Whether somebody waits for it.
    #[inline(always)]
    pub fn is_waited_for(self) -> bool {
        self.0 & FLAG_SYNC.load() != 0
    }
}

#[inline(always)]
fn load<T: Copy>(structure: *const u8, offset: u32) -> T {
    // SAFETY: only forms the address; the offset is a constant from the kernel's BTF.
    let field = unsafe { structure.add(offset as usize) };
    // SAFETY: a load through a BTF pointer: the verifier checks that the field exists with this size, and the kernel
    // turns a fault into zero.
    unsafe { *field.cast::<T>() }
}
