//! Taking up backends that were there before the probes.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use profiler_common::backend::{Backend, NOT_A_CLIENT, UNSEEN};

use super::attach::Probes;

/// What is known of a process that was asleep when it was taken up.
#[derive(Clone, Copy, Debug)]
pub struct Asleep {
    /// Its run-queue clock, ns.
    pub run_delay_ns: u64,
    /// Dense index of the event it waits for.
    pub event: u32,
    /// Bucket of that event.
    pub bucket: u32,
    /// Its local transaction counter, if it is a client backend between two transactions.
    pub idle_at: Option<u32>,
}

/// The server's number for a process' type.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The number.
    pub backend_type: u32,
    /// Whether it is a client backend's.
    pub is_client: bool,
}

impl Probes {
    /// Follows a running process from now on. `false`: it was already followed, or no slot is free.
    ///
    /// A process forked meanwhile has its slot from the fork probe, whose store came before the process could be
    /// listed: the exchange below then fails and the slot goes back.
    pub fn enrol(
        &mut self,
        pid: u32,
        now_ns: u64,
        kind: Option<Kind>,
        asleep: Option<Asleep>,
    ) -> Result<bool> {
        if self.slot_by_pid.value(pid as usize) != 0 {
            return Ok(false);
        }
        let Ok(slot) = self.free_slots.pop(0) else { return Ok(false) };
        let mut backend = Backend::default();
        backend.begin_unseen(pid, now_ns);
        if let Some(Asleep { run_delay_ns, event, bucket, idle_at }) = asleep {
            backend.begin_asleep(event, bucket, run_delay_ns, idle_at);
        }
        // What it does is then counted for its type even if it never sleeps where the probes could ask.
        if let Some(Kind { backend_type, is_client }) = kind {
            backend.backend_type = backend_type;
            if !is_client {
                backend.phase = NOT_A_CLIENT;
            }
        }
        let not_there = "the queue of free slots names a slot that is not there";
        self.backends.write(slot as usize, backend).context(not_there)?;
        let taken = self.slot_by_pid.cell(pid as usize).is_some_and(|cell| {
            cell.compare_exchange(0, slot as u16, Ordering::AcqRel, Ordering::Acquire).is_ok()
        });
        if !taken {
            self.backends.write(slot as usize, Backend::default());
            self.free_slots.push(slot, 0)?;
        }
        Ok(taken)
    }

    /// Takes back what was believed of a process: its current unit began unseen. One 32-bit store, so that it cannot
    /// tear what the kernel may be writing beside it.
    pub fn mark_unseen(&self, pid: u32) {
        let slot = self.slot_by_pid.value(pid as usize);
        let Some(backend) = self.backends.at(slot.into()).filter(|_| slot != 0) else { return };
        // SAFETY: the slot lies in the mapping and `phase` in the slot.
        let phase = unsafe { &raw mut (*backend.as_ptr()).phase };
        // SAFETY: aligned, and the mapping outlives the reference.
        let phase = unsafe { AtomicU32::from_ptr(phase) };
        phase.store(UNSEEN, Ordering::Release);
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

    /// Every slot that is or was in use, with its number. Ended backends have phase
    /// [`FREE`](profiler_common::backend::FREE) and keep their pid until the slot is used again.
    pub fn backends(&self) -> impl Iterator<Item = (usize, Backend)> + '_ {
        (1..self.backends.len())
            .filter_map(|slot| self.backends.read(slot).map(|backend| (slot, backend)))
            .filter(|(_, backend)| backend.pid != 0)
    }
}
