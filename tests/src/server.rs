//! A throw-away PostgreSQL server: made by `initdb`, reached over its own socket and loopback port, gone when dropped.

use std::{
    ffi::OsStr,
    fs::File,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use crate::{
    builds::Build,
    cgroup::{Group, Limit},
    client::Client,
    environment::{Account, Scratch, account, free_port},
    poll,
    process::{Owned, run},
    procfs,
    volume::owner::Volume,
};

/// How long a server may take to come up or go down.
const PATIENCE: Duration = Duration::from_secs(30);

/// Defaults of every server: no durability (the data is thrown away), no background work that would add transactions.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1h"),
    ("max_wal_size", "4GB"),
    ("listen_addresses", "127.0.0.1"),
];

/// What a server is to be like.
#[derive(Debug)]
pub struct Plan<'build> {
    build: &'build Build,
    settings: Vec<(String, String)>,
    limits: Vec<Limit>,
    initdb: Vec<String>,
    data: Option<Arc<Volume>>,
    wal: Option<Arc<Volume>>,
}

impl<'build> Plan<'build> {
    /// A server of that build with the default settings.
    pub fn new(build: &'build Build) -> Plan<'build> {
        let settings = SETTINGS.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Plan { build, settings, limits: Vec::new(), initdb: Vec::new(), data: None, wal: None }
    }

    /// Adds a setting; a later one of the same name wins.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Plan<'build> {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Puts the server into a control group with that limit, and those given before.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Plan<'build> {
        self.limits.push(limit);
        self
    }

    /// Adds an argument of `initdb`.
    #[must_use]
    pub fn initdb(mut self, argument: &str) -> Plan<'build> {
        self.initdb.push(argument.into());
        self
    }

    /// Puts the data directory, the WAL in it, on a volume, which must be empty.
    #[must_use]
    pub fn data_on(mut self, volume: Arc<Volume>) -> Plan<'build> {
        self.data = Some(volume);
        self
    }

    /// Puts the WAL on a volume of its own, which must be empty.
    #[must_use]
    pub fn wal_on(mut self, volume: Arc<Volume>) -> Plan<'build> {
        self.wal = Some(volume);
        self
    }

    /// Makes the cluster, starts the server and waits until it answers.
    pub fn start(self) -> Result<Server> {
        let scratch = Scratch::new("server")?;
        let data = match &self.data {
            Some(volume) => directory_on(volume, "data")?,
            None => scratch.path().join("data"),
        };
        let mut initdb = as_postgres(&self.build.program("initdb"))?;
        initdb.arg("-D").arg(&data).args(["--no-sync", "-A", "trust", "-U", "postgres"]).args(&self.initdb);
        if let Some(volume) = &self.wal {
            initdb.arg("--waldir").arg(directory_on(volume, "wal")?);
        }
        run(&mut initdb).with_context(|| format!("initdb of {}", self.build.label))?;

        let port = free_port()?;
        let group = if self.limits.is_empty() { None } else { Some(Group::new(&self.limits)?) };
        let mut server = as_postgres(&self.build.program("postgres"))?;
        server.arg("-D").arg(&data).arg("-p").arg(port.to_string()).arg("-k").arg(scratch.path());
        for (name, value) in &self.settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        let mut command = match &group {
            Some(group) => join_then_run(group, &server),
            None => server,
        };
        let log = scratch.path().join("server.log");
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);

        let volumes = self.data.into_iter().chain(self.wal).collect();
        let postmaster = Owned::spawn(&mut command)?;
        let mut server = Server { postmaster, group, data, port, scratch, _volumes: volumes };
        server
            .wait_until_ready()
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())
            .with_context(|| format!("start of {}", self.build.label))?;
        Ok(server)
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: the processes, the group they were in, their files.
    postmaster: Owned,
    group: Option<Group>,
    data: PathBuf,
    port: u16,
    scratch: Scratch,
    _volumes: Vec<Arc<Volume>>,
}

impl Server {
    /// A server of the installed build with the default settings.
    pub fn installed() -> Result<Server> {
        Plan::new(&Build::installed()?).start()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        poll::until("the server's first answer", PATIENCE, || {
            if let Some(status) = self.postmaster.ended()? {
                anyhow::bail!("the postmaster ended: {status}");
            }
            Ok(self.connect().ok())
        })?;
        Ok(())
    }

    /// The postmaster's process id.
    pub fn pid(&self) -> u32 {
        self.postmaster.pid()
    }

    /// The TCP port, also the number in the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The directory of the socket; scratch space of the test as well.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// A new connection over the socket, as superuser to database `postgres`.
    pub fn connect(&self) -> Result<Client> {
        let socket = self.directory().join(format!(".s.PGSQL.{}", self.port));
        Client::connect(&socket, "postgres", "postgres")
    }

    /// The postmaster's children that are not client backends.
    pub fn background_pids(&self) -> Result<Vec<u32>> {
        let mut client = self.connect()?;
        // PostgreSQL 14's statistics collector is not in the view, so ask for the clients and take the rest. A client
        // that leaves is in neither or in both; it is gone from the list of children soon.
        let mut children = procfs::children(self.pid())?;
        let rows = client.query("select pid from pg_stat_activity where backend_type = 'client backend'")?;
        let clients: Vec<u32> = rows.iter().filter_map(|row| row[0].as_ref()?.parse().ok()).collect();
        children.retain(|pid| !clients.contains(pid));
        Ok(children)
    }

    /// Environment of a client program that is to reach this server.
    pub fn reach<'command>(&self, command: &'command mut Command) -> &'command mut Command {
        command
            .env("PGHOST", self.directory())
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
    }

    /// Runs `psql` with the arguments and returns what it printed.
    pub fn psql<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String> {
        let mut command = Command::new(Build::installed()?.program("psql"));
        run(self.reach(&mut command).args(["-XAtq", "-v", "ON_ERROR_STOP=1"]).args(arguments))
    }

    /// Changes a limit of a kind the server was started with.
    pub fn change_limit(&self, limit: Limit) -> Result<()> {
        self.group.as_ref().context("the server is in no control group")?.change(limit)
    }

    /// Stops the server the fast way and waits for its end.
    pub fn stop(&mut self) -> Result<()> {
        self.postmaster.signal(Signal::INT)?;
        self.postmaster.wait(PATIENCE)?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Immediate: nobody needs the data, and with the postmaster all its children go.
        drop(self.postmaster.signal(Signal::QUIT));
        drop(self.postmaster.wait(PATIENCE));
    }
}

/// A directory of that name to be made by `initdb`, on a volume that the servers' account may write to.
fn directory_on(volume: &Volume, name: &str) -> Result<PathBuf> {
    let Account { uid, gid } = account("postgres")?;
    chown(volume.path(), Some(uid), Some(gid)).with_context(|| volume.path().display().to_string())?;
    Ok(volume.path().join(name))
}

/// A command that runs the program as the account `postgres` and dies with the test.
pub fn as_postgres(program: &Path) -> Result<Command> {
    let Account { uid, gid } = account("postgres")?;
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={uid}"))
        .arg(format!("--regid={gid}"))
        .args(["--clear-groups", "--pdeathsig", "QUIT", "--"])
        .arg(program)
        .current_dir("/");
    Ok(command)
}

/// A command that enters the group before it becomes the other command.
fn join_then_run(group: &Group, command: &Command) -> Command {
    let files = group.processes();
    let mut joined = Command::new("sh");
    joined
        .args(["-c", "n=$0; while [ $n -gt 0 ]; do echo $$ >\"$1\" && shift; n=$((n-1)); done; exec \"$@\""])
        .arg(files.len().to_string())
        .args(files)
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir("/");
    joined
}
