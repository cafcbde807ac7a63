//! The first lines: what was watched, the answer in a sentence, and what must be known before the numbers are read.

use profiler_common::{bucket::Bucket, loss::Loss};

use super::{
    page::{Page, Paint},
    single,
};
use crate::{
    model::{
        build::RESTARTED,
        profile::{BucketBudget, EndedBy, Filters, Profile},
    },
    report::words,
    units::{count, counted, duration, rate, share},
};

/// A bucket with less of the time is not worth a place in the sentence, unless it is the largest.
const WORTH_NAMING: f64 = 0.15;
/// Fewer transactions per connection than this are worth a sentence.
const FEW_TRANSACTIONS: u64 = 10;
/// One transaction in this many that began before the attach is worth a warning.
const FEW_PARTIAL: u64 = 20;
/// More unexplained time than this is worth a warning.
const UNATTRIBUTED_WARNING: f64 = 0.05;

pub(super) fn write(page: &mut Page, profile: &Profile) {
    page.paragraph(Paint::Faint, "", &watched(profile), usize::MAX);
    page.blank();
    if profile.transactions.count == 0 {
        let sentence = format!("No transaction ended in {}.", duration(profile.window.duration_ns));
        page.paragraph(Paint::Strong, "", &sentence, usize::MAX);
        page.paragraph(Paint::Plain, "", &why_empty(profile), usize::MAX);
    } else {
        page.paragraph(Paint::Strong, "", &answer(profile), usize::MAX);
        if let Some(sentence) = left_out(&profile.capture.filters) {
            page.paragraph(Paint::Strong, "", &sentence, usize::MAX);
        }
        if let Some(sentence) = connections(profile) {
            page.paragraph(Paint::Plain, "", &sentence, usize::MAX);
        }
    }
    for warning in warnings(profile) {
        page.paragraph(Paint::Warning, "! ", &warning, usize::MAX);
    }
}

fn watched(profile: &Profile) -> String {
    let postgres = &profile.postgres;
    let mut server = format!("pid {}", postgres.pid);
    if let Some(port) = postgres.port {
        server.push_str(&format!(", port {port}"));
    }
    if let Some(directory) = &postgres.data_directory {
        server.push_str(&format!(", {directory}"));
    }
    let version = postgres.version.clone().unwrap_or_else(|| postgres.major.to_string());
    let host = profile.host.name.as_ref().map(|name| format!(" on {name}")).unwrap_or_default();
    format!(
        "PostgreSQL {version} ({server}){host} · {} from {} · pgstall {}",
        duration(profile.window.duration_ns),
        date_and_time(&profile.window.start),
        profile.tool.version
    )
}

/// `2026-03-01 12:00:00 UTC` of an RFC 3339 time; anything else as it is.
fn date_and_time(rfc3339: &str) -> String {
    let parsed: Result<jiff::Timestamp, _> = rfc3339.parse();
    parsed.map_or_else(|_| rfc3339.to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn answer(profile: &Profile) -> String {
    let transactions = &profile.transactions;
    let about = if profile.capture.borders.exact { "" } else { "about " };
    let mean_ns = transactions.latency_ns.mean.unwrap_or(0);
    let in_progress = mean_ns as f64 * transactions.tps / 1e9;
    format!(
        "A transaction took {about}{} on average: {}. In all, {about}{} ended, {} a second, {} in progress at a time.",
        duration(mean_ns),
        largest(&transactions.buckets),
        counted(transactions.count, "transaction", "transactions"),
        rate(transactions.tps),
        rate(in_progress)
    )
}

/// `61.2 % of it waiting for WAL to reach disk (wal_fsync; LWLock/WALWrite), 20.1 % …`
fn largest(buckets: &[BucketBudget]) -> String {
    let mut by_share: Vec<&BucketBudget> = buckets.iter().filter(|bucket| bucket.share > Some(0.0)).collect();
    by_share.sort_by(|one, other| other.share.partial_cmp(&one.share).unwrap_or(std::cmp::Ordering::Equal));
    let named = by_share.iter().enumerate();
    let named = named.filter(|(at, bucket)| *at == 0 || bucket.share >= Some(WORTH_NAMING));
    let phrases = named.map(|(at, bucket)| {
        let of_it = if at == 0 { " of that" } else { "" };
        let name = bucket.bucket.0;
        let event = bucket.events.first().filter(|event| Some(event.mean_ns * 2) > bucket.mean_ns);
        let event = event.filter(|event| event.class != "Unnamed");
        let event =
            event.map(|event| format!(", mostly {}/{}", event.class, event.event)).unwrap_or_default();
        format!(
            "{}{of_it} {} ({}{event})",
            share(bucket.share.unwrap_or(0.0)),
            words::doing(name),
            name.name()
        )
    });
    let phrases: Vec<String> = phrases.collect();
    match &phrases[..] {
        [] => "in no bucket".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What the numbers leave out on request.
fn left_out(filters: &Filters) -> Option<String> {
    let Filters { min_latency_ns, database, user } = filters;
    let min = min_latency_ns.map(|min_ns| format!("took at least {}", duration(min_ns)));
    let database = database.as_ref().map(|name| format!("ran in database {name}"));
    let user = user.as_ref().map(|name| format!("ran as role {name}"));
    let conditions: Vec<String> = [min, database, user].into_iter().flatten().collect();
    let processes = "the processes below are all there are";
    (!conditions.is_empty())
        .then(|| format!("Only transactions that {} are counted; {processes}.", conditions.join(" and ")))
}

/// A connection per few transactions costs more than most transactions do.
fn connections(profile: &Profile) -> Option<String> {
    let connections = &profile.capture.connections;
    let startup_ns = connections.mean_startup_ns?;
    let many = connections.count * FEW_TRANSACTIONS > profile.transactions.count && connections.count >= 10;
    many.then(|| {
        format!(
            "{} were opened, {} each to start up, which is in no transaction: a connection pool would save that.",
            counted(connections.count, "connection", "connections"),
            duration(startup_ns)
        )
    })
}

fn why_empty(profile: &Profile) -> String {
    let Filters { min_latency_ns, database, user } = &profile.capture.filters;
    let mut reasons = Vec::new();
    if !profile.open.is_empty() {
        reasons.push(format!(
            "{} still open: a transaction counts when it ends; a longer window would see it",
            counted(profile.open.len() as u64, "transaction was", "transactions were")
        ));
    }
    if let Some(min_ns) = min_latency_ns {
        reasons.push(format!("transactions shorter than {} were left out on request", duration(*min_ns)));
    }
    for (what, name) in [("database", database), ("role", user)] {
        if let Some(name) = name {
            reasons.push(format!("only backends of {what} {name} were watched"));
        }
    }
    match profile.capture.backends.followed {
        Some(0) => reasons.push("no client was connected".to_owned()),
        Some(n) if reasons.is_empty() => reasons.push(format!(
            "{} connected, none began and ended a transaction in it: clients that think or wait, or a pool that hands \
             out other connections",
            counted(n, "client was", "clients were")
        )),
        _ => {}
    }
    if reasons.is_empty() {
        reasons.push("no client finished one; whether any was connected is not known".to_owned());
    }
    format!("Why that may be: {}.", reasons.join("; "))
}

fn warnings(profile: &Profile) -> Vec<String> {
    let mut warnings = Vec::new();
    let window = &profile.window;
    if window.partial {
        let asked = window.requested_ns.map(|ns| format!(" of {}", duration(ns))).unwrap_or_default();
        let why = match window.ended_by {
            EndedBy::Signal => "a signal ended it",
            EndedBy::PostmasterExit => "the postmaster ended",
            EndedBy::WorkloadEnd => "the load ended",
            EndedBy::Duration | EndedBy::Other => "it was ended early",
        };
        warnings.push(format!("Partial window: {}{asked}; {why}.", duration(window.duration_ns)));
    }
    if let Some(warning) = single::open_warning(profile) {
        warnings.push(warning);
    }
    let partial = profile.capture.losses.get(Loss::BeganUnseen.name()).copied().unwrap_or(0);
    if partial * FEW_PARTIAL > profile.transactions.units {
        warnings.push(format!(
            "{} that began before it attached ended in the window, in none of the transactions' numbers; what they \
             waited for is under the locks and the processes.",
            counted(partial, "transaction", "transactions")
        ));
    }
    if profile.capture.notes.iter().any(|note| note.starts_with(RESTARTED)) {
        warnings.push(
            "The server restarted its processes in the window: a backend crashed, see its log.".to_owned(),
        );
    }
    if !profile.capture.borders.exact {
        warnings.push(
            "Approximate borders: transactions whose next request was already there may share one unit; their \
             number is right, percentiles may be too high."
                .to_owned(),
        );
    }
    let unattributed = profile.transactions.buckets.iter().find(|b| b.bucket.0 == Bucket::Unattributed);
    if let Some(part) =
        unattributed.and_then(|bucket| bucket.share).filter(|part| *part > UNATTRIBUTED_WARNING)
    {
        warnings.push(format!(
            "{} of the time has no name (unattributed): page faults, memory reclaim or lost events.",
            share(part)
        ));
    }
    let losses = &profile.capture.losses;
    let serious: Vec<String> = losses
        .iter()
        .filter(|(name, _)| words::loss(name).1)
        .map(|(name, n)| format!("{} {name}", count(*n)))
        .collect();
    if !serious.is_empty() {
        warnings
            .push(format!("Events were lost that bear on the budget: {}; see below.", serious.join(", ")));
    }
    if profile.capture.imbalance_ns != 0 {
        warnings.push(format!(
            "The buckets miss the wall time by {} ns over all transactions: a defect, please report it.",
            profile.capture.imbalance_ns
        ));
    }
    warnings
}
