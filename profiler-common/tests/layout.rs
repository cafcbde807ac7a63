//! The layout both sides of the border were built with, in figures: a change here is a change of every map and of every
//! record, and has to be meant.

use std::mem::{align_of, offset_of, size_of};

use profiler_common::{
    backend::Backend,
    bucket::{BUCKET_SLOTS, Bucket, IDLE},
    event::{self, EVENT_SLOTS},
    flush::{Flush, FlushTotals},
    held::{HeldRecord, HeldTotals, HeldWait},
    histogram::{HISTOGRAM_BUCKETS, Histogram},
    history::History,
    ledger::{EVENT_ENTRIES, EventCharge, Ledger},
    loss::{LOSSES, Loss},
    record::{Record, TEXT_BYTES},
    totals::{EventTotals, Totals},
    tunables::Live,
};

#[test]
fn sizes() {
    let sizes = [
        ("Ledger", size_of::<Ledger>(), align_of::<Ledger>(), 832),
        ("Backend", size_of::<Backend>(), align_of::<Backend>(), 1_088),
        ("EventCharge", size_of::<EventCharge>(), align_of::<EventCharge>(), 24),
        ("Flush", size_of::<Flush>(), align_of::<Flush>(), 64),
        ("FlushTotals", size_of::<FlushTotals>(), align_of::<FlushTotals>(), 24),
        ("Totals", size_of::<Totals>(), align_of::<Totals>(), 408),
        ("EventTotals", size_of::<EventTotals>(), align_of::<EventTotals>(), 24),
        ("Histogram", size_of::<Histogram>(), align_of::<Histogram>(), 9_216),
        ("Record", size_of::<Record>(), align_of::<Record>(), 1_584),
        ("Live", size_of::<Live>(), align_of::<Live>(), 48),
        ("History", size_of::<History>(), align_of::<History>(), 5_952),
        ("HeldWait", size_of::<HeldWait>(), align_of::<HeldWait>(), 160),
        ("HeldTotals", size_of::<HeldTotals>(), align_of::<HeldTotals>(), 160),
        ("HeldRecord", size_of::<HeldRecord>(), align_of::<HeldRecord>(), 168),
    ];
    for (name, size, align, expected) in sizes {
        assert_eq!((size, align), (expected, 8), "{name}");
    }
    assert_eq!((BUCKET_SLOTS, EVENT_ENTRIES, EVENT_SLOTS), (16, 16, 4_096));
    assert_eq!((LOSSES, TEXT_BYTES, HISTOGRAM_BUCKETS), (16, 1_024, 1_152));
}

#[test]
fn offsets() {
    assert_eq!(offset_of!(Totals, wall_ns), 32);
    assert_eq!(offset_of!(Totals, buckets), 88);
    assert_eq!(offset_of!(Totals, losses), 216);
    assert_eq!(offset_of!(Record, start_ns), 16);
    assert_eq!(offset_of!(Record, buckets), 40);
    assert_eq!(offset_of!(Record, n_events), 168);
    assert_eq!(offset_of!(Record, events), 176);
    assert_eq!(offset_of!(Record, text), 560);
    assert_eq!(offset_of!(Backend, ledger), 64);
    // Userspace stores to it alone (`mark_unseen`), and atomically.
    assert_eq!(offset_of!(Backend, phase) % 4, 0);
}

#[test]
fn numbers_stay_what_they_are() {
    for (at, bucket) in Bucket::ALL.iter().enumerate() {
        assert_eq!(*bucket as usize, at, "{}", bucket.name());
    }
    assert!(Bucket::ALL.len() <= IDLE as usize && (IDLE as usize) < BUCKET_SLOTS);
    for (at, loss) in Loss::ALL.iter().enumerate() {
        assert_eq!(*loss as usize, at, "{}", loss.name());
    }
    assert!(Loss::ALL.len() <= LOSSES);
}

#[test]
fn an_index_stands_for_its_word() {
    for index in 0..EVENT_SLOTS as u32 {
        assert_eq!(event::index(event::wait_event_info(index)), index);
    }
    assert_eq!(event::index(0), event::UNNAMED);
    // Class and id only: whatever is between them does not count, and long ids share the last index of their class.
    assert_eq!(event::index(0x0aff_000c), event::index(0x0a00_000c));
    assert_eq!(event::index(0x0100_ffff), event::index(0x0100_00ff));
    for word in [0, 0x0a00_000c, 0x0100_ffff, u32::MAX] {
        assert!((event::index(word) as usize) < EVENT_SLOTS, "{word:#x}");
    }
}
