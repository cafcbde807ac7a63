//! What every process the server has, or had, did since it is followed.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use profiler_common::{
    backend::{Backend, FREE},
    flush::BACKEND_TYPES,
    process::{Ended, Moved},
    totals::EventTotals,
};

use super::attach::Probes;

/// Attempts at a look in which no process ends. A look takes a fraction of a millisecond.
const ATTEMPTS: u32 = 8;

/// Attempts at a copy of a slot that nobody writes to meanwhile.
const COPIES: u32 = 4;

/// One look at all slots, and at what was moved out of them.
pub struct Look {
    /// Slots of living processes.
    pub backends: Vec<Backend>,
    /// Slots that still hold what their process did before it ended, the last few thousand.
    pub remains: Vec<Backend>,
    /// Sums of ended processes by the server's number for the backend type.
    pub ended: [Ended; BACKEND_TYPES],
    /// What was waited for, as far as it was moved out of slots; keys as
    /// [`event_key`](profiler_common::process::event_key) makes them. `None`: not asked for.
    pub events: Option<HashMap<u32, EventTotals>>,
    /// Whether nothing was moved during the look: what was may be counted twice or not at all.
    pub is_whole: bool,
}

impl Probes {
    /// Looks at all processes; with `events` also at the sums by wait event, which take two system calls each.
    pub fn look(&self, events: bool) -> Result<Look> {
        let mut look = self.look_once(events)?;
        for _ in 1..ATTEMPTS {
            if look.is_whole {
                break;
            }
            look = self.look_once(events)?;
        }
        Ok(look)
    }

    fn look_once(&self, events: bool) -> Result<Look> {
        let moved = self.moved()?;
        let mut ended = [Ended { n: 0, life: Default::default() }; BACKEND_TYPES];
        for cpu in &moved {
            for (sum, one) in ended.iter_mut().zip(&cpu.ended) {
                sum.n += one.n;
                sum.life.iter_mut().zip(one.life).for_each(|(sum, ns)| *sum += ns);
            }
        }
        let events = if events { Some(self.moved_events()?) } else { None };
        let (remains, backends) = (1..self.backends.len())
            .filter_map(|slot| self.settled(slot))
            .partition(|backend| backend.phase == FREE);
        let begun = |moved: &[Moved]| moved.iter().map(|cpu| cpu.begun).collect::<Vec<_>>();
        let at_rest = moved.iter().all(|cpu| cpu.begun == cpu.done);
        let is_whole = at_rest && begun(&moved) == begun(&self.moved()?);
        Ok(Look { backends, remains, ended, events, is_whole })
    }

    fn moved(&self) -> Result<Vec<Moved>> {
        Ok(self.moved.get(&0, 0).context("cannot read MOVED")?.to_vec())
    }

    /// A copy of a slot that is or was in use, taken between two writes of the kernel.
    fn settled(&self, slot: usize) -> Option<Backend> {
        let place = self.backends.at(slot)?;
        // SAFETY: the slot lies in the mapping and `pid` in the slot; most slots were never used.
        let pid = unsafe { &raw const (*place.as_ptr()).pid };
        // SAFETY: aligned, and the mapping outlives the read.
        if unsafe { pid.read_volatile() } == 0 {
            return None;
        }
        let mut copy = self.backends.read(slot)?;
        for _ in 0..COPIES {
            let again = self.backends.read(slot)?;
            let same = again.ledger.charged_to_ns == copy.ledger.charged_to_ns
                && again.ledger.life == copy.ledger.life
                && (again.pid, again.phase) == (copy.pid, copy.phase);
            copy = again;
            if same {
                break;
            }
        }
        Some(copy)
    }

    fn moved_events(&self) -> Result<HashMap<u32, EventTotals>> {
        let mut sums = HashMap::new();
        for entry in self.type_events.iter() {
            let (key, cpus) = entry.context("cannot read TYPE_EVENTS")?;
            let sum: &mut EventTotals = sums.entry(key).or_default();
            for cpu in cpus.iter() {
                sum.waits += cpu.waits;
                sum.blocked_ns += cpu.blocked_ns;
                sum.run_queue_ns += cpu.run_queue_ns;
            }
        }
        Ok(sums)
    }
}
