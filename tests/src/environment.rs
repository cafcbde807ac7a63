//! Where the binary under test, scratch space and ports come from; see the crate documentation.

use std::{
    env,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU16, AtomicU32, Ordering},
};

use anyhow::{Context as _, Result, bail};

/// The account the servers run under: PostgreSQL refuses root.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Looks an account up in `/etc/passwd`.
pub fn account(name: &str) -> Result<Account> {
    let passwd = std::fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [user, _, uid, gid, ..] = fields[..]
            && user == name
        {
            return Ok(Account { uid: uid.parse()?, gid: gid.parse()? });
        }
    }
    bail!("no account {name} in /etc/passwd: PostgreSQL's packages make one, else `useradd {name}`")
}

/// The workspace's top directory.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The `pgstall` under test.
pub fn pgstall() -> Result<PathBuf> {
    let path = match env::var_os("PGSTALL") {
        Some(path) => PathBuf::from(path),
        None => target().join("release/pgstall"),
    };
    if !path.is_file() {
        bail!(
            "no pgstall at {}: build it with `cargo build --release -p profiler` or name it in PGSTALL",
            path.display()
        );
    }
    Ok(path)
}

/// The program `pgstall-volume`, which Cargo builds along with the tests.
pub fn pgstall_volume() -> Result<PathBuf> {
    let path = match env::var_os("PGSTALL_VOLUME") {
        Some(path) => PathBuf::from(path),
        None => {
            let test = env::current_exe().context("this test's own path")?;
            let profile = test.ancestors().nth(2).context("this test lies in no target directory")?;
            profile.join("pgstall-volume")
        }
    };
    if !path.is_file() {
        bail!(
            "no pgstall-volume at {}: build it with `cargo build -p pgstall-tests` or name it in PGSTALL_VOLUME",
            path.display()
        );
    }
    Ok(path)
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(path) => PathBuf::from(path),
        None => workspace().join("target"),
    }
}

/// A new empty directory that belongs to the servers' account; removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one.
    pub fn new(name: &str) -> Result<Scratch> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let base = env::var_os("PGSTALL_TEST_DIR").map_or_else(env::temp_dir, PathBuf::from);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("pgstall-{name}-{}-{number}", process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
        let Account { uid, gid } = account("postgres")?;
        chown(&path, Some(uid), Some(gid)).with_context(|| path.display().to_string())?;
        Ok(Scratch { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if env::var_os("PGSTALL_TEST_KEEP").is_none() {
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// A free TCP port of the loopback interface, never the same twice in one process.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first: u16 = match env::var("PGSTALL_TEST_PORT") {
        Ok(text) => text.parse().with_context(|| format!("PGSTALL_TEST_PORT={text}"))?,
        Err(_) => 5520,
    };
    for _ in 0..80 {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 80;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {first} on: name another first one in PGSTALL_TEST_PORT")
}
