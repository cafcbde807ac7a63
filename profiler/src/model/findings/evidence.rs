//! The numbers a finding rests on, and the only way to write one into its sentence: what is said is in the evidence.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{model::profile::Severity, units};

/// What a rule found; its code is beside it in the table of rules.
pub(super) struct Found {
    pub severity: Severity,
    pub message: String,
    pub advice: String,
    pub evidence: BTreeMap<String, Value>,
}

/// No rate is higher, and all below can be written.
const MOST_WRITTEN: f64 = 1e18;

/// Numbers being collected. Each method keeps a value under its name and returns it as it is written.
#[derive(Default)]
pub(super) struct Evidence {
    values: BTreeMap<String, Value>,
    /// A number is none, or a share is more than all: the profile is broken, and there is nothing to say.
    broken: bool,
}

impl Evidence {
    /// A share, 0 to 1; the name ends in `_share`.
    pub fn share(&mut self, name: &str, share: f64) -> String {
        self.broken |= !(0.0..=1.0).contains(&share);
        self.float(name, share);
        units::share(share)
    }

    /// A duration; the name ends in `_ns`.
    pub fn duration(&mut self, name: &str, ns: u64) -> String {
        self.values.insert(name.to_owned(), ns.into());
        units::duration(ns)
    }

    /// A count.
    pub fn count(&mut self, name: &str, count: u64) -> String {
        self.values.insert(name.to_owned(), count.into());
        units::count(count)
    }

    /// A count and its noun.
    pub fn counted(&mut self, name: &str, count: u64, singular: &str, plural: &str) -> String {
        self.values.insert(name.to_owned(), count.into());
        units::counted(count, singular, plural)
    }

    /// A rate, or a count that is a mean.
    pub fn rate(&mut self, name: &str, rate: f64) -> String {
        self.float(name, rate);
        units::rate(rate)
    }

    /// Bytes per second; the name ends in `_bytes_per_s`.
    pub fn bytes_per_s(&mut self, name: &str, rate: f64) -> String {
        self.float(name, rate);
        units::bytes_per_s(rate)
    }

    /// A name.
    pub fn text(&mut self, name: &str, text: &str) -> String {
        self.values.insert(name.to_owned(), text.into());
        text.to_owned()
    }

    /// The finding; `None` where one of the numbers was none.
    pub fn found(self, severity: Severity, message: String, advice: impl Into<String>) -> Option<Found> {
        let advice = advice.into();
        (!self.broken).then_some(Found { severity, message, advice, evidence: self.values })
    }

    fn float(&mut self, name: &str, value: f64) {
        self.broken |= !(0.0..=MOST_WRITTEN).contains(&value);
        self.values.insert(name.to_owned(), value.into());
    }
}

/// `one`, `one and two`, `one, two and three`.
pub(super) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
