//! What watches the server during a run: nothing, `pgstall attach`, or another tool that answers a related
//! question.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::cluster::Cluster;
use crate::command::find_program;
use crate::interrupt;

/// How long an observer may take until its probes are in place, and for how long their number must stand still.
const READY_LIMIT: Duration = Duration::from_secs(30);
const SETTLED: Duration = Duration::from_millis(500);

/// Blocked time by kernel stack of the server's processes: the least bpftrace needs to say why they sleep.
const OFF_CPU: &str = "tracepoint:sched:sched_switch { \
     if (args->prev_comm == \"postgres\" && args->prev_state != 0) { @since[args->prev_pid] = nsecs; @why[args->prev_pid] = kstack; } \
     if (@since[args->next_pid]) { @us[@why[args->next_pid]] = sum((nsecs - @since[args->next_pid]) / 1000); \
     delete(@since[args->next_pid]); delete(@why[args->next_pid]); } }";
/// A mount namespace of its own gives the tools the trace file system, which bare machines have not mounted.
const WITH_TRACEFS: &str = "mount -t tracefs tracefs /sys/kernel/tracing && exec \"$@\"";

/// One way to watch.
pub struct Observer {
    name: String,
    kind: Kind,
}

enum Kind {
    None,
    /// The program and the option that chooses the border signal.
    Attach(PathBuf, [String; 2]),
    /// A program that uses the trace file system, with its arguments.
    Tool(Vec<String>),
}

impl Observer {
    /// Nobody watches: the null pair, and the other half of every pair.
    pub fn none() -> Self {
        Self { name: "null pair".to_owned(), kind: Kind::None }
    }

    /// `pgstall attach` with one kind of borders.
    pub fn attach(pgstall: &Path, variant: &str) -> Self {
        let option = if ["exact", "sched"].contains(&variant) { "--borders" } else { "--border-signal" };
        let kind = Kind::Attach(pgstall.to_owned(), [option.to_owned(), variant.to_owned()]);
        Self { name: format!("attach {variant}"), kind }
    }

    /// Other tools, as far as they are installed.
    pub fn others() -> Vec<Self> {
        let mut found = Vec::new();
        let mut add = |name: &str, program: &str, arguments: &[&str]| match find_program(program) {
            Some(path) => {
                let mut words = vec![path.display().to_string()];
                words.extend(arguments.iter().map(|&word| word.to_owned()));
                found.push(Self { name: name.to_owned(), kind: Kind::Tool(words) });
            }
            None => eprintln!("overhead: {program} is not installed, not compared"),
        };
        add("bpftrace off-CPU", "bpftrace", &["-e", OFF_CPU]);
        add("perf sched record", "perf", &["sched", "record", "-o", "/dev/null"]);
        found
    }

    /// What the table calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts watching and returns when the probes are in place; `None` when nobody watches.
    ///
    /// # Errors
    /// When the observer ends or is not ready in time; what it said is quoted.
    pub fn start(&self, cluster: &Cluster, longest: Duration) -> Result<Option<Observing>> {
        let profile = cluster.file("profile.json", "")?;
        let mut command = match &self.kind {
            Kind::None => return Ok(None),
            Kind::Attach(pgstall, option) => {
                let mut command = Command::new(pgstall);
                command.arg("attach").arg("--pgdata").arg(cluster.data()).args(option);
                command.arg("--duration").arg(longest.as_secs().to_string()).arg("-o").arg(&profile);
                command
            }
            Kind::Tool(words) => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", WITH_TRACEFS, "sh"]).args(words);
                command
            }
        };
        let log = cluster.file("observer.log", "")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = interrupt::spawn(&mut command, libc::SIGINT, true)?;
        let mut observing = Observing {
            name: self.name.clone(),
            child,
            log,
            profile: matches!(self.kind, Kind::Attach(..)).then_some(profile),
        };
        observing.wait_until_ready()?;
        Ok(Some(observing))
    }
}

/// A running observer; dropping it stops it.
pub struct Observing {
    name: String,
    child: Child,
    log: PathBuf,
    profile: Option<PathBuf>,
}

impl Observing {
    /// Every probe is a descriptor: once there are some and no more are coming, all are in place.
    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        let (mut probes, mut since) = (0, Instant::now());
        while probes == 0 || since.elapsed() < SETTLED {
            interrupt::sleep(Duration::from_millis(50))?;
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before the run ({status}): {}", self.name, self.said());
            }
            if Instant::now() > deadline {
                bail!(
                    "{} has no probe in place after {} s: {}",
                    self.name,
                    READY_LIMIT.as_secs(),
                    self.said()
                );
            }
            let now = probe_descriptors(self.child.id());
            if now != probes {
                (probes, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Its process. The probes' time is not on its account: they run on the server's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it did not end well, or counted nothing; what it said is quoted.
    pub fn finish(mut self, cluster: &Cluster) -> Result<()> {
        interrupt::signal(&self.child, libc::SIGINT);
        let status = interrupt::wait(&mut self.child, &self.name, Duration::from_secs(30))?;
        let Some(profile) = &self.profile else { return Ok(()) };
        if !status.success() {
            bail!("{} failed ({status}) on {}: {}", self.name, cluster.data().display(), self.said());
        }
        let text = fs::read_to_string(profile)?;
        let document: serde_json::Value = serde_json::from_str(&text)
            .with_context(|| format!("{} wrote no readable profile", self.name))?;
        ensure!(document["transactions"]["count"].as_u64() > Some(0), "{} counted nothing", self.name);
        Ok(())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        interrupt::stop(&mut self.child, libc::SIGINT);
    }
}

fn probe_descriptors(pid: u32) -> usize {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    targets.filter(|target| is_probe(&target.to_string_lossy())).count()
}

fn is_probe(target: &str) -> bool {
    let kinds = ["bpf_link", "bpf-link", "raw-tracepoint", "bpf-tracing", "perf_event"];
    target.starts_with("anon_inode:") && kinds.iter().any(|kind| target.contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_that_are_probes() {
        assert!(is_probe("anon_inode:bpf_link") && is_probe("anon_inode:[perf_event]"));
        assert!(!is_probe("anon_inode:bpf-map") && !is_probe("/tmp/bpf_link"));
    }

    #[test]
    fn variants_choose_their_option() {
        let option = |variant| match Observer::attach(Path::new("pgstall"), variant).kind {
            Kind::Attach(_, [option, _]) => option,
            _ => String::new(),
        };
        assert_eq!((option("exact"), option("sched")), ("--borders".to_owned(), "--borders".to_owned()));
        assert_eq!(option("sys_enter"), "--border-signal");
    }
}
