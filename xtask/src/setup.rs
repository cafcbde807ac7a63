//! `cargo xtask setup`: finds or installs what building needs, says each step and what was found, and changes
//! nothing when everything is there already.
//!
//! The eBPF target has no precompiled `core`, so its compiler must ship the library sources. A rustup toolchain
//! can (component rust-src); where that component cannot be had, Debian's own compiler with its source package
//! does the same job.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::command::{cargo, find_program, output, output_within, say};
use crate::packages::{self, Policy};
use crate::postgres;
use crate::toolchain::{self, Compiler, number};

/// Newer ones may come with other LLVM features; this one is known to work.
const LINKER_VERSION: &str = "0.13.0";
/// The LLVM versions that linker can be built against, the preferred one first.
const LINKER_LLVM: [u32; 3] = [22, 23, 21];
/// A component is a few megabytes; whoever cannot reach the server should not wait long to hear it.
const COMPONENT_LIMIT: Duration = Duration::from_secs(90);

/// What is set up.
#[derive(clap::Args, Default)]
pub struct Options {
    /// Only report what is there and what is missing; install and write nothing
    #[arg(long)]
    pub check: bool,
    /// Also what `cargo xtask lint` and `cargo xtask test` need: clippy for the eBPF compiler, PostgreSQL, load generators
    #[arg(long)]
    pub tests: bool,
}

/// Runs every step. With `check`, all of them, so that the report is complete.
///
/// # Errors
/// Names what is missing and the command that installs it.
pub fn run(options: &Options) -> Result<()> {
    let policy = if options.check { Policy::Report } else { Policy::Install };
    packages::update_if_empty(policy)?;
    let mut failed = Vec::new();
    let mut step = |name: &str, result: Result<String>| match result {
        Ok(found) => say("setup", format!("{name:<10} ok       {found}")),
        Err(error) => {
            say("setup", format!("{name:<10} missing  {error:#}"));
            failed.push(name.to_owned());
        }
    };

    let compiler = compiler(policy);
    step("compiler", compiler.as_ref().map(ToString::to_string).map_err(|e| anyhow::anyhow!("{e:#}")));
    let mut built_by = None;
    if let Ok(compiler) = compiler {
        let linker = linker(&compiler, policy);
        step(
            "bpf-linker",
            linker.as_ref().map(|l| l.display().to_string()).map_err(|e| anyhow::anyhow!("{e:#}")),
        );
        if options.tests {
            step("clippy", clippy(&compiler, policy));
        }
        built_by = linker.ok().map(|linker| (compiler, linker));
    }
    if options.tests {
        step("postgresql", server(policy));
        step("load", load_generators(policy));
    } else if postgres::find().is_none() {
        // Building needs no server; demo and test do, and install it themselves when they may.
        say(
            "setup",
            "postgresql note     no server programs found; `cargo xtask setup --tests` installs them",
        );
    } else {
        step("postgresql", server(Policy::Report));
    }
    if let (Some((compiler, linker)), Policy::Install) = (built_by, policy) {
        let changed = toolchain::write(&compiler, &linker)?;
        say("setup", format!("choice     {} .ebpf-toolchain", if changed { "written " } else { "same    " }));
    }
    if !failed.is_empty() {
        bail!("setup is incomplete: {}; what to do stands on the lines above", failed.join(", "));
    }
    Ok(())
}

/// A server for demo and test.
///
/// # Errors
/// When there is none and none may be installed.
pub fn server(policy: Policy) -> Result<String> {
    if postgres::find().is_none() {
        // The package's own server is not used, but it starts one: worth knowing on a machine that had none.
        packages::ensure(&["postgresql"], policy)?;
    }
    let found = postgres::find().context("no directory with postgres, initdb, pgbench and psql found")?;
    Ok(format!("{}, {}", found.version, found.bin.display()))
}

fn load_generators(policy: Policy) -> Result<String> {
    const NEEDED: [&str; 3] = ["sysbench", "bpftrace", "fio"];
    let absent: Vec<&str> = NEEDED.into_iter().filter(|name| find_program(name).is_none()).collect();
    if !absent.is_empty() {
        packages::ensure(&absent, policy)?;
    }
    Ok(NEEDED.join(", "))
}

/// The first compiler that will do: rustup's nightly, rustup's pinned toolchain, the distribution's.
fn compiler(policy: Policy) -> Result<Compiler> {
    let mut refused = Vec::new();
    for toolchain in ["nightly".to_owned(), pinned_toolchain()] {
        match rustup_compiler(&toolchain, policy) {
            Ok(compiler) => return Ok(compiler),
            Err(error) => {
                say("setup", format!("compiler   no       rustup {toolchain}: {error:#}"));
                refused.push(format!("rustup {toolchain}"));
            }
        }
    }
    distribution_compiler(policy).with_context(|| {
        format!(
            "no compiler with library sources ({} refused); either `rustup component add rust-src --toolchain nightly` or",
            refused.join(", ")
        )
    })
}

/// The toolchain that runs this task, as rustup names it.
fn pinned_toolchain() -> String {
    std::env::var("RUSTUP_TOOLCHAIN").unwrap_or_else(|_| "stable".to_owned())
}

fn rustup_compiler(toolchain: &str, policy: Policy) -> Result<Compiler> {
    let rustup = find_program("rustup").context("rustup is not installed")?;
    let locate = |program: &str| {
        // Asking must not install a toolchain nobody asked for.
        let mut command = Command::new(&rustup);
        command.env("RUSTUP_AUTO_INSTALL", "0").args(["which", program, "--toolchain", toolchain]);
        output_within(&mut command, COMPONENT_LIMIT).map(PathBuf::from)
    };
    let (cargo, rustc) = (locate("cargo")?, locate("rustc")?);
    let kind = format!("rustup {toolchain}");
    let usable = |compiler: Compiler| {
        if !LINKER_LLVM.iter().any(|&llvm| llvm >= compiler.llvm) {
            bail!("its LLVM {} is newer than any bpf-linker {LINKER_VERSION} can read", compiler.llvm);
        }
        Ok(compiler)
    };
    match Compiler::examine(&kind, &cargo, &rustc) {
        Ok(compiler) => return usable(compiler),
        Err(error) if policy == Policy::Report => return Err(error),
        Err(error) => {
            say("setup", format!("compiler   trying   {kind}: {error:#}; rustup component add rust-src"))
        }
    }
    let mut add = Command::new(&rustup);
    add.args(["component", "add", "rust-src", "--toolchain", toolchain]);
    output_within(&mut add, COMPONENT_LIMIT)?;
    usable(Compiler::examine(&kind, &cargo, &rustc)?)
}

/// Debian's compiler packages: (compiler, sources, clippy). The first pair follows upstream closely, also in
/// stable releases.
const DISTRIBUTION: [[&str; 3]; 2] =
    [["rustc-web", "rust-web-src", "rust-web-clippy"], ["rustc", "rust-src", "rust-clippy"]];

fn distribution_compiler(policy: Policy) -> Result<Compiler> {
    let rustc = PathBuf::from("/usr/bin/rustc");
    let cargo = std::env::var_os("CARGO").map(PathBuf::from).context("run this as `cargo xtask setup`")?;
    let examined = Compiler::examine("distribution", &cargo, &rustc);
    if examined.is_ok() {
        return examined;
    }
    let new_enough =
        |version: &str| number(version, 0).is_ok_and(|n| n >= 1) && number(version, 1).is_ok_and(|n| n >= 95);
    let packaged = DISTRIBUTION
        .iter()
        .find(|names| packages::candidate(names[0]).is_some_and(|version| new_enough(&version)))
        .unwrap_or(&DISTRIBUTION[0]);
    packages::ensure(&packaged[..2], policy)?;
    Compiler::examine("distribution", &cargo, &rustc)
}

fn clippy(compiler: &Compiler, policy: Policy) -> Result<String> {
    if compiler.clippy_driver().is_none() {
        if compiler.kind != "distribution" {
            bail!(
                "{} lacks it: rustup component add clippy --toolchain {}",
                compiler.kind,
                compiler.kind.trim_start_matches("rustup ")
            );
        }
        let names = DISTRIBUTION
            .iter()
            .find(|names| packages::missing(&names[..1]).is_empty())
            .context("the distribution's compiler comes from no package known here")?;
        packages::ensure(&names[2..], policy)?;
    }
    let driver = compiler.clippy_driver().context("no clippy-driver beside the compiler")?;
    Ok(driver.display().to_string())
}

/// bpf-linker of the known version, built against the distribution's LLVM where it is missing.
fn linker(compiler: &Compiler, policy: Policy) -> Result<PathBuf> {
    if let Some(found) = known_linker() {
        return Ok(found);
    }
    let llvm = LINKER_LLVM
        .into_iter()
        .filter(|&llvm| llvm >= compiler.llvm)
        .find(|llvm| {
            let name = format!("llvm-{llvm}-dev");
            packages::missing(&[&name]).is_empty() || packages::candidate(&name).is_some()
        })
        .unwrap_or(LINKER_LLVM[0]);
    let (llvm_dev, polly) = (format!("llvm-{llvm}-dev"), format!("libpolly-{llvm}-dev"));
    let install = format!(
        "LLVM_PREFIX=/usr/lib/llvm-{llvm} cargo install bpf-linker --version {LINKER_VERSION} --no-default-features --features llvm-{llvm}"
    );
    packages::ensure(&[&llvm_dev, &polly, "zlib1g-dev", "libzstd-dev"], policy)
        .with_context(|| format!("bpf-linker {LINKER_VERSION} is not installed ({install})"))?;
    if policy == Policy::Report {
        bail!("bpf-linker {LINKER_VERSION} is not installed: {install}");
    }
    say("setup", format!("bpf-linker building, one to two minutes: {install}"));
    let feature = format!("llvm-{llvm}");
    crate::command::run(
        cargo()?
            .args(["install", "--quiet", "bpf-linker", "--version", LINKER_VERSION])
            // Another version in the way is replaced: it may not read this compiler's bitcode.
            .args(["--force", "--no-default-features", "--features", &feature])
            // The object of a wrapper or a sanitizer build is not what is wanted here.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_TARGET_DIR")
            .env("LLVM_PREFIX", format!("/usr/lib/llvm-{llvm}")),
    )?;
    known_linker().context("bpf-linker was installed but is neither in PATH nor in cargo's bin directory")
}

fn known_linker() -> Option<PathBuf> {
    let found = find_program("bpf-linker")?;
    let version = output(Command::new(&found).arg("--version")).ok()?;
    version.ends_with(LINKER_VERSION).then_some(found)
}
