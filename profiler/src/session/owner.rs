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
        let named = backends.iter().find(|backend| name(backend, self.kind) == Some(wanted));
        let Some(Ok(Some(status))) = named.map(|backend| cluster.status_of(backend.pid)) else { return };
        self.oid = match self.kind {
            Kind::Database => status.database_oid,
            Kind::Role => status.role_oid,
        };
    }
}

/// `postgres: [cluster_name: ]user database host(port) activity`
fn name(backend: &Backend, kind: Kind) -> Option<&str> {
    let title = backend.title.as_deref()?.strip_prefix("postgres: ")?;
    let (before_host, _) = title.split_once('(').or_else(|| title.split_once(" [local]"))?;
    let mut words = before_host.rsplit(' ');
    if title.contains('(') && !before_host.ends_with("[local]") {
        words.next();
    }
    let words: Vec<&str> = words.filter(|word| *word != "[local]").collect();
    match kind {
        Kind::Database => words.first().copied(),
        Kind::Role => words.get(1).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(title: &str) -> Backend {
        Backend { pid: 1, namespaced_pid: 1, title: Some(title.to_owned()), start_ticks: 0 }
    }

    #[test]
    fn names_are_read_from_titles() {
        for (title, user, database) in [
            ("postgres: alice shop [local] idle", Some("alice"), Some("shop")),
            ("postgres: alice shop 127.0.0.1(53210) SELECT", Some("alice"), Some("shop")),
            ("postgres: 15/main: alice shop [local] INSERT waiting", Some("alice"), Some("shop")),
            ("postgres: checkpointer ", None, None),
        ] {
            assert_eq!(name(&backend(title), Kind::Role), user, "{title}");
            assert_eq!(name(&backend(title), Kind::Database), database, "{title}");
        }
    }
}
