//! The only place that reads kernel structures.

use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_task_pt_regs};

use profiler_common::ledger::SchedInfo;

use crate::config::{
    REGISTERS_SYSCALL, TASK_FLAGS, TASK_LAST_ARRIVAL, TASK_PID, TASK_RUN_DELAY, TASK_STATE, TASK_TGID,
    TASK_WRITES,
};

/// `PF_KTHREAD`: <https://github.com/torvalds/linux/blob/v6.12/include/linux/sched.h#L1706>
const KERNEL_THREAD: u32 = 0x0020_0000;

/// A `task_struct` the verifier trusts: an argument of a BTF tracepoint, or the current task.
#[derive(Clone, Copy)]
pub struct Task(*const u8);

impl Task {
    /// The task of a BTF tracepoint's argument.
    #[inline(always)]
    pub fn from_argument(task: *const u8) -> Self {
        Task(task)
    }

    /// The task this program interrupts.
    #[inline(always)]
    pub fn current() -> Self {
        // SAFETY: the helper has no arguments and never returns null.
        let task = unsafe { bpf_get_current_task_btf() };
        Task(task as *const u8)
    }

    /// Thread id in the initial namespace (what userspace calls the pid of a single-threaded process).
    #[inline(always)]
    pub fn pid(self) -> u32 {
        self.load(TASK_PID.load())
    }

    /// Scheduler state; 0 = runnable.
    #[inline(always)]
    pub fn state(self) -> u32 {
        self.load(TASK_STATE.load())
    }

    /// What the scheduler itself accounts for the task; up to date while it runs.
    #[inline(always)]
    pub fn sched_info(self) -> SchedInfo {
        SchedInfo {
            run_delay_ns: self.load(TASK_RUN_DELAY.load()),
            last_arrival_ns: self.load(TASK_LAST_ARRIVAL.load()),
        }
    }

    /// Process id in the initial namespace: the same for all threads of a process.
    #[inline(always)]
    pub fn process(self) -> u32 {
        self.load(TASK_TGID.load())
    }

    /// Whether it is a thread of the kernel's own.
    #[inline(always)]
    pub fn is_kernel_thread(self) -> bool {
        self.load::<u32>(TASK_FLAGS.load()) & KERNEL_THREAD != 0
    }

    /// Number of the system call the task is in, whatever interrupts it; another number outside of one. Only where
    /// `REGISTERS_SYSCALL` is not 0 (kernel 5.15 and later).
    #[inline(always)]
    pub fn system_call(self) -> u32 {
        // SAFETY: a task the verifier trusts.
        let registers = unsafe { bpf_task_pt_regs(self.0.cast_mut().cast()) } as *const u8;
        Task(registers).load(REGISTERS_SYSCALL.load())
    }

    /// How many write calls of the task have returned; 0 where the kernel does not count them.
    #[inline(always)]
    pub fn writes(self) -> u64 {
        let offset = TASK_WRITES.load();
        if offset == 0 { 0 } else { self.load(offset) }
    }

    #[inline(always)]
    fn load<T: Copy>(self, offset: u32) -> T {
        // SAFETY: only forms the address; the offset is a constant from the kernel's BTF.
        let field = unsafe { self.0.add(offset as usize) };
        // SAFETY: a load through a BTF pointer: the verifier checks that the field exists with this size, and the
        // kernel turns a fault into zero.
        unsafe { *field.cast::<T>() }
    }
}
