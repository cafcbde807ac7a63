//! Running `fio` and reading what it measured: an observer of a device that is neither the kernel nor the volume.

use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{gate, process::run};

/// What `fio` measured of one kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Requests completed.
    pub count: u64,
    /// From submission to completion, mean, ns.
    pub latency_ns: f64,
}

impl Outcome {
    /// Reads one kind, `read` or `write`, of its JSON report.
    pub fn parse(report: &str, kind: &str) -> Result<Outcome> {
        // Warnings may stand before the document.
        let start = report.find('{').with_context(|| format!("no JSON: {report:.300}"))?;
        let report: Value = serde_json::from_str(&report[start..]).context("fio's report")?;
        let own = report.pointer(&format!("/jobs/0/{kind}")).with_context(|| format!("no {kind} in it"))?;
        let count = own["total_ios"].as_u64().context("no total_ios")?;
        let latency_ns = own["clat_ns"]["mean"].as_f64().context("no clat_ns")?;
        Ok(Outcome { count, latency_ns })
    }
}

/// Whether `fio` is there. Prints the reason if not.
pub fn available() -> bool {
    let there = Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        gate::skip("no fio: run `cargo xtask setup --tests`, or `apt-get install fio`");
    }
    there
}

/// Reads random pages of a device at that depth; what it measured of the reads.
pub fn read(device: &str, depth: u32, seconds: u32) -> Result<Outcome> {
    let report = run(Command::new("fio")
        .args(["--name=pgstall", "--rw=randread", "--bs=8k", "--direct=1", "--ioengine=libaio"])
        .args(["--time_based", "--thread", "--output-format=json"])
        .arg(format!("--filename=/dev/{device}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={seconds}")))?;
    Outcome::parse(&report, "read")
}
