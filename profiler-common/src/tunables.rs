//! Values set by userspace: at load time (frozen, one eBPF global each, named here) and while running ([`Live`]).

/// Names of the load-time globals, for `override_global`.
pub mod global {
    /// Offset of `pid` in `task_struct`, bytes.
    pub const TASK_PID: &str = "TASK_PID";
    /// Offset of `__state` (`state` before 5.14) in `task_struct`, bytes; used where the tracepoint does not pass it.
    pub const TASK_STATE: &str = "TASK_STATE";
    /// Offset of `sched_info.run_delay` in `task_struct`, bytes.
    pub const TASK_RUN_DELAY: &str = "TASK_RUN_DELAY";
    /// Offset of `sched_info.last_arrival` in `task_struct`, bytes.
    pub const TASK_LAST_ARRIVAL: &str = "TASK_LAST_ARRIVAL";
    /// Offset of `ioac.syscw` in `task_struct`, bytes; 0 = this kernel does not count a task's writes.
    pub const TASK_WRITES: &str = "TASK_WRITES";
    /// 1 where `sched_switch` passes `prev_state` as its fourth argument (kernel 5.18 and later).
    pub const STATE_IS_ARGUMENT: &str = "STATE_IS_ARGUMENT";
    /// Process id of the postmaster, in the initial namespace.
    pub const POSTMASTER_PID: &str = "POSTMASTER_PID";
    /// Address of `my_wait_event_info` in every backend.
    pub const WAIT_EVENT_POINTER: &str = "WAIT_EVENT_POINTER";
    /// Address of `MyBEEntry` in every backend.
    pub const STATUS_POINTER: &str = "STATUS_POINTER";
    /// Address of `MyProcPid` in every backend.
    pub const PROCESS_ID: &str = "PROCESS_ID";
    /// Address of the backend's next local transaction id.
    pub const LOCAL_TRANSACTION_COUNTER: &str = "LOCAL_TRANSACTION_COUNTER";
    /// Offset of `st_state` in `PgBackendStatus`, bytes.
    pub const STATUS_STATE: &str = "STATUS_STATE";
    /// Offset of `st_procpid`, bytes.
    pub const STATUS_PROCESS_ID: &str = "STATUS_PROCESS_ID";
    /// Offset of `st_backendType`, bytes.
    pub const STATUS_BACKEND_TYPE: &str = "STATUS_BACKEND_TYPE";
    /// Offset of `st_databaseid`, bytes.
    pub const STATUS_DATABASE: &str = "STATUS_DATABASE";
    /// Offset of `st_userid`, bytes.
    pub const STATUS_ROLE: &str = "STATUS_ROLE";
    /// Offset of `st_activity_raw`, bytes.
    pub const STATUS_ACTIVITY: &str = "STATUS_ACTIVITY";
    /// Offset of `st_query_id`, bytes.
    pub const STATUS_QUERY_ID: &str = "STATUS_QUERY_ID";
    /// Value of `STATE_IDLE`.
    pub const STATE_IDLE: &str = "STATE_IDLE";
    /// Value of `STATE_IDLEINTRANSACTION`.
    pub const STATE_IDLE_IN_TRANSACTION: &str = "STATE_IDLE_IN_TRANSACTION";
    /// Value of `STATE_IDLEINTRANSACTION_ABORTED`.
    pub const STATE_IDLE_IN_TRANSACTION_ABORTED: &str = "STATE_IDLE_IN_TRANSACTION_ABORTED";
    /// Value of `B_BACKEND`.
    pub const TYPE_CLIENT_BACKEND: &str = "TYPE_CLIENT_BACKEND";
    /// Dense index of `Client/ClientRead`.
    pub const CLIENT_READ: &str = "CLIENT_READ";
    /// Offset of `tgid` in `task_struct`, bytes.
    pub const TASK_TGID: &str = "TASK_TGID";
    /// Offset of `flags` in `task_struct`, bytes.
    pub const TASK_FLAGS: &str = "TASK_FLAGS";
    /// Offset of `q` in `request`, bytes.
    pub const REQUEST_QUEUE: &str = "REQUEST_QUEUE";
    /// Offset of `disk` in `request_queue`, bytes.
    pub const QUEUE_DISK: &str = "QUEUE_DISK";
    /// Offset of `rq_disk` in `request`, bytes, where [`DISK_IS_IN_REQUEST`].
    pub const REQUEST_DISK: &str = "REQUEST_DISK";
    /// 1 where the request itself leads to its disk (before kernel 5.17).
    pub const DISK_IS_IN_REQUEST: &str = "DISK_IS_IN_REQUEST";
    /// Offset of `major` in `gendisk`, bytes.
    pub const DISK_MAJOR: &str = "DISK_MAJOR";
    /// Offset of `first_minor` in `gendisk`, bytes.
    pub const DISK_MINOR: &str = "DISK_MINOR";
    /// Offset of `cmd_flags` in `request`, bytes.
    pub const REQUEST_FLAGS: &str = "REQUEST_FLAGS";
    /// Offset of `__data_len` in `request`, bytes.
    pub const REQUEST_BYTES: &str = "REQUEST_BYTES";
    /// The bits of `cmd_flags` that hold the operation.
    pub const OPERATION_MASK: &str = "OPERATION_MASK";
    /// Value of `REQ_OP_FLUSH`.
    pub const OPERATION_FLUSH: &str = "OPERATION_FLUSH";
    /// Value of `REQ_OP_DISCARD`.
    pub const OPERATION_DISCARD: &str = "OPERATION_DISCARD";
    /// Smallest operation that is a driver's own command and no I/O.
    pub const OPERATION_DRIVER: &str = "OPERATION_DRIVER";
    /// Bits of `cmd_flags` that ask for a flush with the request: `REQ_PREFLUSH` and `REQ_FUA`.
    pub const FLAGS_FLUSH: &str = "FLAGS_FLUSH";
    /// Bit of `cmd_flags` of a request somebody waits for: `REQ_SYNC`.
    pub const FLAG_SYNC: &str = "FLAG_SYNC";
    /// Offset of `bi_bdev` in `bio`, bytes.
    pub const BIO_DEVICE: &str = "BIO_DEVICE";
    /// Offset of `bd_disk` in `block_device`, bytes.
    pub const DEVICE_DISK: &str = "DEVICE_DISK";
    /// 1 where tracepoints of requests pass the queue first (before kernel 5.11).
    pub const QUEUE_IS_ARGUMENT: &str = "QUEUE_IS_ARGUMENT";
    /// 1 where a unit ends at the backend's next idle sleep instead of at its send (`--borders sched`).
    pub const BORDERS_FROM_SCHEDULER: &str = "BORDERS_FROM_SCHEDULER";
    /// System-call number of `sendto`, for the border on `sys_enter`.
    pub const SENDTO: &str = "SENDTO";
    /// Offset of the system-call number in `pt_regs`, bytes; 0 = the kernel does not offer it.
    pub const REGISTERS_SYSCALL: &str = "REGISTERS_SYSCALL";
    /// System-call number of `kill`, by which a server process sets another's latch.
    pub const KILL: &str = "KILL";
    /// System-call number of `futex`, by which it posts a POSIX semaphore.
    pub const FUTEX: &str = "FUTEX";
    /// System-call number of `semop`, by which it posts a System V semaphore.
    pub const SEMOP: &str = "SEMOP";
}

/// Values userspace changes while the programs run; one copy in a mapped array.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Live {
    /// 1 while finished units are counted.
    pub window_open: u32,
    /// One statement in this many is recorded with its text; 0 = none.
    pub statement_every: u32,
    /// Most statements a CPU records before `tick` changes, so that a burst cannot fill the ring before anybody looks.
    pub statement_limit: u32,
    /// Changes with every look at the ring.
    pub tick: u32,
    /// Units at least this long are recorded, ns.
    pub slow_ns: u64,
    /// Units shorter than this are not counted, ns.
    pub min_latency_ns: u64,
    /// Only units of backends of this database (oid) are counted; 0 = of any.
    pub database: u32,
    /// Only units of backends of this role (oid) are counted; 0 = of any.
    pub role: u32,
    /// Most waits another process ended that a CPU records before `tick` changes.
    pub held_limit: u32,
    /// Keeps the size a multiple of eight; 0.
    pub reserved: u32,
}
crate::shared!(Live, 48);
