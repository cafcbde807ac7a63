//! Values fixed at load time: kernel offsets from the kernel's own BTF, addresses and layout of the server.
//!
//! Each lies in frozen read-only data, so the verifier knows it as a constant; the loader insists on setting every
//! one. The meaning of each is documented beside its name in [`profiler_common::tunables::global`].

use aya_ebpf::Global;

macro_rules! globals {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(
            #[unsafe(no_mangle)]
            pub static $name: Global<$type> = Global::new(0);
        )*
    };
}

globals! {
    TASK_PID: u32,
    TASK_STATE: u32,
    TASK_RUN_DELAY: u32,
    TASK_LAST_ARRIVAL: u32,
    TASK_WRITES: u32,
    STATE_IS_ARGUMENT: u32,
    POSTMASTER_PID: u32,
    WAIT_EVENT_POINTER: u64,
    STATUS_POINTER: u64,
    PROCESS_ID: u64,
    LOCAL_TRANSACTION_COUNTER: u64,
    STATUS_STATE: u32,
    STATUS_PROCESS_ID: u32,
    STATUS_BACKEND_TYPE: u32,
    STATUS_DATABASE: u32,
    STATUS_ROLE: u32,
    STATUS_ACTIVITY: u32,
    STATUS_QUERY_ID: u32,
    STATE_IDLE: u32,
    STATE_IDLE_IN_TRANSACTION: u32,
    STATE_IDLE_IN_TRANSACTION_ABORTED: u32,
    TYPE_CLIENT_BACKEND: u32,
    CLIENT_READ: u32,
    BORDERS_FROM_SCHEDULER: u32,
    SENDTO: u32,
    REGISTERS_SYSCALL: u32,
    KILL: u32,
    FUTEX: u32,
    SEMOP: u32,
}
