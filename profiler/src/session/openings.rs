//! Transactions still open when the window ends: in no other number, and often the ones that matter.

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
            open.push(OpenSample {
                pid: backend.pid,
                start_ns: seen.then_some(backend.start_ns),
                event: waits.then_some(backend.ledger.event),
                waiting_since_ns: waits.then_some(backend.ledger.charged_to_ns),
                text: status.and_then(|status| status.text).map(String::into_bytes),
                buckets: backend.ledger.buckets,
            });
        }
        open
    }
}
