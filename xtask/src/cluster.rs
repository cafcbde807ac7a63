//! A throw-away PostgreSQL: initialised in a directory of its own, reachable through a Unix socket in that
//! directory only, durable like a real one, and gone afterwards.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::command::{User, as_user, is_root, output, user};
use crate::interrupt;
use crate::postgres::Installation;

/// Where the data goes when nothing else is said: kept on a disk by convention, where `/tmp` often is memory,
/// on which an fsync costs nothing.
pub const DEFAULT_PARENT: &str = "/var/tmp";
const READY_LIMIT: Duration = Duration::from_secs(60);
const STEP_LIMIT: Duration = Duration::from_secs(300);

/// A running server; dropping it stops it and removes its files.
pub struct Cluster {
    installation: Installation,
    owner: Option<User>,
    dir: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Cluster {
    /// Initialises and starts a server below `parent`. `settings` are lines of `postgresql.conf`.
    ///
    /// # Errors
    /// When the directory, the cluster or the server cannot be made; the server's log is quoted.
    pub fn start(installation: &Installation, parent: &Path, settings: &[&str]) -> Result<Self> {
        let owner = unprivileged()?;
        let dir = parent.join(format!("pgstall-{}", std::process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&dir)
            .with_context(|| format!("cannot make {} for a throw-away server", dir.display()))?;
        // From here on the directory is removed whatever happens.
        let mut cluster =
            Self { installation: installation.clone(), owner, dir, port: free_port()?, server: None };
        if let Some(owner) = &cluster.owner {
            chown(&cluster.dir, Some(owner.uid), Some(owner.gid))?;
        }
        cluster.initialise(settings)?;
        cluster.launch()?;
        Ok(cluster)
    }

    fn initialise(&self, settings: &[&str]) -> Result<()> {
        let mut initdb = self.program("initdb");
        initdb.args([
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "-D",
        ]);
        initdb.arg(self.data());
        output(&mut initdb)?;
        let config = self.data().join("postgresql.conf");
        let mut file = OpenOptions::new().append(true).open(&config)?;
        writeln!(file, "listen_addresses = ''")?;
        writeln!(file, "unix_socket_directories = '{}'", self.dir.display())?;
        writeln!(file, "port = {}", self.port)?;
        for line in settings {
            writeln!(file, "{line}")?;
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        let log = File::create(self.log())?;
        let mut postgres = self.program("postgres");
        postgres.arg("-D").arg(self.data()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // SIGINT is the server's own word for a fast shutdown.
        self.server = Some(interrupt::spawn(&mut postgres, libc::SIGINT, true)?);
        let deadline = Instant::now() + READY_LIMIT;
        while output(self.program("psql").args(self.connection()).args(["-qAtc", "SELECT 1", "postgres"]))
            .is_err()
        {
            interrupt::check()?;
            let ended = self.server.as_mut().is_none_or(|server| !matches!(server.try_wait(), Ok(None)));
            if ended || Instant::now() > deadline {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                bail!("the throw-away server does not start; its log:\n{}", log.trim_end());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The postmaster's process id.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// One of the server's programs, run as the server's owner.
    pub fn program(&self, name: &str) -> Command {
        let path = self.installation.program(name);
        let mut command = match &self.owner {
            Some(owner) => as_user(path, owner),
            None => Command::new(path),
        };
        // The owner may not read the directory we were called in.
        command.current_dir(&self.dir);
        for name in ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS", "PGSERVICE", "PGDATA"] {
            command.env_remove(name);
        }
        command
    }

    fn connection(&self) -> Vec<String> {
        let (host, port) = (self.dir.display().to_string(), self.port.to_string());
        ["-h", &host, "-p", &port, "-U", "postgres"].map(str::to_owned).to_vec()
    }

    /// Runs one SQL command and returns what it prints.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn sql(&self, text: &str) -> Result<String> {
        output(self.program("psql").args(self.connection()).args(["-qAtc", text, "postgres"]))
    }

    /// A pgbench against this server.
    pub fn pgbench<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.program("pgbench");
        command.args(self.connection()).args(arguments).arg("postgres").stdin(Stdio::null());
        command
    }

    /// Fills pgbench's tables, and flushes them so that the load does not begin in the middle of a checkpoint.
    ///
    /// # Errors
    /// When the server runs out of space, or we are interrupted.
    pub fn fill(&self, scale: u32) -> Result<()> {
        let scale = scale.to_string();
        interrupt::run(
            self.pgbench(["--initialize", "--quiet", "--scale", &scale]).stderr(Stdio::null()),
            STEP_LIMIT,
        )?;
        self.sql("CHECKPOINT").map(drop)
    }

    /// Writes a file the server's owner can read, and returns its path.
    ///
    /// # Errors
    /// When the directory is full.
    pub fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        if let Some(owner) = &self.owner {
            chown(&path, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(path)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            interrupt::stop(server, libc::SIGINT);
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("xtask: cannot remove {}: {error}", self.dir.display());
        }
    }
}

/// The user a server started by root runs as, since it refuses to run as root.
fn unprivileged() -> Result<Option<User>> {
    if !is_root() {
        return Ok(None);
    }
    let found = user("postgres").or_else(|| user("nobody"));
    found.map(Some).context("a server refuses to run as root, and there is no user postgres or nobody")
}

/// A port nobody listens on now. The server does not listen on it either, but its socket is named after it, and
/// so a search by port finds this server and no other.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on the loopback address")?;
    Ok(listener.local_addr()?.port())
}
