//! Profiles no server makes: whatever is in one, findings are sentences with numbers in them.

use pgstall::model::{
    findings::find,
    profile::{Finding, Profile},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{base::base, cases::CASES};

/// What is done to one value of a document.
#[derive(Clone, Debug)]
enum Change {
    Null,
    Number(u64),
    Float(f64),
    Text(String),
    Empty,
    Twice,
}

fn change() -> impl Strategy<Value = Change> {
    let whole =
        prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX / 2), any::<u64>(), 0..2_000_000_000_u64];
    let float = prop_oneof![
        Just(0.0),
        Just(-1.0),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        0.0..1.0,
        any::<f64>().prop_filter("JSON has no such numbers", |float| float.is_finite()),
    ];
    prop_oneof![
        4 => Just(Change::Null),
        2 => whole.prop_map(Change::Number),
        2 => float.prop_map(Change::Float),
        1 => ".{0,80}".prop_map(Change::Text),
        2 => Just(Change::Empty),
        1 => Just(Change::Twice),
    ]
}

/// The document of a case, and how many values are in it.
fn document(case: usize) -> Value {
    let mut profile = base();
    (CASES[case].3)(&mut profile);
    serde_json::to_value(&profile).expect("JSON")
}

/// Changes the value that is `left` further in the document; counts down to it.
fn apply(value: &mut Value, left: &mut usize, change: &Change) {
    if *left == 0 {
        match change {
            Change::Null => *value = Value::Null,
            Change::Number(number) => *value = json!(number),
            Change::Float(float) => *value = json!(float),
            Change::Text(text) => *value = json!(text),
            Change::Empty if value.is_array() => *value = json!([]),
            Change::Empty => *value = Value::Null,
            Change::Twice => {
                if let Value::Array(list) = value {
                    list.extend(list.clone());
                }
            }
        }
    }
    if let Some(rest) = left.checked_sub(1) {
        *left = rest;
    } else {
        *left = usize::MAX;
        return;
    }
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| apply(value, left, change)),
        Value::Object(keys) => keys.values_mut().for_each(|value| apply(value, left, change)),
        _ => {}
    }
}

fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(values).sum(),
        Value::Object(keys) => keys.values().map(values).sum(),
        _ => 0,
    }
}

fn check(finding: &Finding) -> Result<(), TestCaseError> {
    for sentence in [&finding.message, &finding.advice] {
        let words = sentence.split(|c: char| !c.is_alphabetic());
        for word in words {
            prop_assert!(!["NaN", "inf", "nan", "infinity"].contains(&word), "{finding:?}");
        }
        prop_assert!(!sentence.is_empty());
    }
    for (name, value) in &finding.evidence {
        prop_assert!(value.is_number() || value.is_string(), "{name} in {finding:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, max_global_rejects: 100_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_profile_makes_a_finding_say_nonsense(
        case in 0..CASES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 1..12),
    ) {
        let mut document = document(case);
        let mut kept: Option<Profile> = None;
        for (at, change) in changes {
            let mut changed = document.clone();
            let mut left = at.index(values(&document));
            apply(&mut changed, &mut left, &change);
            // A change the format does not allow is not made.
            if let Ok(profile) = serde_json::from_value(changed.clone()) {
                document = changed;
                kept = Some(profile);
            }
        }
        let Some(profile) = kept else { return Err(TestCaseError::reject("no change fits the format")) };
        for finding in find(&profile) {
            check(&finding)?;
        }
    }
}
