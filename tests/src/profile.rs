//! Reading the profile (`pgstall.profile/1`) as a test wants to ask it.
//!
//! A missing key is an error that names it, never a zero: a test must not pass on a number that is not there.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// A profile.
#[derive(Clone, Debug)]
pub struct Profile(Value);

/// One line of a bucket's waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Blocked time per transaction, ns.
    pub mean_ns: u64,
    /// How often it was waited for, over the window.
    pub waits: u64,
}

impl Profile {
    /// Parses the document.
    pub fn parse(text: &str) -> Result<Profile> {
        let document = serde_json::from_str(text).with_context(|| format!("not JSON: {text:.300}"))?;
        Ok(Profile(document))
    }

    /// The value at a JSON pointer.
    pub fn at(&self, pointer: &str) -> Result<&Value> {
        self.0.pointer(pointer).with_context(|| format!("the profile has no {pointer}"))
    }

    /// The unsigned number at a JSON pointer.
    pub fn number(&self, pointer: &str) -> Result<u64> {
        let value = self.at(pointer)?;
        value.as_u64().with_context(|| format!("{pointer} is {value}, not an unsigned number"))
    }

    fn list(&self, pointer: &str) -> Result<&Vec<Value>> {
        self.at(pointer)?.as_array().with_context(|| format!("{pointer} is not a list"))
    }

    /// Transactions counted.
    pub fn transactions(&self) -> Result<u64> {
        self.number("/transactions/count")
    }

    /// Requests from idle to idle.
    pub fn units(&self) -> Result<u64> {
        self.number("/transactions/units")
    }

    /// Connections whose start-up was seen.
    pub fn connections(&self) -> Result<u64> {
        self.number("/capture/connections/count")
    }

    /// Mean latency, ns.
    pub fn mean_ns(&self) -> Result<u64> {
        self.number("/transactions/latency_ns/mean")
    }

    /// Mean time per transaction by bucket, ns.
    pub fn buckets(&self) -> Result<BTreeMap<String, u64>> {
        let mut buckets = BTreeMap::new();
        for line in self.list("/transactions/buckets")? {
            let name = line["bucket"].as_str().context("a bucket without a name")?;
            let mean = line["mean_ns"].as_u64().with_context(|| format!("{name} has no mean_ns"))?;
            buckets.insert(name.to_owned(), mean);
        }
        Ok(buckets)
    }

    /// Mean time per transaction in one bucket, ns; a bucket that is not listed is an error.
    pub fn bucket_ns(&self, name: &str) -> Result<u64> {
        self.buckets()?.get(name).copied().with_context(|| format!("no bucket {name}"))
    }

    /// One wait event of a bucket, or `None` if it was not waited for.
    pub fn event(&self, bucket: &str, class: &str, event: &str) -> Result<Option<Event>> {
        for line in self.list("/transactions/buckets")? {
            if line["bucket"] != bucket {
                continue;
            }
            let events = line["events"].as_array().context("a bucket without events")?;
            for found in events {
                // Names changed their case at PostgreSQL 17.
                let named = |key: &str, wanted: &str| {
                    found[key].as_str().is_some_and(|name| name.eq_ignore_ascii_case(wanted))
                };
                if named("class", class) && named("event", event) {
                    return Ok(Some(Event {
                        mean_ns: found["mean_ns"].as_u64().context("an event without mean_ns")?,
                        waits: found["waits"].as_u64().context("an event without waits")?,
                    }));
                }
            }
        }
        Ok(None)
    }

    /// Total blocked time of a wait event, ns; 0 if it was not waited for. The mean is rounded to 1 ns, so the total
    /// is good to half a nanosecond per transaction.
    pub fn event_total_ns(&self, bucket: &str, class: &str, event: &str) -> Result<u64> {
        let mean = self.event(bucket, class, event)?.map_or(0, |event| event.mean_ns);
        Ok(mean * self.transactions()?)
    }

    /// Everything counted as lost, by name, without the zeros.
    pub fn losses(&self) -> Result<BTreeMap<String, u64>> {
        let losses = self.at("/capture/losses")?.as_object().context("losses is not an object")?;
        let numbers = losses.iter().map(|(name, value)| {
            let number = value.as_u64().with_context(|| format!("loss {name} is {value}"))?;
            Ok((name.clone(), number))
        });
        let all: BTreeMap<String, u64> = numbers.collect::<Result<_>>()?;
        Ok(all.into_iter().filter(|(_, number)| *number != 0).collect())
    }

    /// Mean time of one run of a probe, by the kernel's statistics, ns.
    pub fn probe_run_ns(&self, name: &str) -> Result<f64> {
        let probes = self.at("/capture/probes")?.as_array().context("/capture/probes is no array")?;
        let probe = probes.iter().find(|probe| probe["name"] == name);
        let probe = probe.with_context(|| format!("the profile has no probe {name}"))?;
        let figure = |key: &str| probe[key].as_f64().with_context(|| format!("{name} has no {key}"));
        Ok(figure("run_ns")? / figure("runs")?)
    }

    /// Whether the window was cut short.
    pub fn is_partial(&self) -> Result<bool> {
        self.at("/window/partial")?.as_bool().context("window.partial is no truth value")
    }

    /// Time of one process in a bucket over the window, ns (`--per-backend`).
    pub fn process_ns(&self, pid: u32, bucket: &str) -> Result<u64> {
        let own = self.process(pid)?;
        let buckets = own["buckets"].as_array().context("a process without buckets")?;
        let Some(line) = buckets.iter().find(|line| line["bucket"] == bucket) else { return Ok(0) };
        line["time_ns"].as_u64().with_context(|| format!("{bucket} of {pid} has no time_ns"))
    }

    /// The time a process stood in a CPU's queue, ns: its `run_queue` without the rousing of idle CPUs.
    pub fn queued_ns(&self, pid: u32) -> Result<u64> {
        let roused = self.process(pid)?["wake_to_run_ns"].as_u64();
        let roused = roused.with_context(|| format!("process {pid} has no wake_to_run_ns"))?;
        Ok(self.process_ns(pid, "run_queue")? - roused)
    }

    fn process(&self, pid: u32) -> Result<&Value> {
        for kind in self.list("/processes")? {
            // Types are listed always, their processes on demand.
            let processes = kind["pids"].as_array().map(Vec::as_slice).unwrap_or_default();
            let own = processes.iter().find(|process| process["pid"].as_u64() == Some(pid.into()));
            let Some(own) = own else { continue };
            return Ok(own);
        }
        bail!("process {pid} is not in the profile: was it asked for with --per-backend?")
    }

    /// A block device, by the kernel's name.
    pub fn device(&self, name: &str) -> Result<&Value> {
        let devices = self.list("/devices")?;
        let own = devices.iter().find(|device| device["name"] == name);
        own.with_context(|| format!("no device {name} in the profile: {devices:?}"))
    }

    /// One kind of a device's requests; one that is not listed is an error.
    pub fn operation(&self, device: &str, operation: &str) -> Result<&Value> {
        let operations =
            self.device(device)?["operations"].as_array().context("a device without operations")?;
        let own = operations.iter().find(|own| own["operation"] == operation);
        own.with_context(|| format!("no {operation} on {device}: {operations:?}"))
    }

    /// How the waits for I/O in a bucket were spent: mean per transaction by part, ns.
    pub fn storage_parts(&self, bucket: &str) -> Result<BTreeMap<String, u64>> {
        let buckets = self.list("/transactions/buckets")?;
        let own = buckets.iter().find(|line| line["bucket"] == bucket);
        let own = own.with_context(|| format!("no bucket {bucket}"))?;
        let parts = own["storage"].as_array().with_context(|| format!("{bucket} has no storage parts"))?;
        let part = |part: &Value| -> Result<(String, u64)> {
            let name = part["part"].as_str().context("a part without a name")?;
            Ok((name.to_owned(), part["mean_ns"].as_u64().context("a part without mean_ns")?))
        };
        parts.iter().map(part).collect()
    }

    /// What was found: the messages by code. Where nobody looked it is an error.
    pub fn findings(&self) -> Result<BTreeMap<String, String>> {
        let findings = self.list("/findings")?.iter().map(|finding| {
            let text = |key: &str| {
                let text = finding[key].as_str().map(str::to_owned);
                text.with_context(|| format!("a finding without {key}: {finding}"))
            };
            Ok((text("code")?, text("message")?))
        });
        findings.collect()
    }

    /// The statements, as they are listed.
    pub fn statements(&self) -> Result<&Vec<Value>> {
        self.list("/statements")
    }
}

/// What the processes of one type did over the window.
#[derive(Clone, Debug)]
pub struct ProcessType<'profile>(&'profile Value);

impl Profile {
    /// The processes of a type, named as in `pg_stat_activity`.
    pub fn process_type(&self, name: &str) -> Result<ProcessType<'_>> {
        let types = self.list("/processes")?;
        let own = types.iter().find(|one| one["backend_type"] == name);
        own.map(ProcessType).with_context(|| {
            let there: Vec<&Value> = types.iter().map(|one| &one["backend_type"]).collect();
            format!("no {name} among the processes {there:?}")
        })
    }

    /// Length of the window, ns.
    pub fn window_ns(&self) -> Result<u64> {
        self.number("/window/duration_ns")
    }

    /// The intervals.
    pub fn timeline(&self) -> Result<&Vec<Value>> {
        self.list("/timeline")
    }
}

impl ProcessType<'_> {
    /// How many there were.
    pub fn n(&self) -> Result<u64> {
        self.0["n"].as_u64().context("a type without n")
    }

    /// Time in a bucket, or `idle`, ns.
    pub fn time_ns(&self, bucket: &str) -> Result<u64> {
        if bucket == "idle" {
            return self.0["idle_ns"].as_u64().context("a type without idle_ns");
        }
        let buckets = self.0["buckets"].as_array().context("a type without buckets")?;
        Ok(buckets
            .iter()
            .find(|time| time["bucket"] == bucket)
            .and_then(|time| time["time_ns"].as_u64())
            .unwrap_or(0))
    }

    /// All time, idle time included, ns.
    pub fn life_ns(&self) -> Result<u64> {
        let buckets = self.0["buckets"].as_array().context("a type without buckets")?;
        Ok(buckets.iter().filter_map(|time| time["time_ns"].as_u64()).sum::<u64>() + self.time_ns("idle")?)
    }

    /// Blocked time by `Class/Event`, ns.
    pub fn events(&self) -> BTreeMap<String, u64> {
        let events = self.0["events"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named = events.iter().filter_map(|event| {
            let name = format!("{}/{}", event["class"].as_str()?, event["event"].as_str()?);
            Some((name, event["blocked_ns"].as_u64()?))
        });
        named.collect()
    }

    /// Their requests, bytes and share of the time at a device: those of the largest share.
    pub fn device(&self) -> Option<(u64, u64, f64)> {
        let devices = self.0["devices"].as_array().map(Vec::as_slice).unwrap_or_default();
        let numbers = devices.iter().filter_map(|device| {
            Some((device["requests"].as_u64()?, device["bytes"].as_u64()?, device["share"].as_f64()?))
        });
        numbers.max_by(|one, other| one.2.total_cmp(&other.2))
    }

    /// What they were seen working on.
    pub fn work(&self) -> Vec<&str> {
        let works = self.0["work"].as_array().map(Vec::as_slice).unwrap_or_default();
        works.iter().filter_map(|work| work["what"].as_str()).collect()
    }

    /// The document's entry.
    pub fn json(&self) -> &Value {
        self.0
    }
}
