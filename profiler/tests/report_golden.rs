//! Fixture profiles and their text reports, compared with the checked-in files; `BLESS=1` writes them.

mod common;

use std::{env, fs, path::PathBuf};

use common::scenarios;
use pgstall::{
    model::profile::Profile,
    report::{
        json,
        text::{Style, render},
    },
};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn check(name: &str, found: &str) {
    let path = fixture(name);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, found).expect("a writable fixture");
    }
    let wanted = fs::read_to_string(&path).expect("a fixture; BLESS=1 writes it");
    assert!(
        wanted == found,
        "{} differs; look at the difference after BLESS=1 cargo test -p profiler\n{}",
        path.display(),
        first_difference(&wanted, found)
    );
}

fn first_difference(wanted: &str, found: &str) -> String {
    let mut pairs = wanted.lines().zip(found.lines()).enumerate();
    match pairs.find(|(_, (wanted, found))| wanted != found) {
        Some((at, (wanted, found))) => format!("line {}\n-{wanted}\n+{found}", at + 1),
        None => "one is longer".to_owned(),
    }
}

fn text(profile: &Profile, style: &Style) -> String {
    let mut out = Vec::new();
    render(profile, style, &mut out).expect("writing to memory");
    String::from_utf8(out).expect("UTF-8")
}

fn written(profile: &Profile) -> String {
    let mut out = Vec::new();
    json::write(profile, &mut out).expect("writing to memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn profiles_are_built_as_before() {
    for (name, profile) in scenarios::all() {
        check(&format!("{name}.json"), &written(&profile));
    }
}

#[test]
fn reports_of_the_fixtures_read_as_before() {
    for (name, _) in scenarios::all() {
        let stored = fs::read_to_string(fixture(&format!("{name}.json"))).expect("a fixture");
        let profile = json::read(&stored).expect("a profile");
        check(&format!("{name}.txt"), &text(&profile, &Style::default()));
    }
}

#[test]
fn a_profile_survives_being_written_and_read() {
    for (name, profile) in scenarios::all() {
        assert_eq!(json::read(&written(&profile)).expect("a profile"), profile, "{name}");
    }
}

#[test]
fn no_line_is_too_wide_or_ends_in_a_blank() {
    for (name, profile) in scenarios::all() {
        for width in [0, 72, 80, 93, 100, 400] {
            for unicode in [true, false] {
                let text = text(&profile, &Style { width, color: false, unicode });
                let limit = width.clamp(72, 100);
                for line in text.lines() {
                    assert!(line.chars().count() <= limit, "{name} at {width}: {line}");
                    assert!(!line.ends_with(' '), "{name} at {width}: {line:?}");
                    assert!(unicode || line.is_ascii(), "{name}: {line}");
                }
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_the_looks() {
    for (name, profile) in scenarios::all() {
        let plain = text(&profile, &Style::default());
        let coloured = text(&profile, &Style { color: true, ..Style::default() });
        assert!(coloured.contains("\x1b["), "{name}");
        let mut bare = String::new();
        for (at, part) in coloured.split("\x1b[").enumerate() {
            bare.push_str(if at == 0 { part } else { part.split_once('m').expect("a sequence").1 });
        }
        assert_eq!(bare, plain, "{name}");
    }
}

/// What a reader adds up from the screen: the column `mean` and the column `share`.
#[test]
fn the_rows_on_screen_add_up_to_the_latency_shown() {
    for (name, profile) in scenarios::all() {
        if profile.transactions.count == 0 {
            continue;
        }
        let text = text(&profile, &Style { unicode: false, ..Style::default() });
        let table = text.split("WHERE THE TIME WENT").nth(1).expect("a table");
        let (mut sum, mut shares, mut rows) = (0, 0, 0);
        for line in table.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with('#')).collect();
            let is_total = words[0] == "=";
            let at = if is_total { 2 } else { 1 };
            if words[at].starts_with('<') {
                continue;
            }
            let digits = |word: &str| word.replace(['.', ','], "").parse::<u64>().expect("a number");
            let share = if words[at + 2].starts_with('<') { 0 } else { digits(words[at + 2]) };
            if is_total {
                assert_eq!(digits(words[at]), sum, "{name}: mean\n{table}");
                assert_eq!((share, shares), (1000, 1000), "{name}: share\n{table}");
                break;
            }
            sum += digits(words[at]);
            shares += share;
            rows += 1;
        }
        assert!(rows > 0, "{name}\n{table}");
    }
}

#[test]
fn means_add_up_to_the_nanosecond() {
    for (name, profile) in scenarios::all() {
        let transactions = &profile.transactions;
        let sum: Option<u64> = transactions.buckets.iter().map(|bucket| bucket.mean_ns).sum();
        assert_eq!(sum, transactions.latency_ns.mean, "{name}");
        assert_eq!(profile.capture.imbalance_ns, 0, "{name}");
        for slow in &profile.slowest {
            assert_eq!(slow.buckets.iter().map(|time| time.time_ns).sum::<u64>(), slow.duration_ns, "{name}");
        }
        for interval in &profile.timeline {
            let sum: u64 = interval.buckets.iter().map(|bucket| bucket.mean_ns).sum();
            assert_eq!(sum, interval.mean_ns.unwrap_or(0), "{name}");
        }
    }
}

#[test]
fn another_document_is_refused_by_what_it_is() {
    let error = json::read("{\"schema\": \"pgstall.profile/2\"}").expect_err("another version");
    assert_eq!(error.to_string(), "found schema pgstall.profile/2, need pgstall.profile/1");
    assert!(json::read("[]").expect_err("no object").to_string().contains("found schema none"));
    assert!(json::read("").expect_err("nothing").to_string().contains("not a JSON document"));
    let stub = format!("{{\"schema\": \"{}\"}}", pgstall::model::profile::SCHEMA);
    assert!(json::read(&stub).expect_err("a stub").to_string().contains("does not follow it"));
}
