//! `pgstall attach`

use std::{
    fs::File,
    io::{self, Write as _},
    time::Duration,
};

use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};

use super::{
    Exit,
    args::{AttachArgs, Borders, Format},
    output::Output,
    terminal,
};
use crate::{
    model::profile::{Interval, Profile},
    report::{json, live, text},
    session::{Attachment, BordersWanted, Observer, Options, Signal},
};

/// Length of the time line's intervals where none are to be printed.
const QUIET_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn run(args: AttachArgs) -> Exit {
    match attach(args) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn attach(args: AttachArgs) -> Result<Exit, Exit> {
    if !terminal::stdout_is_open() {
        return Err(Exit::Output("standard output is closed, need a place for the result".to_owned()));
    }
    let output = args.output.as_deref().map(|path| Output::create(path, args.show_literals)).transpose()?;
    let records = args.records.as_deref().map(File::create).transpose();
    let records = records.map_err(|error| Exit::Output(format!("cannot write the records: {error}")))?;
    let borders = match (args.border_signal, args.borders) {
        (Some(signal), _) => BordersWanted::Signal(signal.into()),
        (None, Borders::Exact) => BordersWanted::Exact,
        (None, Borders::Sched) => BordersWanted::Scheduler,
    };
    let options = Options {
        selector: args.server.into(),
        duration: args.duration,
        interval: args.interval.unwrap_or(QUIET_INTERVAL),
        borders,
        min_latency: args.min_latency,
        database: args.database,
        user: args.user,
        n_statements: args.statements,
        n_slowest: args.slowest.into(),
        show_literals: args.show_literals,
        per_backend: args.per_backend,
        without_block: args.without_block,
        records,
        simulate: args.simulate,
    };
    let mut console = Console {
        format: args.format,
        intervals: args.interval.is_some(),
        progress: terminal::stderr_is_terminal() && args.interval.is_none(),
        duration: args.duration,
        exact: true,
        failed: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Exit::Nothing(format!("cannot start the event loop: {error}")))?;
    let profile = runtime.block_on(watch(options, &mut console))?;
    console.clear();
    // Each of the two places gets the result, whatever becomes of the other.
    let shown = match console.failed.take() {
        Some(error) => Err(error),
        None => print(args.format, &profile),
    };
    output.map_or(Ok(()), |output| output.finish(&profile))?;
    shown.map_err(|error| Exit::from_write("the result to standard output", &error))?;
    if profile.transactions.count == 0 && profile.open.is_empty() {
        return Ok(Exit::Nothing(
            "no transaction ended in the window, and none was open at its end".to_owned(),
        ));
    }
    Ok(Exit::Result)
}

async fn watch(options: Options, console: &mut Console) -> Result<Profile, Exit> {
    // Before attaching, so that no signal can find the probes in place and nobody listening.
    let mut signals =
        Signals::new().map_err(|error| Exit::Nothing(format!("cannot listen for signals: {error}")))?;
    let mut attachment = Attachment::new(&options)?;
    console.exact = attachment.border().signal.is_exact();
    let profile = attachment.watch(options, &mut signals, console).await;
    drop(attachment);
    profile.map_err(|error| Exit::Nothing(format!("{error:#}")))
}

fn print(format: Format, profile: &Profile) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match format {
        Format::Text => text::render(profile, &terminal::stdout_style(), &mut stdout)?,
        Format::Json => json::write(profile, &mut stdout)?,
        Format::Jsonl => {
            serde_json::to_writer(&mut stdout, profile)?;
            stdout.write_all(b"\n")?;
        }
    }
    stdout.flush()
}

/// The signals that end a window early.
struct Signals {
    interrupt: UnixSignal,
    terminate: UnixSignal,
    /// `None` where it was ignored when this process began (nohup): then it stays ignored.
    hang_up: Option<UnixSignal>,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if is_ignored(libc::SIGHUP)? { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }
}

fn is_ignored(number: libc::c_int) -> io::Result<bool> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks only; the answer's place is valid.
    if unsafe { libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above filled it.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

impl Signal for Signals {
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = hang_up(&mut self.hang_up) => {}
        }
    }
}

async fn hang_up(signal: &mut Option<UnixSignal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// What is shown while the window is open.
struct Console {
    format: Format,
    intervals: bool,
    progress: bool,
    duration: Duration,
    exact: bool,
    failed: Option<io::Error>,
}

impl Console {
    /// Takes the progress line away.
    fn clear(&self) {
        if self.progress {
            terminal::note("\r\x1b[K");
        }
    }
}

impl Observer for Console {
    fn opened(&mut self, attachment: &Attachment) {
        let cluster = attachment.cluster();
        let port = cluster.postmaster.port.map_or(String::new(), |port| format!(", port {port}"));
        let signal = attachment.border().signal;
        terminal::say(&format!(
            "attached to PostgreSQL {} (pid {}{port}): {} processes, borders {}{}; {:?}, Ctrl-C ends it early",
            cluster.version,
            cluster.postmaster_pid(),
            attachment.n_enrolled(),
            signal.name(),
            if signal.is_exact() { "" } else { " (approximate)" },
            self.duration,
        ));
    }

    fn interval(&mut self, interval: &Interval) {
        let line = match self.format {
            Format::Jsonl => live::json_line(interval, self.exact).map_err(io::Error::from),
            Format::Text if self.intervals => Ok(live::line(interval, self.exact)),
            Format::Json if self.intervals => {
                terminal::note(&format!("{}\n", live::line(interval, self.exact)));
                return;
            }
            Format::Text | Format::Json => return,
        };
        let written = line.and_then(|line| writeln!(io::stdout(), "{line}"));
        if let (Err(error), None) = (written, &self.failed) {
            self.failed = Some(error);
        }
    }

    fn progress(&mut self, passed: Duration, transactions: u64) {
        if self.progress {
            let (passed, whole) = (passed.as_secs(), self.duration.as_secs_f64());
            terminal::note(&format!("\r\x1b[Kpgstall: {passed} of {whole} s, {transactions} transactions"));
        }
    }
}
