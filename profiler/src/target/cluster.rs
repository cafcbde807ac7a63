//! A server ready to be attached to: version, addresses and layout known, and checked against its own memory.

use std::fmt;

use super::{
    backend::{self, Backend, BackendStatus},
    binary::{Binary, Symbols},
    discover::Postmaster,
    error::TargetError,
    layout::{Layout, SUPPORTED},
    memory::Memory,
    procfs,
};

/// Backends whose status entry is checked before the layout is believed.
const VERIFIED_BACKENDS: usize = 8;

/// A server's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major version, 14 to 18.
    pub major: u32,
    /// Minor version, where the executable tells it.
    pub minor: Option<u32>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            Some(minor) => write!(f, "{}.{minor}", self.major),
            None => write!(f, "{}", self.major),
        }
    }
}

/// A server whose processes can be read.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What procfs told about it.
    pub postmaster: Postmaster,
    /// Its version.
    pub version: Version,
    /// How far its addresses lie above its executable's.
    pub load_bias: u64,
    /// Addresses in each of its processes.
    pub symbols: Symbols,
    /// Layout of its shared structures.
    pub layout: &'static Layout,
}

/// What verifying found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Processes whose status entry was as expected.
    pub n_processes: usize,
    /// Whether the server fills in its status entries; off = no statements, and no transaction borders from them.
    /// `None` where the setting could not be read.
    pub track_activities: Option<bool>,
}

impl Cluster {
    /// Resolves everything from the server's executable. Memory is not looked at: see [`Cluster::verify`].
    pub fn open(postmaster: &Postmaster) -> Result<Self, TargetError> {
        let version = version(postmaster)?;
        let layout = Layout::of_major(version.major)?;
        let binary = Binary::open(postmaster.pid, &postmaster.binary)?;
        let load_bias = binary.load_bias()?;
        let symbols = binary.symbols(load_bias)?;
        Ok(Self { postmaster: postmaster.clone(), version, load_bias, symbols, layout })
    }

    /// Process id of the postmaster, in this process' pid namespace.
    pub fn postmaster_pid(&self) -> u32 {
        self.postmaster.pid
    }

    /// Compares the server's memory with the layout of its version: the status entries of some of its processes must
    /// carry their process ids, a known backend type and a known state.
    pub fn verify(&self) -> Result<Verified, TargetError> {
        let mut n_processes = 0;
        for pid in self.child_pids()? {
            match self.verify_process(pid) {
                Ok(true) => n_processes += 1,
                // It ended, or is too young or too old to have an entry.
                Ok(false) | Err(TargetError::Gone { .. } | TargetError::Memory { .. }) => {}
                Err(error) => return Err(error),
            }
            if n_processes == VERIFIED_BACKENDS {
                break;
            }
        }
        if n_processes == 0 {
            return Err(TargetError::NotReady { pid: self.postmaster.pid });
        }
        Ok(Verified { n_processes, track_activities: self.track_activities() })
    }

    /// Every child of the postmaster.
    pub fn backends(&self) -> Result<Vec<Backend>, TargetError> {
        let own_namespace =
            self.postmaster.container.as_ref().is_some_and(|container| container.pid_namespace);
        let pids = self.child_pids()?;
        Ok(pids.into_iter().filter_map(|pid| backend::read(pid, own_namespace)).collect())
    }

    /// Process ids of every child of the postmaster; cheaper than [`Cluster::backends`].
    pub fn child_pids(&self) -> Result<Vec<u32>, TargetError> {
        let pid = self.postmaster.pid;
        procfs::children(pid).map_err(|source| TargetError::reading(pid, "the list of children", source))
    }

    /// What a backend's status entry says. `None`: it has none, because it is starting, ending, or not connected to
    /// shared memory (the logger).
    pub fn status_of(&self, pid: u32) -> Result<Option<BackendStatus>, TargetError> {
        backend::status(self, pid)
    }

    /// A backend's type as `pg_stat_activity` shows it; `None` as for [`Cluster::status_of`].
    pub fn backend_type_of(&self, pid: u32) -> Result<Option<&'static str>, TargetError> {
        Ok(self.status_of(pid)?.and_then(|status| status.backend_type))
    }

    /// The server-wide setting of `track_activities`, as the postmaster has it.
    fn track_activities(&self) -> Option<bool> {
        let memory = Memory::open(self.postmaster.pid).ok()?;
        memory.u8(self.symbols.track_activities?).ok().map(|value| value != 0)
    }

    fn verify_process(&self, pid: u32) -> Result<bool, TargetError> {
        let unknown = |reason| Err(TargetError::UnknownLayout { pid: self.postmaster.pid, reason });
        let memory = Memory::open(pid).map_err(|source| TargetError::reading(pid, "memory", source))?;
        let read =
            |address| memory.u32(address).map_err(|source| TargetError::Memory { pid, address, source });
        let entry = self.symbols.my_be_entry;
        let entry =
            memory.u64(entry).map_err(|source| TargetError::Memory { pid, address: entry, source })?;
        if entry == 0 {
            return Ok(false);
        }
        let own = read(self.symbols.my_proc_pid)?;
        let namespaced = procfs::namespaced_pid(pid).ok_or(TargetError::Gone { pid })?;
        if own != namespaced {
            return unknown(format!("process {pid} has MyProcPid {own}, expected {namespaced}"));
        }
        let noted = match read(entry + u64::from(self.layout.st_procpid)) {
            Ok(noted) => noted,
            Err(_) => {
                return unknown(format!(
                    "MyBEEntry of process {pid} points to {entry:#x}, which is not mapped"
                ));
            }
        };
        if noted == 0 {
            return Ok(false);
        }
        if noted != own {
            return unknown(format!(
                "the status entry of process {pid} carries process id {noted}, expected {own}"
            ));
        }
        let kind = read(entry + u64::from(self.layout.st_backend_type))?;
        if self.layout.backend_type_name(kind).is_none() {
            return unknown(format!(
                "process {pid} has backend type {kind}, which {} does not use",
                self.version
            ));
        }
        let state = read(entry + u64::from(self.layout.st_state))?;
        if state > self.layout.state_disabled {
            return unknown(format!("process {pid} has state {state}, which {} does not use", self.version));
        }
        Ok(true)
    }
}

fn version(postmaster: &Postmaster) -> Result<Version, TargetError> {
    let major = postmaster.pg_version.parse().ok().filter(|major| SUPPORTED.contains(major));
    let Some(major) = major else {
        return Err(TargetError::UnsupportedVersion {
            pid: postmaster.pid,
            found: postmaster.pg_version.clone(),
            data_directory: postmaster.data_directory.clone(),
        });
    };
    let text = postmaster.server_version.as_deref();
    let minor = text.and_then(|text| text.split_once('.')).and_then(|(_, minor)| minor.parse().ok());
    Ok(Version { major, minor })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::path::PathBuf;

    use super::*;

    fn of_version(pg_version: &str, server_version: Option<&str>) -> Postmaster {
        Postmaster {
            pid: 42,
            namespaced_pid: 42,
            pg_version: pg_version.to_owned(),
            server_version: server_version.map(str::to_owned),
            data_directory: PathBuf::from("/data"),
            port: None,
            socket_directory: None,
            started_unix: None,
            binary: PathBuf::from("/bin/postgres"),
            container: None,
        }
    }

    #[test]
    fn versions_outside_14_to_18_are_refused_by_name() {
        for wrong in ["13", "19", "9.6", "", "15x"] {
            let error = Cluster::open(&of_version(wrong, None)).unwrap_err();
            let expected = format!(
                "the server with process id 42 in /data is PostgreSQL {wrong}: 14 to 18 are supported"
            );
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn the_minor_version_is_shown_only_where_it_is_known() {
        let shown = |server_version| version(&of_version("15", server_version)).unwrap().to_string();
        assert_eq!(shown(Some("15.18")), "15.18");
        assert_eq!(shown(None), "15");
    }
}
