//! How it was measured, what was lost, and what measuring cost.

use super::page::{Page, Paint};
use crate::{
    model::profile::{Cost, Profile},
    report::words,
    units::{count, counted, duration, share},
};

pub(super) fn write(page: &mut Page, profile: &Profile) {
    let capture = &profile.capture;
    page.section("HOW IT WAS MEASURED", "", "");
    for sentence in sentences(profile) {
        page.paragraph(Paint::Plain, "  ", &sentence, usize::MAX);
    }
    for (name, n) in &capture.losses {
        let (meaning, serious) = words::loss(name);
        let paint = if serious { Paint::Warning } else { Paint::Plain };
        page.paragraph(paint, "  ", &format!("{name} {}: {meaning}", count(*n)), usize::MAX);
    }
    // The budget shows this one itself.
    let shown = profile.transactions.units_note();
    for note in capture.notes.iter().filter(|note| Some(*note) != shown.as_ref()) {
        page.paragraph(Paint::Plain, "  ", &format!("note: {note}"), usize::MAX);
    }
    page.paragraph(Paint::Plain, "  ", &cost(&capture.cost), usize::MAX);
}

fn sentences(profile: &Profile) -> Vec<String> {
    let capture = &profile.capture;
    let mut sentences = Vec::new();
    let borders = &capture.borders;
    let exact = if borders.exact { "exact" } else { "approximate" };
    let reason = borders.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    sentences.push(format!("borders: {} ({exact}){reason}", borders.signal));
    if capture.imbalance_ns == 0 && profile.transactions.count != 0 {
        sentences.push("budget: the buckets add up to the wall time to the nanosecond".to_owned());
    }
    let followed = capture.backends.followed.map(|n| counted(n, "client backend", "client backends"));
    let followed = followed.unwrap_or_else(|| "number of client backends not known".to_owned());
    sentences.push(format!(
        "followed: {followed}; {} of the server ended",
        counted(capture.backends.ended, "process", "processes")
    ));
    if let Some(startup_ns) = capture.connections.mean_startup_ns {
        sentences.push(format!(
            "connections: {} started up, on average in {} (fork to ready for queries; not a transaction)",
            count(capture.connections.count),
            duration(startup_ns)
        ));
    }
    let statements = &capture.statements;
    sentences.push(match statements.every {
        None => "statements: not recorded".to_owned(),
        Some(1) => format!(
            "statements: {} counted, {} recorded with text",
            count(statements.counted),
            count(statements.recorded)
        ),
        Some(every) => format!(
            "statements: {} counted, {} recorded with text (one in {} at the end)",
            count(statements.counted),
            count(statements.recorded),
            count(u64::from(every))
        ),
    });
    let filters = &capture.filters;
    if let Some(min_ns) = filters.min_latency_ns {
        sentences.push(format!("left out on request: transactions shorter than {}", duration(min_ns)));
    }
    for (what, name) in [("database", &filters.database), ("role", &filters.user)] {
        if let Some(name) = name {
            sentences.push(format!("left out on request: backends of another {what} than {name}"));
        }
    }
    for probe in capture.probes.iter().filter(|probe| !probe.attached) {
        let reason = probe.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        sentences.push(format!("probe {} not attached{reason}", probe.name));
    }
    if capture.losses.is_empty() {
        sentences.push("lost: nothing".to_owned());
    }
    sentences
}

fn cost(cost: &Cost) -> String {
    let mut parts = Vec::new();
    if let Some(probe_ns) = cost.probe_ns {
        let runs = cost.probe_runs.map(|runs| {
            let each =
                probe_ns.checked_div(runs).map(|ns| format!(", {} each", duration(ns))).unwrap_or_default();
            format!(" ({}{each})", counted(runs, "run", "runs"))
        });
        parts.push(format!("{} in its probes{}", duration(probe_ns), runs.unwrap_or_default()));
    }
    if let Some(agent_ns) = cost.agent_cpu_ns {
        parts.push(format!("{} in its own process", duration(agent_ns)));
    }
    if parts.is_empty() {
        return "own cost: not known".to_owned();
    }
    let of_a_cpu = match cost.share_of_one_cpu {
        Some(part) => format!("{} of one CPU: ", share(part)),
        None => String::new(),
    };
    format!(
        "own cost: {of_a_cpu}{}, by the kernel's accounts, which leave out the way into a probe",
        parts.join(" and ")
    )
}
