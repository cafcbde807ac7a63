//! `cargo xtask demo`: sets everything up, starts a throw-away PostgreSQL, puts single-row updates on it,
//! attaches, prints where the transactions' time went, and leaves nothing behind.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cluster::{Cluster, DEFAULT_PARENT};
use crate::command::{cargo, find_program, is_root, say, target_dir};
use crate::interrupt;
use crate::load::Figures;
use crate::packages::Policy;
use crate::{postgres, setup};

/// One row, found by its primary key: the shortest transaction that has to become durable.
const UPDATE: &str = "\\set aid random(1, 100000 * :scale)\n\
                      UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n";
/// How long the load runs before and after the measured window.
const MARGIN: Duration = Duration::from_secs(2);

/// What is demonstrated.
#[derive(clap::Args)]
pub struct Options {
    /// Size of pgbench's tables, in units of 100 000 rows (about 15 MB)
    #[arg(long, default_value_t = 50)]
    scale: u32,
    /// Connections that update
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Seconds of the measured window
    #[arg(long, default_value_t = 15)]
    duration: u64,
    /// Where the throw-away server's files go; a real disk, for real fsyncs
    #[arg(long, default_value = DEFAULT_PARENT)]
    dir: PathBuf,
    /// More arguments for `pgstall attach`
    #[arg(last = true)]
    attach: Vec<String>,
}

/// Runs the demonstration.
///
/// # Errors
/// Says which step failed; the server is stopped and removed all the same.
pub fn run(options: &Options) -> Result<()> {
    interrupt::watch();
    setup::run(&setup::Options::default())?;
    setup::server(Policy::Install)?;
    let installation = postgres::find().context("no PostgreSQL found: run `cargo xtask setup --tests`")?;
    say("demo", "building pgstall");
    let pgstall = build()?;
    interrupt::check()?;

    say(
        "demo",
        format!("starting a throw-away server, {}, below {}", installation.version, options.dir.display()),
    );
    let cluster = Cluster::start(&installation, &options.dir, &["shared_buffers = '256MB'"])?;
    say("demo", format!("filling {} rows", u64::from(options.scale) * 100_000));
    cluster.fill(options.scale)?;

    let script = cluster.file("update.sql", UPDATE)?;
    let seconds = options.duration + 2 * MARGIN.as_secs();
    say("demo", format!("{} clients update single rows for {seconds} s", options.clients));
    let (clients, seconds) = (options.clients.to_string(), seconds.to_string());
    let mut load = cluster.pgbench(["--no-vacuum", "--jobs", "2", "-M", "prepared", "--client", &clients]);
    load.args(["--time", &seconds, "--file"]).arg(script).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The database's name ends the command line already; pgbench takes options after it.
    let mut load = interrupt::spawn(&mut load, libc::SIGTERM, true)?;
    let measured = interrupt::sleep(MARGIN).and_then(|()| attach(options, &pgstall, &cluster));
    if measured.is_err() {
        interrupt::stop(&mut load, libc::SIGTERM);
    }
    measured?;
    interrupt::wait(&mut load, "pgbench", MARGIN * 2 + Duration::from_secs(30))?;
    let output = load.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let figures = Figures::read(&said)
        .with_context(|| String::from_utf8_lossy(&output.stderr).trim_end().to_owned())?;
    say(
        "demo",
        format!(
            "pgbench itself, over its whole run: {} transactions, {:.0} per second, mean latency {:.3} ms",
            figures.transactions, figures.tps, figures.latency_ms
        ),
    );
    say("demo", "stopping and removing the throw-away server");
    Ok(())
}

/// Builds the release binary as the calling user and returns its path.
///
/// # Errors
/// When it does not compile.
pub fn build() -> Result<PathBuf> {
    crate::command::run(cargo()?.args(["build", "--release", "--package", "profiler", "--bin", "pgstall"]))?;
    Ok(target_dir().join("release/pgstall"))
}

/// A command that needs root: itself when we are root, through sudo otherwise.
///
/// # Errors
/// When there is no sudo either.
pub fn privileged(program: &std::path::Path) -> Result<Command> {
    if is_root() {
        return Ok(Command::new(program));
    }
    let Some(sudo) = find_program("sudo") else {
        bail!("{} needs root and there is no sudo: run this task as root", program.display());
    };
    let mut command = Command::new(sudo);
    command.arg(program);
    Ok(command)
}

fn attach(options: &Options, pgstall: &std::path::Path, cluster: &Cluster) -> Result<()> {
    let mut command = privileged(pgstall)?;
    command.arg("attach").arg("--pgdata").arg(cluster.data());
    command.arg("--duration").arg(options.duration.to_string()).args(&options.attach);
    say("demo", crate::command::shown(&command));
    interrupt::run(&mut command, Duration::from_secs(options.duration + 60))
}
