//! The eBPF side as seen from userspace: load, attach, enrol, read, detach. The only module that knows aya.

pub mod attach;
pub mod block;
pub mod cost;
pub mod enrol;
mod flushes;
pub mod lives;
#[cfg(feature = "debug-probes")]
mod log;
pub mod mapped;
pub mod plan;
pub mod read;

pub use attach::Probes;
pub use block::BlockPlan;
pub use plan::{Border, Plan};
