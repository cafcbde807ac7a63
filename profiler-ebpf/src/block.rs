//! Requests to the watched block devices: made, issued, completed; and the wake-ups their completions cause.
//!
//! What is on none of the watched devices leaves after a few loads. Nothing here runs for a backend that does no I/O,
//! but for one test of a flag per wake-up.

use core::arch::asm;

use aya_ebpf::{
    helpers::{bpf_get_current_comm, bpf_ktime_get_ns},
    macros::{btf_tracepoint, map},
    maps::{Array, LruHashMap, PerCpuArray},
    programs::BtfTracePointContext,
};
use profiler_common::{
    backend::Backend,
    block::{
        ANSWERED, Completion, DeviceState, DeviceTotals, ISSUED, MADE, MOST_DEVICES, OPERATIONS, OVER,
        REQUEUED, Request, USERS, UserTotals, operation, user,
    },
    histogram::{self, Histogram},
    storage::Link,
};

use crate::{
    maps,
    request::{Flags, KernelBio, KernelRequest},
    server,
    task::Task,
};

const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Numbers of the watched devices; 0 = no more. One value, so that one look-up fetches all.
#[map]
pub static DEVICES: Array<[u32; MOST_DEVICES]> = Array::with_max_entries(1, 0);

/// Requests by address. The only hash: an address is no index. Entries are used again with the request's memory; should
/// a host have more requests than fit, those not seen for longest make room, and count as unseen when they complete.
#[map]
pub static REQUESTS: LruHashMap<u64, Request> = LruHashMap::with_max_entries(16384, 0);

/// What each device is doing; mapped, so that userspace reads it without system calls.
#[map]
pub static DEVICE_STATE: Array<DeviceState> = Array::with_max_entries(MOST_DEVICES as u32, BPF_F_MMAPABLE);

/// Sums per device.
#[map]
pub static DEVICE_TOTALS: PerCpuArray<DeviceTotals> = PerCpuArray::with_max_entries(MOST_DEVICES as u32, 0);

/// Distribution of the time at the device, per device and kind; userspace sizes it by the number of devices.
#[map]
pub static DEVICE_HISTOGRAMS: PerCpuArray<Histogram> = PerCpuArray::with_max_entries(OPERATIONS as u32, 0);

/// Sums per device and user; userspace sizes it by the number of devices.
#[map]
pub static DEVICE_USERS: PerCpuArray<UserTotals> = PerCpuArray::with_max_entries(USERS, 0);

/// The last request each CPU completed.
#[map]
pub static COMPLETED: PerCpuArray<Completion> = PerCpuArray::with_max_entries(1, 0);

/// `block_bio_queue(bio *bio)`: a task asks for what will become a request, or a part of one. Between the two it may have
/// to wait for its turn: until the device has a request to spare, or write-back throttling lets it.
#[btf_tracepoint(function = "block_bio_queue")]
pub fn block_bio_queue(ctx: BtfTracePointContext) -> i32 {
    let Some(backend) = maps::backend(maps::slot_of(Task::current().pid())) else { return 0 };
    if position(KernelBio::first(&ctx).device()).is_some() {
        // SAFETY: the helper has no arguments.
        backend.ledger.ask(unsafe { bpf_ktime_get_ns() });
    }
    0
}

/// `block_io_start(request *rq)`, kernel 6.5 and later: a request was made, in the context of who asks for it.
#[btf_tracepoint(function = "block_io_start")]
pub fn block_io_start(ctx: BtfTracePointContext) -> i32 {
    made(KernelRequest::first(&ctx))
}

/// `block_rq_insert(request *rq)`: instead, where there is no `block_io_start`. A request that goes to the device at
/// once is not inserted anywhere.
#[btf_tracepoint(function = "block_rq_insert")]
pub fn block_rq_insert(ctx: BtfTracePointContext) -> i32 {
    made(KernelRequest::of(&ctx))
}

/// `block_rq_issue(request *rq)`: the driver is given a request, in whoever's context.
#[btf_tracepoint(function = "block_rq_issue")]
pub fn block_rq_issue(ctx: BtfTracePointContext) -> i32 {
    issued(KernelRequest::of(&ctx))
}

/// `block_rq_requeue(request *rq)`: the driver did not take it.
#[btf_tracepoint(function = "block_rq_requeue")]
pub fn block_rq_requeue(ctx: BtfTracePointContext) -> i32 {
    given_back(KernelRequest::of(&ctx))
}

/// `block_rq_merge(request *rq)`: a request is swallowed by its neighbour, which does its work.
#[btf_tracepoint(function = "block_rq_merge")]
pub fn block_rq_merge(ctx: BtfTracePointContext) -> i32 {
    let request = KernelRequest::of(&ctx);
    if watched(request).is_some()
        && let Some(entry) = entry(request)
    {
        entry.state = OVER;
    }
    0
}

/// `block_rq_complete(request *rq, blk_status_t error, unsigned int nr_bytes)`: some or all of it is done, most often
/// in an interrupt.
#[btf_tracepoint(function = "block_rq_complete")]
pub fn block_rq_complete(ctx: BtfTracePointContext) -> i32 {
    completed(KernelRequest::first(&ctx), ctx.arg::<u32>(1) & 0xff != 0, ctx.arg::<u32>(2))
}

/// The backend, waiting for I/O, is being woken: by the completion that was last on this CPU, if that can be.
#[inline(always)]
pub fn link(backend: &mut Backend, slot: u16, now_ns: u64) {
    let Some(completion) = COMPLETED.get_ptr(0) else { return };
    // SAFETY: this CPU's copy, preemption is off.
    let completion = unsafe { &*completion };
    if let Some(link) = completion.instants(now_ns) {
        backend.ledger.link(link, completion.slot == slot as u32);
    }
}

#[inline(always)]
fn made(request: KernelRequest) -> i32 {
    let Some(device) = watched(request) else { return 0 };
    let flags = request.flags();
    // SAFETY: the helper has no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let (slot, user, made_ns) = asker(flags, now_ns);
    let flush = flags.asks_for_flush();
    if flush && let Some(state) = state(device) {
        state.flush_asked_ns = made_ns;
        state.flush_user = user;
        state.flush_slot = slot;
    }
    let new = Request { made_ns, issued_ns: 0, bytes: 0, state: MADE, user, slot, flush: flush as u32 };
    let Some(entry) = entry(request) else {
        insert(request, new);
        return 0;
    };
    if entry.state == REQUEUED {
        return 0;
    }
    if entry.state == ISSUED
        && let Some(state) = state(device)
    {
        // Its memory is used again: the completion was not traced.
        leave(state, now_ns);
        add(&mut state.completions_unseen, 1);
    }
    *entry = new;
    0
}

#[inline(always)]
fn issued(request: KernelRequest) -> i32 {
    let Some(device) = watched(request) else { return 0 };
    let Some(operation) = request.flags().operation() else { return 0 };
    // SAFETY: the helper has no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let Some(state) = state(device) else { return 0 };
    let entry = entry(request);
    match entry {
        Some(entry) if entry.state == MADE || entry.state == REQUEUED => {
            entry.issued_ns = now_ns;
            entry.state = ISSUED;
        }
        Some(entry) if entry.state == ISSUED => return 0,
        entry => {
            let mut new = Request { issued_ns: now_ns, state: ISSUED, ..Request::default() };
            if operation == operation::FLUSH {
                // The kernel makes the flush itself, for all who have asked meanwhile.
                new.made_ns = state.flush_asked_ns;
                new.user = state.flush_user;
                new.slot = state.flush_slot;
                state.flush_asked_ns = 0;
            }
            match entry {
                Some(entry) => *entry = new,
                None => insert(request, new),
            }
        }
    }
    enter(state, now_ns);
    0
}

#[inline(always)]
fn given_back(request: KernelRequest) -> i32 {
    let Some(device) = watched(request) else { return 0 };
    let Some(operation) = request.flags().operation() else { return 0 };
    let Some(entry) = entry(request) else { return 0 };
    if entry.state != ISSUED {
        return 0;
    }
    entry.state = REQUEUED;
    // SAFETY: the helper has no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    if let Some(state) = state(device) {
        leave(state, now_ns);
        add(&mut state.requeued[operation as usize & (OPERATIONS - 1)], 1);
    }
    0
}

#[inline(always)]
fn completed(request: KernelRequest, failed: bool, bytes: u32) -> i32 {
    let Some(device) = watched(request) else { return 0 };
    let Some(operation) = request.flags().operation() else { return 0 };
    let entry = entry(request);
    let Some(totals) = DEVICE_TOTALS.get_ptr_mut(device) else { return 0 };
    // SAFETY: this CPU's copy; a device completes its requests in one kind of context.
    let totals = unsafe { &mut *totals };
    let Some(cell) = COMPLETED.get_ptr_mut(0) else { return 0 };
    // SAFETY: as above.
    let cell = unsafe { &mut *cell };
    let entry = match entry {
        Some(entry) if entry.state == ISSUED => entry,
        Some(entry) if entry.flush != 0 && (entry.state == MADE || entry.state == ANSWERED) => {
            // The device is done with the flushes that belong to this request, the last one just now on this CPU.
            totals.flushes_asked += 1;
            entry.state = OVER;
            cell.link.made_ns = entry.made_ns;
            cell.slot = entry.slot;
            cell.user = entry.user;
            if let Some(sums) = user_totals(device, entry.user) {
                sums.flushes += 1;
            }
            return 0;
        }
        _ => {
            totals.unseen += 1;
            return 0;
        }
    };
    if bytes < request.bytes() {
        entry.bytes += bytes as u64;
        return 0;
    }
    // SAFETY: the helper has no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let bytes = entry.bytes + bytes as u64;
    entry.state = ANSWERED;
    if let Some(state) = state(device) {
        leave(state, now_ns);
    }
    let device_ns = now_ns.saturating_sub(entry.issued_ns);
    let sums = &mut totals.operations[operation as usize & (OPERATIONS - 1)];
    sums.count += 1;
    sums.bytes += bytes;
    sums.device_ns += device_ns;
    sums.failed += failed as u64;
    if entry.made_ns != 0 {
        sums.queued += 1;
        sums.queue_ns += entry.issued_ns.saturating_sub(entry.made_ns);
    }
    if device_ns > sums.max_ns {
        sums.max_ns = device_ns;
    }
    if u64::MAX - device_ns > sums.min_inverted_ns {
        sums.min_inverted_ns = u64::MAX - device_ns;
    }
    if let Some(histogram) = DEVICE_HISTOGRAMS.get_ptr_mut(device * OPERATIONS as u32 + operation) {
        // SAFETY: as above.
        let histogram = unsafe { &mut *histogram };
        if let Some(count) = histogram.counts.get_mut(histogram::bucket_of(device_ns)) {
            *count += 1;
        }
    }
    if let Some(sums) = user_totals(device, entry.user) {
        sums.device_ns += device_ns;
        match operation {
            operation::READ => {
                sums.reads += 1;
                sums.read_bytes += bytes;
            }
            operation::WRITE => {
                sums.writes += 1;
                sums.write_bytes += bytes;
            }
            _ => {}
        }
    }
    *cell = Completion {
        link: Link { made_ns: entry.made_ns, issued_ns: entry.issued_ns, completed_ns: now_ns },
        slot: entry.slot,
        user: entry.user,
        operation,
        reserved: 0,
    };
    0
}

/// Index of the watched device a request is for.
#[inline(always)]
fn watched(request: KernelRequest) -> Option<u32> {
    position(request.device())
}

/// Index of a watched device by its number.
#[inline(always)]
fn position(number: u32) -> Option<u32> {
    let devices = DEVICES.get(0)?;
    let mut at = 0;
    while at < MOST_DEVICES {
        if devices[at] == 0 {
            return None;
        }
        if devices[at] == number {
            return Some(at as u32);
        }
        at += 1;
    }
    None
}

#[inline(always)]
fn entry(request: KernelRequest) -> Option<&'static mut Request> {
    let entry = REQUESTS.get_ptr_mut(request.address())?;
    // SAFETY: a request is handled by one CPU at a time, and entries are not removed.
    Some(unsafe { &mut *entry })
}

#[inline(always)]
fn insert(request: KernelRequest, new: Request) {
    // Where it fails the completion is counted as unseen.
    let _ = REQUESTS.insert(request.address(), new, 0);
}

#[inline(always)]
fn state(device: u32) -> Option<&'static mut DeviceState> {
    let state = DEVICE_STATE.get_ptr_mut(device)?;
    // SAFETY: a map value; what CPUs write at the same time is written atomically or may be lost, as its type says.
    Some(unsafe { &mut *state })
}

#[inline(always)]
fn user_totals(device: u32, user: u32) -> Option<&'static mut UserTotals> {
    let sums = DEVICE_USERS.get_ptr_mut(device * USERS + (user & (USERS - 1)))?;
    // SAFETY: this CPU's copy; a device completes its requests in one kind of context.
    Some(unsafe { &mut *sums })
}

/// One more request is at the device.
#[inline(always)]
fn enter(state: &mut DeviceState, now_ns: u64) {
    add(&mut state.in_flight, 1);
    if state.busy_since_ns == 0 {
        state.busy_since_ns = now_ns;
    }
    if state.in_flight > state.in_flight_max {
        state.in_flight_max = state.in_flight;
    }
}

/// One request fewer is at the device.
#[inline(always)]
fn leave(state: &mut DeviceState, now_ns: u64) {
    add(&mut state.in_flight, u64::MAX);
    let since_ns = state.busy_since_ns;
    if state.in_flight == 0 && since_ns != 0 {
        state.busy_since_ns = 0;
        add(&mut state.busy_ns, now_ns.saturating_sub(since_ns));
    }
}

/// Adds, wrapping, while other CPUs do. The sum is not returned: kernels before 5.12 cannot. In words of the machine,
/// because the library offers no atomic addition where there is no compare-and-swap.
#[inline(always)]
fn add(to: &mut u64, by: u64) {
    // SAFETY: an aligned word of a map value, which is what `to` is.
    unsafe { asm!("lock *(u64 *)({to} + 0) += {by}", to = in(reg) to, by = in(reg) by, options(nostack)) };
}

/// Slot and user of whoever makes a request now, and since when it has asked for it.
#[inline(always)]
fn asker(flags: Flags, now_ns: u64) -> (u32, u32, u64) {
    let task = Task::current();
    let slot = maps::slot_of(task.pid());
    if let Some(backend) = maps::backend(slot) {
        if backend.status == 0 {
            // Forked, and not asleep for the first time yet.
            server::resolve_status(backend);
        }
        return (slot as u32, type_of(backend), backend.ledger.made(now_ns));
    }
    // A thread that does a backend's work in the kernel (io_uring).
    let slot = maps::slot_of(task.process());
    if let Some(backend) = maps::backend(slot) {
        return (slot as u32, type_of(backend), now_ns);
    }
    let user = if task.is_kernel_thread() { kernel_thread(flags) } else { user::OTHER_PROCESS };
    (0, user, now_ns)
}

#[inline(always)]
fn type_of(backend: &Backend) -> u32 {
    user::BACKEND_TYPE + (backend.backend_type & (user::BACKEND_TYPES - 1))
}

/// What the kernel thread that runs now is, by its name.
#[inline(always)]
fn kernel_thread(flags: Flags) -> u32 {
    let Ok([a, b, c, d, e, f, g, h, ..]) = bpf_get_current_comm() else { return user::KERNEL };
    let name = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let starts_with = |prefix: &[u8]| {
        let mut wanted = 0;
        let mut at = 0;
        while at < prefix.len() {
            wanted |= (prefix[at] as u64) << (8 * at);
            at += 1;
        }
        let mask = if prefix.len() == 8 { u64::MAX } else { (1 << (8 * prefix.len())) - 1 };
        name & mask == wanted
    };
    if starts_with(b"kworker/") {
        // Writing out dirty pages at leisure is not synchronous; work on somebody's behalf is.
        let at_leisure = flags.operation() == Some(operation::WRITE) && !flags.is_waited_for();
        if at_leisure { user::WRITEBACK } else { user::KWORKER }
    } else if starts_with(b"jbd2/") {
        user::JBD2
    } else if starts_with(b"loop") {
        user::LOOP
    } else if starts_with(b"kswapd") {
        user::KSWAPD
    } else if starts_with(b"xfs") {
        user::XFS
    } else if starts_with(b"md") {
        user::MD
    } else if starts_with(b"dmcrypt") {
        user::DMCRYPT
    } else {
        user::KERNEL
    }
}
