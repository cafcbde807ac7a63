//! The window's course, an entry per interval.

use super::{
    host::{self, CpuTimes},
    processes::{Life, Lives, since},
    watch::Edge,
};
use crate::model::{aggregates::Aggregates, profile::Interval, timeline};

/// The time line being drawn.
pub(super) struct Course {
    start_ns: u64,
    /// End of the last interval, ns.
    pub last_ns: u64,
    clients: Life,
    cpu: Option<CpuTimes>,
}

impl Course {
    /// The course of a window that begins with what was read then.
    pub fn new(before: &Edge, start_ns: u64) -> Course {
        Course { start_ns, last_ns: start_ns, clients: before.lives.of_clients(), cpu: before.cpu }
    }

    /// The interval that ends now, in which `counted` was counted.
    pub fn entry(
        &mut self,
        now_ns: u64,
        counted: &Aggregates,
        lives: &Lives,
        cpu: Option<CpuTimes>,
    ) -> Interval {
        let length_ns = now_ns - self.last_ns;
        let mut entry = timeline::interval(self.last_ns - self.start_ns, length_ns, counted);
        let clients = lives.of_clients();
        entry.backends = timeline::backends(&since(&clients, &self.clients), length_ns);
        entry.cpu_busy_ns = host::busy_ns(self.cpu, cpu);
        (self.last_ns, self.clients, self.cpu) = (now_ns, clients, cpu);
        entry
    }
}
