//! `pgstall-volume`: an emulated volume; see the module `volume`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use pgstall_tests::volume::{serve, shape::Shape};

/// Mounts an ext4 on a block device in memory that answers as slowly as it is told to
///
/// It ends, and undoes everything, on SIGINT and SIGTERM.
#[derive(Debug, Parser)]
struct Arguments {
    /// An empty directory to mount it in
    at: PathBuf,

    /// How it answers: read=TIME write=TIME flush=TIME iops=N bytes_per_s=N; a TIME is 2ms, or 500us/4ms for median and p99
    shape: Vec<String>,

    /// Size
    #[arg(long, default_value_t = 1024)]
    size_mib: u64,

    /// Write each request to this file
    #[arg(long)]
    log: Option<PathBuf>,

    /// Take commands on standard input, and end when it does
    #[arg(long)]
    control: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let shape: Shape = arguments.shape.join(" ").parse()?;
    let plan =
        serve::Plan { at: arguments.at, size_bytes: arguments.size_mib << 20, shape, log: arguments.log };
    serve::run(&plan, arguments.control)
}
