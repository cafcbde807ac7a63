//! Where PostgreSQL's programs are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::output;

/// The programs a throw-away server and its load need.
const NEEDED: [&str; 4] = ["postgres", "initdb", "pgbench", "psql"];

/// A directory with a PostgreSQL server's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The directory with `postgres`, `initdb`, `pgbench`, `psql`.
    pub bin: PathBuf,
    /// What `postgres --version` prints.
    pub version: String,
}

impl Installation {
    /// The path of one of the programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

/// Finds a complete installation: what `pg_config` names, else the newest of the places packages use.
pub fn find() -> Option<Installation> {
    let configured = output(Command::new("pg_config").arg("--bindir")).ok().map(PathBuf::from);
    configured.into_iter().chain(packaged()).find_map(|bin| examine(&bin))
}

fn examine(bin: &Path) -> Option<Installation> {
    if !NEEDED.iter().all(|name| bin.join(name).is_file()) {
        return None;
    }
    let version = output(Command::new(bin.join("postgres")).arg("--version")).ok()?;
    Some(Installation { bin: bin.to_owned(), version })
}

/// Directories packages install into, the newest major version first.
fn packaged() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (parent, prefix) in [("/usr/lib/postgresql", ""), ("/usr", "pgsql-")] {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(major) = name.strip_prefix(prefix).and_then(|rest| rest.parse::<u32>().ok()) {
                found.push((major, entry.path().join("bin")));
            }
        }
    }
    found.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
    found.into_iter().map(|(_, bin)| bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_server_is_no_installation() {
        assert_eq!(examine(Path::new("/bin")), None);
        assert_eq!(examine(Path::new("/nonexistent")), None);
    }
}
