//! The `pgstall attach` under test.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;

use crate::{
    environment, poll,
    process::Owned,
    profile::Profile,
    records::{self, Record},
    server::Server,
};

/// How long attaching or writing the result may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A window that no test waits out.
const LONG: &str = "600s";

/// A running `pgstall attach`.
#[derive(Debug)]
pub struct Attach {
    process: Owned,
    files: Files,
    /// From the start of the process to its word that the probes are in place.
    pub attached_after: Duration,
}

/// What a run left behind.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Every finished unit.
    pub records: PathBuf,
}

#[derive(Debug)]
struct Files {
    stdout: PathBuf,
    stderr: PathBuf,
    records: PathBuf,
}

impl Files {
    fn new(directory: &Path) -> Files {
        let named = |name: &str| directory.join(format!("pgstall.{name}"));
        Files { stdout: named("out"), stderr: named("err"), records: named("records") }
    }
}

/// The command `pgstall` with arguments.
fn command(files: &Files, arguments: &[&str]) -> Result<Command> {
    to_files(Command::new(environment::pgstall()?), files, arguments)
}

/// Adds arguments and sends the command's output to files.
fn to_files(mut command: Command, files: &Files, arguments: &[&str]) -> Result<Command> {
    let file = |path: &Path| File::create(path).with_context(|| path.display().to_string());
    command.args(arguments).stdin(Stdio::null()).stdout(file(&files.stdout)?).stderr(file(&files.stderr)?);
    Ok(command)
}

impl Attach {
    /// Attaches to the server with JSON output and waits until the probes are in place. The window is long; end it
    /// with [`Attach::stop`].
    pub fn start(server: &Server, arguments: &[&str]) -> Result<Attach> {
        Attach::start_for(server, LONG, arguments)
    }

    /// As [`Attach::start`], with a window of that length.
    pub fn start_for(server: &Server, duration: &str, arguments: &[&str]) -> Result<Attach> {
        let files = Files::new(server.directory());
        let records = files.records.to_string_lossy().into_owned();
        let mut all = vec!["--records", &records];
        all.extend(arguments);
        Attach::start_with(server, files, duration, &all)
    }

    /// As [`Attach::start`], without the file of records: its price grows with the number of units.
    pub fn start_without_records(server: &Server, arguments: &[&str]) -> Result<Attach> {
        Attach::start_with(server, Files::new(server.directory()), LONG, arguments)
    }

    fn start_with(server: &Server, files: Files, duration: &str, arguments: &[&str]) -> Result<Attach> {
        let pid = server.pid().to_string();
        let mut all = vec!["attach", "--pid", &pid, "--format", "json", "--duration", duration];
        all.extend(arguments);
        Attach::start_command(files, &all)
    }

    /// Starts `pgstall` with exactly these arguments and waits until the probes are in place.
    pub fn start_as(server: &Server, arguments: &[&str]) -> Result<Attach> {
        Attach::start_command(Files::new(server.directory()), arguments)
    }

    fn start_command(files: Files, arguments: &[&str]) -> Result<Attach> {
        let mut command = command(&files, arguments)?;
        let start = Instant::now();
        let mut process = Owned::spawn(&mut command)?;
        poll::until("pgstall to say that it is attached", PATIENCE, || {
            let stderr = std::fs::read_to_string(&files.stderr)?;
            if stderr.contains("attached") {
                return Ok(Some(()));
            }
            if let Some(status) = process.ended()? {
                bail!("pgstall ended before it was attached: {status}\n{stderr}");
            }
            Ok(None)
        })?;
        Ok(Attach { process, files, attached_after: start.elapsed() })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits until it ended by itself.
    pub fn wait(mut self) -> Result<Outcome> {
        let status = self.process.wait(PATIENCE)?;
        Outcome::read(status, self.files)
    }

    /// Ends the window as Ctrl-C does and waits, whatever comes of it.
    pub fn interrupt(mut self) -> Result<Outcome> {
        self.signal(Signal::INT)?;
        self.wait()
    }

    /// Ends the window as Ctrl-C does and returns the profile; fails unless it exits with 0.
    pub fn stop(self) -> Result<(Profile, Outcome)> {
        let outcome = self.interrupt()?;
        let profile = outcome.profile()?;
        Ok((profile, outcome))
    }
}

impl Outcome {
    fn read(status: ExitStatus, files: Files) -> Result<Outcome> {
        let text = |path: &Path| -> Result<String> {
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Outcome {
            status,
            stdout: text(&files.stdout)?,
            stderr: text(&files.stderr)?,
            records: files.records,
        })
    }

    /// The profile on standard output of a run that exited with 0.
    pub fn profile(&self) -> Result<Profile> {
        // 1: a profile of a window in which nothing happened.
        let code = self.status.code();
        ensure!(code == Some(0) || code == Some(1), "pgstall: {}\n{}", self.status, self.stderr);
        Profile::parse(&self.stdout)
    }

    /// Every finished unit.
    pub fn records(&self) -> Result<Vec<Record>> {
        records::read(&self.records)
    }
}

/// Runs `pgstall` with arguments to its end, at most for `limit`. The output files go to `directory`.
pub fn pgstall(directory: &Path, arguments: &[&str], limit: Duration) -> Result<Outcome> {
    pgstall_by(&[], directory, arguments, limit)
}

/// As [`pgstall`], started by another program: `launcher` is that program and its arguments.
pub fn pgstall_by(
    launcher: &[&str],
    directory: &Path,
    arguments: &[&str],
    limit: Duration,
) -> Result<Outcome> {
    let files = Files::new(directory);
    let program = environment::pgstall()?;
    let program = program.to_string_lossy();
    let all = [launcher, &[&*program], arguments].concat();
    let [first, rest @ ..] = &all[..] else { bail!("no program") };
    let mut process = Owned::spawn(&mut to_files(Command::new(first), &files, rest)?)?;
    let status = process.wait(limit)?;
    Outcome::read(status, files)
}
