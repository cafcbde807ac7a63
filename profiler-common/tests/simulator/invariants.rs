//! What holds of a backend after every call, whatever the calls were.

use profiler_common::{backend::Backend, bucket::charged_ns, ledger::EVENT_ENTRIES};

/// Where a backend's time line began.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    /// Instant it was taken up, ns.
    pub at_ns: u64,
}

/// Checks a backend.
pub fn check(backend: &Backend, begin: Begin) {
    let ledger = &backend.ledger;
    let charged = charged_ns(&ledger.buckets);
    assert_eq!(charged, ledger.charged_to_ns - backend.start_ns, "the unit's buckets are not its wall time");
    assert_eq!(charged, backend.wall_ns());
    let life = charged_ns(&ledger.life);
    assert_eq!(life, ledger.charged_to_ns - begin.at_ns, "the life's buckets are not its length");
    let statement = charged_ns(&std::array::from_fn(|slot| backend.statement_ns(slot)));
    assert_eq!(statement, ledger.charged_to_ns - backend.statement_start_ns, "the statement's buckets");
    assert!(backend.start_ns <= backend.statement_start_ns, "a statement before its unit");
    assert!(ledger.n_events as usize <= EVENT_ENTRIES);
    let events = &ledger.events[..ledger.n_events as usize];
    let named: u64 = events.iter().map(|charge| charge.blocked_ns + charge.run_queue_ns).sum();
    assert!(named <= charged, "{named} ns in events, {charged} ns in buckets");
    for (at, charge) in events.iter().enumerate() {
        assert!(charge.waits > 0);
        assert!(events[..at].iter().all(|other| other.event != charge.event), "an event twice");
    }
}
