//! Offsets and enumeration values of the server's shared structures, per major version, from one data file.

use std::{collections::HashMap, ops::RangeInclusive, sync::OnceLock};

/// Major versions whose layout is known.
pub const SUPPORTED: RangeInclusive<u32> = 14..=18;

const DATA: &str = include_str!("../../data/pg_layout.tsv");

/// A fact the data file does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No such version.
    #[error("PostgreSQL {found} is not supported: 14 to 18 are")]
    Version {
        /// Major version asked for.
        found: u32,
    },
    /// No such name.
    #[error("the layout of PostgreSQL {major} has no {name}")]
    Name {
        /// Major version.
        major: u32,
        /// Name looked up.
        name: String,
    },
}

/// Layout of one major version. Offsets are bytes.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Major version.
    pub major: u32,
    /// `PgBackendStatus.st_changecount`: odd while the entry is being written.
    pub st_changecount: u32,
    /// `PgBackendStatus.st_procpid`, 4 bytes.
    pub st_procpid: u32,
    /// `PgBackendStatus.st_backendType`, 4 bytes.
    pub st_backend_type: u32,
    /// `PgBackendStatus.st_state`, 4 bytes.
    pub st_state: u32,
    /// `PgBackendStatus.st_appname`, pointer to text.
    pub st_appname: u32,
    /// `PgBackendStatus.st_activity_raw`, pointer to text.
    pub st_activity_raw: u32,
    /// `PgBackendStatus.st_query_id`, 8 bytes.
    pub st_query_id: u32,
    /// `PgBackendStatus.st_databaseid`, 4 bytes.
    pub st_databaseid: u32,
    /// `PgBackendStatus.st_userid`, 4 bytes.
    pub st_userid: u32,
    /// `PgBackendStatus.st_xact_start_timestamp`, 8 bytes, µs since 2000-01-01 UTC; 0 = no transaction.
    pub st_xact_start_timestamp: u32,
    /// `PGPROC.pid`, 4 bytes.
    pub proc_pid: u32,
    /// `PGPROC.lxid`, 4 bytes; 0 outside a transaction.
    pub proc_lxid: u32,
    /// `PGPROC.wait_event_info`, 4 bytes.
    pub proc_wait_event_info: u32,
    /// `STATE_IDLE`.
    pub state_idle: u32,
    /// `STATE_RUNNING`.
    pub state_running: u32,
    /// `STATE_IDLEINTRANSACTION`.
    pub state_idle_in_transaction: u32,
    /// `STATE_IDLEINTRANSACTION_ABORTED`.
    pub state_idle_in_transaction_aborted: u32,
    /// `STATE_FASTPATH`.
    pub state_fastpath: u32,
    /// `STATE_DISABLED`: `track_activities` is off.
    pub state_disabled: u32,
    /// `B_BACKEND`.
    pub type_client_backend: u32,
    facts: HashMap<(&'static str, &'static str), u32>,
}

impl Layout {
    /// Layout of a major version.
    pub fn of_major(major: u32) -> Result<&'static Layout, LayoutError> {
        static LAYOUTS: OnceLock<Vec<Result<Layout, LayoutError>>> = OnceLock::new();
        let layouts = LAYOUTS.get_or_init(|| SUPPORTED.map(Layout::parse).collect());
        let at = major.checked_sub(*SUPPORTED.start()).ok_or(LayoutError::Version { found: major })?;
        match layouts.get(at as usize) {
            Some(layout) => layout.as_ref().map_err(Clone::clone),
            None => Err(LayoutError::Version { found: major }),
        }
    }

    fn parse(major: u32) -> Result<Layout, LayoutError> {
        let facts: HashMap<_, _> = DATA.lines().filter_map(|line| parse_fact(line, major)).collect();
        let find = |kind, name: &'static str| {
            facts
                .get(&(kind, name))
                .copied()
                .ok_or_else(|| LayoutError::Name { major, name: name.to_owned() })
        };
        Ok(Layout {
            major,
            st_changecount: find("offset", "PgBackendStatus.st_changecount")?,
            st_procpid: find("offset", "PgBackendStatus.st_procpid")?,
            st_backend_type: find("offset", "PgBackendStatus.st_backendType")?,
            st_state: find("offset", "PgBackendStatus.st_state")?,
            st_appname: find("offset", "PgBackendStatus.st_appname")?,
            st_activity_raw: find("offset", "PgBackendStatus.st_activity_raw")?,
            st_query_id: find("offset", "PgBackendStatus.st_query_id")?,
            st_databaseid: find("offset", "PgBackendStatus.st_databaseid")?,
            st_userid: find("offset", "PgBackendStatus.st_userid")?,
            st_xact_start_timestamp: find("offset", "PgBackendStatus.st_xact_start_timestamp")?,
            proc_pid: find("offset", "PGPROC.pid")?,
            proc_lxid: find("offset", "PGPROC.lxid")?,
            proc_wait_event_info: find("offset", "PGPROC.wait_event_info")?,
            state_idle: find("state", "STATE_IDLE")?,
            state_running: find("state", "STATE_RUNNING")?,
            state_idle_in_transaction: find("state", "STATE_IDLEINTRANSACTION")?,
            state_idle_in_transaction_aborted: find("state", "STATE_IDLEINTRANSACTION_ABORTED")?,
            state_fastpath: find("state", "STATE_FASTPATH")?,
            state_disabled: find("state", "STATE_DISABLED")?,
            type_client_backend: find("type", "B_BACKEND")?,
            facts,
        })
    }

    /// Offset of any other member in the data file, as `Struct.member`.
    pub fn offset(&self, name: &str) -> Result<u32, LayoutError> {
        let found = self.facts.iter().find(|((kind, known), _)| *kind == "offset" && *known == name);
        found
            .map(|(_, &value)| value)
            .ok_or_else(|| LayoutError::Name { major: self.major, name: name.to_owned() })
    }

    /// A backend type as `pg_stat_activity.backend_type` shows it (background workers there show their own type
    /// instead); `None` for a number this version does not use.
    pub fn backend_type_name(&self, value: u32) -> Option<&'static str> {
        let found = self.facts.iter().find(|((kind, _), known)| *kind == "type" && **known == value);
        found.and_then(|((_, name), _)| displayed_type(name))
    }

    /// The number of a backend type named as in `pg_stat_activity`; `None` where this version has no such type.
    pub fn backend_type_value(&self, displayed: &str) -> Option<u32> {
        let found = self.facts.iter().find(|((kind, name), _)| {
            *kind == "type" && displayed_type(name).is_some_and(|known| known == displayed)
        });
        found.map(|(_, &value)| value)
    }
}

fn parse_fact(line: &'static str, major: u32) -> Option<((&'static str, &'static str), u32)> {
    let mut fields = line.split('\t');
    if fields.next()?.parse() != Ok(major) {
        return None;
    }
    let key = (fields.next()?, fields.next()?);
    Some((key, fields.next()?.parse().ok()?))
}

fn displayed_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "B_INVALID" => "not initialized",
        "B_BACKEND" => "client backend",
        "B_DEAD_END_BACKEND" => "dead-end client backend",
        "B_AUTOVAC_LAUNCHER" => "autovacuum launcher",
        "B_AUTOVAC_WORKER" => "autovacuum worker",
        "B_BG_WORKER" => "background worker",
        "B_WAL_SENDER" => "walsender",
        "B_SLOTSYNC_WORKER" => "slotsync worker",
        "B_STANDALONE_BACKEND" => "standalone backend",
        "B_ARCHIVER" => "archiver",
        "B_BG_WRITER" => "background writer",
        "B_CHECKPOINTER" => "checkpointer",
        "B_IO_WORKER" => "io worker",
        "B_STARTUP" => "startup",
        "B_STATS_COLLECTOR" => "stats collector",
        "B_WAL_RECEIVER" => "walreceiver",
        "B_WAL_SUMMARIZER" => "walsummarizer",
        "B_WAL_WRITER" => "walwriter",
        "B_LOGGER" => "logger",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn every_supported_version_is_complete() {
        for major in SUPPORTED {
            let layout = Layout::of_major(major).unwrap();
            assert_eq!(layout.major, major);
            for ((kind, name), value) in &layout.facts {
                if *kind == "type" {
                    let displayed = layout.backend_type_name(*value).expect(name);
                    assert_eq!(layout.backend_type_value(displayed), Some(*value));
                }
            }
            let states = [layout.state_idle, layout.state_running, layout.state_idle_in_transaction];
            assert!(states.windows(2).all(|pair| pair[1] == pair[0] + 1), "{states:?}");
        }
    }

    #[test]
    fn versions_differ_where_the_server_changed() {
        let (old, new) = (Layout::of_major(15).unwrap(), Layout::of_major(18).unwrap());
        assert_eq!((old.state_idle, new.state_idle), (1, 2), "18 has STATE_STARTING");
        assert_eq!((old.type_client_backend, new.type_client_backend), (3, 1));
        assert_eq!((old.proc_lxid, new.proc_lxid), (60, 72), "vxid.lxid since 17");
        assert_eq!(old.backend_type_value("io worker"), None);
        assert_eq!(old.backend_type_name(99), None);
    }

    #[test]
    fn what_is_unknown_is_named() {
        assert_eq!(
            Layout::of_major(13).unwrap_err().to_string(),
            "PostgreSQL 13 is not supported: 14 to 18 are"
        );
        assert!(Layout::of_major(19).is_err());
        assert!(Layout::of_major(0).is_err());
        let error = Layout::of_major(15).unwrap().offset("PGPROC.nothing").unwrap_err();
        assert_eq!(error.to_string(), "the layout of PostgreSQL 15 has no PGPROC.nothing");
    }
}
