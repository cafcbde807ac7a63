//! The file of `--records`: every finished unit, one JSON line each.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// One finished unit.
#[derive(Clone, Debug)]
pub struct Record {
    /// Process id of the backend.
    pub pid: u32,
    /// Begin, ns of the monotonic clock.
    pub start_ns: u64,
    /// End, ns of the monotonic clock.
    pub end_ns: u64,
    /// Transactions in it.
    pub transactions: u64,
    /// Time by bucket, ns.
    pub buckets: BTreeMap<String, u64>,
}

impl Record {
    /// Its length, ns.
    pub fn wall_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Time in a bucket, ns; 0 where the record does not list it.
    pub fn bucket_ns(&self, name: &str) -> u64 {
        self.buckets.get(name).copied().unwrap_or(0)
    }
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines().map(|line| parse(line).with_context(|| line.to_owned())).collect()
}

fn parse(line: &str) -> Result<Record> {
    let value: Value = serde_json::from_str(line)?;
    let number = |key: &str| value[key].as_u64().with_context(|| format!("no {key}"));
    let buckets = value["buckets"].as_object().context("no buckets")?;
    let buckets = buckets
        .iter()
        .map(|(name, ns)| Ok((name.clone(), ns.as_u64().with_context(|| format!("bucket {name} is {ns}"))?)));
    Ok(Record {
        pid: u32::try_from(number("pid")?)?,
        start_ns: number("start_ns")?,
        end_ns: number("end_ns")?,
        transactions: number("transactions")?,
        buckets: buckets.collect::<Result<_>>()?,
    })
}
