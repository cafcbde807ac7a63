//! Priorities: the volume's threads before everybody else, and a spinner per CPU behind everybody.
//!
//! An idle virtual CPU takes some 50 µs to run a woken thread, a busy one 5 µs. Between the block layer's events and the
//! volume's log lie three such wake-ups (the loop device's worker, the volume's thread, the completion's softirq), so
//! that a CPU that never idles is what makes the two agree.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A spinner per CPU; they stop when this is dropped.
#[derive(Debug)]
pub struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Starts them on the CPUs this process may use.
    pub fn new() -> Result<Awake> {
        let allowed = sched_getaffinity(None).context("sched_getaffinity")?;
        let mut awake = Awake { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            let stop = awake.stop.clone();
            let spin = move || {
                let mut own = CpuSet::new();
                own.set(cpu);
                // On the wrong CPU, or before others, it would harm: then it does nothing at all.
                if sched_setaffinity(None, &own).is_ok() && schedule(libc::SCHED_IDLE, 0).is_ok() {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            };
            let thread = thread::Builder::new().name(format!("awake-{cpu}")).spawn(spin);
            awake.threads.push(thread.context("a thread that keeps a CPU awake")?);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

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
