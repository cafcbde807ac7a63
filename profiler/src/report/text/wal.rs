//! The write-ahead log: how it is made durable, how often, and how many commits share that.

use super::{
    approximate,
    page::{Page, Paint},
};
use crate::{
    model::profile::{Profile, Wal},
    units::{duration, duration_or_dash, rate, share},
};

pub(super) fn write(page: &mut Page, profile: &Profile) {
    let Some(wal) = &profile.wal else { return };
    if wal.flushes == 0 && wal.fsync != Some(false) && profile.transactions.count == 0 {
        return;
    }
    page.section("WAL", &settings(wal), "");
    if wal.flushes == 0 && wal.fsync != Some(false) {
        page.line("  no flush was seen; one for which nobody has to sleep, as on tmpfs, is not");
        return;
    }
    if wal.flushes == 0 {
        page.line("  fsync is off: nothing is flushed, and a crash of the host loses the cluster");
        return;
    }
    let latency = &wal.flush_latency_ns;
    page.line(format!(
        "  {} flushes/s: mean {}, p50 {}, p95 {}, p99 {}",
        rate(wal.flushes_per_s),
        duration_or_dash(latency.mean),
        duration_or_dash(latency.p50),
        duration_or_dash(latency.p95),
        duration_or_dash(latency.p99),
    ));
    let makers = wal.flushed_by.iter().map(|by| {
        let name = by.backend_type.as_deref().unwrap_or("(unnamed type)");
        format!(
            "{name} {} (mean {})",
            share(by.flushes as f64 / wal.flushes as f64),
            duration_or_dash(by.mean_ns)
        )
    });
    page.paragraph(Paint::Plain, "  made by ", &makers.collect::<Vec<_>>().join(", "), usize::MAX);
    if let Some(text) = group_commit(profile, wal) {
        page.paragraph(Paint::Plain, "  ", &text, usize::MAX);
    }
}

fn settings(wal: &Wal) -> String {
    let method = wal.sync_method.as_deref().unwrap_or("wal_sync_method not known");
    let pages = match wal.full_page_writes {
        Some(true) => "full_page_writes on",
        Some(false) => "full_page_writes off",
        None => "full_page_writes not known",
    };
    format!("({method}, {pages})")
}

/// How many commits a flush serves, and whose flush they wait for.
fn group_commit(profile: &Profile, wal: &Wal) -> Option<String> {
    let commits = wal.commits_per_flush?;
    let shared = if commits < 1.05 {
        "each commit flushes for itself".to_owned()
    } else {
        format!("{} commits share a flush", rate(commits))
    };
    let buckets = profile.transactions.buckets.iter();
    let parts = buckets.flat_map(|bucket| &bucket.parts);
    let mean = |name: &str| parts.clone().find(|part| part.part == name).map(|part| duration(part.mean_ns));
    let waits = mean("leader").zip(mean("follower")).map(|(leader, follower)| {
        format!(": a transaction waits {leader} for its own flush (leader) and {follower} for another's (follower)")
    });
    let approximate = approximate(profile);
    let blank = if approximate.is_empty() { "" } else { " " };
    Some(format!("{shared}{}{blank}{approximate}", waits.unwrap_or_default()))
}
