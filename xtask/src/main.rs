//! `cargo xtask`: everything that is done with this repository besides `cargo build`. One file per task; the
//! options are all defined here.

mod cluster;
mod command;
mod demo;
mod dist;
mod interrupt;
mod lint;
mod load;
mod overhead;
mod packages;
mod postgres;
mod setup;
mod test;
mod tidy;
mod toolchain;
mod wait_events;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, test and measure pgstall.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Find or install what building needs: a compiler with library sources, bpf-linker, the packages they need
    Setup(setup::Options),
    /// Set up, start a throw-away PostgreSQL with a load on it, attach, and print where the time went
    Demo(demo::Options),
    /// Run all tests; what needs root runs as root
    Test(test::Options),
    /// Measure what attaching costs: paired pgbench runs with and without, and a null pair
    Overhead(overhead::Options),
    /// Build the statically linked binary to copy to a database host
    Dist,
    /// Check formatting, clippy on host and eBPF crates, documentation, and the rules of the tree
    Lint,
    /// Generate the tables of wait event names from their data file
    WaitEvents {
        /// Only fail when the checked-in tables differ
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Setup(options) => setup::run(&options),
        Task::Demo(options) => demo::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Overhead(options) => overhead::run(&options),
        Task::Dist => dist::run(),
        Task::Lint => lint::run(),
        Task::WaitEvents { check } => wait_events::run(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
