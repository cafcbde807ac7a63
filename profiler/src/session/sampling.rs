//! How many statements are recorded with their text: every one while there are few, a sample when there are many.

use std::time::Duration;

/// Records per second aimed at. A record costs the backend about a microsecond and this process a few: at this rate
/// together well under 1 % of one CPU, and 15,000 records in a window of 30 s.
const RECORDS_PER_SECOND: f64 = 500.0;

/// Largest thinning.
const MOST: u32 = 1 << 20;

/// Adjusts the thinning to the rate seen in the last tick, in which `n_recorded` statements were recorded at one in
/// `every`.
pub(super) fn next_every(every: u32, n_recorded: u64, tick: Duration) -> u32 {
    let per_second = n_recorded as f64 / tick.as_secs_f64().max(1e-3);
    let wanted = per_second * f64::from(every) / RECORDS_PER_SECOND;
    // Coming down needs a clear margin, or the thinning would flutter around its aim.
    let next =
        if wanted > f64::from(every) || wanted < f64::from(every) / 2.0 { wanted } else { f64::from(every) };
    (next.ceil() as u32).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    #[test]
    fn few_statements_are_all_recorded() {
        assert_eq!(next_every(1, 0, TICK), 1);
        assert_eq!(next_every(1, 50, TICK), 1);
    }

    #[test]
    fn a_burst_is_thinned_at_once_and_forgotten_when_it_is_over() {
        let thinned = next_every(1, 5000, TICK);
        assert_eq!(thinned, 100);
        assert_eq!(next_every(thinned, 50, TICK), 100);
        assert_eq!(next_every(thinned, 40, TICK), 100);
        assert_eq!(next_every(thinned, 0, TICK), 1);
    }
}
