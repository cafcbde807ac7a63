//! A throw-away PostgreSQL for tests, run as the user `postgres`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Directory of the server binaries; `PGSTALL_TEST_PG_BIN` chooses another installation.
pub(crate) fn bin() -> PathBuf {
    let chosen = std::env::var_os("PGSTALL_TEST_PG_BIN");
    chosen.map_or_else(|| PathBuf::from("/usr/lib/postgresql/15/bin"), PathBuf::from)
}

/// A running server; stopped and removed when dropped.
pub(crate) struct Server {
    directory: PathBuf,
    pub(crate) port: u16,
    process: Child,
}

/// The command, run as the user `postgres`.
fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command.current_dir("/");
    command
}

impl Server {
    /// Starts a server. `before` runs in front of it (`unshare …`), `settings` are `name=value`.
    pub(crate) fn start(port: u16, before: &[&str], settings: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("pgstall-test-{port}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let owned = Command::new("chown").arg("postgres").arg(&directory).status().unwrap();
        assert!(owned.success());
        let data = directory.join("data");
        let made = as_postgres(&bin().join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "initdb");
        let server = as_postgres(&bin().join("postgres"));
        let mut command = match before {
            [program, rest @ ..] => {
                let mut command = Command::new(program);
                command.args(rest).arg(server.get_program()).args(server.get_args());
                command
            }
            [] => server,
        };
        command.arg("-D").arg(&data).arg("-p").arg(port.to_string()).arg("-k").arg(&directory);
        for setting in ["fsync=off", "listen_addresses=", "shared_buffers=1MB"].iter().chain(settings) {
            command.args(["-c", setting]);
        }
        let log = fs::File::create(directory.join("log")).unwrap();
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let server = Self { directory, port, process };
        server.wait_until("the server answers", || server.try_sql("select 1").is_some());
        server
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Result of a statement, unaligned, without header.
    pub(crate) fn sql(&self, statement: &str) -> String {
        self.try_sql(statement).unwrap()
    }

    fn try_sql(&self, statement: &str) -> Option<String> {
        let output = self.psql().args(["-Atc", statement]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// The client, with its connection options.
    pub(crate) fn psql(&self) -> Command {
        let mut command = Command::new("/usr/lib/postgresql/15/bin/psql");
        command.args(["-X", "-q", "-U", "postgres", "-d", "postgres", "-p"]).arg(self.port.to_string());
        command.arg("-h").arg(&self.directory).stderr(Stdio::null());
        command
    }

    /// Polls until a condition holds.
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds() {
            let log = || fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "waited in vain until {what}; the server's log:\n{}", log());
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The immediate shutdown signal, by the number in the lock file where the child is only a wrapper.
        let number = super::discover::discover().ok().and_then(|found| {
            let data = self.data();
            found.postmasters.into_iter().find(|found| found.data_directory == data).map(|found| found.pid)
        });
        let number = number.unwrap_or_else(|| self.process.id());
        let _ = Command::new("kill").args(["-QUIT", &number.to_string()]).status();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
