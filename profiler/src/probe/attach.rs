//! Loading and attaching. Everything is undone when [`Probes`] is dropped, and by the kernel when the process dies:
//! nothing is pinned.

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Btf, Ebpf, EbpfLoader,
    maps::{Array, Map, MapData, PerCpuArray, PerCpuHashMap, Queue, RingBuf},
    programs::BtfTracePoint,
};
use profiler_common::{
    backend::Backend,
    event::EVENT_SLOTS,
    flush::FlushTotals,
    held::HeldTotals,
    histogram::Histogram,
    process::Moved,
    totals::{EventTotals, Totals},
    tunables::{Live, global},
};

use super::{
    block::{self, BlockMaps},
    mapped::Mapped,
    plan::{Border, Plan},
};

/// The compiled object, see `build.rs`.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/pgstall-ebpf"));

/// The programs in place, and their maps.
pub struct Probes {
    pub(super) ebpf: Ebpf,
    pub(super) slot_by_pid: Mapped<[u16; 4]>,
    pub(super) backends: Mapped<Backend>,
    pub(super) live: Mapped<Live>,
    pub(super) free_slots: Queue<MapData, u32>,
    pub(super) totals: PerCpuArray<MapData, Totals>,
    pub(super) events: PerCpuArray<MapData, EventTotals>,
    pub(super) held: PerCpuArray<MapData, HeldTotals>,
    pub(super) histograms: PerCpuArray<MapData, Histogram>,
    pub(super) moved: PerCpuArray<MapData, Moved>,
    pub(super) type_events: PerCpuHashMap<MapData, u32, EventTotals>,
    pub(super) flushes: PerCpuArray<MapData, FlushTotals>,
    pub(super) flush_histogram: PerCpuArray<MapData, Histogram>,
    pub(super) records: RingBuf<MapData>,
    pub(super) block: BlockMaps,
    pub(super) block_refused: Option<String>,
    #[cfg(feature = "debug-probes")]
    pub(super) log: super::log::ProbeLog,
}

impl Probes {
    /// Loads the programs a plan needs and fills their tables; nothing is attached yet.
    ///
    /// # Errors
    /// Whatever the kernel refused, with the verifier's words.
    pub fn load(plan: &Plan) -> Result<Probes> {
        let pid_entries = plan.pid_max / 4 + 1;
        // Zero is the offset of no counter: `task_struct` begins with something else.
        let task_writes = plan.task_writes.unwrap_or(0);
        let state_is_argument = u32::from(plan.state_is_argument);
        let by_scheduler = u32::from(plan.border == Border::Scheduler);
        let [sendto, kill, futex, semop] =
            [libc::SYS_sendto, libc::SYS_kill, libc::SYS_futex, libc::SYS_semop].map(|call| call as u32);
        let block_globals = block::globals(plan.block.as_ref());
        let mut loader = EbpfLoader::new();
        for (name, entries) in block::sizes(plan.block.as_ref()) {
            loader.map_max_entries(name, entries);
        }
        for (name, value) in &block_globals {
            loader.override_global(name, value, true);
        }
        loader
            .map_max_entries("PID_SLOT", pid_entries)
            .map_max_entries("BACKENDS", plan.slots + 1)
            .map_max_entries("FREE_SLOTS", plan.slots)
            .map_max_entries("HISTORY", plan.slots + 1)
            .map_max_entries("HELD_WAITS", plan.slots + 1)
            .override_global(global::TASK_PID, &plan.task_pid, true)
            .override_global(global::TASK_STATE, &plan.task_state, true)
            .override_global(global::TASK_RUN_DELAY, &plan.task_run_delay, true)
            .override_global(global::TASK_LAST_ARRIVAL, &plan.task_last_arrival, true)
            .override_global(global::TASK_WRITES, &task_writes, true)
            .override_global(global::STATE_IS_ARGUMENT, &state_is_argument, true)
            .override_global(global::POSTMASTER_PID, &plan.postmaster_pid, true)
            .override_global(global::WAIT_EVENT_POINTER, &plan.wait_event_pointer, true)
            .override_global(global::STATUS_POINTER, &plan.status_pointer, true)
            .override_global(global::PROCESS_ID, &plan.process_id, true)
            .override_global(global::LOCAL_TRANSACTION_COUNTER, &plan.local_transaction_counter, true)
            .override_global(global::STATUS_STATE, &plan.status_state, true)
            .override_global(global::STATUS_PROCESS_ID, &plan.status_process_id, true)
            .override_global(global::STATUS_BACKEND_TYPE, &plan.status_backend_type, true)
            .override_global(global::STATUS_DATABASE, &plan.status_database, true)
            .override_global(global::STATUS_ROLE, &plan.status_role, true)
            .override_global(global::STATUS_ACTIVITY, &plan.status_activity, true)
            .override_global(global::STATUS_QUERY_ID, &plan.status_query_id, true)
            .override_global(global::STATE_IDLE, &plan.state_idle, true)
            .override_global(global::STATE_IDLE_IN_TRANSACTION, &plan.state_idle_in_transaction, true)
            .override_global(
                global::STATE_IDLE_IN_TRANSACTION_ABORTED,
                &plan.state_idle_in_transaction_aborted,
                true,
            )
            .override_global(global::TYPE_CLIENT_BACKEND, &plan.type_client_backend, true)
            .override_global(global::CLIENT_READ, &plan.client_read, true)
            .override_global(global::BORDERS_FROM_SCHEDULER, &by_scheduler, true)
            .override_global(global::SENDTO, &sendto, true)
            .override_global(global::REGISTERS_SYSCALL, &plan.registers_syscall, true)
            .override_global(global::KILL, &kill, true)
            .override_global(global::FUTEX, &futex, true)
            .override_global(global::SEMOP, &semop, true);
        let mut ebpf = loader.load(OBJECT).context("the kernel refused the eBPF object's maps")?;

        let btf = Btf::from_sys_fs().context("cannot read the kernel's BTF at /sys/kernel/btf/vmlinux")?;
        for tracepoint in tracepoints(plan.border) {
            program(&mut ebpf, tracepoint)?
                .load(tracepoint, &btf)
                .with_context(|| format!("the kernel refused the program for {tracepoint}"))?;
        }

        let mut block_refused = None;
        if let Some(plan) = &plan.block
            && let Err(error) = block::load(&mut ebpf, &btf, plan)
        {
            block::unload(&mut ebpf, &plan.tracepoints);
            block_refused = Some(format!("{error:#}"));
        }

        let mut bucket_of_event: Array<MapData, [u32; EVENT_SLOTS]> =
            take(&mut ebpf, "BUCKET_OF_EVENT")?.try_into()?;
        bucket_of_event.set(0, *plan.bucket_of_event, 0).context("cannot fill BUCKET_OF_EVENT")?;
        let mut free_slots: Queue<MapData, u32> = take(&mut ebpf, "FREE_SLOTS")?.try_into()?;
        for slot in 1..=plan.slots {
            free_slots.push(slot, 0).context("cannot fill FREE_SLOTS")?;
        }
        Ok(Probes {
            slot_by_pid: Mapped::new(take(&mut ebpf, "PID_SLOT")?, pid_entries as usize)?,
            backends: Mapped::new(take(&mut ebpf, "BACKENDS")?, plan.slots as usize + 1)?,
            live: Mapped::new(take(&mut ebpf, "LIVE")?, 1)?,
            free_slots,
            totals: take(&mut ebpf, "TOTALS")?.try_into()?,
            events: take(&mut ebpf, "EVENTS")?.try_into()?,
            held: take(&mut ebpf, "HELD_TOTALS")?.try_into()?,
            histograms: take(&mut ebpf, "HISTOGRAMS")?.try_into()?,
            moved: take(&mut ebpf, "MOVED")?.try_into()?,
            type_events: take(&mut ebpf, "TYPE_EVENTS")?.try_into()?,
            flushes: take(&mut ebpf, "FLUSHES")?.try_into()?,
            flush_histogram: take(&mut ebpf, "FLUSH_HISTOGRAM")?.try_into()?,
            records: take(&mut ebpf, "RECORDS")?.try_into()?,
            block: BlockMaps::new(&mut ebpf)?,
            block_refused,
            #[cfg(feature = "debug-probes")]
            log: super::log::init(&mut ebpf)?,
            ebpf,
        })
    }

    /// Attaches the programs: block layer first, so that no wait begins before its requests are seen, then the life
    /// cycle, so that no backend can be born unseen, borders last.
    ///
    /// # Errors
    /// The tracepoint the kernel would not attach to, and why.
    pub fn attach(&mut self, plan: &Plan) -> Result<()> {
        if let Some(block) = plan.block.as_ref().filter(|_| self.block_refused.is_none()) {
            let attached = block::attach(&mut self.ebpf, &block.tracepoints);
            self.block_refused = attached.err().map(|error| format!("{error:#}"));
        }
        for tracepoint in tracepoints(plan.border) {
            program(&mut self.ebpf, tracepoint)?
                .attach()
                .with_context(|| format!("the kernel refused to attach to {tracepoint}"))?;
        }
        Ok(())
    }

    /// Changes the values the programs read while running.
    pub fn set_live(&self, live: Live) {
        self.live.write(0, live);
    }

    /// The values the programs read while running.
    pub fn live(&self) -> Live {
        self.live.read(0).unwrap_or_default()
    }
}

/// The tracepoints a border signal needs, in the order of attaching. Program and tracepoint share their name.
pub fn tracepoints(border: Border) -> Vec<&'static str> {
    let mut tracepoints = vec!["sched_process_exit", "sched_process_fork", "sched_waking", "sched_switch"];
    match border {
        Border::SockSendLength => tracepoints.push("sock_send_length"),
        Border::SysEnterSendto => tracepoints.push("sys_enter"),
        Border::Scheduler => {}
    }
    tracepoints
}

pub(super) fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint> {
    ebpf.program_mut(name)
        .ok_or_else(|| anyhow!("the eBPF object has no program {name}"))?
        .try_into()
        .with_context(|| format!("the eBPF object's {name} is not a BTF tracepoint"))
}

pub(super) fn take(ebpf: &mut Ebpf, name: &str) -> Result<Map> {
    ebpf.take_map(name).ok_or_else(|| anyhow!("the eBPF object has no map {name}"))
}
