//! `cargo xtask dist`: the binary to copy to a database host, linked statically so that it asks nothing of that host but
//! its kernel.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{self, cargo, say, target_dir};
use crate::setup;

/// Builds `target/dist/pgstall`.
///
/// # Errors
/// Says which step failed, or that the result still needs a loader.
pub fn run() -> Result<()> {
    setup::run(&setup::Options::default())?;
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cargo()?;
    build.args(["build", "--release", "--package", "profiler", "--bin", "pgstall", "--target", &triple]);
    // Naming the target keeps the flag away from build scripts and procedural macros.
    command::run(build.env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=debuginfo"))?;
    let built = target_dir().join(&triple).join("release/pgstall");
    check_static(&built)?;
    let directory = target_dir().join("dist");
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let placed = directory.join("pgstall");
    fs::copy(&built, &placed).with_context(|| format!("cannot copy {}", built.display()))?;
    let bytes = fs::metadata(&placed)?.len();
    say("dist", format!("{} ({:.1} MB)", placed.display(), bytes as f64 / 1e6));
    Ok(())
}

/// A dynamically linked program names its loader in its headers.
fn check_static(program: &PathBuf) -> Result<()> {
    let output = Command::new("readelf")
        .args(["-lW"])
        .arg(program)
        .output()
        .context("cannot run readelf (binutils)")?;
    if !output.status.success() {
        bail!("readelf cannot read {}", program.display());
    }
    if String::from_utf8_lossy(&output.stdout).contains("INTERP") {
        bail!("{} still needs a dynamic loader", program.display());
    }
    Ok(())
}
