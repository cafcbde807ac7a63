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
    TASK_TGID: u32,
    TASK_FLAGS: u32,
    REQUEST_QUEUE: u32,
    QUEUE_DISK: u32,
    REQUEST_DISK: u32,
    DISK_IS_IN_REQUEST: u32,
    DISK_MAJOR: u32,
    DISK_MINOR: u32,
    REQUEST_FLAGS: u32,
    REQUEST_BYTES: u32,
    OPERATION_MASK: u32,
    OPERATION_FLUSH: u32,
    OPERATION_DISCARD: u32,
    OPERATION_DRIVER: u32,
    FLAGS_FLUSH: u32,
    FLAG_SYNC: u32,
    QUEUE_IS_ARGUMENT: u32,
    BIO_DEVICE: u32,
    DEVICE_DISK: u32,
    REGISTERS_SYSCALL: u32,
    KILL: u32,
    FUTEX: u32,
    SEMOP: u32,
}
