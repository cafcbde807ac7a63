//! Child processes that end with their owner.

use std::{
    io,
    process::{Child, Command, ExitStatus, Output},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::poll;

/// Sends a signal to the process.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let raw = i32::try_from(pid).context("a process id beyond i32")?;
    let pid = Pid::from_raw(raw).context("process id 0")?;
    kill_process(pid, signal).with_context(|| format!("signal {signal:?} to {raw}"))
}

/// A child process; killed and reaped when dropped.
#[derive(Debug)]
pub struct Owned {
    child: Child,
    name: String,
}

impl Owned {
    /// Starts the command.
    pub fn spawn(command: &mut Command) -> Result<Owned> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Owned { child, name })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How it ended, or `None` while it runs.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends a signal; a process that has ended already is no error.
    pub fn signal(&mut self, with: Signal) -> Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        signal(self.pid(), with)
    }

    /// Waits for its end, at most for `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {} (pid {})", self.name, self.pid());
        poll::until(&what, limit, || Ok(self.child.try_wait()?))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

/// Runs a command to its end and returns what it printed; fails with its standard error if it failed.
pub fn run(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}
