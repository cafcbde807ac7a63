//! Waits that another process ended, and what that process was doing meanwhile.

use super::page::{Line, Page, Paint, cut};
use crate::{
    model::profile::{LockHolder, LockWait, Profile},
    report::words,
    units::{count, counted, duration, share},
};

/// Events listed, and the part of all these waits' time below which none is.
const EVENTS: usize = 6;
const LEAST_PART: f64 = 0.001;
const EVENT: usize = 32;
const NUMBERS: usize = 10 + 3 * 10;

pub(super) fn write(page: &mut Page, profile: &Profile) {
    let Some(waits) = profile.locks.as_ref().filter(|waits| !waits.is_empty()) else { return };
    let heads = format!("{:>10}{:>10}{:>10}{:>10}", "waits", "each", "longest", "all");
    page.section("LOCKS AND THEIR HOLDERS", "(all processes)", &heads);
    let meaning_width = page.width().saturating_sub(EVENT + NUMBERS);
    let all_ns: u64 = waits.iter().map(|wait| wait.blocked_ns).sum();
    let listed = |wait: &&LockWait| wait.blocked_ns as f64 >= LEAST_PART * all_ns as f64;
    // The most time comes first.
    let n_listed = waits.iter().take(EVENTS).take_while(listed).count();
    for wait in waits.iter().take(n_listed) {
        let label = cut(&format!("  {}/{}", wait.class, wait.event), EVENT - 1);
        let meaning = words::meaning(&wait.class, &wait.event).unwrap_or_default();
        let meaning = cut(meaning, meaning_width);
        page.write(
            Line::default()
                .add(Paint::Plain, format!("{label:<EVENT$}"))
                .add(Paint::Faint, format!("{meaning:<meaning_width$}"))
                .add(Paint::Plain, numbers(wait)),
        );
        page.paragraph(Paint::Plain, "      ", &sentence(wait), usize::MAX);
        if let Some(holder) = wait.holders.first() {
            page.paragraph(Paint::Faint, "      ", &most_of(holder, wait), 2);
        }
    }
    let rest = waits.get(n_listed..).unwrap_or_default();
    if !rest.is_empty() {
        let sum: u64 = rest.iter().map(|wait| wait.blocked_ns).sum();
        page.line(format!(
            "  and {}: {}",
            counted(rest.len() as u64, "other event", "other events"),
            duration(sum)
        ));
    }
}

fn numbers(wait: &LockWait) -> String {
    let each = wait.blocked_ns.checked_div(wait.waits).map(duration).unwrap_or_default();
    let (longest, all) = (duration(wait.max_ns), duration(wait.blocked_ns));
    format!("{:>10}{each:>10}{longest:>10}{all:>10}", count(wait.waits))
}

/// `of which 82 % is the holder's wal_fsync, 12 % client, 6 % unexplained`, and of chains.
fn sentence(wait: &LockWait) -> String {
    let part = |ns: u64| ns as f64 / wait.blocked_ns.max(1) as f64;
    let shown = wait.causes.iter().filter(|cause| part(cause.time_ns) >= 0.005).take(5);
    let mut parts: Vec<String> =
        shown.map(|cause| format!("{} {}", share(part(cause.time_ns)), cause.bucket.0.name())).collect();
    if let Some(first) = parts.first_mut()
        && let Some((percent, name)) = first.rsplit_once(' ')
    {
        *first = format!("{percent} is the holder's {name}");
    }
    let unexplained = 1.0 - wait.explained;
    if unexplained >= 0.005 {
        parts.push(format!("{} unexplained", share(unexplained)));
    }
    let mut sentence = format!("of which {}", parts.join(", "));
    if wait.in_chains != 0 {
        let followed = if wait.recorded < wait.waits {
            format!(" of {} followed", count(wait.recorded))
        } else {
            String::new()
        };
        sentence.push_str(&format!(
            "; {}{followed} in chains of up to {}",
            counted(wait.in_chains, "wait", "waits"),
            wait.chain_max
        ));
    }
    sentence
}

/// The holder that accounts for the most, and what it ran.
fn most_of(holder: &LockHolder, wait: &LockWait) -> String {
    let kind = holder.backend_type.as_deref().unwrap_or("process");
    let part = holder.blocked_ns as f64 / wait.blocked_ns.max(1) as f64;
    let text = holder.statement.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("{} held by {kind} {}{text}", share(part.min(1.0)), holder.pid)
}
