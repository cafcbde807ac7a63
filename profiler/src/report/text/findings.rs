//! What was found and what to do about it.

use super::page::{Page, Paint};
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
        page.paragraph(paint, &format!("{word:<LEAD$}"), &finding.message, usize::MAX);
        page.paragraph(Paint::Plain, &" ".repeat(LEAD), &advice(finding), usize::MAX);
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
