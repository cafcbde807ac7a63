//! The clocks of a run, and its place among the other processes.

use std::io;

/// `CLOCK_MONOTONIC`, ns: the probes' clock.
pub fn monotonic_ns() -> io::Result<u64> {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of this process, all threads, ns.
pub fn process_cpu_ns() -> io::Result<u64> {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Asks for this process to be run soon after it wakes: it wakes rarely and briefly, and on a saturated host the ring
/// would fill while it queued behind every backend. Without the right to it, nothing changes.
pub fn run_promptly() {
    // SAFETY: plain numbers; 0 is the calling process.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

fn read(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
