//! Compiles the eBPF crate with the toolchain `cargo xtask setup` chose, and leaves the object where the library
//! embeds it from: `$OUT_DIR/pgstall-ebpf`.
//!
//! The eBPF target has no precompiled `core`, so it needs a compiler that ships the library sources, which the one
//! that compiles this crate rarely does. Nothing is guessed here: without the file setup writes, the build stops.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

const TARGET: &str = "bpfel-unknown-none";
const OBJECT: &str = "pgstall-ebpf";
const CHOICE: &str = ".ebpf-toolchain";

fn main() -> ExitCode {
    match build() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        // A script that fails has its standard error shown, and there stands what the compiler said.
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            // The directive is shown as one line, without the script's output around it.
            println!("cargo::error={message}");
            ExitCode::SUCCESS
        }
    }
}

/// Compiles the object. The status is that of the inner cargo, which explains its failures itself.
fn build() -> Result<ExitStatus, String> {
    let manifest_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out_dir = PathBuf::from(variable("OUT_DIR")?);
    let root = manifest_dir.parent().ok_or("profiler/ has no parent directory, the workspace is needed")?;
    for watched in [CHOICE, "Cargo.toml", "Cargo.lock", "profiler-ebpf", "profiler-common"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let toolchain = Toolchain::read(&root.join(CHOICE))?;
    if variable("CARGO_CFG_TARGET_ENDIAN")? != "little" {
        return Err(format!("the host to build for is big-endian; only {TARGET} objects are supported"));
    }

    // With other features the object is another one: a directory each, so that builds side by side never copy
    // each other's.
    let debug_probes = env::var_os("CARGO_FEATURE_DEBUG_PROBES").is_some();
    let target_dir = shared_target(&out_dir).join(if debug_probes { "ebpf-debug-probes" } else { "ebpf" });
    let mut command = Command::new(&toolchain.cargo);
    command
        .args(["build", "--release", "--package", "profiler-ebpf", "--bin", OBJECT])
        .args(["--target", TARGET, "-Z", "build-std=core", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        // A directory of its own: the cargo that runs this script holds the lock of the other one.
        .arg("--target-dir")
        .arg(&target_dir);
    if debug_probes {
        command.args(["--features", "debug-probes"]);
    }
    for (name, _) in env::vars_os().filter(|(name, _)| belongs_to_outer_build(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
        .env("RUSTC", &toolchain.rustc)
        // -Z build-std on a compiler of the stable channel.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags(&toolchain)?);

    let status = command
        .status()
        .map_err(|e| format!("cannot run {} ({e}); run `cargo xtask setup`", toolchain.cargo.display()))?;
    if !status.success() {
        return Ok(status);
    }
    let built = target_dir.join(TARGET).join("release").join(OBJECT);
    let object = out_dir.join(OBJECT);
    fs::copy(&built, &object)
        .map_err(|e| format!("cannot copy {} to {}: {e}", built.display(), object.display()))?;
    Ok(status)
}

/// The outer target directory, so that `core` is compiled once and not again for every profile of this crate;
/// cargo marks it with a cache tag. In an unusual layout the script's own directory does as well, only slower.
fn shared_target(out_dir: &Path) -> &Path {
    out_dir.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()).unwrap_or(out_dir)
}

/// What `cargo xtask setup` found.
struct Toolchain {
    cargo: PathBuf,
    rustc: PathBuf,
    linker: PathBuf,
}

impl Toolchain {
    fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|_| {
            "no eBPF toolchain has been chosen on this machine yet: run `cargo xtask setup` once, then build again"
        })?;
        let pairs: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
        let existing = |key: &str| match pairs.get(key).map(PathBuf::from) {
            Some(file) if file.exists() => Ok(file),
            Some(file) => Err(format!(
                "{CHOICE} names {}, which is gone: run `cargo xtask setup` again",
                file.display()
            )),
            None => Err(format!("{CHOICE} has no line `{key}=`: run `cargo xtask setup` again")),
        };
        Ok(Self { cargo: existing("cargo")?, rustc: existing("rustc")?, linker: existing("linker")? })
    }
}

/// Compiler flags of the eBPF crate: debug information is what BTF is made from, and BTF is what names the maps
/// and their types to the kernel.
fn rustflags(toolchain: &Toolchain) -> Result<OsString, String> {
    let arch = variable("CARGO_CFG_TARGET_ARCH")?;
    let mut flags = OsString::from(format!("--cfg=bpf_target_arch=\"{arch}\"\x1f"));
    flags.push("-Cdebuginfo=2\x1f-Clink-arg=--btf\x1f-Clinker=");
    flags.push(&toolchain.linker);
    Ok(flags)
}

/// Whether a variable steers the compilation this script is a part of: its flags, its compiler, the wrapper
/// `cargo clippy` puts around it. Where crates come from and how many jobs run stays.
fn belongs_to_outer_build(name: &str) -> bool {
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_MAKEFLAGS",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "CARGO_TERM_",
    ];
    let dropped = ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN", "CLIPPY_"];
    dropped.iter().any(|prefix| name.starts_with(prefix))
        && !KEPT.iter().any(|prefix| name.starts_with(prefix))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|e| format!("cargo passes no usable {name} to the build script: {e}"))
}
