//! Why a server that was found cannot be read.

use std::{io, path::PathBuf};

use super::{counter::CounterError, layout::LayoutError};

/// What looking into a process takes. A machine's own supervisor may be closed to root as well.
pub(super) const ACCESS: &str = "root or CAP_SYS_PTRACE is needed (run it with sudo); to root only a security module or \
                                 another user namespace denies it (see dmesg)";

/// Why a server that was found cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Another major version than those whose layout is known.
    #[error(
        "the server with process id {pid} in {} is PostgreSQL {found}: 14 to 18 are supported",
        data_directory.display()
    )]
    UnsupportedVersion {
        /// The postmaster.
        pid: u32,
        /// What `PG_VERSION` says.
        found: String,
        /// Its data directory.
        data_directory: PathBuf,
    },
    /// A process ended meanwhile.
    #[error("process {pid} has ended")]
    Gone {
        /// The process.
        pid: u32,
    },
    /// Something of a process could not be read.
    #[error("{what} of process {pid} could not be read: {}", ACCESS)]
    Denied {
        /// The process.
        pid: u32,
        /// What was to be read.
        what: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The executable is not one that can be decoded.
    #[error("the executable {} of process {pid} {reason}", path.display())]
    Binary {
        /// The process.
        pid: u32,
        /// The executable as its process sees it.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A symbol is not exported.
    #[error(
        "the executable {} does not export {symbol}: every PostgreSQL from 14 on does, so this is another program \
         or a vendor's build that hides its symbols (check: nm -D {} | grep {symbol})",
        path.display(), path.display()
    )]
    SymbolMissing {
        /// The executable as its process sees it.
        path: PathBuf,
        /// The symbol.
        symbol: &'static str,
    },
    /// The transaction counter's address cannot be told.
    #[error("local transaction counter not found in {}", path.display())]
    Counter {
        /// The executable as its process sees it.
        path: PathBuf,
        /// Why.
        #[source]
        source: CounterError,
    },
    /// The data file lacks a fact.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The server's memory does not look as this version's should.
    #[error("unknown memory layout (fork or vendor build?) of the server with process id {pid}: {reason}")]
    UnknownLayout {
        /// The postmaster.
        pid: u32,
        /// What was found where something else was expected.
        reason: String,
    },
    /// No server process could be read to verify the layout.
    #[error(
        "the server with process id {pid} has no process with a status entry yet: it is still starting up, try again"
    )]
    NotReady {
        /// The postmaster.
        pid: u32,
    },
    /// Memory at a known address could not be read.
    #[error("memory of process {pid} at {address:#x} could not be read")]
    Memory {
        /// The process.
        pid: u32,
        /// Address in that process.
        address: u64,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl TargetError {
    /// Turns a failed read of something belonging to a process into its error.
    pub(super) fn reading(pid: u32, what: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => TargetError::Gone { pid },
            _ if source.raw_os_error() == Some(libc::ESRCH) => TargetError::Gone { pid },
            _ => TargetError::Denied { pid, what, source },
        }
    }
}
