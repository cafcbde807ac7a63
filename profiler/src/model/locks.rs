//! Waits that another process ended: who held what was waited for, and what the holder was doing meanwhile.
//!
//! The kernel's sums say of every wait what its holder did, and are exact. A holder may have waited for another holder
//! itself; the records, one per wait, follow such chains: the part of the holder's time that was a wait recorded before
//! gives way to the causes of that wait. A record comes after those of the waits inside it, so one look back is enough.
//! What the sums say in all is then divided as the records say.

use std::collections::{BTreeMap, HashMap, VecDeque};

use profiler_common::{
    bucket::{BUCKET_SLOTS, Bucket, IDLE},
    event::EVENT_SLOTS,
    held::{HeldRecord, HeldTotals},
    record::{KIND_STATEMENT, Record},
};

use super::{
    bucket_name::BucketName,
    build::ProcessSample,
    profile::{BucketTime, LockHolder, LockWait},
    statements::{Statements, text_of},
};
use crate::wait::{self, name_of_index};

/// Waits remembered of one process, the latest.
const WAITS_OF_A_PROCESS: usize = 128;

/// Processes remembered, and holders of one event told apart.
const MOST_PROCESSES: usize = 20_000;

/// Holders listed of one event.
const HOLDERS: usize = 10;

/// Sums over the waits of each event, by dense index (see [`profiler_common::event`]).
#[derive(Clone, Debug, Default)]
pub struct HeldSums(BTreeMap<u32, HeldTotals>);

impl HeldSums {
    /// Adds one CPU's sums of an event.
    pub fn add(&mut self, event: u32, totals: &HeldTotals) {
        if totals.waits == 0 {
            return;
        }
        let sum = self.0.entry(event).or_default();
        sum.waits += totals.waits;
        sum.blocked_ns += totals.blocked_ns;
        sum.max_ns = sum.max_ns.max(totals.max_ns);
        sum.covered_ns += totals.covered_ns;
        for (sum, added) in sum.buckets.iter_mut().zip(totals.buckets) {
            *sum += added;
        }
    }

    /// What was counted since `earlier`. The longest wait is that of all readings: nothing is counted before a window.
    #[must_use]
    pub fn minus(&self, earlier: &HeldSums) -> HeldSums {
        let mut grown = HeldSums::default();
        for (event, now) in &self.0 {
            let then = earlier.0.get(event).copied().unwrap_or_default();
            let mut totals = HeldTotals {
                waits: now.waits.saturating_sub(then.waits),
                blocked_ns: now.blocked_ns.saturating_sub(then.blocked_ns),
                max_ns: now.max_ns,
                covered_ns: now.covered_ns.saturating_sub(then.covered_ns),
                buckets: now.buckets,
            };
            for (sum, then) in totals.buckets.iter_mut().zip(then.buckets) {
                *sum = sum.saturating_sub(then);
            }
            grown.add(*event, &totals);
        }
        grown
    }
}

/// Time by bucket, in the order of [`Bucket::ALL`], ns.
type Causes = [u64; Bucket::ALL.len()];

/// A wait whose causes are known.
struct Resolved {
    since_ns: u64,
    until_ns: u64,
    /// What its time is charged to in the budget of who waited.
    bucket: usize,
    causes: Causes,
    /// 1 = its holder did not wait for another.
    links: u32,
}

#[derive(Default)]
struct Event {
    recorded: u64,
    in_chains: u64,
    links_max: u32,
    causes: Causes,
    /// By process: waits it ended, and their time.
    holders: HashMap<u32, (u64, u64)>,
}

/// A process' statements as far as its waiters care.
#[derive(Default)]
struct Texts {
    /// When it last let somebody go, until a statement is found that was running then.
    let_go_ns: Option<u64>,
    /// The statement in which that was.
    holding: Option<Vec<u8>>,
    /// The last that did something, rather than ending a transaction.
    working: Option<Vec<u8>>,
}

/// Takes the records in.
pub struct Locks {
    major: u32,
    bucket_of_event: Box<[u32; EVENT_SLOTS]>,
    events: BTreeMap<u32, Event>,
    recent: HashMap<u32, VecDeque<Resolved>>,
    texts: HashMap<u32, Texts>,
}

impl Locks {
    /// For a server of that major version.
    pub fn new(major: u32) -> Self {
        Locks {
            major,
            bucket_of_event: wait::bucket_table(major),
            events: BTreeMap::new(),
            recent: HashMap::new(),
            texts: HashMap::new(),
        }
    }

    /// Adds a finished wait. In the order in which they ended.
    pub fn add(&mut self, record: &HeldRecord) {
        let Some(bucket) = self.bucket_of_event.get(record.event as usize) else { return };
        let (causes, links) = self.resolve(record);
        let event = self.events.entry(record.event).or_default();
        event.recorded += 1;
        event.in_chains += u64::from(links > 1);
        event.links_max = event.links_max.max(links);
        for (sum, ns) in event.causes.iter_mut().zip(causes) {
            *sum += ns;
        }
        if record.holder != 0 {
            if event.holders.len() < MOST_PROCESSES || event.holders.contains_key(&record.holder) {
                let holder = event.holders.entry(record.holder).or_default();
                holder.0 += 1;
                holder.1 += record.until_ns.saturating_sub(record.since_ns);
            }
            if self.texts.len() < MOST_PROCESSES || self.texts.contains_key(&record.holder) {
                self.texts.entry(record.holder).or_default().let_go_ns = Some(record.until_ns);
            }
        }
        if self.recent.len() >= MOST_PROCESSES && !self.recent.contains_key(&record.waiter) {
            return;
        }
        let own = self.recent.entry(record.waiter).or_default();
        if own.len() >= WAITS_OF_A_PROCESS {
            own.pop_front();
        }
        own.push_back(Resolved {
            since_ns: record.since_ns,
            until_ns: record.until_ns,
            bucket: *bucket as usize,
            causes,
            links,
        });
    }

    /// The causes of a wait, and how many links the chain has.
    fn resolve(&self, record: &HeldRecord) -> (Causes, u32) {
        let mut causes = by_bucket(&record.buckets);
        if record.holder == 0 {
            return (causes, 0);
        }
        let mut links = 1;
        for inner in self.recent.get(&record.holder).into_iter().flatten().rev() {
            if inner.until_ns <= record.since_ns {
                break;
            }
            let from_ns = inner.since_ns.max(record.since_ns);
            let overlap_ns = inner.until_ns.min(record.until_ns).saturating_sub(from_ns);
            let inner_ns = inner.until_ns.saturating_sub(inner.since_ns);
            let Some(own) = causes.get_mut(inner.bucket).filter(|_| overlap_ns != 0) else { continue };
            let explained_ns: u64 = inner.causes.iter().sum();
            // The part of the inner wait that lies here, as far as it is explained and was charged to its bucket.
            let replaced_ns = scale(explained_ns, overlap_ns, inner_ns).min(*own);
            *own -= replaced_ns;
            for (sum, ns) in causes.iter_mut().zip(divide(&inner.causes, replaced_ns)) {
                *sum += ns;
            }
            links = links.max(inner.links + 1);
        }
        (causes, links)
    }

    /// Looks at a finished statement, to know what holders were running.
    pub fn statement(&mut self, record: &Record) {
        if record.kind != KIND_STATEMENT {
            return;
        }
        let Some(text) = text_of(record) else { return };
        if self.texts.len() >= MOST_PROCESSES && !self.texts.contains_key(&record.pid) {
            return;
        }
        let texts = self.texts.entry(record.pid).or_default();
        let ends = ends_a_transaction(text);
        if let Some(let_go_ns) = texts.let_go_ns.filter(|let_go_ns| *let_go_ns <= record.end_ns) {
            texts.let_go_ns = None;
            // A commit lets go of what the statement before it took, which is known where every one is recorded.
            let found = match (ends, record.weight) {
                (false, _) => Some(text.to_vec()),
                (true, 1) => texts.working.clone(),
                (true, _) => None,
            };
            // Not every statement is recorded: an earlier find stands where that one was not.
            if let_go_ns >= record.start_ns {
                texts.holding = found;
            }
        }
        if !ends {
            texts.working = Some(text.to_vec());
        }
    }

    /// What the profile says: events by their time, the most first. Of the sums only those of the window.
    pub(super) fn build(
        &self,
        sums: &HeldSums,
        processes: &[ProcessSample],
        statements: &mut Statements,
    ) -> Vec<LockWait> {
        let none = Event::default();
        let mut waits: Vec<LockWait> = sums
            .0
            .iter()
            .map(|(index, totals)| {
                let event = self.events.get(index).unwrap_or(&none);
                self.lock_wait(*index, totals, event, processes, statements)
            })
            .collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.blocked_ns));
        waits
    }

    fn lock_wait(
        &self,
        index: u32,
        totals: &HeldTotals,
        event: &Event,
        processes: &[ProcessSample],
        statements: &mut Statements,
    ) -> LockWait {
        let name = name_of_index(self.major, index);
        let recorded_ns: u64 = event.causes.iter().sum();
        let weights = if recorded_ns == 0 { by_bucket(&totals.buckets) } else { event.causes };
        let causes = divide(&weights, totals.covered_ns.min(totals.blocked_ns));
        let mut causes: Vec<BucketTime> = Bucket::ALL
            .into_iter()
            .zip(causes)
            .filter(|(_, time_ns)| *time_ns != 0)
            .map(|(bucket, time_ns)| BucketTime { bucket: BucketName(bucket), time_ns })
            .collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.time_ns));
        let mut holders: Vec<(u32, u64, u64)> =
            event.holders.iter().map(|(pid, (waits, ns))| (*pid, *waits, *ns)).collect();
        holders.sort_by_key(|(pid, _, ns)| (std::cmp::Reverse(*ns), *pid));
        let holders = holders.into_iter().take(HOLDERS).map(|(pid, waits, blocked_ns)| LockHolder {
            pid,
            backend_type: processes
                .iter()
                .find(|process| process.pid == pid)
                .and_then(|process| process.backend_type.clone()),
            waits,
            blocked_ns,
            statement: self
                .texts
                .get(&pid)
                .and_then(|texts| texts.holding.as_deref())
                .map(|raw| statements.normalise(raw).to_string()),
        });
        let explained = totals.covered_ns.min(totals.blocked_ns) as f64 / totals.blocked_ns.max(1) as f64;
        LockWait {
            class: name.class.to_owned(),
            event: name.event.into_owned(),
            waits: totals.waits,
            blocked_ns: totals.blocked_ns,
            max_ns: totals.max_ns,
            explained: (explained * 1e6).round() / 1e6,
            causes,
            recorded: event.recorded,
            in_chains: event.in_chains,
            chain_max: event.links_max,
            holders: holders.collect(),
        }
    }
}

/// Time by bucket out of the kernel's sums. A holder that is idle between its transactions (a session-level lock) makes
/// others wait for its client as one inside a transaction does.
fn by_bucket(buckets: &[u64; BUCKET_SLOTS]) -> Causes {
    let mut causes = Causes::default();
    causes.copy_from_slice(&buckets[..Bucket::ALL.len()]);
    causes[Bucket::Client as usize] += buckets[IDLE as usize];
    causes
}

/// `whole` divided in proportion to the weights; exact, the largest part takes what rounding leaves. All to the last
/// bucket, the one without a name, where there are no weights.
fn divide(weights: &Causes, whole: u64) -> Causes {
    let sum: u64 = weights.iter().sum();
    let mut parts = weights.map(|weight| scale(weight, whole, sum));
    let left = whole - parts.iter().sum::<u64>();
    let largest = (0..weights.len()).max_by_key(|at| weights[*at]).filter(|_| sum != 0);
    parts[largest.unwrap_or(Bucket::Unattributed as usize)] += left;
    parts
}

/// `figure` × `part` / `whole`, rounded down; 0 of nothing.
fn scale(figure: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(figure) * u128::from(part) / u128::from(whole.max(1));
    if whole == 0 { 0 } else { u64::try_from(scaled).unwrap_or(u64::MAX) }
}

/// Whether a statement does nothing but end a transaction.
fn ends_a_transaction(text: &[u8]) -> bool {
    let first = text.trim_ascii_start().split(|byte| !byte.is_ascii_alphabetic()).next().unwrap_or_default();
    ["commit", "end", "rollback", "abort"].iter().any(|word| first.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
