//! Finds every postmaster through procfs. A postmaster is a process whose executable is a PostgreSQL server's and
//! whose working directory, the data directory, holds a lock file with its own number: true whatever the process
//! calls itself, in any pid or mount namespace, and false for backends, single-user servers and orphans.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{binary::Binary, procfs};

/// Names a server's executable goes by.
const EXECUTABLES: [&str; 3] = ["postgres", "postmaster", "edb-postgres"];

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postmaster {
    /// Process id in this pid namespace.
    pub pid: u32,
    /// Process id in the server's own pid namespace.
    pub namespaced_pid: u32,
    /// What `PG_VERSION` in the data directory says: `15`, or `9.6` long ago.
    pub pg_version: String,
    /// Version of the executable (`15.18`), where it could be read.
    pub server_version: Option<String>,
    /// Data directory as the server sees it.
    pub data_directory: PathBuf,
    /// TCP port, which also numbers its Unix sockets; not known while it is starting.
    pub port: Option<u16>,
    /// First directory with a Unix socket, as the server sees it.
    pub socket_directory: Option<PathBuf>,
    /// Start time, seconds since 1970.
    pub started_unix: Option<u64>,
    /// Executable as the server sees it.
    pub binary: PathBuf,
    /// Set where the server lives in other namespaces than this process.
    pub container: Option<Container>,
}

impl Postmaster {
    /// A path of the server's, as this process reaches it.
    pub fn host_path(&self, server_path: &Path) -> PathBuf {
        let relative = server_path.strip_prefix("/").unwrap_or(server_path);
        procfs::path(self.pid, "root").join(relative)
    }
}

/// The namespaces a server has of its own. Service managers give services a mount namespace too (`PrivateTmp=`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Process numbers differ.
    pub pid_namespace: bool,
    /// Paths differ.
    pub mount_namespace: bool,
    /// The runtime's id of the container, where its control group is named after it.
    pub id: Option<String>,
}

/// Result of a search.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Servers, by process id.
    pub postmasters: Vec<Postmaster>,
    /// Processes looked at.
    pub n_processes: usize,
    /// Processes whose executable could not be read, for lack of privilege.
    pub n_unreadable: usize,
}

/// Looks at every process.
pub fn discover() -> io::Result<Discovery> {
    let mut found = Discovery::default();
    for pid in procfs::pids()? {
        found.n_processes += 1;
        match procfs::executable(pid) {
            Ok(executable) if is_server(&executable) => {
                found.postmasters.extend(postmaster(pid, &executable))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found.n_unreadable += 1,
            _ => {}
        }
    }
    found.postmasters.sort_by_key(|postmaster| postmaster.pid);
    Ok(found)
}

/// Whether an executable link names a PostgreSQL server.
pub(super) fn is_server(executable: &Path) -> bool {
    let Some(name) = executable.file_name().and_then(|name| name.to_str()) else { return false };
    EXECUTABLES.contains(&name.strip_suffix(" (deleted)").unwrap_or(name))
}

/// The postmaster with this process id, if it is one.
fn postmaster(pid: u32, executable: &Path) -> Option<Postmaster> {
    let stat = procfs::stat(pid)?;
    // Spares reading the lock file once per backend. Only a child of the same binary in the same directory is
    // skipped: in a container a second server's parent may be the first one.
    if is_same_file(pid, stat.parent, "exe") && is_same_file(pid, stat.parent, "cwd") {
        return None;
    }
    let namespaced_pid = procfs::namespaced_pid(pid)?;
    let lock = LockFile::parse(&fs::read_to_string(procfs::path(pid, "cwd/postmaster.pid")).ok()?)?;
    if lock.pid != i64::from(namespaced_pid) {
        return None;
    }
    let pg_version = fs::read_to_string(procfs::path(pid, "cwd/PG_VERSION")).ok()?.trim().to_owned();
    let binary = strip_deleted(executable);
    let server_version = Binary::open(pid, &binary).ok().and_then(|binary| binary.version_text(&pg_version));
    Some(Postmaster {
        pid,
        namespaced_pid,
        pg_version,
        server_version,
        data_directory: lock.data_directory,
        port: lock.port,
        socket_directory: lock.socket_directory,
        started_unix: lock.started_unix,
        binary,
        container: container(pid),
    })
}

fn strip_deleted(executable: &Path) -> PathBuf {
    match executable.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(text) => PathBuf::from(text),
        None => executable.to_owned(),
    }
}

/// Whether two processes' procfs links lead to the same file.
fn is_same_file(one: u32, other: u32, entry: &str) -> bool {
    match (fs::metadata(procfs::path(one, entry)), fs::metadata(procfs::path(other, entry))) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// What a server writes into `postmaster.pid`, line by line:
/// <https://github.com/postgres/postgres/blob/REL_15_STABLE/src/include/utils/pidfile.h>
#[derive(Debug, PartialEq, Eq)]
struct LockFile {
    /// Negative for a single-user server.
    pid: i64,
    data_directory: PathBuf,
    started_unix: Option<u64>,
    port: Option<u16>,
    socket_directory: Option<PathBuf>,
}

impl LockFile {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        let data_directory = PathBuf::from(lines.next()?);
        let started_unix = lines.next().and_then(|line| line.trim().parse().ok());
        let port = lines.next().and_then(|line| line.trim().parse().ok());
        let socket_directory = lines.next().filter(|line| !line.is_empty()).map(PathBuf::from);
        Some(Self { pid, data_directory, started_unix, port, socket_directory })
    }
}

fn container(pid: u32) -> Option<Container> {
    let differs = |kind| match (procfs::namespace(pid, kind), procfs::namespace(std::process::id(), kind)) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    };
    let (pid_namespace, mount_namespace) = (differs("pid"), differs("mnt"));
    let id = fs::read_to_string(procfs::path(pid, "cgroup")).ok().and_then(|groups| container_id(&groups));
    (pid_namespace || mount_namespace || id.is_some()).then_some(Container {
        pid_namespace,
        mount_namespace,
        id,
    })
}

/// Runtimes name a container's control group after its id: 64 hexadecimal digits.
fn container_id(groups: &str) -> Option<String> {
    groups
        .split(['/', '-', '.', ':', '\n'])
        .find(|part| is_container_id(part))
        .map(|part| part[..12].to_owned())
}

fn is_container_id(part: &str) -> bool {
    part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn servers_are_known_by_their_executable() {
        for server in
            ["/usr/lib/postgresql/15/bin/postgres", "/x/postgres (deleted)", "/opt/edb/bin/edb-postgres"]
        {
            assert!(is_server(Path::new(server)), "{server}");
        }
        for other in ["/usr/bin/postgresql", "/usr/bin/psql", "/", "/postgres/bash"] {
            assert!(!is_server(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn lock_files_are_read_as_far_as_they_go() {
        let whole = "4242\n/var/lib/pg\n1700000000\n5433\n/run/postgresql\nlocalhost\n  1234 5\nready   \n";
        let lock = LockFile::parse(whole).unwrap();
        assert_eq!((lock.pid, lock.port), (4242, Some(5433)));
        assert_eq!(lock.socket_directory, Some(PathBuf::from("/run/postgresql")));
        let no_socket = LockFile::parse("4242\n/var/lib/pg\n1700000000\n5433\n\n*\n").unwrap();
        assert_eq!(no_socket.socket_directory, None);
        let starting = LockFile::parse("4242\n/var/lib/pg\n1700000000\n").unwrap();
        assert_eq!((starting.port, starting.started_unix), (None, Some(1_700_000_000)));
        assert_eq!(LockFile::parse("-4242\n/var/lib/pg\n").unwrap().pid, -4242);
        assert_eq!(LockFile::parse("\n"), None);
        assert_eq!(LockFile::parse(""), None);
    }

    #[test]
    fn container_ids_are_taken_from_control_groups() {
        let id = "0123456789abcdef".repeat(4);
        for groups in [
            format!("0::/system.slice/docker-{id}.scope"),
            format!("12:cpu:/docker/{id}\n0::/"),
            format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
        ] {
            assert_eq!(container_id(&groups).as_deref(), Some("0123456789ab"), "{groups}");
        }
        assert_eq!(container_id("0::/system.slice/postgresql.service"), None);
    }
}
