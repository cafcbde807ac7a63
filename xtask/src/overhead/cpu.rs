//! CPU time of a whole server, from procfs: the postmaster, its living children, and those it has waited for.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// A server's CPU time at one moment.
pub struct Reading {
    postmaster: u32,
    total: Duration,
}

impl Reading {
    /// Reads it now.
    ///
    /// # Errors
    /// When the postmaster is gone.
    pub fn of_server(postmaster: u32) -> Result<Self> {
        let own = Process::read(postmaster).with_context(|| format!("process {postmaster} is gone"))?;
        let mut ticks = own.own_ticks + own.waited_ticks;
        for entry in fs::read_dir("/proc").context("cannot list /proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // One that ends between the listing and the reading is among the waited-for next time.
            if let Some(process) = Process::read(pid).filter(|process| process.parent == postmaster) {
                ticks += process.own_ticks;
            }
        }
        Ok(Self { postmaster, total: duration(ticks)? })
    }

    /// CPU time used since.
    ///
    /// # Errors
    /// When the postmaster is gone.
    pub fn until_now(&self) -> Result<Duration> {
        Ok(Self::of_server(self.postmaster)?.total.saturating_sub(self.total))
    }
}

/// CPU time of one process so far, its children not included.
///
/// # Errors
/// When it is gone.
pub fn of_process(pid: u32) -> Result<Duration> {
    duration(Process::read(pid).with_context(|| format!("process {pid} is gone"))?.own_ticks)
}

struct Process {
    parent: u32,
    own_ticks: u64,
    waited_ticks: u64,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The name stands in parentheses and may hold any character, parentheses included.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            own_ticks: ticks(11)? + ticks(12)?,
            waited_ticks: ticks(13)? + ticks(14)?,
        })
    }
}

fn duration(ticks: u64) -> Result<Duration> {
    // SAFETY: takes a number and returns one.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second =
        u32::try_from(per_second).ok().filter(|n| *n > 0).context("the kernel names no clock tick")?;
    Ok(Duration::from_secs(ticks) / per_second)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

    use super::*;

    #[test]
    fn fields_are_counted_from_the_last_parenthesis() {
        let stat = "7 (a ) b) S 3 7 7 0 -1 4194560 100 200 0 0 11 12 13 14 20 0 1 0 5";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.parent, process.own_ticks, process.waited_ticks), (3, 23, 27));
        assert!(Process::parse("7 (a) S 3").is_none());
    }

    #[test]
    fn a_waited_childs_time_is_counted() {
        let this = std::process::id();
        let before = Reading::of_server(this).unwrap();
        std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();
        assert!(before.until_now().unwrap() >= Duration::from_millis(50));
    }
}
