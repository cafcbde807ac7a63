//! What pgbench says at its end, as numbers.

use anyhow::{Context as _, Result};

/// The figures of one pgbench run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Transactions it ran to the end.
    pub transactions: u64,
    /// Transactions per second, connecting not included.
    pub tps: f64,
    /// Mean latency in milliseconds, as the client saw it.
    pub latency_ms: f64,
}

impl Figures {
    /// Reads pgbench's closing lines, which have had this form since PostgreSQL 14.
    ///
    /// # Errors
    /// Names the line that is missing.
    pub fn read(text: &str) -> Result<Self> {
        Ok(Self {
            transactions: after(text, "number of transactions actually processed: ")?,
            tps: after(text, "tps = ")?,
            latency_ms: after(text, "latency average = ")?,
        })
    }
}

fn after<T: std::str::FromStr>(text: &str, label: &str) -> Result<T> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label));
    let word = rest.and_then(|rest| rest.split([' ', '/']).next()).unwrap_or_default();
    word.parse().ok().with_context(|| format!("pgbench printed no `{label}…`; it said: {}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

    use super::*;

    #[test]
    fn closing_lines() {
        let timed = "scaling factor: 1\nnumber of transactions actually processed: 1207\nlatency average = 3.314 ms\n\
                     initial connection time = 4.2 ms\ntps = 2413.7 (without initial connection time)\n";
        let expected = Figures { transactions: 1207, tps: 2413.7, latency_ms: 3.314 };
        assert_eq!(Figures::read(timed).unwrap(), expected);
        let counted = timed.replace("1207", "1207/5000");
        assert_eq!(Figures::read(&counted).unwrap(), expected);
    }

    #[test]
    fn a_failed_run_is_quoted() {
        let error = Figures::read("pgbench: error: connection refused").unwrap_err().to_string();
        assert!(error.contains("connection refused"), "{error}");
    }
}
