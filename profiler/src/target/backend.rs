//! One server process: what procfs shows of it, and its status entry read from memory. This is what
//! `pg_stat_activity` would say, without asking the server.

use super::{cluster::Cluster, error::TargetError, layout::Layout, memory::Memory, procfs};

/// Attempts at reading an entry while the backend is writing it.
const ATTEMPTS: u32 = 64;

/// Bytes of statement text assumed where the setting cannot be read: its default.
const DEFAULT_TEXT_BYTES: u32 = 1024;

/// Bytes an application's name takes at most, its end included: `NAMEDATALEN`.
const NAME_BYTES: usize = 64;

/// Largest value of `track_activity_query_size`.
const MAX_TEXT_BYTES: u32 = 1 << 20;

/// A child of the postmaster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Process id in this pid namespace.
    pub pid: u32,
    /// Process id in its own pid namespace.
    pub namespaced_pid: u32,
    /// The title it gave itself, if any.
    pub title: Option<String>,
    /// Start time, clock ticks since boot.
    pub start_ticks: u64,
}

/// What a backend is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendState {
    /// Waiting for a command outside a transaction.
    Idle,
    /// Executing.
    Running,
    /// Waiting for a command inside a transaction.
    IdleInTransaction,
    /// The same, and the transaction has failed.
    IdleInTransactionAborted,
    /// Executing a fast-path function call.
    Fastpath,
    /// It does not say: `track_activities` is off.
    Disabled,
    /// A background process, or one that is starting.
    Undefined,
}

/// A backend's status entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStatus {
    /// What it is doing.
    pub state: BackendState,
    /// The server's number for its type.
    pub backend_type_number: u32,
    /// Its type as `pg_stat_activity` shows it.
    pub backend_type: Option<&'static str>,
    /// Oid of its database; 0 = none.
    pub database_oid: u32,
    /// Oid of its role; 0 = none.
    pub role_oid: u32,
    /// Whether a transaction is open.
    pub in_transaction: bool,
    /// When it began, µs since 2000-01-01 00:00 UTC by the server's clock.
    pub transaction_start_us: Option<i64>,
    /// Query identifier; `None` where the server computes none.
    pub query_id: Option<u64>,
    /// What the client calls itself; `None` if it does not.
    pub application: Option<String>,
    /// The statement being executed, or the last one; cut at the server's `track_activity_query_size`.
    pub text: Option<String>,
}

/// Reads a process from procfs; `None` if it has ended.
pub(super) fn read(pid: u32, own_pid_namespace: bool) -> Option<Backend> {
    let stat = procfs::stat(pid)?;
    let namespaced_pid = if own_pid_namespace { procfs::namespaced_pid(pid)? } else { pid };
    Some(Backend { pid, namespaced_pid, title: procfs::title(pid), start_ticks: stat.start_ticks })
}

/// Reads a process' status entry.
pub(super) fn status(cluster: &Cluster, pid: u32) -> Result<Option<BackendStatus>, TargetError> {
    let memory = Memory::open(pid).map_err(|source| TargetError::reading(pid, "memory", source))?;
    read_status(cluster, &memory).map_err(|(address, source)| match source.kind() {
        // The address space of a process that has ended reads as empty.
        std::io::ErrorKind::UnexpectedEof => TargetError::Gone { pid },
        _ => TargetError::Memory { pid, address, source },
    })
}

type Failure = (u64, std::io::Error);

fn read_status(cluster: &Cluster, memory: &Memory) -> Result<Option<BackendStatus>, Failure> {
    let u64_at = |address| memory.u64(address).map_err(|error| (address, error));
    let u32_at = |address| memory.u32(address).map_err(|error| (address, error));
    let layout = cluster.layout;
    let entry = u64_at(cluster.symbols.my_be_entry)?;
    if entry == 0 {
        return Ok(None);
    }
    let at = |offset: u32| entry + u64::from(offset);
    for _ in 0..ATTEMPTS {
        let before = u32_at(at(layout.st_changecount))?;
        if u32_at(at(layout.st_procpid))? == 0 {
            return Ok(None);
        }
        let kind = u32_at(at(layout.st_backend_type))?;
        let query_id = u64_at(at(layout.st_query_id))?;
        let text = u64_at(at(layout.st_activity_raw))?;
        let transaction_start = u64_at(at(layout.st_xact_start_timestamp))?;
        let found = BackendStatus {
            state: state(layout, u32_at(at(layout.st_state))?),
            backend_type_number: kind,
            backend_type: layout.backend_type_name(kind),
            database_oid: u32_at(at(layout.st_databaseid))?,
            role_oid: u32_at(at(layout.st_userid))?,
            in_transaction: transaction_start != 0,
            transaction_start_us: (transaction_start != 0).then_some(transaction_start.cast_signed()),
            query_id: (query_id != 0).then_some(query_id),
            application: application(memory, u64_at(at(layout.st_appname))?),
            text: statement(cluster, memory, text)?,
        };
        if before % 2 == 0 && u32_at(at(layout.st_changecount))? == before {
            return Ok(Some(found));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

fn application(memory: &Memory, address: u64) -> Option<String> {
    let name = memory.text(address, NAME_BYTES).ok().filter(|_| address != 0);
    name.filter(|name| !name.is_empty())
}

fn statement(cluster: &Cluster, memory: &Memory, address: u64) -> Result<Option<String>, Failure> {
    if address == 0 {
        return Ok(None);
    }
    let setting = cluster.symbols.track_activity_query_size.and_then(|address| memory.u32(address).ok());
    let most = setting.unwrap_or(DEFAULT_TEXT_BYTES).min(MAX_TEXT_BYTES);
    let text = memory.text(address, most as usize).map_err(|error| (address, error))?;
    Ok((!text.is_empty()).then_some(text))
}

fn state(layout: &Layout, value: u32) -> BackendState {
    match value {
        _ if value == layout.state_idle => BackendState::Idle,
        _ if value == layout.state_running => BackendState::Running,
        _ if value == layout.state_idle_in_transaction => BackendState::IdleInTransaction,
        _ if value == layout.state_idle_in_transaction_aborted => BackendState::IdleInTransactionAborted,
        _ if value == layout.state_fastpath => BackendState::Fastpath,
        _ if value == layout.state_disabled => BackendState::Disabled,
        _ => BackendState::Undefined,
    }
}
