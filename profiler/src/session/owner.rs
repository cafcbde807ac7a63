//! `--database` and `--user`: names to oids, without asking the server. A backend's title carries the names, its
//! status entry the oids.

use crate::target::{Backend, Cluster};

/// An oid no database or role has: nothing is counted until the name is known.
const NOBODY: u32 = u32::MAX;

/// A filter by name or oid.
pub(super) struct Owner {
    wanted: Option<String>,
    oid: u32,
    kind: Kind,
}

/// Which of the two names in a backend's title.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// `postgres: user DATABASE host …`
    Database,
    /// `postgres: USER database host …`
    Role,
}

impl Owner {
    /// A filter; `None` lets everything through.
    pub(super) fn new(kind: Kind, wanted: Option<&str>) -> Owner {
        let oid = match wanted {
            None => 0,
            Some(text) => text.parse().unwrap_or(NOBODY),
        };
        Owner { wanted: wanted.map(str::to_owned), oid, kind }
    }

    /// What the probes compare with; 0 = no filter.
    pub(super) fn oid(&self) -> u32 {
        self.oid
    }

    /// Whether the name has not been seen yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.oid == NOBODY
    }

    /// Learns the oid from the backends there are.
    pub(super) fn learn(&mut self, cluster: &Cluster, backends: &[Backend]) {
        let Some(wanted) = self.wanted.as_deref().filter(|_| self.is_unknown()) else { return };
        let named = backends.iter().find(|backend| is_of(backend, self.kind, wanted));
        let Some(Ok(Some(status))) = named.map(|backend| cluster.status_of(backend.pid)) else { return };
        self.oid = match self.kind {
            Kind::Database => status.database_oid,
            Kind::Role => status.role_oid,
        };
    }
}

/// `postgres: [cluster_name: ]user database host(port) activity`. Names may hold blanks, so the title cannot be taken
/// apart; it is compared at the ends of the part before the host.
fn is_of(backend: &Backend, kind: Kind, wanted: &str) -> bool {
    let title = backend.title.as_deref().and_then(|title| title.strip_prefix("postgres: "));
    let Some(names) = title.and_then(before_host) else { return false };
    match kind {
        Kind::Database => names.strip_suffix(wanted).is_some_and(|rest| rest.ends_with(' ')),
        Kind::Role => {
            let starts = |names: &str| names.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(' '));
            starts(names) || names.split_once(": ").is_some_and(|(_, names)| starts(names))
        }
    }
}

/// `user database` of `user database host(port) activity` or `user database [local] activity`.
fn before_host(title: &str) -> Option<&str> {
    if let Some((names, _)) = title.split_once(" [local]") {
        return Some(names);
    }
    let (names_and_host, _) = title.split_once('(')?;
    names_and_host.rsplit_once(' ').map(|(names, _)| names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(title: &str) -> Backend {
        Backend { pid: 1, namespaced_pid: 1, title: Some(title.to_owned()), start_ticks: 0 }
    }

    #[test]
    fn names_are_found_in_titles() {
        for (title, user, database) in [
            ("postgres: alice shop [local] idle", "alice", "shop"),
            ("postgres: alice shop 127.0.0.1(53210) SELECT", "alice", "shop"),
            ("postgres: 15/main: alice shop [local] INSERT waiting", "alice", "shop"),
            ("postgres: bob b we ird ::1(53210) idle", "bob b", "we ird"),
        ] {
            let backend = backend(title);
            assert!(is_of(&backend, Kind::Role, user), "{title}");
            assert!(is_of(&backend, Kind::Database, database), "{title}");
            assert!(!is_of(&backend, Kind::Role, &user[1..]), "{title}");
            assert!(!is_of(&backend, Kind::Database, &database[1..]), "{title}");
        }
        assert!(!is_of(&backend("postgres: checkpointer "), Kind::Role, "checkpointer"));
    }
}
