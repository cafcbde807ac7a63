//! Chooses the server a command is about, from what was found and what the user asked for.

use std::{
    fmt::Write,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{
    discover::{self, Discovery, Postmaster},
    error::ACCESS,
    procfs,
};

/// What the user said about the server; everything given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Process id of the postmaster or of any of its processes.
    pub pid: Option<u32>,
    /// Data directory, as the user or as the server sees it.
    pub pgdata: Option<PathBuf>,
    /// TCP port.
    pub port: Option<u16>,
}

/// Why no server was chosen.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// Procfs cannot be listed.
    #[error("/proc could not be read: the procfs of this pid namespace is needed (mount -t proc proc /proc)")]
    Procfs(#[source] io::Error),
    /// The process id given is not in use.
    #[error("no process has id {pid} (list PostgreSQL's: pgrep -a postgres)")]
    NoSuchProcess {
        /// The process id.
        pid: u32,
    },
    /// The process given is something else.
    #[error("process {pid} is {what}, not a PostgreSQL server (list PostgreSQL's: pgrep -a postgres)")]
    NotPostgres {
        /// The process id.
        pid: u32,
        /// Its command or executable.
        what: String,
    },
    /// The process given is a PostgreSQL executable without a running server around it.
    #[error(
        "process {pid} runs {} but belongs to no running server: it is a single-user or starting server, or a \
         process whose server has died",
        executable.display()
    )]
    NoServer {
        /// The process id.
        pid: u32,
        /// Its executable.
        executable: PathBuf,
    },
    /// The process given cannot be looked at.
    #[error("the executable of process {pid} could not be read: {}", ACCESS)]
    Denied {
        /// The process id.
        pid: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Nothing runs that looks like a server.
    #[error("{}", none_found(*n_processes, *n_unreadable))]
    NoneFound {
        /// Processes looked at.
        n_processes: usize,
        /// Those whose executable could not be read.
        n_unreadable: usize,
    },
    /// Servers run, but not the one asked for.
    #[error("no running PostgreSQL server {wanted}; running are:\n{table}")]
    NoMatch {
        /// What was asked for, as the end of a sentence.
        wanted: String,
        /// The servers there are.
        table: String,
    },
    /// More than one fits.
    #[error("{n_servers} PostgreSQL servers are running: choose one with --pid, --pgdata or --port\n{table}")]
    Several {
        /// How many.
        n_servers: usize,
        /// Which.
        table: String,
    },
}

impl SelectError {
    /// Whether the command was given something that cannot be right (exit code 2), as opposed to nothing being
    /// there to measure (exit code 1).
    pub fn is_usage_error(&self) -> bool {
        match self {
            SelectError::NoSuchProcess { .. }
            | SelectError::NotPostgres { .. }
            | SelectError::NoServer { .. }
            | SelectError::NoMatch { .. }
            | SelectError::Several { .. } => true,
            SelectError::Procfs(_) | SelectError::Denied { .. } | SelectError::NoneFound { .. } => false,
        }
    }
}

/// Searches procfs and chooses.
pub fn select(selector: &Selector) -> Result<Postmaster, SelectError> {
    let found = discover::discover().map_err(SelectError::Procfs)?;
    choose(&found, selector).cloned()
}

/// Chooses among servers already found.
pub fn choose<'a>(found: &'a Discovery, selector: &Selector) -> Result<&'a Postmaster, SelectError> {
    let fitting = found.fitting(selector)?;
    match fitting[..] {
        [one] => Ok(one),
        _ => Err(SelectError::Several { n_servers: fitting.len(), table: table(fitting) }),
    }
}

impl Discovery {
    /// The servers that fit, at least one.
    pub fn fitting(&self, selector: &Selector) -> Result<Vec<&Postmaster>, SelectError> {
        let of_pid = selector.pid.map(|pid| server_of(self, pid)).transpose()?;
        if self.postmasters.is_empty() {
            let Discovery { n_processes, n_unreadable, .. } = *self;
            return Err(SelectError::NoneFound { n_processes, n_unreadable });
        }
        let fits = |postmaster: &&Postmaster| {
            of_pid.is_none_or(|server| server.pid == postmaster.pid)
                && selector.port.is_none_or(|port| postmaster.port == Some(port))
                && selector.pgdata.as_deref().is_none_or(|path| is_data_directory(postmaster, path))
        };
        let fitting: Vec<&Postmaster> = self.postmasters.iter().filter(fits).collect();
        if fitting.is_empty() {
            return Err(SelectError::NoMatch { wanted: wanted(selector), table: table(&self.postmasters) });
        }
        Ok(fitting)
    }
}

fn wanted(selector: &Selector) -> String {
    let mut parts = Vec::new();
    parts.extend(selector.pid.map(|pid| format!("owns process {pid}")));
    parts.extend(selector.port.map(|port| format!("listens on port {port}")));
    parts.extend(selector.pgdata.as_ref().map(|path| format!("has the data directory {}", path.display())));
    parts.join(" and ")
}

/// The server a process belongs to.
fn server_of(found: &Discovery, pid: u32) -> Result<&Postmaster, SelectError> {
    let stat = procfs::stat(pid).ok_or(SelectError::NoSuchProcess { pid })?;
    let executable = match procfs::executable(pid) {
        Ok(executable) => executable,
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            return Err(SelectError::Denied { pid, source });
        }
        // Kernel threads have no executable, and a zombie has lost its own.
        Err(_) => return Err(SelectError::NotPostgres { pid, what: stat.command }),
    };
    if !discover::is_server(&executable) {
        return Err(SelectError::NotPostgres { pid, what: executable.display().to_string() });
    }
    let find = |pid| found.postmasters.iter().find(|postmaster| postmaster.pid == pid);
    find(pid).or_else(|| find(stat.parent)).ok_or(SelectError::NoServer { pid, executable })
}

/// Whether a path is a server's data directory, in either's view of the file system.
fn is_data_directory(postmaster: &Postmaster, path: &Path) -> bool {
    if path == postmaster.data_directory {
        return true;
    }
    match (fs::metadata(path), fs::metadata(procfs::path(postmaster.pid, "cwd"))) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

fn none_found(n_processes: usize, n_unreadable: usize) -> String {
    let mut text = format!(
        "no running PostgreSQL server found: none of {n_processes} processes runs an executable named postgres, \
         postmaster or edb-postgres in a data directory whose postmaster.pid names it"
    );
    if n_unreadable > 0 {
        let _ = write!(text, "; {n_unreadable} of them could not be looked at: {ACCESS}");
    }
    text
}

/// Lists servers, one a line.
pub fn table<'a>(postmasters: impl IntoIterator<Item = &'a Postmaster>) -> String {
    let mut lines = vec![format!("{:>9}  {:<8} {:>5}  {}", "pid", "version", "port", "data directory")];
    lines.extend(postmasters.into_iter().map(|postmaster| {
        let version = postmaster.server_version.as_ref().unwrap_or(&postmaster.pg_version);
        let port = postmaster.port.map_or_else(|| "?".to_owned(), |port| port.to_string());
        format!("{:>9}  {version:<8} {port:>5}  {}", postmaster.pid, postmaster.data_directory.display())
    }));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn server(pid: u32, port: u16, data: &str) -> Postmaster {
        Postmaster {
            pid,
            namespaced_pid: pid,
            pg_version: "15".to_owned(),
            server_version: Some("15.18".to_owned()),
            data_directory: PathBuf::from(data),
            port: Some(port),
            socket_directory: None,
            started_unix: None,
            binary: PathBuf::from("/usr/lib/postgresql/15/bin/postgres"),
            container: None,
        }
    }

    fn two() -> Discovery {
        let postmasters = vec![server(4_000_001, 5432, "/data/a"), server(4_000_002, 5433, "/data/b")];
        Discovery { postmasters, n_processes: 7, n_unreadable: 0 }
    }

    #[test]
    fn a_single_server_needs_no_choice() {
        let mut found = two();
        found.postmasters.pop();
        assert_eq!(choose(&found, &Selector::default()).unwrap().port, Some(5432));
    }

    #[test]
    fn several_are_listed() {
        let error = choose(&two(), &Selector::default()).unwrap_err();
        assert!(error.is_usage_error());
        assert_eq!(
            error.to_string(),
            "2 PostgreSQL servers are running: choose one with --pid, --pgdata or --port\n      \
             pid  version   port  data directory\n  \
             4000001  15.18     5432  /data/a\n  \
             4000002  15.18     5433  /data/b"
        );
    }

    #[test]
    fn every_condition_must_hold() {
        let choose_port = |port, pgdata: Option<&str>| {
            let selector = Selector { pid: None, pgdata: pgdata.map(PathBuf::from), port: Some(port) };
            choose(&two(), &selector).map(|server| server.pid).map_err(|error| error.to_string())
        };
        assert_eq!(choose_port(5433, None), Ok(4_000_002));
        assert_eq!(choose_port(5433, Some("/data/b")), Ok(4_000_002));
        let error = choose_port(5433, Some("/data/a")).unwrap_err();
        assert!(
            error.starts_with(
                "no running PostgreSQL server listens on port 5433 and has the data directory /data/a; running are:"
            ),
            "{error}"
        );
    }

    #[test]
    fn wrong_process_ids_say_what_they_are() {
        let error_of = |pid| {
            let error = choose(&two(), &Selector { pid: Some(pid), ..Selector::default() }).unwrap_err();
            assert!(error.is_usage_error());
            error.to_string()
        };
        let own = std::env::current_exe().unwrap();
        assert!(error_of(std::process::id()).contains(&own.display().to_string()));
        assert!(error_of(u32::MAX).starts_with("no process has id 4294967295"));
    }

    #[test]
    fn nothing_found_says_what_was_looked_for() {
        let found = Discovery { postmasters: vec![], n_processes: 9, n_unreadable: 4 };
        let error = choose(&found, &Selector::default()).unwrap_err();
        assert!(!error.is_usage_error());
        let text = error.to_string();
        assert!(
            text.contains("none of 9 processes") && text.contains("4 of them") && text.contains("sudo"),
            "{text}"
        );
    }
}
