//! Where a server's files live: from the data directory, the log and the tablespaces, as the server sees them, down to
//! the block devices that take their requests. Reads procfs and sysfs only; what happens on the devices is not looked
//! at here.

pub mod diskstats;
pub mod ebs;
pub mod mounts;
pub mod namespace;
pub mod resolve;
pub mod sysfs;

pub use resolve::{BlockDevice, Storage, of_server};

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod recorded_tests;
