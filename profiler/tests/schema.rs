//! docs/profile.schema.json is the schema of the types, and profiles follow it; `BLESS=1` writes it.

mod common;

use std::{env, fs, path::PathBuf};

use common::scenarios;
use pgstall::report::json;
use serde_json::Value;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/profile.schema.json")
}

fn schema() -> Value {
    json::schema().to_value()
}

#[test]
fn the_checked_in_schema_is_that_of_the_types() {
    let found = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    if env::var_os("BLESS").is_some() {
        fs::write(path(), &found).expect("a writable file");
    }
    let wanted = fs::read_to_string(path()).expect("docs/profile.schema.json");
    assert!(
        wanted == found,
        "docs/profile.schema.json is out of date: BLESS=1 cargo test -p profiler --test schema"
    );
}

#[test]
fn profiles_follow_the_schema() {
    let validator = jsonschema::validator_for(&schema()).expect("a valid schema");
    for (name, profile) in scenarios::all() {
        let document = serde_json::to_value(&profile).expect("JSON");
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

#[test]
fn the_schema_refuses_what_is_no_profile() {
    let validator = jsonschema::validator_for(&schema()).expect("a valid schema");
    let (_, profile) = scenarios::all().remove(0);
    let good = serde_json::to_value(&profile).expect("JSON");
    assert!(validator.is_valid(&good));

    let mut without_window = good.clone();
    without_window.as_object_mut().expect("an object").remove("window");
    assert!(!validator.is_valid(&without_window), "a key is missing");

    let mut other_bucket = good.clone();
    other_bucket["transactions"]["buckets"][0]["bucket"] = Value::from("disk");
    assert!(!validator.is_valid(&other_bucket), "there is no bucket of that name");

    let mut negative = good;
    negative["transactions"]["latency_ns"]["mean"] = Value::from(-1);
    assert!(!validator.is_valid(&negative), "no latency is negative");
}
