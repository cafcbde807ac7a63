//! Where the numbers answer nothing, or leave out what matters.

use profiler_common::{bucket::Bucket, loss::Loss};

use super::{
    evidence::{Evidence, Found, list},
    facts::{LARGE_PART, ratio, share},
};
use crate::model::profile::{OpenTransaction, Profile, Severity};

/// From one loss in this part of the transactions on, no share of the budget is good to its first digit.
const LOST: f64 = 0.1;
/// Losses after which time is missing, or stands where it does not belong.
const BEARING: [Loss; 5] = [
    Loss::WaitUnreadable,
    Loss::StatusUnreadable,
    Loss::CounterUnreadable,
    Loss::EdgeMissing,
    Loss::SlotsExhausted,
];
/// A younger transaction is nothing to worry about, however short the others are.
const LONG_OPEN_NS: u64 = 1_000_000_000;

/// There is no answer in this profile, and why.
pub(super) fn no_answer(profile: &Profile) -> Option<Found> {
    let mut evidence = Evidence::default();
    let n = profile.transactions.count;
    if n == 0 {
        let mut message = format!(
            "No transaction ended in {}: there is nothing to take apart",
            evidence.duration("window_ns", profile.window.duration_ns)
        );
        evidence.count("transactions", n);
        if let Some(followed) = profile.capture.backends.followed {
            let clients = evidence.counted("backends_followed", followed, "client was", "clients were");
            message.push_str(&format!("; {clients} connected"));
        }
        let open = profile.open.len() as u64;
        if open != 0 {
            let open = evidence.counted("open", open, "transaction was", "transactions were");
            message.push_str(&format!("; {open} still open"));
        }
        message.push('.');
        let advice = "Watch while there is load, and for longer than the longest transaction takes.";
        return evidence.found(Severity::Critical, message, advice);
    }
    let mut reasons = Vec::new();
    if let Some(part) = share(profile, Bucket::Unattributed).filter(|part| *part >= LARGE_PART) {
        let part = evidence.share("unattributed_share", part);
        reasons.push(format!("{part} of the time has no name (unattributed)"));
    }
    let lost = BEARING.iter().filter_map(|loss| {
        let count = profile.capture.losses.get(loss.name()).copied()?;
        (ratio(count, n)? >= LOST).then_some((loss.name(), count))
    });
    for (name, count) in lost {
        reasons.push(format!("{} {name}", evidence.count(name, count)));
    }
    if reasons.is_empty() {
        return None;
    }
    let of = evidence.counted("transactions", n, "transaction", "transactions");
    let message = format!("Too much is unknown of the {of} that ended: {}.", list(&reasons));
    let advice = "Take no share above for the answer. Blocked time without a name is page faults, memory reclaim or \
                  swapping (see /proc/vmstat: pgmajfault, allocstall), or a stopped process; lost events mean an \
                  overloaded host or more backends than the tool has places for.";
    evidence.found(Severity::Critical, message, advice)
}

/// A transaction open for longer than any that ended.
pub(super) fn open_transaction(profile: &Profile) -> Option<Found> {
    let longest_ns = profile.transactions.latency_ns.max.unwrap_or(0).max(LONG_OPEN_NS);
    // Where the begin was not seen it lies before the window.
    let age_ns = |open: &OpenTransaction| open.age_ns.unwrap_or(profile.window.duration_ns);
    let long = || profile.open.iter().filter(|open| age_ns(open) > longest_ns);
    let oldest = long().max_by_key(|open| (open.age_ns.is_none(), age_ns(open)))?;
    let mut evidence = Evidence::default();
    let pid = oldest.pid.to_string();
    let waiting = oldest.waiting.as_ref();
    let idle = waiting.is_some_and(|waiting| waiting.event.eq_ignore_ascii_case("ClientRead"));
    let now = match waiting {
        Some(_) if idle => "waiting for its client".to_owned(),
        Some(waiting) => {
            format!(
                "waiting for {}",
                evidence.text("waiting", &format!("{}/{}", waiting.class, waiting.event))
            )
        }
        None => "running".to_owned(),
    };
    let or_more = if oldest.age_ns.is_none() { "at least " } else { "" };
    let message = format!(
        "{} open for longer than any that ended; the oldest is pid {}, {or_more}{} old, {now}.",
        evidence.counted("open", long().count() as u64, "transaction is", "transactions are"),
        evidence.text("pid", &pid),
        evidence.duration("age_ns", age_ns(oldest)),
    );
    let advice = match waiting {
        Some(_) if idle => format!(
            "Find out why the application keeps it open: until it ends it keeps its locks and holds back VACUUM; \
             pg_terminate_backend({pid}) ends it, idle_in_transaction_session_timeout prevents it."
        ),
        Some(waiting) if waiting.class == "Lock" => {
            format!("SELECT pg_blocking_pids({pid}) names who holds the lock.")
        }
        _ => format!("See what it runs; pg_cancel_backend({pid}) ends it if nobody needs it."),
    };
    evidence.found(Severity::Notable, message, advice)
}
