//! Which compiler and linker build the eBPF object: the file `.ebpf-toolchain`, written by setup, read by
//! `profiler/build.rs` and by lint.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{output, root};

/// The workspace's minimum (`rust-version` in Cargo.toml), which holds for the eBPF crate as well.
const OLDEST_MINOR: u32 = 95;

/// A compiler that can build for a target without precompiled libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// Where it comes from, in words.
    pub kind: String,
    /// The cargo that drives it.
    pub cargo: PathBuf,
    /// The compiler itself, never a rustup proxy.
    pub rustc: PathBuf,
    /// `1.97.0-nightly`.
    pub release: String,
    /// Major version of its LLVM, which the linker's must not be older than.
    pub llvm: u32,
}

impl Compiler {
    /// Asks a compiler for its version, and checks that it ships the library sources and is new enough.
    ///
    /// # Errors
    /// Says in one clause why this compiler will not do.
    pub fn examine(kind: &str, cargo: &Path, rustc: &Path) -> Result<Self> {
        let version = output(Command::new(rustc).arg("-vV"))?;
        let field = |name: &str| {
            let line = version.lines().find_map(|line| line.strip_prefix(name));
            line.with_context(|| format!("{} -vV prints no `{name}`", rustc.display()))
        };
        let release = field("release: ")?.to_owned();
        let llvm = number(field("LLVM version: ")?, 0)?;
        if number(&release, 0)? == 1 && number(&release, 1)? < OLDEST_MINOR {
            bail!("{release} is older than the 1.{OLDEST_MINOR} that is needed");
        }
        let sysroot = output(Command::new(rustc).args(["--print", "sysroot"]))?;
        if !Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/Cargo.toml").is_file() {
            bail!("{release} has no library sources (component rust-src)");
        }
        Ok(Self { kind: kind.to_owned(), cargo: cargo.to_owned(), rustc: rustc.to_owned(), release, llvm })
    }

    /// The clippy that belongs to this compiler; `None` when it is not installed.
    pub fn clippy_driver(&self) -> Option<PathBuf> {
        Some(self.rustc.with_file_name("clippy-driver")).filter(|file| file.is_file())
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} ({}, LLVM {})", self.kind, self.rustc.display(), self.release, self.llvm)
    }
}

/// Reads the n-th dot-separated number of a version.
pub fn number(version: &str, index: usize) -> Result<u32> {
    let field = version.split('.').nth(index).unwrap_or_default();
    let digits: String = field.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().with_context(|| format!("cannot read number {index} of version {version:?}"))
}

fn file() -> PathBuf {
    root().join(".ebpf-toolchain")
}

/// Writes the choice, only where it differs: the file's time decides whether the object is built again.
///
/// # Errors
/// When the workspace cannot be written to.
pub fn write(compiler: &Compiler, linker: &Path) -> Result<bool> {
    let text = format!(
        "# Written by `cargo xtask setup`, read by profiler/build.rs.\nkind={}\nrelease={}\ncargo={}\nrustc={}\nlinker={}\n",
        compiler.kind,
        compiler.release,
        compiler.cargo.display(),
        compiler.rustc.display(),
        linker.display()
    );
    if fs::read_to_string(file()).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    fs::write(file(), text).with_context(|| format!("cannot write {}", file().display()))?;
    if let Some(user) = crate::command::sudo_user() {
        std::os::unix::fs::chown(file(), Some(user.uid), Some(user.gid))?;
    }
    Ok(true)
}

/// Reads the compiler setup chose and checks that it is still there.
///
/// # Errors
/// When setup has not run, or what it chose has changed.
pub fn read() -> Result<Compiler> {
    let text =
        fs::read_to_string(file()).ok().context("no eBPF toolchain chosen yet: run `cargo xtask setup`")?;
    let value = |key: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        found.with_context(|| format!("{} has no `{key}=`: run `cargo xtask setup`", file().display()))
    };
    Compiler::examine(value("kind")?, Path::new(value("cargo")?), Path::new(value("rustc")?))
        .context("the chosen eBPF compiler will not do any more: run `cargo xtask setup`")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

    use super::*;

    #[test]
    fn numbers_of_versions() {
        assert_eq!(number("1.97.0-nightly", 1).unwrap(), 97);
        assert_eq!(number("22.1.8", 0).unwrap(), 22);
        assert!(number("unknown", 0).is_err());
        assert!(number("1", 1).is_err());
    }

    #[test]
    fn a_program_that_is_no_compiler_is_refused() {
        assert!(Compiler::examine("x", Path::new("/bin/true"), Path::new("/bin/true")).is_err());
        assert!(Compiler::examine("x", Path::new("/bin/true"), Path::new("/nonexistent/rustc")).is_err());
    }
}
