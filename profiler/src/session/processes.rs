//! What each of the server's processes did between two instants.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use profiler_common::{
    backend::Backend, bucket::BUCKET_SLOTS, ledger::EventCharge, process::of_event_key, totals::EventTotals,
};

use super::attachment::Attachment;
use crate::{
    model::build::{ProcessSample, TypeSample},
    probe::lives::Look,
    target::procfs,
};

/// Time by bucket since the process is followed, ns.
pub(super) type Life = [u64; BUCKET_SLOTS];

/// The type whose processes run transactions.
pub(super) const CLIENT_BACKEND: &str = "client backend";

/// What all processes did up to an instant.
pub(super) struct Lives {
    /// Each process', ended ones until their slot is used again.
    by_pid: HashMap<u32, Life>,
    /// The sums by type, exact whoever ended.
    by_type: BTreeMap<Option<String>, TypeLives>,
    /// Whether nothing was counted twice or missed.
    pub is_whole: bool,
}

/// What all processes of a type did.
#[derive(Default)]
struct TypeLives {
    n_living: u64,
    n_ended: u64,
    life: Life,
    events: HashMap<u32, EventTotals>,
}

impl Lives {
    /// Time by bucket of all client backends there ever were.
    pub fn of_clients(&self) -> Life {
        self.by_type.get(&Some(CLIENT_BACKEND.to_owned())).map(|lives| lives.life).unwrap_or_default()
    }

    /// What the processes of each type did since an earlier look.
    pub fn types_since(&self, earlier: &Lives) -> Vec<TypeSample> {
        let none = TypeLives::default();
        let types = self.by_type.iter().map(|(name, now)| {
            let then = earlier.by_type.get(name).unwrap_or(&none);
            TypeSample {
                backend_type: name.clone(),
                n: now.n_living + now.n_ended.saturating_sub(then.n_ended),
                buckets: since(&now.life, &then.life),
                events: events_since(&now.events, &then.events),
                work: Vec::new(),
            }
        });
        types.filter(|sample| sample.n != 0).collect()
    }

    /// What each process did since an earlier look, as far as its slot is still there.
    pub fn pids_since(&self, earlier: &Lives, types: &HashMap<u32, Option<String>>) -> Vec<ProcessSample> {
        let samples = self.by_pid.iter().map(|(pid, life)| ProcessSample {
            pid: *pid,
            backend_type: types.get(pid).cloned().flatten(),
            buckets: earlier.by_pid.get(pid).map_or(*life, |then| since(life, then)),
        });
        let mut samples: Vec<ProcessSample> =
            samples.filter(|sample| sample.buckets.iter().any(|ns| *ns != 0)).collect();
        samples.sort_by_key(|sample| sample.pid);
        samples
    }
}

/// A later life without an earlier one. What a process waits for is charged when it is over, and may then turn out to
/// have been something else by microseconds: a bucket never shrinks.
pub(super) fn since(now: &Life, then: &Life) -> Life {
    std::array::from_fn(|bucket| now[bucket].saturating_sub(then[bucket]))
}

fn events_since(
    now: &HashMap<u32, EventTotals>,
    then: &HashMap<u32, EventTotals>,
) -> Vec<(u32, EventTotals)> {
    let mut events: Vec<(u32, EventTotals)> = now
        .iter()
        .map(|(event, now)| {
            let then = then.get(event).copied().unwrap_or_default();
            let totals = EventTotals {
                waits: now.waits.saturating_sub(then.waits),
                blocked_ns: now.blocked_ns.saturating_sub(then.blocked_ns),
                run_queue_ns: now.run_queue_ns.saturating_sub(then.run_queue_ns),
            };
            (*event, totals)
        })
        .filter(|(_, totals)| totals.blocked_ns != 0)
        .collect();
    events.sort_by_key(|(event, _)| *event);
    events
}

impl TypeLives {
    fn add_event(&mut self, charge: &EventCharge) {
        let sum = self.events.entry(charge.event).or_default();
        sum.waits += u64::from(charge.waits);
        sum.blocked_ns += charge.blocked_ns;
        sum.run_queue_ns += charge.run_queue_ns;
    }

    fn add_life(&mut self, life: &Life) {
        self.life.iter_mut().zip(life).for_each(|(sum, ns)| *sum += ns);
    }
}

impl Attachment {
    /// Sums up a look at all processes, up to `now_ns`, what they are doing included.
    pub(super) fn lives(&self, look: &Look, now_ns: u64) -> Lives {
        let mut by_type: BTreeMap<Option<String>, TypeLives> = BTreeMap::new();
        for (number, ended) in (0..).zip(&look.ended).filter(|(_, ended)| ended.n != 0) {
            let lives = by_type.entry(self.type_name(number)).or_default();
            lives.n_ended += ended.n;
            lives.add_life(&ended.life);
        }
        for (key, totals) in look.events.iter().flatten() {
            let (number, event) = of_event_key(*key);
            let lives = by_type.entry(self.type_name(number)).or_default();
            let sum = lives.events.entry(event).or_default();
            sum.waits += totals.waits;
            sum.blocked_ns += totals.blocked_ns;
            sum.run_queue_ns += totals.run_queue_ns;
        }
        // Of two processes with one number the living one comes last.
        let mut by_pid: HashMap<u32, Life> =
            look.remains.iter().map(|backend| (backend.pid, backend.ledger.life)).collect();
        for backend in &look.backends {
            let life = backend.ledger.life_at(now_ns);
            by_pid.insert(backend.pid, life);
            let lives = by_type.entry(self.type_of(backend)).or_default();
            lives.n_living += 1;
            lives.add_life(&life);
            if look.events.is_some() && backend.backend_type != self.cluster.layout.type_client_backend {
                let n_events = backend.ledger.n_events as usize;
                backend.ledger.events.iter().take(n_events).for_each(|charge| lives.add_event(charge));
                backend.ledger.open_wait(now_ns).iter().for_each(|charge| lives.add_event(charge));
            }
        }
        Lives { by_pid, by_type, is_whole: look.is_whole }
    }

    /// A process' type as far as it is known.
    pub(super) fn type_of(&self, backend: &Backend) -> Option<String> {
        self.type_name(backend.backend_type).or_else(|| self.types.get(&backend.pid).cloned().flatten())
    }

    /// Zero is no type: the process has not said what it is.
    fn type_name(&self, number: u32) -> Option<String> {
        self.cluster.layout.backend_type_name(number).filter(|_| number != 0).map(str::to_owned)
    }

    /// Asks for the type of processes that have none yet.
    pub(super) fn learn_types(&mut self, look: &Look) {
        for backend in look.backends.iter().chain(&look.remains) {
            let pid = backend.pid;
            if self.types.get(&pid).is_some_and(Option::is_some) {
                continue;
            }
            let asked = || self.cluster.backend_type_of(pid).ok().flatten().map(str::to_owned);
            let name = self.type_name(backend.backend_type).or_else(asked).or_else(|| logger(pid));
            self.types.insert(pid, name);
        }
    }

    /// A look at all processes, with the types learned that were not known.
    pub(super) fn look(&mut self, events: bool) -> Result<Look> {
        let look = self.probes.look(events)?;
        self.learn_types(&look);
        Ok(look)
    }
}

/// The one process that has no status entry; its title names it.
fn logger(pid: u32) -> Option<String> {
    let title = procfs::title(pid)?;
    title.ends_with(" logger").then(|| "logger".to_owned())
}
