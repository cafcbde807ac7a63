//! Single transactions: the longest, and those still open.

use profiler_common::{
    bucket::{BUCKET_SLOTS, Bucket},
    event::EVENT_SLOTS,
    record::Record,
};

use super::{WindowInput, bucket_times};
use crate::{
    model::{
        bucket_name::BucketName,
        profile::{EventTime, OpenTransaction, SlowTransaction, Waiting},
        slowest::wall_ns,
        statements::{Statements, query_id, text_of},
    },
    wait::{bucket, name_of_index},
};

/// A transaction open at the end of the window.
#[derive(Clone, Debug)]
pub struct OpenSample {
    /// Process id.
    pub pid: u32,
    /// Begin by the monotonic clock, ns; `None` where it began unseen.
    pub start_ns: Option<u64>,
    /// Dense index of the event it waits on; `None`: it is not waiting.
    pub event: Option<u32>,
    /// Begin of that wait by the monotonic clock, ns, if known.
    pub waiting_since_ns: Option<u64>,
    /// Text of its statement as the server shows it, if read.
    pub text: Option<Vec<u8>>,
    /// Time by bucket so far, ns.
    pub buckets: [u64; BUCKET_SLOTS],
}

pub(super) fn slow(
    major: u32,
    record: &Record,
    window: &WindowInput,
    statements: &mut Statements,
) -> SlowTransaction {
    let used = record.events.iter().take(record.n_events as usize);
    let mut events: Vec<EventTime> = used
        .map(|charge| {
            let name = name_of_index(major, charge.event);
            EventTime {
                class: name.class.to_owned(),
                event: name.event.into_owned(),
                waits: charge.waits,
                blocked_ns: charge.blocked_ns,
                run_queue_ns: charge.run_queue_ns,
            }
        })
        .collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.blocked_ns));
    SlowTransaction {
        pid: record.pid,
        start: window.wall_clock(record.start_ns),
        duration_ns: wall_ns(record),
        transactions: record.transactions,
        last_statement: text_of(record).map(|raw| statements.normalise(raw).to_string()),
        query_id: query_id(record.query_id),
        buckets: bucket_times(&record.buckets),
        events,
    }
}

/// Oldest first; those that began unseen are older than any other.
pub(super) fn open(
    major: u32,
    mut samples: Vec<OpenSample>,
    window: &WindowInput,
    statements: &mut Statements,
) -> Vec<OpenTransaction> {
    samples.sort_by_key(|sample| (sample.start_ns.unwrap_or(0), sample.pid));
    let since = |start_ns: u64| window.end_ns.saturating_sub(start_ns);
    let open = samples.into_iter().map(|sample| OpenTransaction {
        pid: sample.pid,
        age_ns: sample.start_ns.map(since),
        waiting: sample.event.filter(|event| (*event as usize) < EVENT_SLOTS).map(|event| {
            let name = name_of_index(major, event);
            let bucket: Bucket = bucket(name.class, &name.event);
            Waiting {
                class: name.class.to_owned(),
                event: name.event.into_owned(),
                bucket: BucketName(bucket),
                since_ns: sample.waiting_since_ns.map(since),
            }
        }),
        statement: sample.text.map(|raw| statements.normalise(&raw).to_string()),
        buckets: bucket_times(&sample.buckets),
    });
    open.collect()
}
