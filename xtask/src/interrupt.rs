//! Ctrl-C and a polite kill: noticed, so that what was started is stopped in order and nothing stays behind.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::command::shown;

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// From here on the signals that ask a program to end only set a flag, which [`check`] and [`wait`] look at.
pub fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler: extern "C" fn(libc::c_int) = note;
        // SAFETY: the handler only stores to an atomic, which is allowed in a signal handler.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Ends the task where the user asked for it.
///
/// # Errors
/// When a signal has come since [`watch`].
pub fn check() -> Result<()> {
    if ASKED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// Sleeps unless interrupted.
///
/// # Errors
/// When interrupted.
pub fn sleep(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        check()?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Starts a program that is told to stop when this process dies, however it dies. With `apart` it also gets a
/// process group of its own, so that Ctrl-C on the terminal reaches only us.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(command: &mut Command, on_our_death: libc::c_int, apart: bool) -> Result<Child> {
    if apart {
        command.process_group(0);
    }
    let death = move || {
        // SAFETY: a plain system call without pointers, allowed between fork and exec.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, on_our_death as libc::c_ulong) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(death) };
    command.spawn().with_context(|| format!("cannot run {}", shown(command)))
}

/// Waits for a program's end for at most `limit`. Interrupted or late, it is stopped first.
///
/// # Errors
/// When interrupted, and when it was late.
pub fn wait(child: &mut Child, name: &str, limit: Duration) -> Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Err(interrupted) = check() {
            stop(child, libc::SIGINT);
            return Err(interrupted);
        }
        if Instant::now() > deadline {
            stop(child, libc::SIGTERM);
            bail!("{name} did not end within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a program to its end, stopping it when interrupted.
///
/// # Errors
/// When it cannot be started, does not succeed, is late, or we are interrupted.
pub fn run(command: &mut Command, limit: Duration) -> Result<()> {
    let name = shown(command);
    let status = wait(&mut spawn(command, libc::SIGTERM, false)?, &name, limit)?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// Sends a signal to a child that has not been waited for, so its number is still its own.
pub fn signal(child: &Child, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: no pointers; the worst answer is an error, and then there is nothing to signal.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Stops a child: the given signal first, ten seconds later by force. Returns when it is gone.
pub fn stop(child: &mut Child, first: libc::c_int) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    signal(child, first);
    let deadline = Instant::now() + Duration::from_secs(10);
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            signal(child, libc::SIGKILL);
            // Gone for certain now, unless the kernel itself holds it.
            child.wait().ok();
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
