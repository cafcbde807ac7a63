//! What to know and what to do: rules over a finished profile (docs/findings.md describes each).
//!
//! A rule is a function of the profile alone. It stays silent where a number it needs is unknown, and it can only say
//! numbers that are in its evidence (module `evidence`). Rules do not know of each other: two that fit are two findings.

use super::profile::{Finding, Profile};

mod background;
mod client;
mod cpu;
mod doubt;
mod evidence;
mod facts;
mod limits;
mod locks;
mod memory;
mod standby;
mod storage;
mod wal;

use evidence::Found;

/// One rule.
struct Rule {
    /// The finding's stable name.
    code: &'static str,
    /// What it finds.
    find: fn(&Profile) -> Option<Found>,
}

/// Every rule; among findings of one severity this order holds, the cause before the consequence.
const RULES: [Rule; 18] = [
    Rule { code: "no_answer", find: doubt::no_answer },
    Rule { code: "open_transaction", find: doubt::open_transaction },
    Rule { code: "device_at_ceiling", find: limits::device_at_ceiling },
    Rule { code: "fsync_bound_group_commit", find: wal::fsync_bound_group_commit },
    Rule { code: "fsync_bound_single", find: wal::fsync_bound_single },
    Rule { code: "storage_share", find: storage::storage_share },
    Rule { code: "lock_caused_by_storage", find: locks::lock_caused_by_storage },
    Rule { code: "idle_in_transaction", find: locks::idle_in_transaction },
    Rule { code: "lock_waits", find: locks::lock_waits },
    Rule { code: "run_queue_bound", find: cpu::run_queue_bound },
    Rule { code: "client_round_trips", find: client::client_round_trips },
    Rule { code: "standby_bound", find: standby::standby_bound },
    Rule { code: "checkpoint_competes", find: background::checkpoint_competes },
    Rule { code: "autovacuum_competes", find: background::autovacuum_competes },
    Rule { code: "backend_dirty_writes", find: background::backend_dirty_writes },
    Rule { code: "cold_cache_at_start", find: memory::cold_cache_at_start },
    Rule { code: "data_in_page_cache", find: memory::data_in_page_cache },
    Rule { code: "cpu_idle_while_waiting", find: cpu::cpu_idle_while_waiting },
];

/// The code of every finding there can be.
pub fn codes() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.code)
}

/// What the rules find, the most severe first.
pub fn find(profile: &Profile) -> Vec<Finding> {
    let found = RULES.iter().filter_map(|rule| {
        let Found { severity, message, advice, evidence } = (rule.find)(profile)?;
        Some(Finding { code: rule.code.to_owned(), severity, message, advice, evidence })
    });
    let mut found: Vec<Finding> = found.collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}
