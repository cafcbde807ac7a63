//! `cargo xtask lint`: formatting, clippy on the host crates and on the eBPF crate, documentation, and the rules
//! of the tree. Every step runs, so that one call shows everything there is to mend.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{cargo, root, say, target_dir};
use crate::{command, tidy, toolchain};

/// The eBPF crate is compiled by another compiler than the rest, and so is checked apart.
const HOST: [&str; 3] = ["--workspace", "--exclude", "profiler-ebpf"];

/// What a step is called, and what it does.
type Step = (&'static str, fn() -> Result<()>);

/// Runs all steps.
///
/// # Errors
/// Names the steps that failed; their own output stands above.
pub fn run() -> Result<()> {
    let steps: &[Step] = &[
        ("format", || command::run(cargo()?.args(["fmt", "--all", "--check"]))),
        ("tidy", tidy::run),
        ("wait-events", || crate::wait_events::run(true)),
        ("clippy", || {
            let mut clippy = cargo()?;
            command::run(clippy.arg("clippy").args(HOST).args(["--all-targets", "--", "-D", "warnings"]))
        }),
        ("clippy, eBPF", || ebpf_clippy(&[])),
        ("clippy, eBPF, debug-probes", || ebpf_clippy(&["--features", "debug-probes"])),
        ("documentation", || {
            let mut doc = cargo()?;
            doc.arg("doc").args(HOST).args(["--no-deps", "--document-private-items"]);
            command::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
        }),
    ];
    let mut failed = Vec::new();
    for &(name, step) in steps {
        say("lint", name);
        if let Err(error) = step() {
            say("lint", format!("{name}: {error:#}"));
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("lint failed: {}", failed.join("; "));
    }
    say("lint", "all steps passed");
    Ok(())
}

/// Clippy of the compiler that builds the object, with the flags of the real build.
fn ebpf_clippy(features: &[&str]) -> Result<()> {
    let compiler = toolchain::read()?;
    let driver =
        compiler.clippy_driver().context("its clippy is missing: run `cargo xtask setup --tests`")?;
    let arch = std::env::consts::ARCH;
    // The program beside the driver finds the driver by itself, whoever's cargo calls it.
    let mut clippy = Command::new(driver.with_file_name("cargo-clippy"));
    if let Some(user) = command::sudo_user() {
        clippy = command::as_user(driver.with_file_name("cargo-clippy"), &user);
    }
    command::run(
        clippy
            .current_dir(root())
            .args(["clippy", "--release", "--package", "profiler-ebpf", "--bin", "pgstall-ebpf"])
            .args(["--target", "bpfel-unknown-none", "-Z", "build-std=core", "--target-dir"])
            .arg(target_dir().join("ebpf"))
            .args(features)
            .args(["--", "-D", "warnings"])
            .env("CARGO", &compiler.cargo)
            .env("RUSTC", &compiler.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", format!("--cfg=bpf_target_arch=\"{arch}\"")),
    )
}
