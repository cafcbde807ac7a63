//! Bad input and bad surroundings: a clear sentence, the documented exit code, no panic.

use std::{
    fs,
    path::Path,
    process::{self, Command},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use pgstall_tests::{
    attach::{Attach, Outcome, pgstall, pgstall_by},
    environment::{self, Scratch},
    gate,
    process::Owned,
    server::Server,
};

/// Longest a refusal may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Exit code of a usage error.
const USAGE: i32 = 2;

/// The run ended with a refusal: one of the documented codes, nothing on standard output, and a sentence that holds
/// all the words.
fn refused(what: &str, outcome: &Outcome, code: Option<i32>, words: &[&str]) -> Result<()> {
    let Outcome { status, stdout, stderr, .. } = outcome;
    gate::note(&format!("{what}: {status}: {}", stderr.trim().replace('\n', " ⏎ ")));
    let exit = status.code().with_context(|| format!("{what}: {status}"))?;
    ensure!(exit != 0 && exit != 101, "{what}: exit code {exit}");
    if let Some(code) = code {
        ensure!(exit == code, "{what}: exit code {exit}, not {code}");
    }
    ensure!(stdout.is_empty(), "{what}: a refusal printed a result: {stdout:.200}");
    ensure!(!stderr.contains("panicked"), "{what}: {stderr}");
    ensure!(!stderr.trim().is_empty(), "{what}: not a word");
    for word in words {
        let found = stderr.to_lowercase().contains(&word.to_lowercase());
        ensure!(found, "{what}: {word:?} is not in {stderr}");
    }
    Ok(())
}

fn attach(directory: &Path, arguments: &[&str]) -> Result<Outcome> {
    let all = [&["attach", "--duration", "2s"], arguments].concat();
    pgstall(directory, &all, LIMIT)
}

#[test]
fn pids_that_are_no_postmaster() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let scratch = Scratch::new("bad-input")?;
    let mut gone = Owned::spawn(&mut Command::new("true"))?;
    gone.wait(LIMIT)?;
    let dead = gone.pid().to_string();
    let outcome = attach(scratch.path(), &["--pid", &dead])?;
    refused("dead pid", &outcome, None, &[&dead])?;

    let stranger = Owned::spawn(Command::new("sleep").arg("60"))?;
    let pid = stranger.pid().to_string();
    let outcome = attach(scratch.path(), &["--pid", &pid])?;
    refused("pid of another program", &outcome, None, &[&pid])?;

    let outcome = attach(scratch.path(), &["--pid", "4294967295"])?;
    refused("pid beyond any", &outcome, None, &["4294967295"])?;
    let outcome = attach(scratch.path(), &["--pid", "many"])?;
    refused("pid that is no number", &outcome, Some(USAGE), &["many"])
}

/// A backend's pid instead of the postmaster's: the right server, or a sentence that names it.
#[test]
fn pid_of_a_backend() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let client = server.connect()?;
    let pid = client.pid().to_string();
    let outcome = attach(server.directory(), &["--pid", &pid, "--format", "json"])?;
    if let Ok(profile) = outcome.profile() {
        ensure!(profile.number("/postgres/pid")? == u64::from(server.pid()), "another server");
        return Ok(());
    }
    refused("pid of a backend", &outcome, None, &[&pid, &server.pid().to_string()])
}

#[test]
fn places_without_a_server() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    // Where none runs at all, that is what is said.
    let _server = Server::installed()?;
    let scratch = Scratch::new("bad-input")?;
    let path = scratch.path().to_string_lossy();
    let outcome = attach(scratch.path(), &["--pgdata", &path])?;
    refused("directory that is no cluster", &outcome, None, &[&path])?;
    let outcome = attach(scratch.path(), &["--pgdata", "/does/not/exist"])?;
    refused("directory that is not there", &outcome, None, &["/does/not/exist"])?;
    let outcome = attach(scratch.path(), &["--port", "1"])?;
    refused("port without a server", &outcome, None, &["1"])
}

#[test]
fn usage_errors() -> Result<()> {
    let scratch = Scratch::new("bad-input")?;
    for (arguments, word) in [
        (&["--duration", "soon"][..], "soon"),
        (&["--borders", "open"], "open"),
        (&["--format", "poem"], "poem"),
        (&["--no-such-option"], "--no-such-option"),
        (&["--min-latency", "-5"], "-5"),
    ] {
        let all = [&["attach"], arguments].concat();
        let outcome = pgstall(scratch.path(), &all, LIMIT)?;
        refused(&arguments.join(" "), &outcome, Some(USAGE), &[word])?;
    }
    let outcome = pgstall(scratch.path(), &["conquer"], LIMIT)?;
    refused("unknown command", &outcome, Some(USAGE), &["conquer"])
}

/// Several servers and no choice made: all of them are listed.
#[test]
fn several_servers() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let (one, other) = (Server::installed()?, Server::installed()?);
    let outcome = attach(one.directory(), &[])?;
    let (port, other_port) = (one.port().to_string(), other.port().to_string());
    refused("several servers", &outcome, Some(USAGE), &[&port, &other_port])?;
    ensure!(outcome.stderr.contains(&one.pid().to_string()), "{}", outcome.stderr);

    // Each way of choosing finds the one meant.
    let data = other.data().to_string_lossy();
    for choice in [["--port", &*other_port], ["--pgdata", &*data]] {
        let all = [&choice[..], &["--format", "json"]].concat();
        let profile = attach(one.directory(), &all)?.profile()?;
        ensure!(profile.number("/postgres/pid")? == u64::from(other.pid()), "{choice:?}");
    }
    Ok(())
}

/// In a PID namespace of its own the probes would see other process ids than procfs shows.
#[test]
fn inside_a_pid_namespace() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let scratch = Scratch::new("bad-input")?;
    let launcher = ["unshare", "--pid", "--mount", "--fork", "--mount-proc"];
    let outcome = pgstall_by(&launcher, scratch.path(), &["attach", "--duration", "1s"], LIMIT)?;
    refused("PID namespace", &outcome, None, &["namespace"])
}

/// Nothing to attach to: what was looked for is said. Another server on this machine hides the case.
#[test]
fn no_server() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.path().join("comm"));
    let mut running = names.filter_map(|comm| fs::read_to_string(comm).ok());
    if running.any(|name| name.trim() == "postgres") {
        gate::skip("a PostgreSQL server is running on this machine");
        return Ok(());
    }
    let scratch = Scratch::new("bad-input")?;
    let outcome = attach(scratch.path(), &[])?;
    refused("no server", &outcome, None, &["postgres"])
}

/// A copy of the binary that anyone may run, run by nobody in particular.
#[test]
fn not_root() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let copy = server.directory().join("pgstall-copy");
    fs::copy(environment::pgstall()?, &copy)?;
    let nobody = environment::account("nobody")?;
    let (user, group) = (format!("--reuid={}", nobody.uid), format!("--regid={}", nobody.gid));
    let shell = format!("exec {} \"$@\"", copy.display());
    let launcher = ["setpriv", &user, &group, "--clear-groups", "--", "sh", "-c", &shell];
    let pid = server.pid().to_string();
    let arguments = ["attach", "--pid", &pid, "--duration", "1s"];
    // `sh -c` takes the binary's path as its $0 and leaves the arguments as they are.
    let outcome = pgstall_by(&launcher, server.directory(), &arguments, LIMIT)?;
    refused("not root", &outcome, None, &["root"])
}

/// Root of a container that was denied a look into other users' processes: the server's binary cannot be read.
#[test]
fn unreadable_binary() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let launcher = ["setpriv", "--bounding-set=-sys_ptrace", "--"];
    let pid = server.pid().to_string();
    let arguments = ["attach", "--pid", &pid, "--duration", "1s"];
    let outcome = pgstall_by(&launcher, server.directory(), &arguments, LIMIT)?;
    refused("unreadable binary", &outcome, None, &[])
}

/// A version before the first supported one. The server is a supported one whose data directory says 13: a real 13
/// cannot be had from the packages the tests use.
#[test]
fn postgresql_13() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    fs::write(server.data().join("PG_VERSION"), "13\n")?;
    let pid = server.pid().to_string();
    let outcome = attach(server.directory(), &["--pid", &pid])?;
    refused("PostgreSQL 13", &outcome, None, &["13", "14"])
}

#[test]
fn kernel_without_type_information() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let pid = server.pid().to_string();
    let outcome = attach(server.directory(), &["--pid", &pid, "--simulate", "no-btf"])?;
    refused("no BTF (simulated)", &outcome, None, &["BTF"])
}

/// A result that cannot be written is found out before the window, not after it.
#[test]
fn output_that_cannot_be_written() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let pid = server.pid().to_string();
    for path in ["/does/not/exist/profile.json", "/proc/profile.json"] {
        let arguments = ["attach", "--pid", &pid, "--duration", "600s", "-o", path];
        let outcome = pgstall(server.directory(), &arguments, LIMIT)?;
        refused(path, &outcome, None, &[path])?;
    }
    Ok(())
}

/// The server goes away in mid-window: the part that was measured is reported as a part.
#[test]
fn server_stopped_in_mid_window() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let mut server = Server::installed()?;
    let mut client = server.connect()?;
    let attach = Attach::start(&server, &[])?;
    for _ in 0..10 {
        client.query("select 1")?;
    }
    drop(client);
    server.stop()?;
    let outcome = attach.wait()?;
    let profile = outcome.profile()?;
    ensure!(profile.is_partial()?, "the window is not called partial");
    ensure!(profile.transactions()? == 10, "{} transactions of 10", profile.transactions()?);
    ensure!(profile.at("/window/ended_by")? == "postmaster_exit", "ended by something else");

    // The report for people says it in words.
    let mut server = Server::installed()?;
    let pid = server.pid().to_string();
    let arguments = ["attach", "--pid", &pid, "--duration", "600s"];
    let text = Attach::start_as(&server, &arguments)?;
    server.stop()?;
    let outcome = text.wait()?;
    ensure!(outcome.stdout.contains("postmaster ended"), "{}: {}", outcome.status, outcome.stdout);
    Ok(())
}

/// The reader of the result goes away: no panic, no complaint.
#[test]
fn closed_standard_output() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let server = Server::installed()?;
    let shell = "set -o pipefail; \"$@\" | true";
    let program = environment::pgstall()?;
    let output = Command::new("bash")
        .args(["-c", shell, "bash"])
        .arg(program)
        .args(["attach", "--pid", &server.pid().to_string(), "--duration", "1s"])
        .stdin(process::Stdio::null())
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {stderr}", output.status);
    ensure!(!stderr.contains("panicked"), "{stderr}");
    Ok(())
}
