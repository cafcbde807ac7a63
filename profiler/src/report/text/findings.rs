//! What was found and what to do about it.

use super::{
    page::{Page, Paint},
    single,
};
use crate::model::profile::{Finding, Profile, Severity};

/// Width of the severity in front of a finding.
const LEAD: usize = 10;
pub(super) fn write(page: &mut Page, profile: &Profile) {
    let Some(findings) = &profile.findings else { return };
    if findings.is_empty() {
        return;
    }
    page.section("WHAT TO DO", "", "");
    for finding in findings {
        let (word, paint) = severity(finding.severity);
        let mut lead = format!("{word:<LEAD$}");
        if !said_at_the_head(finding, profile) {
            page.paragraph(paint, &lead, &finding.message, usize::MAX);
            lead = " ".repeat(LEAD);
        }
        page.paragraph(Paint::Plain, &lead, &advice(finding), usize::MAX);
    }
}

/// Whether the head of the report has it in its own words already, so that only what to do is to be added.
fn said_at_the_head(finding: &Finding, profile: &Profile) -> bool {
    match finding.code.as_str() {
        "no_answer" => true,
        "open_transaction" => single::open_warning(profile).is_some(),
        _ => false,
    }
}

/// What to do, and the name under which docs/findings.md has more.
fn advice(finding: &Finding) -> String {
    format!("{} [{}]", finding.advice, finding.code)
}

fn severity(severity: Severity) -> (&'static str, Paint) {
    match severity {
        Severity::Critical => ("critical", Paint::Warning),
        Severity::Notable => ("notable", Paint::Strong),
        Severity::Info => ("info", Paint::Plain),
        Severity::Other => ("other", Paint::Plain),
    }
}
