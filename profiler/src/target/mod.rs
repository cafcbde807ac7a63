//! The server to attach to: found through procfs, identified by its lock file, read from its binary and its memory.
//! Nothing is written and no SQL is sent. Works across pid and mount namespaces: every file is reached through
//! `/proc/PID`, and process numbers are translated where the server prints its own.

pub mod backend;
pub mod binary;
pub mod cluster;
pub mod counter;
mod counter_aarch64;
mod counter_x86;
pub mod discover;
pub mod error;
pub mod layout;
pub mod memory;
pub mod procfs;
pub mod select;
pub mod wal;

pub use backend::{Backend, BackendState, BackendStatus};
pub use cluster::{Cluster, Version};
pub use discover::{Discovery, Postmaster};
pub use error::TargetError;
pub use layout::Layout;
pub use memory::Memory;
pub use select::{SelectError, Selector, select};
pub use wal::WalSettings;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
pub(crate) mod server;
