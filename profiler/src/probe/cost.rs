//! The probes' own price, from the kernel's BPF run-time statistics.
//!
//! The statistics cost two clock reads per program run themselves, so they are switched on for slices of the window
//! only. The switch is a file descriptor: they are off again when it closes, however the process ends.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result};
use aya::sys::{Stats, enable_stats};

use super::attach::Probes;

/// Runs and time of one program while the statistics were on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramCost {
    /// How often it ran.
    pub runs: u64,
    /// Σ time inside it, ns. Entering and leaving the program is not included.
    pub run_ns: u64,
}

/// Keeps the kernel's BPF statistics switched on.
pub struct Statistics {
    _switch: OwnedFd,
}

impl Statistics {
    /// Switches the statistics on (kernel 5.8 and later).
    pub fn on() -> Result<Statistics> {
        Ok(Statistics {
            _switch: enable_stats(Stats::RunTime).context("cannot switch the BPF statistics on")?,
        })
    }
}

impl Probes {
    /// What each attached program has cost so far, by name.
    pub fn program_costs(&self) -> Result<BTreeMap<String, ProgramCost>> {
        let mut costs = BTreeMap::new();
        for (name, program) in self.ebpf.programs() {
            if program.fd().is_err() {
                continue;
            }
            let info =
                program.info().with_context(|| format!("cannot ask the kernel about program {name}"))?;
            let run_ns = u64::try_from(info.run_time().as_nanos()).unwrap_or(u64::MAX);
            costs.insert(name.to_owned(), ProgramCost { runs: info.run_count(), run_ns });
        }
        Ok(costs)
    }

    /// How often each attached program was skipped so far: the kernel does not let a program interrupt itself on a CPU, and
    /// completions come in interrupts of several kinds. Empty where the kernel does not count it (before 5.12).
    pub fn skipped(&self) -> BTreeMap<String, u64> {
        let skipped = self.ebpf.programs().filter_map(|(name, program)| {
            let fd = program.fd().ok()?.as_fd().as_raw_fd();
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
            let count = info.lines().find_map(|line| line.strip_prefix("recursion_misses:"))?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        });
        skipped.collect()
    }

    /// How many instructions the verifier walked for each program, where the kernel tells (5.16 and later).
    pub fn verified_instructions(&self) -> BTreeMap<String, u32> {
        self.ebpf
            .programs()
            .filter_map(|(name, program)| {
                let count = program.info().ok()?.verified_instruction_count()?;
                Some((name.to_owned(), count))
            })
            .collect()
    }
}
