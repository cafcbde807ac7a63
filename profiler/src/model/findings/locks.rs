//! Lock time, and what makes it long.

use profiler_common::bucket::Bucket;

use super::{
    evidence::{Evidence, Found, list},
    facts::{LARGE_PART, budget, latency_ns, lock_caused_by_ns, mean_ns, ratio, severity, share},
    storage::STORAGE,
};
use crate::model::profile::{LockWait, OpenTransaction, Profile, Severity};

/// From this part of a transaction on, lock time with one cause is worth naming: it is not in the cause's own bucket, so
/// nobody sees it there.
const CAUSED: f64 = 0.1;
/// An idle transaction younger than this is one between two statements.
const IDLE_NS: u64 = 1_000_000_000;
/// As much of a holder's statement is said.
const STATEMENT_CHARS: usize = 60;

/// Lock time that is storage time in disguise.
pub(super) fn lock_caused_by_storage(profile: &Profile) -> Option<Found> {
    let caused_ns = lock_caused_by_ns(profile, &STORAGE)?;
    let part = ratio(caused_ns, latency_ns(profile)?).filter(|part| *part >= CAUSED)?;
    let mut evidence = Evidence::default();
    let mut parts = Vec::new();
    for bucket in STORAGE {
        if let Some(ns) = lock_caused_by_ns(profile, &[bucket]).filter(|ns| *ns != 0) {
            let name = format!("lock_caused_by_{}_mean_ns", bucket.name());
            parts.push(format!("{} in {}", evidence.duration(&name, ns), bucket.name()));
        }
    }
    let message = format!(
        "Of the {} a transaction waits for locks, {} is the holder's storage time ({}): {} of the {} it takes.",
        evidence.duration("lock_mean_ns", mean_ns(profile, Bucket::Lock)?),
        evidence.duration("lock_caused_by_storage_mean_ns", caused_ns),
        list(&parts),
        evidence.share("lock_caused_by_storage_share", part),
        evidence.duration("latency_mean_ns", latency_ns(profile)?)
    );
    let advice = "Faster storage shortens these locks too; failing that, take the lock as late in the transaction as \
                  can be, after the reads.";
    evidence.found(severity(part), message, advice)
}

/// Lock time in which the holder waits for its client.
pub(super) fn idle_in_transaction(profile: &Profile) -> Option<Found> {
    finished(profile).or_else(|| unfinished(profile))
}

/// By the waits that ended in the window.
fn finished(profile: &Profile) -> Option<Found> {
    let caused_ns = lock_caused_by_ns(profile, &[Bucket::Client])?;
    let part = ratio(caused_ns, latency_ns(profile)?).filter(|part| *part >= CAUSED)?;
    let mut evidence = Evidence::default();
    let message = format!(
        "Of the {} a transaction waits for locks, {} is spent on holders that wait for their client, most likely idle \
         in a transaction: {} of the {} it takes.",
        evidence.duration("lock_mean_ns", mean_ns(profile, Bucket::Lock)?),
        evidence.duration("lock_caused_by_client_mean_ns", caused_ns),
        evidence.share("lock_caused_by_client_share", part),
        evidence.duration("latency_mean_ns", latency_ns(profile)?)
    );
    evidence.found(severity(part), message, KEEP_SHORT)
}

const KEEP_SHORT: &str = "Let the application commit before it turns to anything else, and set \
                          idle_in_transaction_session_timeout against those that never do; an advisory lock of a \
                          session is held outside transactions too, and only its session lets go of it.";

/// By the transactions open at the end: one idle, others waiting for a lock. That the one is what the others wait for is
/// likely and not shown.
fn unfinished(profile: &Profile) -> Option<Found> {
    let idle = profile.open.iter().filter(|open| is_idle(open, profile));
    // Where the begin was not seen it lies before the window.
    let (age_ns, oldest) = idle
        .map(|open| (open.age_ns.unwrap_or(profile.window.duration_ns), open))
        .max_by_key(|(age_ns, _)| *age_ns)?;
    let waiting = profile.open.iter().filter(|open| {
        open.waiting
            .as_ref()
            .is_some_and(|waiting| waiting.class == "Lock" && waiting.since_ns.is_some_and(|ns| ns <= age_ns))
    });
    let n_waiting = waiting.count() as u64;
    if n_waiting == 0 {
        return None;
    }
    let mut evidence = Evidence::default();
    let or_more = if oldest.age_ns.is_none() { "at least " } else { "" };
    let message = format!(
        "Pid {} is idle in a transaction that is {or_more}{} old, while {} for a lock.",
        evidence.text("pid", &oldest.pid.to_string()),
        evidence.duration("age_ns", age_ns),
        evidence.counted("n_waiting_for_lock", n_waiting, "other waits", "others wait")
    );
    let advice = format!("See whether it is the holder with pg_blocking_pids(); if so, end it. {KEEP_SHORT}");
    evidence.found(Severity::Critical, message, advice)
}

fn is_idle(open: &OpenTransaction, profile: &Profile) -> bool {
    let idle = open.waiting.as_ref().filter(|waiting| waiting.event.eq_ignore_ascii_case("ClientRead"));
    let since_ns = idle.map(|waiting| waiting.since_ns.unwrap_or(profile.window.duration_ns));
    since_ns >= Some(IDLE_NS)
}

/// Locks are a large part, and neither storage nor an idle holder is why.
pub(super) fn lock_waits(profile: &Profile) -> Option<Found> {
    let lock_ns = mean_ns(profile, Bucket::Lock)?;
    let latency_ns = latency_ns(profile)?;
    let elsewhere = [STORAGE.as_slice(), &[Bucket::Client]].concat();
    let rest_ns = lock_ns.saturating_sub(lock_caused_by_ns(profile, &elsewhere).unwrap_or(0));
    ratio(rest_ns, latency_ns).filter(|part| *part >= LARGE_PART)?;
    let part = share(profile, Bucket::Lock)?;
    let mut evidence = Evidence::default();
    let mut message = format!(
        "Waiting for locks is {} of a transaction ({} of {})",
        evidence.share("lock_share", part),
        evidence.duration("lock_mean_ns", lock_ns),
        evidence.duration("latency_mean_ns", latency_ns)
    );
    let first = budget(profile, Bucket::Lock)?.events.first();
    if let Some(event) = first {
        let name = evidence.text("event", &format!("{}/{}", event.class, event.event));
        message.push_str(&format!(", {} of it {name}", evidence.duration("event_mean_ns", event.mean_ns)));
        let kind = profile
            .locks
            .iter()
            .flatten()
            .find(|kind| kind.class == event.class && kind.event == event.event);
        message.push_str(&kind.and_then(|kind| holders(kind, &mut evidence)).unwrap_or_default());
    }
    message.push('.');
    let light = first.is_some_and(|event| event.class == "LWLock");
    let advice = if light {
        "These are the server's own short locks: fewer backends active at once (a connection pool), or less of what \
         takes this one."
    } else {
        "Shorten what the holders do between taking the lock and their commit, or let fewer transactions want the same \
         row or table."
    };
    evidence.found(severity(part), message, advice)
}

/// What the holders were doing most of the time, and in which statement.
fn holders(kind: &LockWait, evidence: &mut Evidence) -> Option<String> {
    let cause = kind.causes.iter().max_by_key(|cause| cause.time_ns)?;
    let part = ratio(cause.time_ns, kind.blocked_ns)?.min(1.0);
    let name = evidence.text("cause", cause.bucket.0.name());
    let mut said = format!("; for {} of that its holder was in {name}", evidence.share("cause_share", part));
    let holder = kind.holders.first().and_then(|holder| holder.statement.as_ref());
    if let Some(statement) = holder {
        evidence.text("holder_statement", statement);
        let short: String = statement.chars().take(STATEMENT_CHARS).collect();
        let cut = if short.len() < statement.len() { "…" } else { "" };
        said.push_str(&format!(", running {short}{cut}"));
    }
    Some(said)
}
