//! Running other programs: as whom, where, for how long, and what is said when they fail.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How often a running program and the clock are looked at.
const POLL: Duration = Duration::from_millis(50);

/// One line of progress. Standard output belongs to results.
pub fn say(task: &str, message: impl AsRef<str>) {
    eprintln!("{task}: {}", message.as_ref());
}

/// The workspace's top directory.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Whether this process may install packages, load probes and become other users.
pub fn is_root() -> bool {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A line of the user database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Home directory.
    pub home: PathBuf,
}

/// Looks a user up by name; `None` when there is none, or the database cannot be read.
pub fn user(name: &str) -> Option<User> {
    fs::read_to_string("/etc/passwd").ok()?.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [login, _, uid, gid, _, home, ..] = fields[..] else { return None };
        (login == name).then_some(())?;
        Some(User {
            name: login.to_owned(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            home: PathBuf::from(home),
        })
    })
}

/// The user who called `sudo`, when that is how this process became root.
pub fn sudo_user() -> Option<User> {
    if !is_root() {
        return None;
    }
    std::env::var("SUDO_USER").ok().and_then(|name| user(&name)).filter(|user| user.uid != 0)
}

/// A command run as another user, with that user's home.
pub fn as_user(program: impl AsRef<OsStr>, user: &User) -> Command {
    let mut command = Command::new(program);
    command.uid(user.uid).gid(user.gid).env("HOME", &user.home).env("USER", &user.name);
    command
}

/// A cargo at the top of the workspace. Under `sudo` it runs as the calling user: nothing is compiled as root,
/// and nothing root owns is left among the user's files.
pub fn cargo() -> Result<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = match sudo_user() {
        Some(user) => {
            hand_over(&target_dir(), &user)?;
            as_user(program, &user)
        }
        None => Command::new(program),
    };
    command.current_dir(root());
    Ok(command)
}

/// Gives a directory to the calling user when root made it, as `sudo cargo xtask` does with `target/`.
fn hand_over(dir: &Path, user: &User) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let owned_by_root = fs::metadata(dir).is_ok_and(|meta| meta.uid() == 0);
    if owned_by_root {
        run(Command::new("chown").arg("-R").arg(format!("{}:{}", user.uid, user.gid)).arg(dir))?;
    }
    Ok(())
}

/// Runs a command with our own streams; an unsuccessful end is an error that names it.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", shown(command)))?;
    check(command, status)
}

/// Runs a command and returns its standard output, without the trailing line end.
pub fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", shown(command), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Like [`output`], for at most `limit`; the program is killed afterwards. For programs that say little: nobody
/// reads the pipe while they run.
pub fn output_within(command: &mut Command, limit: Duration) -> Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("{} did not end within {} s", shown(command), limit.as_secs());
        }
        std::thread::sleep(POLL);
    };
    let output = child.wait_with_output()?;
    if !status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({status}): {}", shown(command), last_line(&said));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn check(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// The last line that says something.
pub fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim()
}

/// A command as one would type it, for messages.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Looks a program up in PATH, then in cargo's own directory, which a root shell often does not have in its PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = sudo_user().map(|user| user.home).or_else(|| std::env::var_os("HOME").map(PathBuf::from));
    let cargo_home =
        std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| home.map(|home| home.join(".cargo")));
    std::env::split_paths(&path)
        .chain(cargo_home.map(|home| home.join("bin")))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

    use super::*;

    #[test]
    fn root_is_in_the_user_database() {
        assert_eq!(user("root").unwrap().uid, 0);
        assert_eq!(user("no such user"), None);
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let begun = Instant::now();
        let error = output_within(Command::new("sleep").arg("30"), Duration::from_millis(200)).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(error.to_string().contains("sleep 30 did not end"), "{error}");
    }

    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo reason >&2; exit 3"]);
        let error = output_within(&mut command, Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.ends_with("reason"), "{error}");
    }
}
