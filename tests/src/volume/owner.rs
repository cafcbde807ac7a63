//! A volume, for who uses it: started as a process of its own, gone when dropped.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    filesystem,
    log::{self, Entry},
    serve::Plan,
    shape::Shape,
};
use crate::poll;

/// How long it may take to undo everything.
const PATIENCE: Duration = Duration::from_secs(15);

/// A running volume.
#[derive(Debug)]
pub struct Volume {
    child: Child,
    talk: Mutex<Option<Talk>>,
    device: String,
    at: PathBuf,
    log: Option<PathBuf>,
}

#[derive(Debug)]
struct Talk {
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Talk {
    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).context("an answer of the volume")?;
        anyhow::ensure!(read > 0, "the volume ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Volume {
    /// Starts one with that program, `pgstall-volume`; returns when it is mounted.
    pub fn start(program: &Path, plan: &Plan) -> Result<Volume> {
        fs::create_dir_all(&plan.at).with_context(|| plan.at.display().to_string())?;
        let mut command = Command::new(program);
        command.arg("--control").arg("--size-mib").arg((plan.size_bytes >> 20).to_string());
        if let Some(log) = &plan.log {
            command.arg("--log").arg(log);
        }
        command.arg(&plan.at).args(plan.shape.to_string().split(' '));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let talk = child.stdin.take().zip(child.stdout.take());
        let talk = talk.map(|(ask, answers)| Talk { ask, answers: BufReader::new(answers) });
        let mut volume = Volume {
            child,
            talk: Mutex::new(talk),
            device: String::new(),
            at: plan.at.clone(),
            log: plan.log.clone(),
        };
        let first =
            volume.with_talk(Talk::answer).context("the volume did not come up; see its standard error")?;
        let device = first.strip_prefix("ready ").with_context(|| format!("the volume said {first:?}"))?;
        volume.device = device.to_owned();
        Ok(volume)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// The kernel's name of its device, such as `loop3`.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Changes how it answers.
    pub fn reshape(&self, shape: &Shape) -> Result<()> {
        self.ask(&format!("shape {shape}"))
    }

    /// All requests answered since it was mounted.
    pub fn log(&self) -> Result<Vec<Entry>> {
        let path = self.log.as_deref().context("the volume was started without a log")?;
        self.ask("write-log")?;
        log::read(path)
    }

    fn ask(&self, line: &str) -> Result<()> {
        let answer = self.with_talk(|talk| {
            writeln!(talk.ask, "{line}").context("the volume ended")?;
            talk.answer()
        })?;
        if answer != "ok" {
            bail!("the volume was asked {line:?} and said {answer:?}");
        }
        Ok(())
    }

    fn with_talk<T>(&self, with: impl FnOnce(&mut Talk) -> Result<T>) -> Result<T> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        with(talk.as_mut().context("the volume has no pipes")?)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Its input ends, and with that it does.
        self.talk.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = poll::until("the end of a volume", PATIENCE, || Ok(self.child.try_wait()?));
        if ended.is_err() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
        // Somebody may have killed it: its device clears itself, but not before the file system is unmounted.
        if filesystem::is_mounted(&self.at).unwrap_or(false)
            && let Err(error) = filesystem::release(&self.at)
        {
            eprintln!("cannot unmount {}: {error}", self.at.display());
        }
        drop(fs::remove_dir(&self.at));
    }
}
