//! Running `sysbench` and reading what it says about its run.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::{process::run, server::Server};

/// What `sysbench` counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Transactions.
    pub transactions: u64,
    /// Transactions rolled back and tried again.
    pub ignored_errors: u64,
    /// Queries.
    pub queries: u64,
}

impl Outcome {
    /// Reads the report on its standard output.
    pub fn parse(report: &str) -> Result<Outcome> {
        let field = |name: &str| -> Result<u64> {
            let line = report.lines().find_map(|line| line.trim().strip_prefix(name));
            let first = line.and_then(|line| line.split_whitespace().next());
            let first = first.with_context(|| format!("no {name:?} in {report}"))?;
            first.parse().with_context(|| first.to_owned())
        };
        Ok(Outcome {
            transactions: field("transactions:")?,
            ignored_errors: field("ignored errors:")?,
            queries: field("queries:")?,
        })
    }
}

/// Whether `sysbench` is installed with its PostgreSQL driver.
pub fn is_installed() -> bool {
    Path::new("/usr/bin/sysbench").exists() || run(Command::new("sysbench").arg("--version")).is_ok()
}

/// Runs `sysbench WORKLOAD … COMMAND`.
pub fn sysbench(server: &Server, workload: &str, arguments: &[&str]) -> Result<String> {
    run(Command::new("sysbench")
        .arg(workload)
        .arg("--db-driver=pgsql")
        .arg(format!("--pgsql-host={}", server.directory().display()))
        .arg(format!("--pgsql-port={}", server.port()))
        .args(["--pgsql-user=postgres", "--pgsql-db=postgres"])
        .args(arguments))
}
