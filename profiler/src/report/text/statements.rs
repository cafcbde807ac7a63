//! Statements by the time they took.

use super::{
    approximate,
    page::{Page, Paint},
};
use crate::{
    model::profile::{BucketMean, Profile, Statement},
    units::{count, counted, duration, share},
};

/// Lines of text shown of a statement; the profile holds all of it.
const TEXT_LINES: usize = 2;
const INDENT: &str = "          ";

pub(super) fn write(page: &mut Page, profile: &Profile) {
    let capture = &profile.capture.statements;
    if profile.statements.is_empty() {
        return;
    }
    let sampled = profile.statements.iter().any(|statement| statement.calls_estimated);
    let sampled = if sampled { "(sampled: numbers with ~ are estimates)" } else { "" };
    let remark = format!("{} {sampled}", approximate(profile));
    page.section("STATEMENTS BY TIME", remark.trim(), "");
    page.line(format!("{:>9}{:>12}{:>10}{:>10}   {}", "share", "calls", "mean", "max", "mostly"));
    for statement in &profile.statements {
        page.line(numbers(statement));
        let text =
            statement.query.as_deref().unwrap_or("(text not read, or one of too many different texts)");
        page.paragraph(Paint::Faint, INDENT, text, TEXT_LINES);
    }
    let shown = profile.statements.iter().filter(|statement| statement.query.is_some()).count() as u64;
    if let Some(others) = capture.distinct.checked_sub(shown).filter(|others| *others != 0) {
        page.line(format!("  and {} not shown", counted(others, "other statement", "other statements")));
    }
}

fn numbers(statement: &Statement) -> String {
    let about = if statement.calls_estimated { "~" } else { "" };
    let part = statement.share.map_or_else(|| "–".to_owned(), |part| format!("{about}{}", share(part)));
    let calls = format!("{about}{}", count(statement.calls));
    let mostly = mostly(&statement.buckets, statement.mean_ns);
    let mean = duration(statement.mean_ns);
    // The longest of a sample is only the least the longest can be.
    let max = format!("{about}{}", duration(statement.max_ns));
    format!("{part:>9}{calls:>12}{mean:>10}{max:>10}   {mostly}")
}

/// The largest buckets with their shares: `lock 80 %, cpu 12 %`.
fn mostly(buckets: &[BucketMean], mean_ns: u64) -> String {
    let mut largest: Vec<&BucketMean> = buckets.iter().collect();
    largest.sort_by_key(|bucket| std::cmp::Reverse(bucket.mean_ns));
    let parts = largest.into_iter().take(3).filter_map(|bucket| {
        let percent = bucket.mean_ns as f64 / mean_ns.max(1) as f64 * 100.0;
        (percent >= 1.0).then(|| format!("{} {percent:.0} %", bucket.bucket.0.name()))
    });
    parts.collect::<Vec<_>>().join(", ")
}
