//! Requests to block devices: what the programs keep of each, and the sums that userspace reads.
//!
//! A request is known by its address from the moment it is made until the device has answered it, through merges,
//! requeues and partial completions. Who asked for it is noted in the context that made it; issue and completion often
//! happen in another's.

use crate::{bucket::Bucket, storage::Link};

/// Most devices watched at a time.
pub const MOST_DEVICES: usize = 16;

/// Kinds of requests that are told apart.
pub const OPERATIONS: usize = 4;

/// Index of a kind of request.
pub mod operation {
    /// Reads.
    pub const READ: u32 = 0;
    /// Writes, write-zeroes and zone appends among them.
    pub const WRITE: u32 = 1;
    /// Flushes of the device's write cache.
    pub const FLUSH: u32 = 2;
    /// Discards.
    pub const DISCARD: u32 = 3;
}

/// Who asked for a request, as an index of [`UserTotals`].
pub mod user {
    /// Not seen.
    pub const UNKNOWN: u32 = 0;
    /// A process that is not the server's.
    pub const OTHER_PROCESS: u32 = 1;
    /// A thread of the kernel's own, not one of those below.
    pub const KERNEL: u32 = 2;
    /// `jbd2/…`: the journal of ext4.
    pub const JBD2: u32 = 3;
    /// `kworker/…`, asking for something a task waits for: a loop device, a throttled task, device mapper.
    pub const KWORKER: u32 = 4;
    /// `kworker/…`, writing out dirty pages nobody waits for.
    pub const WRITEBACK: u32 = 5;
    /// `loop…`: the thread of a loop device.
    pub const LOOP: u32 = 6;
    /// `kswapd…`: memory reclaim.
    pub const KSWAPD: u32 = 7;
    /// `xfsaild/…`, `xfs-…`: the log and metadata of XFS.
    pub const XFS: u32 = 8;
    /// `md…`: software RAID.
    pub const MD: u32 = 9;
    /// `dmcrypt…`: encryption.
    pub const DMCRYPT: u32 = 10;
    /// The first backend type; the server's number for it is added.
    pub const BACKEND_TYPE: u32 = 32;
    /// Backend types that have an index.
    pub const BACKEND_TYPES: u32 = 32;
}

/// Length of the table of users; a power of two, so that masking proves the bound to the verifier.
pub const USERS: u32 = 64;

/// [`Request::state`]: made, not at the device.
pub const MADE: u32 = 1;
/// [`Request::state`]: at the device.
pub const ISSUED: u32 = 2;
/// [`Request::state`]: the device did not take it.
pub const REQUEUED: u32 = 3;
/// [`Request::state`]: answered by the device.
pub const ANSWERED: u32 = 4;
/// [`Request::state`]: over, with the flushes that belonged to it.
pub const OVER: u32 = 5;

/// One request. The kernel makes a fixed number of them per device and uses them again, so an entry is overwritten by
/// the next use of the same memory, never freed.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Request {
    /// When it was made, ns; 0 = not seen.
    pub made_ns: u64,
    /// When the device was last given it, ns.
    pub issued_ns: u64,
    /// Bytes answered so far, of a request answered in parts.
    pub bytes: u64,
    /// See [`MADE`] and its neighbours.
    pub state: u32,
    /// Who asked for it, see [`user`].
    pub user: u32,
    /// Slot of the backend that asked for it; 0 = none.
    pub slot: u32,
    /// 1 if a flush was asked for with it; the kernel clears the request's own flags that say so.
    pub flush: u32,
}
crate::shared!(Request, 40);

/// The last request a CPU completed. What it woke is woken in the same context, right after.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Completion {
    /// Its instants.
    pub link: Link,
    /// Slot of the backend that asked for it; 0 = none.
    pub slot: u32,
    /// Who asked for it, see [`user`].
    pub user: u32,
    /// Kind, see [`operation`].
    pub operation: u32,
    /// Explicit padding.
    pub reserved: u32,
}
crate::shared!(Completion, 40);

/// Sums over the requests of one kind that one device answered; one copy per CPU.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct OperationTotals {
    /// Requests answered.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Σ time at the device, issue to completion, ns.
    pub device_ns: u64,
    /// Requests that were seen being made.
    pub queued: u64,
    /// Σ time of those before the device, made to issued, ns.
    pub queue_ns: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Longest time at the device, ns.
    pub max_ns: u64,
    /// `u64::MAX` − shortest time at the device, ns: kept inverted so that zero means none.
    pub min_inverted_ns: u64,
}
crate::shared!(OperationTotals, 64);

/// Sums of one device; one copy per CPU.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct DeviceTotals {
    /// By kind, see [`operation`].
    pub operations: [OperationTotals; OPERATIONS],
    /// Flushes asked for: several askers at a time share one flush of the device.
    pub flushes_asked: u64,
    /// Requests completed whose issue was not seen; they are in no other figure.
    pub unseen: u64,
}
crate::shared!(DeviceTotals, 64 * OPERATIONS + 16);

/// What a device is doing; one copy, changed by all CPUs with atomic additions. The busy time takes no lock for that: two
/// CPUs within some nanoseconds of each other at the border between busy and idle can get one such border wrong.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct DeviceState {
    /// Requests at the device.
    pub in_flight: u64,
    /// Most at a time since userspace set it to zero.
    pub in_flight_max: u64,
    /// Since when there is at least one, ns; 0 = there is none.
    pub busy_since_ns: u64,
    /// Σ time in which there was at least one, ns.
    pub busy_ns: u64,
    /// Requests given back by the device, by kind.
    pub requeued: [u64; OPERATIONS],
    /// Requests whose memory was used again before their completion was seen.
    pub completions_unseen: u64,
    /// When a flush was asked for that is not issued yet, ns; 0 = none.
    pub flush_asked_ns: u64,
    /// Who asked for a flush last, see [`user`].
    pub flush_user: u32,
    /// Slot of that backend.
    pub flush_slot: u32,
}
crate::shared!(DeviceState, 32 + 8 * OPERATIONS + 24);

/// Sums of one user of a device; one copy per CPU.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct UserTotals {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes asked for.
    pub flushes: u64,
    /// Σ time at the device, ns, discards included.
    pub device_ns: u64,
}
crate::shared!(UserTotals, 48);

impl UserTotals {
    /// Adds the requests of another.
    pub fn merge(&mut self, other: &UserTotals) {
        let UserTotals { reads, read_bytes, writes, write_bytes, flushes, device_ns } = other;
        self.reads += reads;
        self.read_bytes += read_bytes;
        self.writes += writes;
        self.write_bytes += write_bytes;
        self.flushes += flushes;
        self.device_ns += device_ns;
    }
}

impl DeviceTotals {
    /// Adds the requests that another CPU completed.
    pub fn merge(&mut self, other: &DeviceTotals) {
        for (sum, added) in self.operations.iter_mut().zip(&other.operations) {
            let OperationTotals {
                count,
                bytes,
                device_ns,
                queued,
                queue_ns,
                failed,
                max_ns,
                min_inverted_ns,
            } = added;
            sum.count += count;
            sum.bytes += bytes;
            sum.device_ns += device_ns;
            sum.queued += queued;
            sum.queue_ns += queue_ns;
            sum.failed += failed;
            sum.max_ns = sum.max_ns.max(*max_ns);
            sum.min_inverted_ns = sum.min_inverted_ns.max(*min_inverted_ns);
        }
        self.flushes_asked += other.flushes_asked;
        self.unseen += other.unseen;
    }
}

/// How long a completion can be the reason for a wake-up in its context, ns.
pub const FRESH_NS: u64 = 50_000;

impl Completion {
    /// The instants of this request, if it can be what a backend was woken by at `now`.
    ///
    /// A backend waits for requests of its own, for those a kernel thread made for it, and for pages that others are
    /// reading or writing; it also waits for its turn to make a request, which another's completion may bring. Which of
    /// the two the ledger tells apart, by whether a request was asked for and not made. When a worker of the kernel made
    /// its request says nothing of the waiter: it waited for that to happen as well.
    #[inline(always)]
    pub fn instants(&self, now_ns: u64) -> Option<Link> {
        if self.link.completed_ns == 0 || now_ns.wrapping_sub(self.link.completed_ns) > FRESH_NS {
            return None;
        }
        let mut link = self.link;
        if self.user == user::KWORKER || self.user == user::WRITEBACK {
            link.made_ns = 0;
        }
        Some(link)
    }
}

/// The buckets whose waits for I/O are split over the parts of a request, in the order of
/// [`crate::storage::StorageTotals`].
pub const LINKED_BUCKETS: [Bucket; 2] = [Bucket::PageRead, Bucket::WalFsync];
