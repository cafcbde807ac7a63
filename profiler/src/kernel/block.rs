//! What the probes of the block layer read from requests, from the kernel's own type information. Without one of these
//! facts the block layer is not watched; the transactions are all the same.

use super::{
    btf::{BtfError, KernelBtf},
    features::Features,
};

/// `enum req_op`, `req_opf` before kernel 6.0.
const OPERATIONS: [&str; 2] = ["req_op", "req_opf"];

/// Offsets in bytes, values of enumerators, and the form of the tracepoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockOffsets {
    /// `task_struct.tgid`.
    pub task_tgid: u32,
    /// `task_struct.flags`.
    pub task_flags: u32,
    /// `request.q`; not used where the disk is in the request.
    pub request_queue: u32,
    /// `request_queue.disk`; not used where the disk is in the request.
    pub queue_disk: u32,
    /// `request.rq_disk`, until kernel 5.16.
    pub request_disk: Option<u32>,
    /// `gendisk.major`.
    pub disk_major: u32,
    /// `gendisk.first_minor`.
    pub disk_minor: u32,
    /// `request.cmd_flags`.
    pub request_flags: u32,
    /// `request.__data_len`.
    pub request_bytes: u32,
    /// The bits of `cmd_flags` that hold the operation.
    pub operation_mask: u32,
    /// `REQ_OP_FLUSH`.
    pub operation_flush: u32,
    /// `REQ_OP_DISCARD`.
    pub operation_discard: u32,
    /// The first operation that is a driver's own command.
    pub operation_driver: u32,
    /// `REQ_PREFLUSH | REQ_FUA`.
    pub flags_flush: u32,
    /// `REQ_SYNC`.
    pub flag_sync: u32,
    /// Whether tracepoints pass the queue before the request (until kernel 5.10).
    pub queue_is_argument: bool,
    /// How a bio leads to its disk; `None` before kernel 5.12: waits for the turn to make a request are not told apart.
    pub bio: Option<BioOffsets>,
}

/// Offsets on the way from a bio to its disk, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BioOffsets {
    /// `bio.bi_bdev`.
    pub device: u32,
    /// `block_device.bd_disk`.
    pub disk: u32,
}

impl BioOffsets {
    fn resolve(btf: &KernelBtf) -> Option<Self> {
        let passes = btf.passes("block_bio_queue", &["bio"]).unwrap_or(false);
        let device = btf.pointer("bio", "bi_bdev", "block_device").ok().filter(|_| passes)?;
        Some(Self { device, disk: btf.pointer("block_device", "bd_disk", "gendisk").ok()? })
    }
}

impl BlockOffsets {
    /// Resolves all of them; the first that is missing is the error.
    pub fn resolve(btf: &KernelBtf) -> Result<Self, BtfError> {
        let bit = |name: &str| btf.enumerator(&["req_flag_bits"], name);
        let operation = |name: &str| btf.enumerator(&OPERATIONS, name);
        let driver = operation("REQ_OP_DRV_IN")?;
        let request_disk = btf.pointer("request", "rq_disk", "gendisk").ok();
        let through_queue = || -> Result<(u32, u32), BtfError> {
            Ok((
                btf.pointer("request", "q", "request_queue")?,
                btf.pointer("request_queue", "disk", "gendisk")?,
            ))
        };
        let (request_queue, queue_disk) = if request_disk.is_some() { (0, 0) } else { through_queue()? };
        Ok(Self {
            task_tgid: btf.number("task_struct", "tgid", &[4])?,
            task_flags: btf.number("task_struct", "flags", &[4])?,
            request_queue,
            queue_disk,
            request_disk,
            disk_major: btf.number("gendisk", "major", &[4])?,
            disk_minor: btf.number("gendisk", "first_minor", &[4])?,
            request_flags: btf.number("request", "cmd_flags", &[4])?,
            request_bytes: btf.number("request", "__data_len", &[4])?,
            // The operation ends where the flags begin.
            operation_mask: (1 << bit("__REQ_FAILFAST_DEV")?) - 1,
            operation_flush: operation("REQ_OP_FLUSH")?,
            operation_discard: operation("REQ_OP_DISCARD")?,
            // Kernels before 5.16 have commands of the SCSI layer as well.
            operation_driver: operation("REQ_OP_SCSI_IN").map_or(driver, |scsi| scsi.min(driver)),
            flags_flush: 1 << bit("__REQ_PREFLUSH")? | 1 << bit("__REQ_FUA")?,
            flag_sync: 1 << bit("__REQ_SYNC")?,
            queue_is_argument: queue_is_argument(btf)?,
            bio: BioOffsets::resolve(btf),
        })
    }
}

/// The forms known are (request) and, until kernel 5.10, (queue, request).
fn queue_is_argument(btf: &KernelBtf) -> Result<bool, BtfError> {
    let name = "block_rq_issue";
    if btf.passes(name, &["request"])? {
        return Ok(false);
    }
    if btf.passes(name, &["request_queue", "request"])? {
        return Ok(true);
    }
    let found = btf.tracepoint_arguments(name)?;
    Err(BtfError::Prototype {
        name: name.to_owned(),
        found,
        needed: "request, before 5.11 queue and request",
    })
}

/// The tracepoints to watch the block layer with, in the order of attaching, or why it cannot be watched.
pub fn tracepoints(features: &Features) -> Result<Vec<&'static str>, String> {
    let offsets = features.block.as_ref().map_err(Clone::clone)?;
    // Without them nothing can be told; the others refine.
    for needed in ["block_rq_issue", "block_rq_complete"] {
        if !features.has_tracepoint(needed) {
            return Err(format!("the kernel has no BTF tracepoint {needed}"));
        }
    }
    let made = if features.has_tracepoint("block_io_start") { "block_io_start" } else { "block_rq_insert" };
    let mut tracepoints =
        vec!["block_rq_complete", "block_rq_requeue", "block_rq_merge", "block_bio_queue", made];
    tracepoints.retain(|name| {
        features.has_tracepoint(name) && (*name != "block_bio_queue" || offsets.bio.is_some())
    });
    tracepoints.push("block_rq_issue");
    Ok(tracepoints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::simulate::Simulate;

    #[test]
    fn the_running_kernel_resolves() {
        let Ok(btf) = KernelBtf::load() else {
            eprintln!("skipped: this kernel publishes no types");
            return;
        };
        let offsets = BlockOffsets::resolve(&btf).expect("requests of a current kernel");
        assert_eq!(offsets.operation_mask, 0xff);
        assert_eq!((offsets.operation_flush, offsets.operation_discard), (2, 3));
        assert_eq!(offsets.flags_flush.count_ones(), 2);
        assert!(offsets.flags_flush & (offsets.operation_mask | offsets.flag_sync) == 0);
        assert!(offsets.operation_driver >= 32);
    }

    #[test]
    fn without_a_tracepoint_the_block_layer_is_off_with_the_reason_or_watched_otherwise() {
        let features = Features::gather();
        if features.block.is_err() {
            eprintln!("skipped: this kernel's requests cannot be read");
            return;
        }
        let without =
            |name: &str| tracepoints(&features.clone().simulate(&[Simulate::NoTracepoint(name.to_owned())]));
        let error = without("block_rq_issue").expect_err("needed");
        assert_eq!(error, "the kernel has no BTF tracepoint block_rq_issue");
        let otherwise = without("block_io_start").expect("another one says when a request was made");
        assert!(otherwise.contains(&"block_rq_insert"), "{otherwise:?}");
        let fewer = without("block_rq_requeue").expect("only requeues are not counted");
        assert!(!fewer.contains(&"block_rq_requeue"));
        assert!(tracepoints(&features.clone().simulate(&[Simulate::NoBtf])).is_err());
    }
}
