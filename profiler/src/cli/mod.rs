//! The command line: what was typed, what it does, how it ends.

mod args;
mod attach;
mod doctor;
mod exit;
mod generate;
mod output;
mod report;
mod terminal;

pub use args::Cli;
pub use exit::Exit;
pub use terminal::say;

use args::Command;

/// Runs a parsed command line.
pub fn run(cli: Cli) -> Exit {
    match cli.command {
        Command::Attach(args) => attach::run(*args),
        Command::Doctor(args) => doctor::run(args),
        Command::Report(args) => report::run(args),
        Command::Generate(args) => generate::run(args),
    }
}
