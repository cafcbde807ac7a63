//! The rules: when each fires, what it says, and that no profile makes one say nonsense.

#[path = "../common/mod.rs"]
mod common;

mod base;
mod cases;
mod hostile;

use std::{env, fs, path::PathBuf};

use base::base;
use cases::CASES;
use common::scenarios;
use pgstall::{
    model::{
        findings::{codes, find},
        profile::{Finding, Profile, Severity},
    },
    report::text::{Style, render},
    units,
};
use serde_json::Value;

fn codes_of(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.code.as_str()).collect()
}

fn made(make: fn(&mut Profile)) -> Profile {
    let mut profile = base();
    make(&mut profile);
    profile
}

#[test]
fn nothing_is_found_where_nothing_is_remarkable() {
    assert_eq!(codes_of(&find(&base())), [""; 0]);
}

#[test]
fn each_rule_fires_where_it_should_and_nowhere_else() {
    for (code, what, fires, make) in CASES {
        let findings = find(&made(*make));
        let fired = codes_of(&findings).contains(code);
        assert_eq!(fired, *fires, "{code}: {what}: {findings:#?}");
    }
}

#[test]
fn each_rule_has_cases_on_both_sides() {
    for code in codes() {
        for wanted in [true, false] {
            assert!(
                CASES.iter().any(|(of, _, fires, _)| *of == code && *fires == wanted),
                "{code}: {wanted}"
            );
        }
    }
    for (code, what, _, _) in CASES {
        assert!(codes().any(|known| known == *code), "no rule {code}: {what}");
    }
}

/// A finding says only numbers that are in its evidence.
#[test]
fn every_number_said_is_in_the_evidence() {
    for (code, what, _, make) in CASES {
        for finding in find(&made(*make)) {
            let mut said: Vec<String> = finding.evidence.values().flat_map(forms).collect();
            said.sort_by_key(|form| std::cmp::Reverse(form.len()));
            let mut rest = finding.message.clone();
            for form in said {
                rest = rest.replace(&form, "");
            }
            let left: Vec<char> = rest.chars().filter(char::is_ascii_digit).collect();
            assert!(left.is_empty(), "{code}: {what}: {left:?} in {rest:?} of {finding:#?}");
        }
    }
}

/// How a value may be written.
fn forms(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => {
            let short: String = text.chars().take(60).collect();
            vec![text.clone(), short]
        }
        Value::Number(number) => {
            let float = number.as_f64().expect("a number");
            let mut forms = vec![units::share(float), units::rate(float), units::bytes_per_s(float)];
            forms.extend(number.as_u64().map(units::count));
            forms.extend(number.as_u64().map(units::duration));
            forms
        }
        other => panic!("{other} is no evidence"),
    }
}

#[test]
fn findings_are_sorted_and_written_as_sentences() {
    for (code, what, _, make) in CASES {
        let findings = find(&made(*make));
        assert!(findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)), "{code}: {what}");
        for finding in findings {
            assert_ne!(finding.severity, Severity::Other);
            assert!(!finding.evidence.is_empty(), "{finding:?}");
            for sentence in [&finding.message, &finding.advice] {
                assert!(sentence.ends_with('.') && !sentence.contains("  "), "{code}: {what}: {sentence}");
                let begins = sentence.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
                assert!(begins, "{code}: {what}: {sentence}");
            }
        }
    }
}

#[test]
fn the_report_shows_each_finding_within_its_width() {
    for (code, what, _, make) in CASES {
        let mut profile = made(*make);
        profile.findings = Some(find(&profile));
        for unicode in [true, false] {
            let mut out = Vec::new();
            render(&profile, &Style { width: 72, unicode, ..Style::default() }, &mut out).expect("memory");
            let text = String::from_utf8(out).expect("UTF-8");
            for finding in profile.findings.iter().flatten() {
                assert!(text.contains(&format!("[{}]", finding.code)), "{code}: {what}\n{text}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= 72), "{code}: {what}\n{text}");
            assert!(unicode || text.is_ascii(), "{code}: {what}\n{text}");
        }
    }
}

/// What is found in the invented runs; `profiler/tests/common/scenarios.rs` says what they are.
#[test]
fn the_fixtures_are_understood() {
    let wanted: &[(&str, &[&str])] = &[
        (
            "update_heavy",
            &["fsync_bound_group_commit", "storage_share", "open_transaction", "cpu_idle_while_waiting"],
        ),
        ("select_only", &[]),
        (
            "lock_pile_up",
            &["idle_in_transaction", "open_transaction", "storage_share", "lock_caused_by_storage"],
        ),
        ("idle", &["no_answer"]),
        ("approximate_partial", &["no_answer"]),
    ];
    for (name, profile) in scenarios::all() {
        let wanted = wanted.iter().find(|(of, _)| *of == name).expect("a line of this table").1;
        let found = profile.findings.expect("findings");
        assert_eq!(codes_of(&found), wanted, "{name}: {found:#?}");
    }
}

#[test]
fn each_finding_is_documented_and_no_other() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/findings.md");
    let text = fs::read_to_string(path).expect("docs/findings.md");
    let headings =
        text.lines().filter_map(|line| line.strip_prefix("### ")).map(|line| line.trim_matches('`'));
    let mut headings: Vec<&str> = headings.collect();
    let mut known: Vec<&str> = codes().collect();
    headings.sort_unstable();
    known.sort_unstable();
    assert_eq!(headings, known);
}

/// Not a test of anything: prints what every case says, for reading. `cargo test -p profiler --test findings said -- --ignored --nocapture`.
#[test]
#[ignore = "prints for a reader"]
fn said() {
    for (code, what, fires, make) in CASES {
        for finding in find(&made(*make)).iter().filter(|finding| finding.code == *code && *fires) {
            println!("{code} ({what}; {:?})\n  {}\n  {}", finding.severity, finding.message, finding.advice);
        }
    }
}
