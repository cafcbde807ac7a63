//! Discovery, addresses and memory against real servers and real executables.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Stdio},
    time::Instant,
};

use super::{
    backend::BackendState,
    binary::Binary,
    cluster::Cluster,
    discover::{Postmaster, discover},
    error::TargetError,
    memory::Memory,
    procfs,
    select::{Selector, select},
    server::{Server, bin},
};

fn found(server: &Server) -> Postmaster {
    select(&Selector { pgdata: Some(server.data()), ..Selector::default() }).unwrap()
}

/// A client session fed statement by statement.
struct Session<'a> {
    server: &'a Server,
    client: Child,
    pid: u32,
}

impl<'a> Session<'a> {
    fn open(server: &'a Server, name: &str) -> Self {
        let mut command = server.psql();
        command.env("PGAPPNAME", name).stdin(Stdio::piped()).stdout(Stdio::null());
        let client = command.spawn().unwrap();
        let query = format!("select pid from pg_stat_activity where application_name = '{name}'");
        server.wait_until("the session is there", || !server.sql(&query).is_empty());
        let pid = server.sql(&query).parse().unwrap();
        Self { server, client, pid }
    }

    fn send(&mut self, text: &str, state: &str) {
        writeln!(self.client.stdin.as_mut().unwrap(), "{text}").unwrap();
        let query = format!(
            "select count(*) from pg_stat_activity where pid = {} and state = '{state}' and query = $a${}$a$",
            self.pid,
            text.trim_end_matches(';').to_owned() + ";"
        );
        self.server.wait_until(state, || self.server.sql(&query) == "1");
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

#[test]
#[ignore = "needs root and a PostgreSQL server"]
fn a_server_is_found_and_its_memory_read() {
    let server = Server::start(5510, &[], &["update_process_title=off", "compute_query_id=on"]);
    let postmaster = found(&server);
    assert_eq!((postmaster.port, postmaster.pid), (Some(5510), postmaster.namespaced_pid));
    let version = server.sql("show server_version");
    assert!(version.starts_with(postmaster.server_version.as_deref().unwrap()), "{version}");
    assert_eq!(
        postmaster.host_path(&postmaster.data_directory).join("PG_VERSION").metadata().unwrap().len(),
        3
    );

    let cluster = Cluster::open(&postmaster).unwrap();
    let verified = cluster.verify().unwrap();
    assert!(verified.n_processes >= 3, "{verified:?}");
    assert_eq!(verified.track_activities, Some(true));
    assert_eq!(cluster.load_bias, bias_from_maps(postmaster.pid, &postmaster.binary));

    // Every process the server knows of is found, and is what the server says it is.
    let listed =
        server.sql("select pid || ' ' || backend_type from pg_stat_activity where pid <> pg_backend_pid()");
    assert!(listed.lines().count() >= 4, "{listed}");
    for line in listed.lines().filter(|line| !line.ends_with("logical replication launcher")) {
        let (pid, kind) = line.split_once(' ').unwrap();
        let pid = pid.parse().unwrap();
        assert!(cluster.backends().unwrap().iter().any(|backend| backend.pid == pid), "{line}");
        assert_eq!(cluster.backend_type_of(pid).unwrap(), Some(kind), "{line}");
    }

    let mut session = Session::open(&server, "watched");
    session.send("select 'idle ä';", "idle");
    let status = cluster.status_of(session.pid).unwrap().unwrap();
    assert_eq!((status.state, status.in_transaction), (BackendState::Idle, false));
    assert_eq!(status.text.as_deref(), Some("select 'idle ä';"));
    let expected =
        format!("select datid || ' ' || usesysid from pg_stat_activity where pid = {}", session.pid);
    assert_eq!(format!("{} {}", status.database_oid, status.role_oid), server.sql(&expected));
    assert!(status.query_id.is_some());

    session.send("begin;", "idle in transaction");
    let status = cluster.status_of(session.pid).unwrap().unwrap();
    assert_eq!((status.state, status.in_transaction), (BackendState::IdleInTransaction, true));
    check_counter(&cluster, session.pid, true);
    session.send("select 1/0;", "idle in transaction (aborted)");
    let status = cluster.status_of(session.pid).unwrap().unwrap();
    assert_eq!(status.state, BackendState::IdleInTransactionAborted);
    let before = counter(&cluster, session.pid);
    session.send("rollback;", "idle");
    session.send("select 1;", "idle");
    session.send("select 2;", "idle");
    assert_eq!(counter(&cluster, session.pid), before + 2, "one per transaction");
    check_counter(&cluster, session.pid, false);

    // Any of its processes names the server; other processes do not.
    let of = |pid| select(&Selector { pid: Some(pid), ..Selector::default() });
    assert_eq!(of(session.pid).unwrap(), postmaster);
    assert_eq!(of(postmaster.pid).unwrap(), postmaster);
    assert!(of(session.client.id()).unwrap_err().to_string().contains("psql"));

    let gone = session.pid;
    drop(session);
    server.wait_until("the session has ended", || procfs::stat(gone).is_none());
    assert!(matches!(cluster.status_of(gone), Err(TargetError::Gone { .. })));
}

fn counter(cluster: &Cluster, pid: u32) -> u32 {
    Memory::open(pid).unwrap().u32(cluster.symbols.local_transaction_counter).unwrap()
}

/// The server's own record of the transaction it is in is the counter's last value.
fn check_counter(cluster: &Cluster, pid: u32, in_transaction: bool) {
    let memory = Memory::open(pid).unwrap();
    let process = memory.u64(cluster.symbols.my_proc).unwrap();
    assert_eq!(memory.u32(process + u64::from(cluster.layout.proc_pid)).unwrap(), pid);
    let lxid = memory.u32(process + u64::from(cluster.layout.proc_lxid)).unwrap();
    assert_eq!(lxid, if in_transaction { counter(cluster, pid) - 1 } else { 0 });
    let word = memory.u64(cluster.symbols.my_wait_event_info).unwrap();
    assert_eq!(word, process + u64::from(cluster.layout.proc_wait_event_info));
}

/// The load bias told another way: where the executable's first byte is mapped.
fn bias_from_maps(pid: u32, binary: &Path) -> u64 {
    let maps = fs::read_to_string(procfs::path(pid, "maps")).unwrap();
    let first = maps.lines().find(|line| line.ends_with(binary.to_str().unwrap())).unwrap();
    let start = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
    if start == 0x40_0000 { 0 } else { start }
}

#[test]
#[ignore = "needs root and a PostgreSQL server"]
fn a_server_in_namespaces_of_its_own_is_read_all_the_same() {
    let server = Server::start(5511, &["unshare", "--pid", "--mount", "--mount-proc", "--fork"], &[]);
    let postmaster = found(&server);
    let container = postmaster.container.as_ref().unwrap();
    assert!(container.pid_namespace && container.mount_namespace);
    assert!(postmaster.namespaced_pid < 10 && postmaster.pid > 10, "{postmaster:?}");
    let cluster = Cluster::open(&postmaster).unwrap();
    assert!(cluster.verify().unwrap().n_processes >= 3);
    let session = Session::open(&server, "inside");
    let backend =
        cluster.backends().unwrap().into_iter().find(|backend| backend.namespaced_pid == session.pid);
    let backend = backend.unwrap();
    assert!(backend.title.unwrap().starts_with("postgres: "));
    assert_eq!(cluster.status_of(backend.pid).unwrap().unwrap().state, BackendState::Idle);
}

#[test]
#[ignore = "needs root and a PostgreSQL server"]
fn another_layout_is_noticed_and_so_is_track_activities_off() {
    let server = Server::start(5512, &[], &["track_activities=off"]);
    let mut cluster = Cluster::open(&found(&server)).unwrap();
    assert_eq!(cluster.verify().unwrap().track_activities, Some(false));
    let session = Session::open(&server, "silent");
    assert_eq!(cluster.status_of(session.pid).unwrap().unwrap().state, BackendState::Disabled);

    let right = cluster.layout;
    let mut wrong = right.clone();
    wrong.st_procpid += 4;
    cluster.layout = Box::leak(Box::new(wrong));
    let error = cluster.verify().unwrap_err();
    assert!(matches!(error, TargetError::UnknownLayout { .. }), "{error:?}");
    assert!(error.to_string().starts_with("unknown memory layout (fork or vendor build?)"), "{error}");
    cluster.layout = right;
    cluster.symbols.my_proc_pid += 4;
    assert!(matches!(cluster.verify(), Err(TargetError::UnknownLayout { .. })));
}

#[test]
#[ignore = "needs root and a PostgreSQL server"]
fn hundreds_of_backends_are_listed_quickly() {
    let server = Server::start(5513, &[], &["max_connections=220"]);
    let sessions: Vec<Child> = (0..200)
        .map(|_| server.psql().stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
        .collect();
    let count = "select count(*) from pg_stat_activity where backend_type = 'client backend'";
    server.wait_until("all are connected", || server.sql(count) == "201");
    let cluster = Cluster::open(&found(&server)).unwrap();
    let start = Instant::now();
    let backends = cluster.backends().unwrap();
    let client = |pid| cluster.backend_type_of(pid).is_ok_and(|kind| kind == Some("client backend"));
    let n_clients = backends.iter().filter(|backend| client(backend.pid)).count();
    let took = start.elapsed();
    eprintln!("{} processes listed and read in {took:?}, search {:?}", backends.len(), {
        let start = Instant::now();
        discover().unwrap();
        start.elapsed()
    });
    for mut session in sessions {
        session.kill().unwrap();
        session.wait().unwrap();
    }
    assert_eq!(n_clients, 200);
    assert!(took.as_millis() < 1000, "{took:?}");
}

#[test]
fn the_installed_executable_decodes() {
    let path = bin().join("postgres");
    let Ok(binary) = Binary::open_file(&path) else {
        eprintln!("skipped: {} is not installed", path.display());
        return;
    };
    let symbols = binary.symbols(0).unwrap();
    assert_ne!(symbols.local_transaction_counter, 0);
    assert!(symbols.track_activities.is_some() && symbols.debug_query_string.is_some());
    let moved = binary.symbols(0x1000).unwrap();
    assert_eq!(moved.local_transaction_counter, symbols.local_transaction_counter + 0x1000);
    assert_eq!(moved.my_proc, symbols.my_proc + 0x1000);
}

#[test]
fn other_executables_are_refused_by_name() {
    let error = Binary::open_file(Path::new("/bin/true")).unwrap().symbols(0).unwrap_err();
    assert!(error.to_string().contains("/bin/true does not export my_wait_event_info"), "{error}");
    let error = Binary::open_file(Path::new("/etc/passwd")).unwrap().symbols(0).unwrap_err();
    assert!(error.to_string().contains("is no 64-bit ELF file"), "{error}");
}

/// Executables to decode, given by hand: `PGSTALL_TEST_BINARIES=a:b cargo test … -- --ignored executables`.
#[test]
#[ignore = "needs PGSTALL_TEST_BINARIES"]
fn executables_named_by_hand_decode() {
    for path in std::env::var("PGSTALL_TEST_BINARIES").unwrap().split(':') {
        let binary = Binary::open_file(Path::new(path)).unwrap();
        let symbols = binary.symbols(0).unwrap();
        let version = (14..=18).find_map(|major: u32| binary.version_text(&major.to_string()));
        eprintln!("{} {:#x} {path}", version.unwrap(), symbols.local_transaction_counter);
    }
}
