//! Single transactions: the slowest, and those still open at the end.

use profiler_common::bucket::Bucket;

use super::{
    approximate,
    page::{Page, Paint},
};
use crate::{
    model::profile::{BucketTime, EventTime, OpenTransaction, Profile, SlowTransaction},
    units::{counted, duration},
    wait,
};

/// Lines of text shown of a statement.
const TEXT_LINES: usize = 2;
/// Open transactions listed.
const OPEN_LISTED: usize = 10;
const INDENT: &str = "          ";

pub(super) fn slowest(page: &mut Page, profile: &Profile) {
    if profile.slowest.is_empty() {
        return;
    }
    page.section("SLOWEST TRANSACTIONS", approximate(profile), "");
    page.line(format!(
        "{:>9}  {:<14}{:>9}  {}",
        "took", "began (UTC)", "pid", "where its time went; last statement"
    ));
    let mut before = None;
    for slow in &profile.slowest {
        let lead = format!("{:>9}  {:<14}{:>9}  ", duration(slow.duration_ns), clock(&slow.start), slow.pid);
        page.paragraph(Paint::Plain, &lead, &where_to(slow), TEXT_LINES);
        if let Some(text) = &slow.last_statement {
            let text = if before == Some(text) { "(the same statement)" } else { text };
            page.paragraph(Paint::Faint, INDENT, text, TEXT_LINES);
        }
        before = slow.last_statement.as_ref();
    }
}

/// The time of day of an RFC 3339 time, to the millisecond.
fn clock(rfc3339: &str) -> String {
    let parsed: Result<jiff::Timestamp, _> = rfc3339.parse();
    parsed.map_or_else(|_| rfc3339.to_owned(), |at| at.strftime("%H:%M:%S%.3f").to_string())
}

/// `lock 1.10 s (Lock/transactionid), cpu 80.0 ms`
fn where_to(slow: &SlowTransaction) -> String {
    let mut parts: Vec<String> = largest(&slow.buckets, slow.duration_ns)
        .into_iter()
        .map(|time| match largest_event(&slow.events, time.bucket.0) {
            Some(event) => {
                let waits = if event.waits > 1 { format!(" ×{}", event.waits) } else { String::new() };
                let name = time.bucket.0.name();
                format!("{name} {} ({}/{}{waits})", duration(time.time_ns), event.class, event.event)
            }
            None => format!("{} {}", time.bucket.0.name(), duration(time.time_ns)),
        })
        .collect();
    if slow.transactions > 1 {
        parts.push(format!("in {}", counted(u64::from(slow.transactions), "transaction", "transactions")));
    }
    parts.join(", ")
}

/// Up to four buckets, those with less than 1 % of the time left out.
fn largest(buckets: &[BucketTime], whole_ns: u64) -> Vec<&BucketTime> {
    let mut largest: Vec<&BucketTime> =
        buckets.iter().filter(|time| time.time_ns >= whole_ns / 100).collect();
    largest.sort_by_key(|time| std::cmp::Reverse(time.time_ns));
    largest.truncate(4);
    largest
}

fn largest_event(events: &[EventTime], bucket: Bucket) -> Option<&EventTime> {
    let of_bucket = events.iter().filter(|event| wait::bucket(&event.class, &event.event) == bucket);
    of_bucket.filter(|event| event.class != "Unnamed").max_by_key(|event| event.blocked_ns)
}

/// Open transactions older than nearly all that ended: what an incident is often about.
fn long_open(profile: &Profile) -> Vec<&OpenTransaction> {
    let usual_ns = profile.transactions.latency_ns.p99;
    let long = |open: &&OpenTransaction| match (open.age_ns, usual_ns) {
        (Some(age_ns), Some(usual_ns)) => age_ns > usual_ns,
        _ => true,
    };
    profile.open.iter().filter(long).collect()
}

pub(super) fn open(page: &mut Page, profile: &Profile) {
    if profile.open.is_empty() {
        return;
    }
    page.section("OPEN AT THE END", "(in none of the numbers above)", "");
    let groups = alike(&long_open(profile));
    if !groups.is_empty() {
        page.line(format!("{:>9}{:>9}  {}", "age", "pid", "now; statement"));
    }
    let mut listed = 0;
    for group in groups.iter().take(OPEN_LISTED) {
        let Some(oldest) = group.first() else { continue };
        listed += group.len();
        let lead = format!("{:>9}{:>9}  ", age(oldest, profile), oldest.pid);
        let others = match group.len() as u64 - 1 {
            0 => String::new(),
            n => format!("; and {} alike, younger", counted(n, "other", "others")),
        };
        page.paragraph(Paint::Plain, &lead, &format!("{}{others}", now(oldest)), TEXT_LINES);
        if let Some(text) = &oldest.statement {
            page.paragraph(Paint::Faint, INDENT, text, TEXT_LINES);
        }
    }
    let others = profile.open.len() - listed;
    if others != 0 {
        let others = counted(others as u64, "other", "others");
        let usual =
            if groups.len() <= OPEN_LISTED { ", no older than the p99 of those that ended" } else { "" };
        page.line(format!("  {others}{usual}"));
    }
}

/// Transactions that wait for the same and run the same, oldest first, each group at the place of its oldest.
fn alike<'a>(open: &[&'a OpenTransaction]) -> Vec<Vec<&'a OpenTransaction>> {
    let mut groups: Vec<Vec<&OpenTransaction>> = Vec::new();
    let key = |open: &OpenTransaction| {
        let waiting = open.waiting.as_ref();
        (waiting.map(|waiting| (waiting.class.clone(), waiting.event.clone())), open.statement.clone())
    };
    for open in open {
        match groups.iter_mut().find(|group| key(group[0]) == key(open)) {
            Some(group) => group.push(open),
            None => groups.push(vec![open]),
        }
    }
    groups
}

/// The age, or that it is more than the window, where the begin was not seen.
fn age(open: &OpenTransaction, profile: &Profile) -> String {
    match open.age_ns {
        Some(age_ns) => duration(age_ns),
        None => format!(">{}", duration(profile.window.duration_ns)),
    }
}

fn now(open: &OpenTransaction) -> String {
    let Some(waiting) = &open.waiting else { return "running, or waiting for a CPU".to_owned() };
    let since = waiting.since_ns.map(|ns| format!(" for {}", duration(ns))).unwrap_or_default();
    if waiting.class == "Client" && waiting.event == "ClientRead" {
        return format!("idle in transaction{since} (Client/ClientRead)");
    }
    format!("waiting for {}/{}{since} ({})", waiting.class, waiting.event, waiting.bucket.0.name())
}

/// The warning at the head of the report, if an open transaction is older than every one that ended.
pub(super) fn open_warning(profile: &Profile) -> Option<String> {
    let longest_ns = profile.transactions.latency_ns.max;
    let extreme = |open: &&OpenTransaction| match (open.age_ns, longest_ns) {
        (Some(age_ns), Some(longest_ns)) => age_ns > longest_ns,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let extreme: Vec<&OpenTransaction> = profile.open.iter().filter(extreme).collect();
    let oldest = extreme.first()?;
    let still = counted(extreme.len() as u64, "transaction was", "transactions were");
    let which = if extreme.len() == 1 { "it is" } else { "the oldest is" };
    Some(format!(
        "{still} still open at the end, for longer than any that ended, and in none of these numbers; {which} pid {}, \
         {} old, {}.",
        oldest.pid,
        age(oldest, profile),
        now(oldest)
    ))
}
