//! Every map, with the reason for its type and size. Arrays throughout the hot path: the verifier inlines their
//! look-ups, and a stranger leaves after one of them.

use aya_ebpf::{
    macros::map,
    maps::{Array, PerCpuArray, PerCpuHashMap, Queue, RingBuf},
};
use profiler_common::{
    backend::{Backend, NOT_A_CLIENT},
    bucket::Bucket,
    event::EVENT_SLOTS,
    flush::{BACKEND_TYPES, FlushTotals},
    held::{HELD_SLOTS, HeldTotals, HeldWait},
    histogram::Histogram,
    history::History,
    ledger::{LossCounter, SchedInfo, SchedulerClock},
    loss::{LOSSES, Loss},
    process::{EVENTS_GATHERED, Moved, PROCESS_EVENTS},
    totals::{EventTotals, Totals},
    tunables::Live,
};

use crate::{config::CLIENT_READ, held, process};

const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Slot by pid, four 16-bit slots to an entry (an array entry takes 8 bytes anyway); 0 = not followed. Userspace sizes
/// it by `kernel.pid_max` and writes it through a mapping, so that enrolling one backend cannot undo a fork's entry.
#[map]
pub static PID_SLOT: Array<[u16; 4]> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// One entry per followed backend; mapped, so that userspace reads them without system calls. Slot 0 stays unused.
#[map]
pub static BACKENDS: Array<Backend> = Array::with_max_entries(2, BPF_F_MMAPABLE);

/// Free slots. First in, first out, so that an ended backend's figures stay readable for as long as possible.
#[map]
pub static FREE_SLOTS: Queue<u32> = Queue::with_max_entries(1, 0);

/// Bucket and kind of each wait event, by dense index: one value, so that one system call fills it.
#[map]
pub static BUCKET_OF_EVENT: Array<[u32; EVENT_SLOTS]> = Array::with_max_entries(1, 0);

/// Values userspace changes while running.
#[map]
pub static LIVE: Array<Live> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Sums per CPU: no atomics, and always exact.
#[map]
pub static TOTALS: PerCpuArray<Totals> = PerCpuArray::with_max_entries(1, 0);

/// Where each CPU's scheduler clock lies on ours.
#[map]
pub static CLOCK: PerCpuArray<SchedulerClock> = PerCpuArray::with_max_entries(1, 0);

/// The latest of them, for a CPU on which no followed task has run for a while: where the scheduler's clock is stable, it
/// is the same on all CPUs. Renewed now and then only, so that its line stays shared.
#[map]
pub static LATEST_CLOCK: Array<SchedulerClock> = Array::with_max_entries(1, 0);

/// Older figures of its own a CPU does not use, if there is a later one.
const CLOCK_AGE_NS: u64 = 1_000_000_000;
/// Older figures are not used at all: the two clocks drift apart, by 5 ms in that time at the very most.
const LATEST_CLOCK_AGE_NS: u64 = 10_000_000_000;
/// How often the latest is renewed.
const LATEST_CLOCK_EVERY_NS: u64 = 100_000_000;

/// How many statements this CPU has recorded since which tick of [`Live`].
#[map]
pub static STATEMENTS: PerCpuArray<[u32; 2]> = PerCpuArray::with_max_entries(1, 0);

/// Sums per wait event.
#[map]
pub static EVENTS: PerCpuArray<EventTotals> = PerCpuArray::with_max_entries(EVENT_SLOTS as u32, 0);

/// Sums of ended processes.
#[map]
pub static MOVED: PerCpuArray<Moved> = PerCpuArray::with_max_entries(1, 0);

/// Sums per backend type and wait event of all but client backends. A hash, because an array of all pairs would take
/// megabytes per CPU; it is only touched when a process ends or has waited for many things.
#[map]
pub static TYPE_EVENTS: PerCpuHashMap<u32, EventTotals> = PerCpuHashMap::with_max_entries(PROCESS_EVENTS, 0);

/// Index of the wall-time histogram; below it, one per bucket.
pub const WALL_HISTOGRAM: u32 = Bucket::ALL.len() as u32;

/// Distribution of the units' wall time and of each bucket's non-zero times.
#[map]
pub static HISTOGRAMS: PerCpuArray<Histogram> = PerCpuArray::with_max_entries(WALL_HISTOGRAM + 1, 0);

/// Flushes of the write-ahead log by the server's number for the backend type.
#[map]
pub static FLUSHES: PerCpuArray<FlushTotals> = PerCpuArray::with_max_entries(BACKEND_TYPES as u32, 0);

/// Distribution of the flushes' lengths.
#[map]
pub static FLUSH_HISTOGRAM: PerCpuArray<Histogram> = PerCpuArray::with_max_entries(1, 0);

/// Sampled statements and slow units. Drained on a timer: a wake-up per record would be one per transaction.
#[map]
pub static RECORDS: RingBuf = RingBuf::with_byte_size(1 << 23, 0);

/// What each backend did lately, by slot; apart from [`BACKENDS`], whose lines are counted.
#[map]
pub static HISTORY: Array<History> = Array::with_max_entries(2, 0);

/// The wait each backend is in that another process ends, by slot.
#[map]
pub static HELD_WAITS: Array<HeldWait> = Array::with_max_entries(2, 0);

/// Sums over such waits, by [`profiler_common::held::held_index`].
#[map]
pub static HELD_TOTALS: PerCpuArray<HeldTotals> = PerCpuArray::with_max_entries(HELD_SLOTS as u32, 0);

/// How many such waits this CPU has recorded since which tick of [`Live`].
#[map]
pub static HELD_RECORDS: PerCpuArray<[u32; 2]> = PerCpuArray::with_max_entries(1, 0);

/// The state in a slot; slot 0 has none.
#[inline(always)]
pub fn backend(slot: u16) -> Option<&'static mut Backend> {
    if slot == 0 {
        return None;
    }
    let backend = BACKENDS.get_ptr_mut(slot as u32)?;
    // SAFETY: a slot is only touched by the CPU its task is on or being switched to, with preemption off.
    Some(unsafe { &mut *backend })
}

/// Writes the slot of a pid.
#[inline(always)]
pub fn set_slot(pid: u32, slot: u16) -> bool {
    let Some(cell) = PID_SLOT.get_ptr_mut(pid >> 2) else { return false };
    // SAFETY: the entry holds four slots and the index is below four.
    let at = unsafe { cell.cast::<u16>().add((pid & 3) as usize) };
    // SAFETY: inside a map value, aligned; a 16-bit store does not touch the neighbours.
    unsafe { *at = slot };
    true
}

/// The slot number of a pid, 0 = none.
#[inline(always)]
pub fn slot_of(pid: u32) -> u16 {
    let Some(cell) = PID_SLOT.get_ptr(pid >> 2) else { return 0 };
    // SAFETY: the entry holds four slots and the index is below four.
    let at = unsafe { cell.cast::<u16>().add((pid & 3) as usize) };
    // SAFETY: inside a map value, aligned.
    unsafe { *at }
}

/// This CPU's sums.
#[inline(always)]
pub fn totals() -> Option<&'static mut Totals> {
    let totals = TOTALS.get_ptr_mut(0)?;
    // SAFETY: this CPU's copy; programs run with preemption off and none of them nests in another's update.
    Some(unsafe { &mut *totals })
}

/// Charges everything up to `now` to the backend of a slot that runs in its own context on this CPU.
#[inline(always)]
pub fn advance(slot: u16, backend: &mut Backend, now_ns: u64, sched_info: SchedInfo) {
    let Some(clock) = CLOCK.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's copy, preemption is off.
    let clock = unsafe { &mut *clock };
    let Some(latest) = LATEST_CLOCK.get_ptr_mut(0) else { return };
    // SAFETY: two words that CPUs may write at the same time; a mixture of two writes is off by what lies between them,
    // a fraction of the drift allowed for.
    let latest = unsafe { &mut *latest };
    if now_ns.wrapping_sub(clock.seen_ns) > CLOCK_AGE_NS {
        *clock = *latest;
        if now_ns.wrapping_sub(clock.seen_ns) > LATEST_CLOCK_AGE_NS {
            clock.seen_ns = 0;
        }
    } else if clock.seen_ns > latest.seen_ns + LATEST_CLOCK_EVERY_NS {
        *latest = *clock;
    }
    let gap = backend.advance(now_ns, sched_info, clock, CLIENT_READ.load(), &mut Losses);
    if gap.resumed_ns != 0 {
        if backend.ledger.was_held() {
            held::roused(slot, &gap);
        }
        held::note(slot, backend, gap);
    }
    if backend.phase == NOT_A_CLIENT && backend.ledger.n_events > EVENTS_GATHERED {
        process::move_events(backend);
    }
}

/// Counts losses into this CPU's sums.
pub struct Losses;

impl LossCounter for Losses {
    #[inline(always)]
    fn count(&mut self, loss: Loss) {
        if let Some(totals) = totals() {
            totals.losses[loss as usize & (LOSSES - 1)] += 1;
        }
    }
}
