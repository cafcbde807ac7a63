//! The buckets a transaction's time is charged to: the only list of them.

/// Where a stretch of a transaction's time went. The order is the order of every report.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bucket {
    /// Blocked while a data page is brought in.
    PageRead = 0,
    /// Blocked until the commit is durable.
    WalFsync = 1,
    /// Blocked on a heavyweight lock, an LWLock or a buffer pin.
    Lock = 2,
    /// On a CPU, user and kernel time alike.
    Cpu = 3,
    /// Runnable, waiting for a CPU.
    RunQueue = 4,
    /// In an open transaction, waiting for the client or its socket.
    Client = 5,
    /// Waiting for a standby.
    Replication = 6,
    /// Any other file I/O.
    OtherIo = 7,
    /// Any other named wait.
    OtherWait = 8,
    /// Blocked without a named wait, or lost edges.
    Unattributed = 9,
}

/// Array length used wherever buckets are indexed: a power of two, so that masking proves the bound to the verifier.
pub const BUCKET_SLOTS: usize = 16;

/// Index beside the buckets for time between transactions; it belongs to no transaction.
pub const IDLE: u32 = 15;

/// Index beside the buckets for the part of `run_queue` in which a woken task was not in any CPU's queue yet: an idle CPU
/// took that long to come to it. It is inside `run_queue`, and so in no sum of the buckets.
pub const WAKE_TO_RUN: u32 = 14;

/// What a wait's bucket number may carry besides, in the bits above the index: what the wake-up that ends it can tell.
/// Masked off wherever a bucket is indexed.
pub mod kind {
    /// Waits for file I/O of its own: the completion of a block request may end it.
    pub const STORAGE: u32 = 1 << 8;
    /// Another process ends it, by letting go of what it holds or by doing what it is waited for.
    pub const HELD: u32 = 1 << 9;
    /// Part of a flush of the write-ahead log by the process itself.
    pub const WAL_SYNC: u32 = 1 << 10;
}

/// Σ of the buckets and of idle time, ns: all that was charged, each ns once.
pub fn charged_ns(buckets: &[u64; BUCKET_SLOTS]) -> u64 {
    let charged = buckets.iter().enumerate().filter(|(slot, _)| *slot != WAKE_TO_RUN as usize);
    charged.map(|(_, ns)| ns).sum()
}

impl Bucket {
    /// Every bucket in report order.
    pub const ALL: [Bucket; 10] = [
        Bucket::PageRead,
        Bucket::WalFsync,
        Bucket::Lock,
        Bucket::Cpu,
        Bucket::RunQueue,
        Bucket::Client,
        Bucket::Replication,
        Bucket::OtherIo,
        Bucket::OtherWait,
        Bucket::Unattributed,
    ];

    /// The stable snake_case name used in JSON and on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Bucket::PageRead => "page_read",
            Bucket::WalFsync => "wal_fsync",
            Bucket::Lock => "lock",
            Bucket::Cpu => "cpu",
            Bucket::RunQueue => "run_queue",
            Bucket::Client => "client",
            Bucket::Replication => "replication",
            Bucket::OtherIo => "other_io",
            Bucket::OtherWait => "other_wait",
            Bucket::Unattributed => "unattributed",
        }
    }
}
