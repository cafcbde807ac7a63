//! The grammar of the command line, the only definition of options and their help.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{kernel::border::BorderSignal, kernel::simulate::Simulate, target::Selector};

/// Tells where each PostgreSQL transaction's time goes: page reads, WAL fsync, locks, CPU, run queue, client.
#[derive(Debug, Parser)]
#[command(name = "pgstall", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  pgstall attach                          watch the only server on this host for 30 s
  pgstall attach -D /var/lib/pg -d 2m -o incident.json
  pgstall doctor                          what is missing, and how to fix it
  pgstall report incident.json            show a saved profile, no root needed

Exit codes: 0 result, 1 nothing could be measured, 2 usage, 3 refused, 4 result could not be written.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Attach to a running server for a while and print the budget of its transactions.
    Attach(Box<AttachArgs>),
    /// Check every precondition and say what to do about those that fail.
    Doctor(DoctorArgs),
    /// Show a saved profile.
    Report(ReportArgs),
    /// Print generated files.
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// Which server.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// The postmaster, or any of its backends.
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Data directory of the server.
    #[arg(short = 'D', long, value_name = "DIR")]
    pub pgdata: Option<PathBuf>,
    /// TCP port of the server.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

impl From<ServerArgs> for Selector {
    fn from(args: ServerArgs) -> Selector {
        Selector { pid: args.pid, pgdata: args.pgdata, port: args.port }
    }
}

/// `pgstall attach`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pgstall attach                               the only server, 30 s
  pgstall attach --port 5433 -d 10 --interval 1
  pgstall attach -d 1h -i 60 --format jsonl -o hour.json
  pgstall attach --database shop --min-latency 50ms --slowest 20

Needs root (or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE). Reads only: no SQL, no extension, no restart; Ctrl-C ends
the window early and still prints the result.")]
pub struct AttachArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// How long to watch: seconds, or with a unit (500ms, 90s, 5m, 1h).
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = positive_duration)]
    pub duration: Duration,
    /// Print a line per interval while watching: seconds, or with a unit; at least 100ms.
    #[arg(short, long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
    /// Form of the result on standard output; jsonl prints a line per interval and the profile last.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write the profile as JSON to this file as well.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Transaction borders: exact, or from the scheduler alone (cheaper, approximate: merges transactions whose next
    /// request is already there).
    #[arg(long, value_enum, default_value_t = Borders::Exact)]
    pub borders: Borders,
    /// Count only transactions, and show only statements, at least this long: milliseconds, or with a unit (50ms, 1s).
    #[arg(long, value_name = "TIME", value_parser = latency)]
    pub min_latency: Option<Duration>,
    /// Count only transactions in this database (name or oid).
    #[arg(long, value_name = "NAME", value_parser = owner)]
    pub database: Option<String>,
    /// Count only transactions of this role (name or oid).
    #[arg(long, value_name = "NAME", value_parser = owner)]
    pub user: Option<String>,
    /// How many statements to show.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub statements: usize,
    /// How many of the longest transactions to show.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub slowest: u16,
    /// Keep constants in statement texts; without it they are removed.
    #[arg(long)]
    pub show_literals: bool,
    /// List the server's processes one by one in the profile.
    #[arg(long)]
    pub per_backend: bool,
    /// Do not watch the block devices: no figures of devices, and waits for I/O are not split.
    #[arg(long)]
    pub without_block: bool,
    /// Use a given border signal, for measuring one against the other.
    #[arg(long, value_enum, hide = true, conflicts_with = "borders")]
    pub border_signal: Option<Signal>,
    /// Write every transaction as a line of JSON to this file; costs far more than the default.
    #[arg(long, value_name = "FILE", hide = true)]
    pub records: Option<PathBuf>,
    /// Pretend that a kernel feature is missing.
    #[arg(long, value_name = "FEATURE", hide = true)]
    pub simulate: Vec<Simulate>,
}

/// `pgstall doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Form of the result.
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Transaction borders to check for.
    #[arg(long, value_enum, default_value_t = Borders::Exact)]
    pub borders: Borders,
    /// Pretend that a kernel feature is missing.
    #[arg(long, value_name = "FEATURE", hide = true)]
    pub simulate: Vec<Simulate>,
}

/// `pgstall report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A profile written by `pgstall attach -o FILE`; - for standard input.
    pub file: PathBuf,
    /// Form of the result.
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

/// `pgstall generate`
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// What to print.
    #[arg(value_enum)]
    pub what: Generated,
}

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON document.
    Json,
    /// JSON Lines: intervals, then the profile.
    Jsonl,
}

/// Form of a result that has no intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

/// Transaction borders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Borders {
    /// Every transaction is seen.
    Exact,
    /// From the scheduler alone.
    Sched,
}

/// Border signals by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Signal {
    SockSendLength,
    SysEnter,
    Scheduler,
}

impl From<Signal> for BorderSignal {
    fn from(signal: Signal) -> BorderSignal {
        match signal {
            Signal::SockSendLength => BorderSignal::SockSendLength,
            Signal::SysEnter => BorderSignal::SysEnterSendto,
            Signal::Scheduler => BorderSignal::Scheduler,
        }
    }
}

/// What `generate` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    /// JSON Schema of the profile.
    Schema,
}

/// Longest window and interval.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

fn owner(text: &str) -> Result<String, String> {
    match text.parse::<u32>() {
        Ok(0 | u32::MAX) => Err("no database or role has this oid".to_owned()),
        _ if text.is_empty() => Err("need a name or an oid".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    bounded(text, 1.0, Duration::from_millis(10))
}

fn interval(text: &str) -> Result<Duration, String> {
    bounded(text, 1.0, Duration::from_millis(100))
}

fn latency(text: &str) -> Result<Duration, String> {
    parse(text, 1e-3)
}

fn bounded(text: &str, unit: f64, least: Duration) -> Result<Duration, String> {
    let duration = parse(text, unit)?;
    if duration < least || duration > LONGEST {
        return Err(format!("need {least:?} to 7 days"));
    }
    Ok(duration)
}

const NEED: &str = "need a number, alone or with a unit of us, ms, s, m, h or d, such as 90s";

/// A number with an optional unit; `unit` is the one meant without, in seconds.
fn parse(text: &str, unit: f64) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor = match suffix.trim() {
        "" => unit,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(NEED.to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| NEED.to_owned())?;
    Duration::try_from_secs_f64(number * factor).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(positive_duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(positive_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(latency("50"), Ok(Duration::from_millis(50)));
        assert_eq!(latency("1s"), Ok(Duration::from_secs(1)));
        for wrong in ["", "0", "-5", "ten", "5 parsecs", "1e9", "9999h", "1.2.3s"] {
            assert!(positive_duration(wrong).is_err(), "{wrong:?}");
        }
        assert!(interval("1ms").is_err());
    }
}
