//! `cargo xtask`: everything that is done with this repository besides `cargo build`. One file per task; the
//! options are all defined here.

mod command;
mod packages;
mod postgres;
mod setup;
mod toolchain;

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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Setup(options) => setup::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
