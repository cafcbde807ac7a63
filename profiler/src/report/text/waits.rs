//! The server's wait events behind the budget.

use super::{
    approximate,
    page::{Line, Page, Paint, cut},
};
use crate::{
    model::profile::{EventBudget, Profile},
    report::words,
    units::{duration, rate},
};

/// Events listed of one bucket.
const EVENTS_OF_A_BUCKET: usize = 6;
const NAME: usize = 14;
const EVENT: usize = 30;
const MEANING: usize = 20;

pub(super) fn write(page: &mut Page, profile: &Profile) {
    let transactions = &profile.transactions;
    if transactions.buckets.iter().all(|bucket| bucket.events.is_empty()) {
        return;
    }
    let heads = format!("{:>9}{:>9}{:>9}{:>9}", "mean", "waits", "each", "+queue");
    page.section("WAITS PER TRANSACTION", approximate(profile), &heads);
    let mut queued = false;
    // The name of the event yields where the page is narrow; its meaning goes first.
    let room = page.width() - NAME - 4 * 9;
    let event_width = room.saturating_sub(MEANING).max(EVENT).min(room);
    let meaning_width = room - event_width;
    for bucket in &transactions.buckets {
        let mut name = bucket.bucket.0.name();
        for event in bucket.events.iter().take(EVENTS_OF_A_BUCKET) {
            let meaning = words::meaning(&event.class, &event.event).unwrap_or_default();
            let label = cut(&format!("{}/{}", event.class, event.event), event_width - 1);
            let meaning = cut(meaning, meaning_width);
            queued |= event.run_queue_mean_ns != 0;
            page.write(
                Line::default()
                    .add(Paint::Of(bucket.bucket.0), format!("{name:<NAME$}"))
                    .add(Paint::Plain, format!("{label:<event_width$}"))
                    .add(Paint::Faint, format!("{meaning:<meaning_width$}"))
                    .add(Paint::Plain, numbers(event, transactions.count)),
            );
            name = "";
        }
        if let Some(rest) = bucket.events.get(EVENTS_OF_A_BUCKET..).filter(|rest| !rest.is_empty()) {
            let sum: u64 = rest.iter().map(|event| event.mean_ns).sum();
            page.line(format!("{:NAME$}and {} more: {}", "", rest.len(), duration(sum)));
        }
    }
    if queued {
        let text = "+queue: getting a CPU back after these waits; it is in run_queue. The server's own timers show \
                    mean + queue.";
        page.paragraph(Paint::Faint, "  ", text, usize::MAX);
    }
}

fn numbers(event: &EventBudget, n_transactions: u64) -> String {
    let waits = rate(event.waits as f64 / n_transactions.max(1) as f64);
    let total_ns = u128::from(event.mean_ns) * u128::from(n_transactions);
    let each_ns =
        total_ns.checked_div(u128::from(event.waits)).and_then(|each_ns| u64::try_from(each_ns).ok());
    let each = each_ns.map(duration).unwrap_or_default();
    format!("{:>9}{waits:>9}{each:>9}{:>9}", duration(event.mean_ns), duration(event.run_queue_mean_ns))
}
