//! The distribution's packages. Installing is for root only; anybody else is told the command.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{find_program, is_root, output, run, say};

/// What may be done about a missing thing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Install it where allowed.
    Install,
    /// Only say that it is missing.
    Report,
}

/// Whether this distribution's packages can be asked about at all.
pub fn available() -> bool {
    find_program("apt-get").is_some() && find_program("dpkg-query").is_some()
}

/// Which of these packages are not installed.
pub fn missing<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let installed = |name: &str| {
        output(Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", name]))
            .is_ok_and(|status| status == "installed")
    };
    names.iter().copied().filter(|name| !installed(name)).collect()
}

/// The version that would be installed; `None` when the package is unknown here.
pub fn candidate(name: &str) -> Option<String> {
    let text = output(Command::new("apt-cache").args(["policy", name])).ok()?;
    candidate_of(&text)
}

fn candidate_of(policy: &str) -> Option<String> {
    let version = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

/// Sees to it that the packages are there.
///
/// # Errors
/// When they are missing and may not be installed (the message is the command), or cannot be had.
pub fn ensure(names: &[&str], policy: Policy) -> Result<()> {
    if !available() {
        bail!("this is no Debian-like system: install the counterparts of {} by hand", names.join(" "));
    }
    let missing = missing(names);
    if missing.is_empty() {
        return Ok(());
    }
    let command = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if policy == Policy::Report || !is_root() {
        bail!("missing packages; as root: {command}");
    }
    if missing.iter().any(|name| candidate(name).is_none()) {
        update()?;
    }
    say("setup", format!("installing: {command}"));
    // A stale index names versions the mirror no longer has; one refresh tells that from a real failure.
    if let Err(first) = install(&missing) {
        say("setup", format!("{first:#}; once more with a fresh package index"));
        update()?;
        install(&missing)?;
    }
    Ok(())
}

/// Fetches the package index when none of it has ever been fetched.
///
/// # Errors
/// When apt-get fails.
pub fn update_if_empty(policy: Policy) -> Result<()> {
    let has_index = fs::read_dir("/var/lib/apt/lists")
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"));
    if has_index || policy == Policy::Report || !is_root() || !available() { Ok(()) } else { update() }
}

fn update() -> Result<()> {
    say("setup", "apt-get update");
    run(apt_get().args(["-qq", "update"])).context("cannot refresh the package index")
}

fn install(names: &[&str]) -> Result<()> {
    run(apt_get().args(["-qq", "install", "-y", "--no-install-recommends"]).args(names))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    let quiet = BTreeMap::from([("DEBIAN_FRONTEND", "noninteractive"), ("NEEDRESTART_MODE", "a")]);
    // Its report is a page per package; what went wrong comes on standard error.
    command.envs(quiet).stdout(std::process::Stdio::null()).args(["-o", "Dpkg::Use-Pty=0"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates() {
        assert_eq!(
            candidate_of("x:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1\n"),
            Some("1.96.0+dfsg1-1".into())
        );
        assert_eq!(candidate_of("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(candidate_of(""), None);
    }
}
