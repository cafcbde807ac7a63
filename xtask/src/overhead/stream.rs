//! One pgbench that runs through a whole series of measurements, read second by second.
//!
//! Runs of their own would each pay for new connections and caches, and differ by more than an observer costs.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::cpu::{self, Reading};
use super::summary::Run;
use crate::cluster::Cluster;
use crate::interrupt;

/// pgbench ends by itself where nobody is left to end it, seconds.
const LONGEST_S: &str = "7200";
/// The longest between two of its lines, which come once a second.
const PATIENCE: Duration = Duration::from_secs(15);

/// A running pgbench; dropping it ends it.
pub struct Stream {
    pgbench: Child,
    lines: Receiver<String>,
    postmaster: u32,
    said: Vec<String>,
}

impl Stream {
    /// Starts pgbench with these arguments and lets it run for a while.
    ///
    /// # Errors
    /// When it does not start, or ends.
    pub fn start(cluster: &Cluster, arguments: &[&str], clients: u32, warm_up_s: u64) -> Result<Self> {
        let postmaster = cluster.pid().context("the server has been stopped")?;
        let mut command = cluster.pgbench(arguments);
        command.args(["--no-vacuum", "--jobs", "2", "--progress", "1", "--time", LONGEST_S]);
        command.args(["--client", &clients.to_string()]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut pgbench = interrupt::spawn(&mut command, libc::SIGTERM, true)?;
        let stderr = pgbench.stderr.take().context("pgbench has no standard error")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut stream = Self { pgbench, lines, postmaster, said: Vec::new() };
        for _ in 0..warm_up_s {
            stream.second()?;
        }
        Ok(stream)
    }

    /// Measures whole seconds that begin after now; `observer` is the process whose CPU time is wanted too.
    ///
    /// # Errors
    /// When pgbench or the server ends, and when interrupted.
    pub fn window(&mut self, seconds: u64, observer: Option<u32>) -> Result<Run> {
        // What is waiting is the past, and the second that has begun began before.
        while self.lines.try_recv().is_ok() {}
        self.second()?;
        let server = Reading::of_server(self.postmaster)?;
        let observer_before = observer.map(cpu::of_process).transpose()?;
        let mut rates = Vec::new();
        for _ in 0..seconds {
            rates.push(self.second()?);
        }
        let server_cpu = server.until_now()?;
        let observer_after = observer.map(cpu::of_process).transpose()?;
        let n: f64 = rates.iter().sum();
        Ok(Run {
            tps: n / seconds as f64,
            transactions: n.round() as u64,
            server_cpu,
            observer_cpu: observer_after
                .zip(observer_before)
                .map(|(after, before)| after.saturating_sub(before)),
        })
    }

    /// Transactions of the next second.
    fn second(&mut self) -> Result<f64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            interrupt::check()?;
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => match rate(&line) {
                    Some(rate) => return Ok(rate),
                    None => self.said.push(line),
                },
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => bail!("pgbench reports no more progress; it said: {}", self.said.join("; ")),
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        interrupt::stop(&mut self.pgbench, libc::SIGINT);
    }
}

/// The rate in `progress: 3.0 s, 41234.5 tps, lat 0.193 ms stddev 0.1, 0 failed`.
fn rate(line: &str) -> Option<f64> {
    line.strip_prefix("progress: ")?.split(", ").nth(1)?.strip_suffix(" tps")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_progress() {
        assert_eq!(rate("progress: 3.0 s, 41234.5 tps, lat 0.193 ms stddev 0.1, 0 failed"), Some(41234.5));
        assert_eq!(rate("pgbench (15.18)"), None);
        assert_eq!(rate("progress: 3.0 s"), None);
    }
}
