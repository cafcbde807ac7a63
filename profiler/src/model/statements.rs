//! Statements by normalised text.

use std::{collections::HashMap, sync::Arc};

use profiler_common::{
    bucket::Bucket,
    record::{KIND_STATEMENT, Record},
};

use super::{normalise::Normaliser, profile::Statement, slowest::wall_ns, timeline::bucket_means};
use crate::apportion::apportion;

/// Different texts kept apart; the rest share one entry without text, so that memory stays bounded.
const DISTINCT_TEXTS: usize = 5000;

/// Sums over the recorded statements.
pub struct Statements {
    normaliser: Normaliser,
    /// `None`: no text could be read, or too many different ones.
    entries: HashMap<Option<Arc<str>>, Entry>,
    recorded: u64,
}

#[derive(Default)]
struct Entry {
    calls: u64,
    estimated: bool,
    wall_ns: u64,
    max_ns: u64,
    buckets: [u64; Bucket::ALL.len()],
    query_id: QueryId,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum QueryId {
    #[default]
    None,
    One(u64),
    Several,
}

impl Statements {
    /// With `show_literals`, texts keep their constants.
    pub fn new(show_literals: bool) -> Self {
        Statements { normaliser: Normaliser::new(show_literals), entries: HashMap::new(), recorded: 0 }
    }

    /// Adds a finished statement, which stands for as many as its weight says; other records are ignored.
    pub fn add(&mut self, record: &Record) {
        if record.kind != KIND_STATEMENT {
            return;
        }
        self.recorded += 1;
        let text = text_of(record).map(|raw| self.normaliser.normalise(raw));
        let full = self.entries.len() >= DISTINCT_TEXTS && !self.entries.contains_key(&text);
        let entry = self.entries.entry(if full { None } else { text }).or_default();
        let weight = u64::from(record.weight.max(1));
        entry.calls += weight;
        entry.estimated |= weight > 1;
        entry.wall_ns += wall_ns(record) * weight;
        entry.max_ns = entry.max_ns.max(wall_ns(record));
        for bucket in Bucket::ALL {
            entry.buckets[bucket as usize] += record.buckets[bucket as usize] * weight;
        }
        entry.query_id = match (entry.query_id, record.query_id) {
            (known, 0) => known,
            (QueryId::None, id) => QueryId::One(id),
            (QueryId::One(known), id) if known == id => QueryId::One(id),
            _ => QueryId::Several,
        };
    }

    /// How many were added.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// How many different texts they had.
    pub fn distinct(&self) -> u64 {
        self.entries.keys().flatten().count() as u64
    }

    /// Normalises another text with the same rules.
    pub fn normalise(&mut self, raw: &[u8]) -> Arc<str> {
        self.normaliser.normalise(raw)
    }

    /// The `n` texts with the most time, the most first; shares are of `transactions_ns`, the time of all
    /// transactions. `counted` is how many statements there were in all, if every one had its chance of being recorded:
    /// a sample's weights only come near that number, and are brought to it.
    pub fn top(&self, n: usize, transactions_ns: u64, counted: Option<u64>) -> Vec<Statement> {
        let weights: u64 = self.entries.values().map(|entry| entry.calls).sum();
        let scale = match counted {
            Some(counted) if weights != 0 => counted as f64 / weights as f64,
            _ => 1.0,
        };
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by(|(text, entry), (other_text, other)| {
            other.wall_ns.cmp(&entry.wall_ns).then_with(|| text.cmp(other_text))
        });
        entries
            .into_iter()
            .take(n)
            .map(|(text, entry)| entry.statement(text, transactions_ns, scale))
            .collect()
    }
}

impl Entry {
    fn statement(&self, text: &Option<Arc<str>>, transactions_ns: u64, scale: f64) -> Statement {
        let scaled = |figure: u64| (figure as f64 * scale).round() as u64;
        Statement {
            query: text.as_deref().map(str::to_owned),
            query_id: match self.query_id {
                QueryId::One(id) => query_id(id),
                QueryId::None | QueryId::Several => None,
            },
            calls: scaled(self.calls),
            calls_estimated: self.estimated || scale != 1.0,
            mean_ns: apportion(&self.buckets, self.calls).iter().sum(),
            max_ns: self.max_ns,
            share: share(scaled(self.wall_ns).min(transactions_ns), transactions_ns),
            buckets: bucket_means(&self.buckets, self.calls),
        }
    }
}

/// The server's query identifier as SQL shows it: signed, and none where it is zero.
pub(super) fn query_id(id: u64) -> Option<String> {
    (id != 0).then(|| id.cast_signed().to_string())
}

/// A part of a whole with six decimals; none of nothing.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole != 0).then(|| (part as f64 / whole as f64 * 1e6).round() / 1e6)
}

/// The text of a record without its terminator; `None` if it was not read.
pub(super) fn text_of(record: &Record) -> Option<&[u8]> {
    let text = record.text.get(..record.text_len as usize)?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    (!text.is_empty()).then(|| &text[..end])
}

#[cfg(test)]
pub(super) mod tests {
    use profiler_common::{
        bucket::BUCKET_SLOTS,
        ledger::{EVENT_ENTRIES, EventCharge},
        record::TEXT_BYTES,
    };

    use super::*;

    /// A statement record that spent its time on a CPU.
    pub fn record(text: &str, ns: u64) -> Record {
        let mut record = Record {
            kind: KIND_STATEMENT,
            pid: 1,
            transactions: 0,
            weight: 1,
            start_ns: 1000,
            end_ns: 1000 + ns,
            query_id: 0,
            buckets: [0; BUCKET_SLOTS],
            n_events: 0,
            text_len: 0,
            events: [EventCharge::default(); EVENT_ENTRIES],
            text: [0; TEXT_BYTES],
        };
        record.buckets[Bucket::Cpu as usize] = ns;
        if !text.is_empty() {
            record.text[..text.len()].copy_from_slice(text.as_bytes());
            record.text_len = text.len() as u32 + 1;
        }
        record
    }

    #[test]
    fn texts_that_differ_in_constants_are_one_statement() {
        let mut statements = Statements::new(false);
        statements.add(&record("SELECT a FROM t WHERE id = 1", 100));
        statements.add(&record("SELECT a FROM t WHERE id = 22", 300));
        statements.add(&record("COMMIT", 50));
        let top = statements.top(10, 900, None);
        assert_eq!(top.len(), 2);
        assert_eq!(top[0].query.as_deref(), Some("SELECT a FROM t WHERE id = ?"));
        assert_eq!((top[0].calls, top[0].mean_ns, top[0].max_ns), (2, 200, 300));
        assert_eq!(top[0].share, Some(0.444444));
        assert!(!top[0].calls_estimated);
        assert_eq!((statements.recorded(), statements.distinct()), (3, 2));
    }

    #[test]
    fn a_weighted_record_stands_for_many_and_says_so() {
        let mut statements = Statements::new(false);
        let mut sampled = record("SELECT 1", 100);
        sampled.weight = 16;
        sampled.query_id = u64::MAX;
        statements.add(&sampled);
        let top = statements.top(1, 3200, None);
        assert_eq!((top[0].calls, top[0].mean_ns, top[0].share), (16, 100, Some(0.5)));
        assert!(top[0].calls_estimated);
        assert_eq!(top[0].query_id.as_deref(), Some("-1"));
    }

    #[test]
    fn two_identifiers_of_one_text_are_none() {
        let mut statements = Statements::new(false);
        for id in [5, 0, 5] {
            let mut one = record("SELECT 1", 1);
            one.query_id = id;
            statements.add(&one);
        }
        assert_eq!(statements.top(1, 0, None)[0].query_id.as_deref(), Some("5"));
        let mut other = record("SELECT 2", 1);
        other.query_id = 6;
        statements.add(&other);
        assert_eq!(statements.top(1, 0, None)[0].query_id, None);
        assert_eq!(statements.top(1, 0, None)[0].share, None);
    }

    #[test]
    fn texts_that_were_not_read_share_an_entry() {
        let mut statements = Statements::new(false);
        statements.add(&record("", 10));
        let mut overlong = record("x", 10);
        overlong.text_len = TEXT_BYTES as u32 + 1;
        statements.add(&overlong);
        let top = statements.top(5, 100, None);
        assert_eq!(top.len(), 1);
        assert_eq!((top[0].query.as_deref(), top[0].calls), (None, 2));
        assert_eq!(statements.distinct(), 0);
    }

    #[test]
    fn too_many_texts_do_not_grow_without_bound() {
        let mut statements = Statements::new(false);
        for at in 0..DISTINCT_TEXTS + 100 {
            statements.add(&record(&format!("SELECT * FROM t{at}"), 1));
        }
        assert!(statements.entries.len() <= DISTINCT_TEXTS + 1);
        let calls: u64 = statements.entries.values().map(|entry| entry.calls).sum();
        assert_eq!(calls, DISTINCT_TEXTS as u64 + 100);
    }
}
