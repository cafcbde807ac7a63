//! The volume's own process: sets it up, does what it is told, and undoes everything at the end.
//!
//! With a controller, lines come in on standard input and each is answered by one on standard output: `ok`, or `error`
//! and the reason. Closed input is the end, as are SIGINT and SIGTERM. The pipe rather than a death signal ties it to
//! who started it: the kernel sends that one when the *thread* that started the process ends.

use std::{
    io::{self, BufRead as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use fuser::BackgroundSession;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{
    connection,
    disk::{Control, Disk},
    filesystem::Mounted,
    log::Log,
    loopdev::LoopDevice,
    priority::{come_as_usual, come_first},
    shape::Shape,
};

/// How often the log is written out unasked.
const WRITE_LOG: Duration = Duration::from_secs(1);

/// What the volume is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// An empty directory to mount it in.
    pub at: PathBuf,
    /// Its size; as much memory is used in the end.
    pub size_bytes: u64,
    /// How it answers, once it is mounted.
    pub shape: Shape,
    /// Where each request is logged.
    pub log: Option<PathBuf>,
}

/// A volume that is served; undone when dropped, in the order of the fields.
#[derive(Debug)]
struct Served {
    control: Arc<Control>,
    mounted: Option<Mounted>,
    session: Option<BackgroundSession>,
    log: Option<Arc<Log>>,
    device: String,
}

impl Served {
    fn new(plan: &Plan) -> Result<Served> {
        let control = Arc::new(Control::default());
        let disk = Disk::new(plan.size_bytes, control.clone())?;
        // The threads that serve inherit it; what makes the file system need not have it.
        come_first()?;
        let connected = connection::serve(disk);
        come_as_usual()?;
        let (session, file) = connected?;
        let device = LoopDevice::new(&file)?;
        let mounted = Mounted::new(&device.node(), &plan.at)?;
        let log = plan.log.as_deref().map(Log::create).transpose()?.map(Arc::new);
        // Only now: making the file system is nobody's measurement, and need not be slow.
        control.set_log(log.clone());
        control.set_shape(plan.shape);
        Ok(Served { control, mounted: Some(mounted), session: Some(session), log, device: device.name() })
    }

    fn obey(&self, line: &str) -> Result<()> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("shape", shape) => self.control.set_shape(shape.parse()?),
            ("write-log", "") => self.write_log()?,
            _ => anyhow::bail!("{line:?} is neither `shape …` nor `write-log`"),
        }
        Ok(())
    }

    fn write_log(&self) -> Result<()> {
        self.log.as_ref().map_or(Ok(()), |log| log.flush())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.control.set_shape(Shape::default());
        drop(self.mounted.take());
        if let Some(session) = self.session.take()
            && !connection::wait(session, Duration::from_secs(2))
        {
            eprintln!("pgstall-volume: {} is still in use; it goes with its last user", self.device);
        }
        if let Err(error) = self.write_log() {
            eprintln!("pgstall-volume: {error:#}");
        }
    }
}

enum Event {
    Line(String),
    End,
}

/// Serves a volume until told to stop: by a signal, or by the end of standard input where that is the controller.
pub fn run(plan: &Plan, controlled: bool) -> Result<()> {
    let (sender, events) = mpsc::channel();
    watch_signals(sender.clone())?;
    if controlled {
        let sender = sender.clone();
        thread::spawn(move || {
            let lines = io::stdin().lock().lines().map_while(Result::ok);
            drop(lines.map(Event::Line).try_for_each(|line| sender.send(line)));
            drop(sender.send(Event::End));
        });
    }
    let served = Served::new(plan)?;
    say(&format!("ready {}", served.device))?;
    loop {
        match events.recv_timeout(WRITE_LOG) {
            Ok(Event::Line(line)) => match served.obey(&line) {
                Ok(()) => say("ok")?,
                Err(error) => say(&format!("error {error:#}"))?,
            },
            Ok(Event::End) | Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => served.write_log()?,
        }
    }
}

/// Nobody may be listening any more, which is no reason to leave a volume behind: the caller ends in order.
fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("standard output")
}

fn watch_signals(sender: mpsc::Sender<Event>) -> Result<()> {
    let (mut read, write) = UnixStream::pair().context("a pair of sockets")?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?).context("a signal handler")?;
    }
    thread::spawn(move || {
        // The other end stays open as long as the handlers do, so that this returns only for a signal.
        let _keep = write;
        drop(io::Read::read(&mut read, &mut [0]));
        drop(sender.send(Event::End));
    });
    Ok(())
}
