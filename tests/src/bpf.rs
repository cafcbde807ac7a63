//! Which eBPF programs the kernel holds: nothing may be left behind.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use aya::programs::loaded_programs;

/// Ids of every loaded program of the machine.
pub fn program_ids() -> Result<BTreeSet<u32>> {
    loaded_programs()
        .filter_map(|program| match program {
            Ok(info) => Some(Ok(info.id())),
            // One that was unloaded while the list was read is no error.
            Err(_) => None,
        })
        .collect::<Result<_>>()
        .context("list of eBPF programs")
}
