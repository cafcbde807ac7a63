//! The scheduling class of the threads that serve: a volume has no run queue.

use std::io;

use anyhow::{Context as _, Result};

/// Puts the calling thread, and those it starts, before all ordinary ones; where real time is not to be had, at least
/// at the highest nice value.
pub fn come_first() -> Result<()> {
    if schedule(libc::SCHED_FIFO, 1).is_ok() {
        return Ok(());
    }
    rustix::process::setpriority_process(None, -20).context("nice -20")
}

/// Puts the calling thread back among the ordinary ones.
pub fn come_as_usual() -> Result<()> {
    schedule(libc::SCHED_OTHER, 0).context("sched_setscheduler")?;
    rustix::process::setpriority_process(None, 0).context("nice 0")
}

/// The calling thread's scheduling class.
fn schedule(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the call reads the parameter, which outlives it; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
