//! The programs' own log, in builds with the feature `debug-probes` only: one line per border on standard error. Such a
//! build is for finding out what the programs see; it is far too slow to measure anything with.

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya_log::EbpfLogger;

/// Prints the log on standard error.
pub(super) struct Stderr;

/// The log of the loaded programs.
pub(super) type ProbeLog = EbpfLogger<Stderr>;

/// Finds the programs' log.
pub(super) fn init(ebpf: &mut Ebpf) -> Result<ProbeLog> {
    EbpfLogger::init_with_logger(ebpf, Stderr).context("cannot read the programs' log")
}

impl log::Log for Stderr {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("probe: {}", record.args());
    }

    fn flush(&self) {}
}
