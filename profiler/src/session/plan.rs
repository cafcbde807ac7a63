//! The load-time facts of a run, collected from the kernel, the server and the table of wait events.

use anyhow::{Context as _, Result, anyhow};
use profiler_common::event::EVENT_SLOTS;

use crate::{
    kernel::{border::BorderSignal, features::Features},
    probe::{BlockPlan, Border, Plan},
    target::{Cluster, WalSettings},
    wait,
};

/// Slots beside those in use when a run begins: connections come and go.
const SPARE_SLOTS: usize = 4096;

/// Slot numbers are 16 bits wide and 0 means none.
const MOST_SLOTS: usize = u16::MAX as usize - 1;

/// Collects the facts; `n_processes` is how many processes the server has now.
pub(super) fn plan(
    features: &Features,
    cluster: &Cluster,
    signal: BorderSignal,
    n_processes: usize,
    wal_settings: WalSettings,
    block: Option<&BlockPlan>,
) -> Result<Plan> {
    let offsets = features.offsets.as_ref().map_err(|error| anyhow!("{error}"))?;
    let pid_max =
        features.pid_max.context("kernel.pid_max could not be read (need /proc/sys/kernel/pid_max)")?;
    let layout = cluster.layout;
    let symbols = &cluster.symbols;
    let slots = (n_processes * 2 + SPARE_SLOTS).min(MOST_SLOTS);
    Ok(Plan {
        task_pid: offsets.task_pid,
        task_state: offsets.task_state,
        task_run_delay: offsets.task_run_delay,
        task_last_arrival: offsets.task_last_arrival,
        registers_syscall: offsets.registers_syscall.unwrap_or(0),
        task_writes: offsets.task_writes,
        state_is_argument: offsets.state_is_argument,
        postmaster_pid: cluster.postmaster_pid(),
        wait_event_pointer: symbols.my_wait_event_info,
        status_pointer: symbols.my_be_entry,
        process_id: symbols.my_proc_pid,
        local_transaction_counter: symbols.local_transaction_counter,
        status_process_id: layout.st_procpid,
        status_backend_type: layout.st_backend_type,
        status_state: layout.st_state,
        status_database: layout.st_databaseid,
        status_role: layout.st_userid,
        status_activity: layout.st_activity_raw,
        status_query_id: layout.st_query_id,
        state_idle: layout.state_idle,
        state_idle_in_transaction: layout.state_idle_in_transaction,
        state_idle_in_transaction_aborted: layout.state_idle_in_transaction_aborted,
        type_client_backend: layout.type_client_backend,
        client_read: client_read(cluster.version.major)?,
        bucket_of_event: wait::charge_table(cluster.version.major, wal_settings.writes_synchronously()),
        border: match signal {
            BorderSignal::SockSendLength => Border::SockSendLength,
            BorderSignal::SysEnterSendto => Border::SysEnterSendto,
            BorderSignal::Scheduler => Border::Scheduler,
        },
        block: block.cloned(),
        pid_max,
        slots: u32::try_from(slots)?,
    })
}

/// Dense index of `Client/ClientRead`.
fn client_read(major: u32) -> Result<u32> {
    (0..EVENT_SLOTS as u32)
        .find(|index| {
            let name = wait::name_of_index(major, *index);
            name.class == "Client" && name.event == "ClientRead"
        })
        .with_context(|| format!("the table of wait events has no Client/ClientRead for PostgreSQL {major}"))
}
