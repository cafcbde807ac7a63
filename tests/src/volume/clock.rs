//! The clock of the log, sleeping until an instant of it, and the queue that a rate limit makes.

use std::time::Duration;

use rustix::{
    thread::clock_nanosleep_absolute,
    time::{ClockId, Timespec, clock_gettime},
};

/// Now, ns of CLOCK_MONOTONIC: the clock that the kernel stamps its own events with.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until that instant; returns at once where it has passed.
pub fn sleep_until(instant_ns: u64) {
    let until = Timespec {
        tv_sec: (instant_ns / 1_000_000_000) as i64,
        tv_nsec: (instant_ns % 1_000_000_000) as i64,
    };
    // An absolute time: a signal in between costs nothing but another call.
    while now_ns() < instant_ns {
        let _interrupted = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
}

/// A line of requests, each of which keeps the next one waiting for its spacing.
#[derive(Debug, Default)]
pub struct Line {
    free_ns: u64,
}

impl Line {
    /// When a request that arrives now is through, ns: at the end of its own turn, or at once where it needs none.
    /// Time that nobody used is not saved up.
    pub fn admit(&mut self, arrival_ns: u64, spacing: Duration) -> u64 {
        if spacing.is_zero() {
            return arrival_ns;
        }
        self.free_ns = self.free_ns.max(arrival_ns) + spacing.as_nanos() as u64;
        self.free_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_queue_at_the_limit_and_do_not_save_up() {
        let turn = Duration::from_nanos(100);
        let mut line = Line::default();
        assert_eq!(line.admit(1000, turn), 1100);
        assert_eq!(line.admit(1010, turn), 1200);
        assert_eq!(line.admit(1020, Duration::ZERO), 1020, "without a limit there is no turn to wait for");
        assert_eq!(line.admit(9000, turn), 9100);
        assert_eq!(line.admit(9000, turn), 9200);
    }

    #[test]
    fn sleeps_until_the_instant() {
        let until = now_ns() + 3_000_000;
        sleep_until(until);
        assert!(now_ns() >= until);
        sleep_until(until);
    }
}
