//! The PostgreSQL builds the tests run servers of.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::process::run;

/// One build of PostgreSQL.
#[derive(Clone, Debug)]
pub struct Build {
    /// What it is called in messages.
    pub label: String,
    /// The directory with `postgres` and `initdb`.
    pub bindir: PathBuf,
    /// Its major version.
    pub major: u32,
}

impl Build {
    /// The build whose programs are in `bindir`; asks `postgres` for its version.
    pub fn at(label: &str, bindir: &Path) -> Result<Build> {
        let version = run(Command::new(bindir.join("postgres")).arg("--version"))?;
        // "postgres (PostgreSQL) 15.18 (Debian …)"
        let major = version
            .split_whitespace()
            .nth(2)
            .and_then(|number| number.split(['.', 'b', 'r', 'd']).next())
            .and_then(|number| number.parse().ok())
            .with_context(|| format!("no version in {version:?}"))?;
        Ok(Build { label: format!("{label} ({})", version.trim()), bindir: bindir.into(), major })
    }

    /// The installed one, whose `pgbench` and `psql` drive the others too.
    pub fn installed() -> Result<Build> {
        if let Some(bindir) = env::var_os("PGSTALL_TEST_BINDIR") {
            return Build::at("installed", Path::new(&bindir));
        }
        let mut found: Vec<(u32, PathBuf)> = Vec::new();
        if let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") {
            for entry in entries.flatten() {
                let bindir = entry.path().join("bin");
                if let Ok(major) = entry.file_name().to_string_lossy().parse()
                    && bindir.join("postgres").is_file()
                    && bindir.join("pgbench").is_file()
                {
                    found.push((major, bindir));
                }
            }
        }
        found.sort();
        if let Some((_, bindir)) = found.pop() {
            return Build::at("installed", &bindir);
        }
        for directory in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
            if directory.join("postgres").is_file() && directory.join("pgbench").is_file() {
                return Build::at("installed", &directory);
            }
        }
        bail!("no PostgreSQL found: run `cargo xtask setup` or name one in PGSTALL_TEST_BINDIR")
    }

    /// A program of this build.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bindir.join(name)
    }
}
