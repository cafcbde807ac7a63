//! Everything the programs are told at load time. Each field is a fact somebody found; none has a default.

use profiler_common::event::EVENT_SLOTS;

use super::block::BlockPlan;

/// The signal that ends a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// BTF tracepoint `sock_send_length`, after the send.
    SockSendLength,
    /// BTF tracepoint `sys_enter`, filtered on `sendto`, before the send.
    SysEnterSendto,
    /// The next idle sleep: approximate.
    Scheduler,
}

/// Facts for one attachment. Offsets are bytes, addresses those of the server's processes.
#[derive(Clone)]
pub struct Plan {
    /// `task_struct.pid`.
    pub task_pid: u32,
    /// `task_struct.__state`.
    pub task_state: u32,
    /// `task_struct.sched_info.run_delay`.
    pub task_run_delay: u32,
    /// `task_struct.sched_info.last_arrival`.
    pub task_last_arrival: u32,
    /// Number of the system call in `pt_regs`; 0 where the kernel does not offer it.
    pub registers_syscall: u32,
    /// `task_struct.ioac.syscw`, where this kernel counts a task's writes.
    pub task_writes: Option<u32>,
    /// Whether `sched_switch` passes `prev_state`.
    pub state_is_argument: bool,
    /// The postmaster, in the initial pid namespace.
    pub postmaster_pid: u32,
    /// `my_wait_event_info`.
    pub wait_event_pointer: u64,
    /// `MyBEEntry`.
    pub status_pointer: u64,
    /// `MyProcPid`.
    pub process_id: u64,
    /// `nextLocalTransactionId`.
    pub local_transaction_counter: u64,
    /// `PgBackendStatus.st_procpid`.
    pub status_process_id: u32,
    /// `PgBackendStatus.st_backendType`.
    pub status_backend_type: u32,
    /// `PgBackendStatus.st_state`.
    pub status_state: u32,
    /// `PgBackendStatus.st_databaseid`.
    pub status_database: u32,
    /// `PgBackendStatus.st_userid`.
    pub status_role: u32,
    /// `PgBackendStatus.st_activity_raw`.
    pub status_activity: u32,
    /// `PgBackendStatus.st_query_id`.
    pub status_query_id: u32,
    /// `STATE_IDLE`.
    pub state_idle: u32,
    /// `STATE_IDLEINTRANSACTION`.
    pub state_idle_in_transaction: u32,
    /// `STATE_IDLEINTRANSACTION_ABORTED`.
    pub state_idle_in_transaction_aborted: u32,
    /// `B_BACKEND`.
    pub type_client_backend: u32,
    /// Dense index of `Client/ClientRead`.
    pub client_read: u32,
    /// Bucket of each event by dense index, with the bits of [`profiler_common::bucket::kind`].
    pub bucket_of_event: Box<[u32; EVENT_SLOTS]>,
    /// What ends a unit.
    pub border: Border,
    /// What to watch of the block layer; `None`: nothing.
    pub block: Option<BlockPlan>,
    /// `kernel.pid_max`.
    pub pid_max: u32,
    /// How many backends can be followed at once.
    pub slots: u32,
}
