//! The `pgstall` command: parse, run, say what went wrong, exit.

use std::process::ExitCode;

use clap::Parser as _;
use pgstall::cli::{self, Cli};

fn main() -> ExitCode {
    // A panic unwinds and drops the probes; should it abort instead, the kernel detaches them with the process.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        cli::say("this is a bug in pgstall; the probes are detached as it ends");
        report(info);
    }));
    let exit = cli::run(Cli::parse());
    if let Some(message) = exit.message() {
        cli::say(message);
    }
    exit.code()
}
