//! How a volume is to answer: latencies by operation and rate limits. Values only; [`super::clock`] applies them.

use std::{fmt, str::FromStr, time::Duration};

use anyhow::{Context as _, Result, bail};
use rand::Rng;
use rand_distr::{Distribution as _, LogNormal};

/// What is asked of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making writes durable.
    Flush,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Flush];

    /// The name, as in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
        }
    }
}

/// How long an operation is held back, waiting for a rate limit apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Latency {
    /// Not at all.
    #[default]
    None,
    /// Always the same time.
    Fixed(Duration),
    /// Times with a long tail: a lognormal distribution.
    LogNormal {
        /// Half of them are shorter.
        median: Duration,
        /// 99 % of them are shorter; not below the median.
        p99: Duration,
    },
}

/// The standard normal distribution's 99th percentile.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

impl Latency {
    /// Draws one latency.
    pub fn draw(&self, random: &mut impl Rng) -> Duration {
        match *self {
            Latency::None => Duration::ZERO,
            Latency::Fixed(time) => time,
            Latency::LogNormal { median, p99 } => {
                let (median, p99) = (median.as_secs_f64().ln(), p99.as_secs_f64().ln());
                match LogNormal::new(median, (p99 - median) / NORMAL_P99) {
                    Ok(distribution) => Duration::from_secs_f64(distribution.sample(random)),
                    // Refused when parsed: a median of zero or a p99 below it.
                    Err(_) => Duration::ZERO,
                }
            }
        }
    }
}

impl FromStr for Latency {
    type Err = anyhow::Error;

    /// `0`, `2ms`, or `500us/4ms` for median and p99.
    fn from_str(text: &str) -> Result<Latency> {
        if text == "0" {
            return Ok(Latency::None);
        }
        let duration = |text: &str| {
            humantime::parse_duration(text).with_context(|| format!("{text:?} is no duration such as 250us"))
        };
        let Some((median, p99)) = text.split_once('/') else {
            return Ok(Latency::Fixed(duration(text)?));
        };
        let (median, p99) = (duration(median)?, duration(p99)?);
        if median.is_zero() || p99 < median {
            bail!("{text:?}: a latency of median/p99 needs a median above 0 and a p99 not below it");
        }
        Ok(Latency::LogNormal { median, p99 })
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
        match *self {
            Latency::None => f.write_str("0"),
            Latency::Fixed(fixed) => f.write_str(&time(fixed)),
            Latency::LogNormal { median, p99 } => write!(f, "{}/{}", time(median), time(p99)),
        }
    }
}

/// How a volume answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// Latency of a read.
    pub read: Latency,
    /// Latency of a write.
    pub write: Latency,
    /// Latency of a flush.
    pub flush: Latency,
    /// Reads and writes together per second, at most.
    pub iops: Option<u64>,
    /// Bytes read and written together per second, at most.
    pub bytes_per_s: Option<u64>,
}

impl Shape {
    /// The latency of that operation.
    pub fn latency(&self, operation: Operation) -> Latency {
        match operation {
            Operation::Read => self.read,
            Operation::Write => self.write,
            Operation::Flush => self.flush,
        }
    }

    /// How long a request keeps others waiting under the rate limits; a flush does not count.
    pub fn spacing(&self, operation: Operation, bytes: u64) -> Duration {
        if operation == Operation::Flush {
            return Duration::ZERO;
        }
        let per_request = self.iops.map_or(0.0, |iops| 1.0 / iops as f64);
        let for_bytes = self.bytes_per_s.map_or(0.0, |rate| bytes as f64 / rate as f64);
        Duration::from_secs_f64(per_request.max(for_bytes))
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    /// Words such as `read=2ms write=500us/4ms flush=3ms iops=3000 bytes_per_s=131072000`; what is not named is not
    /// held back, and an empty text is a volume as fast as it can be.
    fn from_str(text: &str) -> Result<Shape> {
        let mut shape = Shape::default();
        let limit = |value: &str| -> Result<Option<u64>> {
            let number: u64 = value.parse().with_context(|| format!("{value:?} is no whole number"))?;
            anyhow::ensure!(number > 0, "a limit of 0 would let nothing through");
            Ok(Some(number))
        };
        for word in text.split_whitespace() {
            let (name, value) =
                word.split_once('=').with_context(|| format!("{word:?} is not NAME=VALUE"))?;
            match name {
                "read" => shape.read = value.parse()?,
                "write" => shape.write = value.parse()?,
                "flush" => shape.flush = value.parse()?,
                "iops" => shape.iops = limit(value)?,
                "bytes_per_s" => shape.bytes_per_s = limit(value)?,
                _ => bail!("{name:?} is none of read, write, flush, iops, bytes_per_s"),
            }
        }
        Ok(shape)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read={} write={} flush={}", self.read, self.write, self.flush)?;
        if let Some(iops) = self.iops {
            write!(f, " iops={iops}")?;
        }
        if let Some(rate) = self.bytes_per_s {
            write!(f, " bytes_per_s={rate}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn text_and_back() -> Result<()> {
        for text in
            ["read=0 write=0 flush=0", "read=2ms write=500us/4ms flush=1s500ms iops=3000 bytes_per_s=7"]
        {
            assert_eq!(text.parse::<Shape>()?.to_string(), text);
        }
        assert_eq!("".parse::<Shape>()?, Shape::default());
        for bad in ["read", "reed=1ms", "read=1", "read=4ms/1ms", "read=0s/1ms", "iops=0", "iops=x"] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
        Ok(())
    }

    #[test]
    fn a_tail_has_its_percentiles() {
        let latency =
            Latency::LogNormal { median: Duration::from_micros(500), p99: Duration::from_millis(4) };
        let mut random = StdRng::seed_from_u64(7);
        let mut drawn: Vec<Duration> = (0..100_000).map(|_| latency.draw(&mut random)).collect();
        drawn.sort();
        let off = |value: Duration, wanted: f64| (value.as_secs_f64() / wanted - 1.0).abs();
        assert!(off(drawn[50_000], 500e-6) < 0.02, "{:?}", drawn[50_000]);
        assert!(off(drawn[99_000], 4e-3) < 0.05, "{:?}", drawn[99_000]);
    }

    #[test]
    fn the_tighter_limit_spaces() -> Result<()> {
        let shape: Shape = "iops=1000 bytes_per_s=1000000".parse()?;
        assert_eq!(shape.spacing(Operation::Read, 500), Duration::from_millis(1));
        assert_eq!(shape.spacing(Operation::Write, 4000), Duration::from_millis(4));
        assert_eq!(shape.spacing(Operation::Flush, 0), Duration::ZERO);
        assert_eq!(Shape::default().spacing(Operation::Read, 500), Duration::ZERO);
        Ok(())
    }
}
