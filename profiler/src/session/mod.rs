//! One run: attach, watch a window, detach, and make a profile of what was seen. The only module in which the server,
//! the kernel, the probes and the model meet.

mod asleep;
mod attachment;
mod block;
mod clock;
mod course;
mod ebs;
mod error;
mod file_reads;
mod host;
mod openings;
mod options;
mod owner;
mod plan;
mod processes;
mod profile;
mod reading;
mod sampling;
mod wal;
mod watch;
mod work;

pub use attachment::Attachment;
pub use error::SessionError;
pub use options::{BordersWanted, Options};
pub use watch::{Observer, Signal};
