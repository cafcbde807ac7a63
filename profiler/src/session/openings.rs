//! Transactions still open when the window ends: in no other number, and often the ones that matter.

use jiff::Timestamp;
use profiler_common::{
    backend::{IDLE_OR_FIRST, IN_UNIT, UNSEEN},
    event::PREEMPTED,
};

use super::attachment::Attachment;
use crate::model::build::OpenSample;

/// Younger ones are the ordinary traffic of any instant.
const OLD_NS: u64 = 1_000_000_000;

impl Attachment {
    /// Open transactions older than a second, or begun before anything was seen of them.
    pub(super) fn open_transactions(&self, now_ns: u64) -> Vec<OpenSample> {
        let mut open = Vec::new();
        for (_, backend) in self.probes.backends() {
            let seen = matches!(backend.phase, IN_UNIT | IDLE_OR_FIRST);
            let old = now_ns.saturating_sub(backend.start_ns) > OLD_NS;
            if !(seen && backend.is_in_unit() || backend.phase == UNSEEN) || !old {
                continue;
            }
            let status = self.cluster.status_of(backend.pid).ok().flatten();
            let client = status.as_ref().map(|status| status.backend_type_number);
            if client != Some(self.cluster.layout.type_client_backend)
                || status.as_ref().is_some_and(|status| !status.in_transaction)
            {
                continue;
            }
            let waits = backend.ledger.is_off() && backend.ledger.event != PREEMPTED;
            let mut buckets = backend.ledger.buckets;
            let (bucket, pending_ns) = backend.ledger.pending(now_ns);
            if let Some(time) = buckets.get_mut(bucket as usize) {
                *time += pending_ns;
            }
            let by_server = status.as_ref().and_then(|status| status.transaction_start_us);
            let by_server = by_server.and_then(|start_us| monotonic(start_us, now_ns));
            // A wait that was there before the probes is older than them, nobody knows by how much.
            let seen_to_begin = backend.ledger.life.iter().any(|ns| *ns != 0);
            open.push(OpenSample {
                pid: backend.pid,
                start_ns: if seen { Some(backend.start_ns) } else { by_server },
                event: waits.then_some(backend.ledger.event),
                waiting_since_ns: (waits && seen_to_begin).then_some(backend.ledger.charged_to_ns),
                text: status.and_then(|status| status.text).map(String::into_bytes),
                buckets,
            });
        }
        open
    }
}

/// 2000-01-01 00:00 UTC, where the server's time begins, in seconds of Unix time.
const SERVER_EPOCH_S: i64 = 946_684_800;

/// An instant of the server's clock on the probes', which now stands at `now_ns`; `None` if it lies before the probes'
/// clock began.
fn monotonic(server_us: i64, now_ns: u64) -> Option<u64> {
    let now_us = Timestamp::now().as_microsecond() - SERVER_EPOCH_S * 1_000_000;
    let ago_us = u64::try_from(now_us - server_us).ok()?;
    now_ns.checked_sub(ago_us * 1000)
}
