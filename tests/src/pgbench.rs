//! Running `pgbench` and reading what it says about its run.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{builds::Build, process::Owned, process::run, server::Server};

/// What `pgbench` measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Transactions (script runs) it completed.
    pub transactions: u64,
    /// Mean latency as the client saw it, ns; without think times.
    pub latency_ns: f64,
    /// Script runs per second, connection times excluded.
    pub tps: f64,
}

impl Outcome {
    /// Reads the report on its standard output.
    pub fn parse(report: &str) -> Result<Outcome> {
        let field = |name: &str| {
            let line = report.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim).with_context(|| format!("no {name:?} in {report}"))
        };
        // "number of transactions actually processed: 2000/2000", or without the slash for a timed run
        let processed = field("number of transactions actually processed:")?;
        let processed = processed.split('/').next().unwrap_or(processed);
        let latency = field("latency average =")?;
        let tps = field("tps =")?;
        let number = |text: &str| -> Result<f64> {
            let first = text.split_whitespace().next().unwrap_or_default();
            first.parse().with_context(|| text.to_owned())
        };
        Ok(Outcome {
            transactions: processed.trim().parse().with_context(|| processed.to_owned())?,
            latency_ns: number(latency)? * 1e6,
            tps: number(tps)?,
        })
    }
}

fn command(server: &Server) -> Result<Command> {
    let mut command = Command::new(Build::installed()?.program("pgbench"));
    server.reach(&mut command);
    Ok(command)
}

/// Makes the tables.
pub fn initialise(server: &Server, scale: u32) -> Result<()> {
    run(command(server)?.args(["-i", "-q", "-s"]).arg(scale.to_string()))?;
    Ok(())
}

/// Runs `pgbench` to its end.
pub fn bench<S: AsRef<OsStr>>(server: &Server, arguments: impl IntoIterator<Item = S>) -> Result<Outcome> {
    Outcome::parse(&run(command(server)?.args(arguments))?)
}

/// A `pgbench` in the background.
#[derive(Debug)]
pub struct Running(Owned);

impl Running {
    /// Starts it.
    pub fn start<S: AsRef<OsStr>>(
        server: &Server,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Running> {
        let mut command = command(server)?;
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Owned::spawn(&mut command).map(Running)
    }

    /// Waits for its end; fails if it failed.
    pub fn wait(&mut self, limit: Duration) -> Result<()> {
        let status = self.0.wait(limit)?;
        anyhow::ensure!(status.success(), "pgbench: {status}");
        Ok(())
    }
}
