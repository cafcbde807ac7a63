//! What a run is asked to do.

use std::{fs::File, time::Duration};

use crate::{kernel::border::BorderSignal, kernel::simulate::Simulate, target::Selector};

/// Which borders to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BordersWanted {
    /// The cheapest exact signal the kernel has.
    #[default]
    Exact,
    /// The scheduler alone: cheapest, approximate.
    Scheduler,
    /// A given signal, for measuring one against the other.
    Signal(BorderSignal),
}

/// What a run is asked to do.
#[derive(Debug)]
pub struct Options {
    /// Which server.
    pub selector: Selector,
    /// How long to watch.
    pub duration: Duration,
    /// Length of the intervals of the time line.
    pub interval: Duration,
    /// Which borders to use.
    pub borders: BordersWanted,
    /// Shorter units are not counted.
    pub min_latency: Option<Duration>,
    /// Only backends of this database, a name or an oid.
    pub database: Option<String>,
    /// Only backends of this role, a name or an oid.
    pub user: Option<String>,
    /// How many statements to show.
    pub n_statements: usize,
    /// How many of the longest transactions to show.
    pub n_slowest: usize,
    /// Whether statement texts keep their constants.
    pub show_literals: bool,
    /// Whether to list processes one by one.
    pub per_backend: bool,
    /// Whether to leave the block layer alone.
    pub without_block: bool,
    /// Where to write every unit as a line of JSON, for tests.
    pub records: Option<File>,
    /// Features to take away, for tests.
    pub simulate: Vec<Simulate>,
}
