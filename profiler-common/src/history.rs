//! What a backend did lately, so that whoever waited for it can be told what it was waiting for.
//!
//! The ledger knows sums only, and nobody knows beforehand from which instant on a wait will ask. Two things are kept.
//! The last gaps, one by one: between them the backend was on a CPU. And snapshots of the ledger's running sums, taken
//! every few gaps and kept in levels, each level four times as coarse and four times as long as the one before: from
//! the difference of two instants' sums the time by bucket follows, however many gaps lie between. An instant between
//! two snapshots is interpolated. The two are at most a quarter of the wait apart, and the error is a quarter of that at
//! the worst, where the backend's doings changed all at once; where it went on as before there is none.
//!
//! Pure: the eBPF programs and the tests drive the same code.

use crate::{
    bucket::{BUCKET_SLOTS, Bucket, IDLE},
    ledger::Ledger,
};

/// Gaps kept one by one.
pub const GAPS: usize = 32;

/// Levels of snapshots.
pub const LEVELS: usize = 5;

/// Snapshots kept on each level.
pub const SNAPSHOTS: usize = 16;

/// Gaps between two snapshots of the finest level.
const GAPS_PER_SNAPSHOT: u32 = 8;

/// A snapshot is due earlier if the last is older than this, in [`UNIT_BITS`]: one bracket must not hold an idle minute
/// and the burst after it.
const SNAPSHOT_AGE: u32 = 10_000;

/// Each level takes one snapshot in 2 to the power of this of the level before.
const RATIO_BITS: u32 = 2;

/// Sums in snapshots are in units of 2 to the power of this, ns (1.024 µs), modulo 2^32: enough for 73 minutes.
const UNIT_BITS: u32 = 10;

/// A wait longer than this is not explained by snapshots, ns.
const LONGEST_NS: u64 = (u32::MAX as u64) << UNIT_BITS;

/// Sums in a snapshot: the buckets, then idle time.
const SUMS: usize = Bucket::ALL.len() + 1;

/// A gap between leaving a CPU and being back.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Begin in the upper 60 bits, ns; what its blocked part was charged to in the lower 4.
    begin: u64,
    /// End of the blocked part, ns: from here on it was runnable. The begin of a gap with no blocked part.
    pub woke_ns: u64,
    /// End, ns; 0 = no gap.
    pub resumed_ns: u64,
}
crate::shared!(Gap, 24);

impl Gap {
    /// A gap whose blocked part was charged to `bucket`.
    #[inline(always)]
    pub fn new(begin_ns: u64, bucket: u32, woke_ns: u64, resumed_ns: u64) -> Self {
        Gap { begin: begin_ns << 4 | (bucket & (BUCKET_SLOTS as u32 - 1)) as u64, woke_ns, resumed_ns }
    }

    /// Begin, ns.
    #[inline(always)]
    pub fn begin_ns(&self) -> u64 {
        self.begin >> 4
    }

    /// What its blocked part was charged to: a bucket or [`IDLE`].
    #[inline(always)]
    pub fn bucket(&self) -> usize {
        self.begin as usize & (BUCKET_SLOTS - 1)
    }
}

/// The running sums at one instant.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Snapshot {
    /// The instant, ns.
    pub at_ns: u64,
    sums: [u32; 14],
}
crate::shared!(Snapshot, 64);

/// One backend's recent past.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct History {
    n_snapshots: u32,
    reserved: [u32; 15],
    gaps: [Gap; GAPS],
    levels: [[Snapshot; SNAPSHOTS]; LEVELS],
}
crate::shared!(History, 64 + 24 * GAPS + 64 * SNAPSHOTS * LEVELS);

impl Default for History {
    fn default() -> Self {
        History {
            n_snapshots: 0,
            reserved: [0; 15],
            gaps: [Gap::default(); GAPS],
            levels: [[Snapshot::default(); SNAPSHOTS]; LEVELS],
        }
    }
}

impl History {
    /// Adds the gap just closed. Whether a snapshot is due: [`History::snapshot`] has to follow then.
    #[inline(always)]
    pub fn add(&mut self, ledger: &mut Ledger, gap: Gap) -> bool {
        let n_gaps = ledger.n_gaps;
        self.gaps[n_gaps as usize & (GAPS - 1)] = gap;
        ledger.n_gaps = n_gaps.wrapping_add(1);
        let at = units(gap.resumed_ns);
        n_gaps.is_multiple_of(GAPS_PER_SNAPSHOT) || at.wrapping_sub(ledger.snapshot_at) > SNAPSHOT_AGE
    }

    /// Takes a snapshot of the ledger's sums, after [`History::add`] asked for it.
    #[inline(always)]
    pub fn snapshot(&mut self, ledger: &mut Ledger) {
        // The slot has a new owner: what is here is another's past.
        if ledger.n_gaps == 1 {
            self.n_snapshots = 0;
        }
        ledger.snapshot_at = units(ledger.charged_to_ns);
        let number = self.n_snapshots;
        self.n_snapshots = number.wrapping_add(1);
        let mut level = 0;
        while level < LEVELS {
            let on_level = number >> (RATIO_BITS * level as u32);
            if on_level << (RATIO_BITS * level as u32) != number {
                return;
            }
            let snapshot = &mut self.levels[level][on_level as usize & (SNAPSHOTS - 1)];
            snapshot.at_ns = ledger.charged_to_ns;
            let mut sum = 0;
            while sum < SUMS {
                snapshot.sums[sum] = units(ledger.life[slot_of(sum)]);
                sum += 1;
            }
            level += 1;
        }
    }

    /// What a backend that runs in its own context did from `since_ns` until now: its time by bucket and idle time is
    /// written to `into`, ns. Returns how much that is, at most the stretch asked for; less, where its past is not known.
    #[inline(always)]
    pub fn explain(
        &self,
        ledger: &Ledger,
        since_ns: u64,
        now_ns: u64,
        into: &mut [u64; BUCKET_SLOTS],
    ) -> u64 {
        *into = [0; BUCKET_SLOTS];
        if now_ns <= since_ns {
            return 0;
        }
        // The stretch the ledger has not charged yet.
        let open = ledger.open_gap(now_ns);
        charge(into, &open, since_ns);
        let mut known_from_ns = open.begin_ns();
        let mut back = 1;
        while back <= GAPS as u32 && known_from_ns > since_ns {
            if back > ledger.n_gaps {
                break;
            }
            let gap = &self.gaps[ledger.n_gaps.wrapping_sub(back) as usize & (GAPS - 1)];
            charge(into, gap, since_ns);
            known_from_ns = gap.begin_ns();
            back += 1;
        }
        // Before its first gap, the snapshots are those of the slot's last owner.
        if known_from_ns > since_ns && ledger.n_gaps != 0 && self.n_snapshots != 0 {
            let covered_ns = self.by_snapshots(ledger, &open, since_ns, now_ns, into);
            if covered_ns != 0 {
                return covered_ns;
            }
        }
        let from_ns = if known_from_ns > since_ns { known_from_ns } else { since_ns };
        let mut off_ns = 0;
        let mut bucket = 0;
        while bucket < BUCKET_SLOTS {
            off_ns += into[bucket];
            bucket += 1;
        }
        let covered_ns = now_ns - from_ns;
        if off_ns < covered_ns {
            into[Bucket::Cpu as usize] += covered_ns - off_ns;
        }
        covered_ns
    }

    /// As [`History::explain`], from the finest level that reaches back to `since_ns`; 0 and nothing written if none
    /// does.
    #[inline(always)]
    fn by_snapshots(
        &self,
        ledger: &Ledger,
        open: &Gap,
        since_ns: u64,
        now_ns: u64,
        into: &mut [u64; BUCKET_SLOTS],
    ) -> u64 {
        if now_ns - since_ns > LONGEST_NS {
            return 0;
        }
        let mut level = 0;
        while level < LEVELS {
            let shift = RATIO_BITS * level as u32;
            let count = ((self.n_snapshots - 1) >> shift) + 1;
            let kept = if count < SNAPSHOTS as u32 { count } else { SNAPSHOTS as u32 };
            let snapshots = &self.levels[level];
            if snapshots[count.wrapping_sub(kept) as usize & (SNAPSHOTS - 1)].at_ns > since_ns {
                level += 1;
                continue;
            }
            // The last snapshot before the instant; what follows it is the other side of the bracket.
            let mut back = 1;
            while back < SNAPSHOTS as u32 {
                if snapshots[count.wrapping_sub(back) as usize & (SNAPSHOTS - 1)].at_ns <= since_ns {
                    break;
                }
                back += 1;
            }
            let before = &snapshots[count.wrapping_sub(back) as usize & (SNAPSHOTS - 1)];
            if now_ns - before.at_ns > LONGEST_NS {
                return 0;
            }
            let after = &snapshots[count.wrapping_sub(back - 1) as usize & (SNAPSHOTS - 1)];
            return difference(
                ledger,
                open,
                (before, if back > 1 { Some(after) } else { None }),
                since_ns,
                now_ns,
                into,
            );
        }
        0
    }
}

/// The ledger's sums now minus those at `since_ns`, between two snapshots; with no second one, between the first and
/// what the ledger has charged by now.
#[inline(always)]
fn difference(
    ledger: &Ledger,
    open: &Gap,
    (before, after): (&Snapshot, Option<&Snapshot>),
    since_ns: u64,
    now_ns: u64,
    into: &mut [u64; BUCKET_SLOTS],
) -> u64 {
    *into = [0; BUCKET_SLOTS];
    let after_ns = match after {
        Some(after) => after.at_ns,
        None => ledger.charged_to_ns,
    };
    let width = after_ns.saturating_sub(before.at_ns) >> UNIT_BITS;
    let part = since_ns.saturating_sub(before.at_ns) >> UNIT_BITS;
    let mut sum = 0;
    let mut charged_ns = 0;
    while sum < SUMS {
        let now = units(ledger.life[slot_of(sum)]);
        let end = match after {
            Some(after) => after.sums[sum],
            None => now,
        };
        let grown = end.wrapping_sub(before.sums[sum]) as u64;
        let until = (grown * part).checked_div(width).unwrap_or(0);
        let ns = ((now.wrapping_sub(before.sums[sum]) as u64).saturating_sub(until)) << UNIT_BITS;
        into[slot_of(sum)] = ns;
        charged_ns += ns;
        sum += 1;
    }
    // What is not charged yet.
    let blocked_ns = open.woke_ns.saturating_sub(open.begin_ns());
    let queued_ns = open.resumed_ns.saturating_sub(open.woke_ns);
    let running_ns = now_ns.saturating_sub(open.resumed_ns);
    into[open.bucket()] += blocked_ns;
    into[Bucket::RunQueue as usize] += queued_ns;
    into[Bucket::Cpu as usize] += running_ns;
    let covered_ns = charged_ns + blocked_ns + queued_ns + running_ns;
    let asked_ns = now_ns - since_ns;
    // Rounding, of eleven sums.
    if covered_ns < asked_ns { covered_ns } else { asked_ns }
}

/// Adds the parts of a gap that lie behind `since_ns`.
#[inline(always)]
fn charge(into: &mut [u64; BUCKET_SLOTS], gap: &Gap, since_ns: u64) {
    let begin_ns = if gap.begin_ns() > since_ns { gap.begin_ns() } else { since_ns };
    let woke_ns = if gap.woke_ns > begin_ns { gap.woke_ns } else { begin_ns };
    into[gap.bucket()] += woke_ns - begin_ns;
    if gap.resumed_ns > woke_ns {
        into[Bucket::RunQueue as usize] += gap.resumed_ns - woke_ns;
    }
}

#[inline(always)]
fn units(ns: u64) -> u32 {
    (ns >> UNIT_BITS) as u32
}

/// Where a snapshot's sum lies among the ledger's.
#[inline(always)]
fn slot_of(sum: usize) -> usize {
    if sum == SUMS - 1 { IDLE as usize } else { sum }
}
