//! Taking up backends that were there before the probes.

use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use profiler_common::backend::{Backend, FREE};

use super::attach::Probes;

impl Probes {
    /// Follows a running process from now on. `false`: it was already followed, or no slot is free.
    ///
    /// A process forked meanwhile has its slot from the fork probe, whose store came before the process could be
    /// listed: the exchange below then fails and the slot goes back.
    pub fn enrol(&mut self, pid: u32, now_ns: u64) -> Result<bool> {
        if self.slot_by_pid.value(pid as usize) != 0 {
            return Ok(false);
        }
        let Ok(slot) = self.free_slots.pop(0) else { return Ok(false) };
        let mut backend = Backend::default();
        backend.begin_unseen(pid, now_ns);
        self.backends
            .write(slot as usize, backend)
            .context("the queue of free slots names a slot that is not there")?;
        let taken = self.slot_by_pid.cell(pid as usize).is_some_and(|cell| {
            cell.compare_exchange(0, slot as u16, Ordering::AcqRel, Ordering::Acquire).is_ok()
        });
        if !taken {
            self.backends.write(slot as usize, Backend::default());
            self.free_slots.push(slot, 0)?;
        }
        Ok(taken)
    }

    /// Lets go of a process that ended between being listed and being enrolled.
    pub fn dismiss(&mut self, pid: u32) -> Result<()> {
        let Some(cell) = self.slot_by_pid.cell(pid as usize) else { return Ok(()) };
        let slot = cell.swap(0, Ordering::AcqRel);
        if slot != 0 {
            self.backends.write(slot.into(), Backend::default());
            self.free_slots.push(u32::from(slot), 0)?;
        }
        Ok(())
    }

    /// Every slot that is or was in use, with its number; ended backends have phase [`FREE`] and keep their pid until
    /// the slot is used again.
    pub fn backends(&self) -> impl Iterator<Item = (usize, Backend)> + '_ {
        (1..self.backends.len())
            .filter_map(|slot| self.backends.read(slot).map(|backend| (slot, backend)))
            .filter(|(_, backend)| backend.pid != 0)
    }

    /// Number of backends followed at the moment.
    pub fn n_followed(&self) -> usize {
        self.backends().filter(|(_, backend)| backend.phase != FREE).count()
    }
}
