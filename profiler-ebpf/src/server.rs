//! The only place that reads the server's memory: always the current task's own, and read-only.

use aya_ebpf::helpers::bpf_probe_read_user;
use profiler_common::{
    backend::{Backend, IDLE_OR_FIRST, IN_UNIT, NOT_A_CLIENT},
    ledger::LossCounter,
    loss::Loss,
};

use crate::{
    config::{
        LOCAL_TRANSACTION_COUNTER, PROCESS_ID, STATUS_BACKEND_TYPE, STATUS_DATABASE, STATUS_POINTER,
        STATUS_PROCESS_ID, STATUS_ROLE, STATUS_STATE, TYPE_CLIENT_BACKEND, WAIT_EVENT_POINTER,
    },
    maps::Losses,
};

/// A value at an address of the current task.
#[inline(always)]
pub fn read<T>(address: u64) -> Option<T> {
    // SAFETY: the helper copies with page faults off and fails on anything unreadable.
    unsafe { bpf_probe_read_user(address as *const T) }.ok()
}

/// `*my_wait_event_info`. The pointer moves twice in a backend's life: it points at a private word before `InitProcess`
/// and after `ProcKill`. A client backend that has answered a request is between the two until it ends, so from then on
/// it is kept.
#[inline(always)]
pub fn wait_event_info(backend: &mut Backend) -> Option<u32> {
    if backend.wait_word != 0 {
        return read(backend.wait_word);
    }
    let word: u64 = read(WAIT_EVENT_POINTER.load())?;
    if backend.phase == IDLE_OR_FIRST || backend.phase == IN_UNIT {
        backend.wait_word = word;
    }
    read(word)
}

/// The backend's `st_state`, if its status entry is its own by now.
#[inline(always)]
pub fn state(backend: &mut Backend) -> Option<u32> {
    if backend.status == 0 && !resolve_status(backend) {
        return None;
    }
    let state = read(backend.status + STATUS_STATE.load() as u64);
    if state.is_none() {
        Losses.count(Loss::StatusUnreadable);
    }
    state
}

/// Finds the backend's status entry. Before `pgstat_bestart` the entry still holds what its last owner left there,
/// an idle state included: it counts only once it carries the backend's own pid.
#[inline(always)]
pub fn resolve_status(backend: &mut Backend) -> bool {
    let Some(status) = read::<u64>(STATUS_POINTER.load()) else { return false };
    if status == 0 {
        return false;
    }
    let owner: Option<u32> = read(status + STATUS_PROCESS_ID.load() as u64);
    let own: Option<u32> = read(PROCESS_ID.load());
    if owner.is_none() || owner != own {
        return false;
    }
    let Some(backend_type) = read::<u32>(status + STATUS_BACKEND_TYPE.load() as u64) else { return false };
    backend.status = status;
    backend.backend_type = backend_type;
    read_owner(backend);
    if backend_type != TYPE_CLIENT_BACKEND.load() {
        backend.phase = NOT_A_CLIENT;
    }
    true
}

/// Reads the oids of the backend's database and role, which the server fills in some time after the entry is its own.
#[inline(always)]
pub fn read_owner(backend: &mut Backend) {
    backend.database = read(backend.status + STATUS_DATABASE.load() as u64).unwrap_or(0);
    backend.role = read(backend.status + STATUS_ROLE.load() as u64).unwrap_or(0);
}

/// The backend's next local transaction id: how many transactions it has begun, plus one.
#[inline(always)]
pub fn local_transactions() -> Option<u32> {
    let counter = read(LOCAL_TRANSACTION_COUNTER.load());
    if counter.is_none() {
        Losses.count(Loss::CounterUnreadable);
    }
    counter
}
