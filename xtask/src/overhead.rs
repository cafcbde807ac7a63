//! `cargo xtask overhead`: what attaching costs. While one pgbench runs, windows with an observer take turns with windows
//! without, so that each lies between two of the other kind; a null pair (nobody between nobody) among them shows how
//! much of a difference is noise of this machine.

mod cpu;
mod observer;
mod stream;
mod summary;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cluster::{Cluster, DEFAULT_PARENT};
use crate::command::{is_root, say};
use crate::{demo, interrupt, postgres, setup};
use observer::{Observer, Observing};
use stream::Stream;
use summary::{Arm, Pair, Table};

/// Seconds of load before the first measurement: caches fill, and the first full-page images are written.
const WARM_UP_S: u64 = 8;

/// What is compared, how often and how long.
#[derive(clap::Args)]
pub struct Options {
    /// Loads: select (cached, read-only: the dearest case per transaction) and update (durable commits)
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Workload::Select, Workload::Update])]
    workloads: Vec<Workload>,
    /// Kinds of attach: exact and sched (`--borders`), or a border signal by name (`--border-signal`); empty for none
    #[arg(long, value_delimiter = ',', default_value = "exact")]
    variants: Vec<String>,
    /// Also observe with a bpftrace off-CPU program and with `perf sched record`, where installed
    #[arg(long)]
    compare: bool,
    /// Connections
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Seconds of one window
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Pairs of windows per observer
    #[arg(long, default_value_t = 20)]
    pairs: u32,
    /// Size of pgbench's tables; everything must fit into the server's 512 MB of buffers
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// Where the throw-away server's files go; a real disk, for real fsyncs
    #[arg(long, default_value = DEFAULT_PARENT)]
    dir: PathBuf,
    /// Write every single window and the summary to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A load of pgbench's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Workload {
    Select,
    Update,
}

impl Workload {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Select => &["-S"],
            Self::Update => &["-N"],
        }
    }
}

/// The server under load: nothing of its own may start in the middle of a run, everything else as usual.
const SETTINGS: [&str; 4] =
    ["shared_buffers = '512MB'", "autovacuum = off", "checkpoint_timeout = '1h'", "max_wal_size = '8GB'"];

/// Measures and prints the table.
///
/// # Errors
/// When a run fails; the server is stopped all the same.
pub fn run(options: &Options) -> Result<()> {
    if !is_root() {
        bail!("attaching needs root: run `sudo -E cargo xtask overhead`, which still compiles as you");
    }
    interrupt::watch();
    setup::run(&setup::Options::default())?;
    let installation = postgres::find().context("no PostgreSQL found: run `cargo xtask setup --tests`")?;
    let pgstall = demo::build()?;
    let mut observers = vec![Observer::none()];
    let variants = options.variants.iter().filter(|variant| !variant.is_empty());
    observers.extend(variants.map(|variant| Observer::attach(&pgstall, variant)));
    if options.compare {
        observers.extend(Observer::others());
    }

    let cluster = Cluster::start(&installation, &options.dir, &SETTINGS)?;
    say("overhead", format!("filling {} rows", u64::from(options.scale) * 100_000));
    cluster.fill(options.scale)?;
    let mut tables = Vec::new();
    for &workload in &options.workloads {
        tables.push(measure(&cluster, options, workload, &observers)?);
        if let Some(table) = tables.last() {
            print!("{}", table.text());
        }
    }
    if let Some(path) = &options.json {
        let document = summary::document(&installation.version, &tables);
        std::fs::write(path, document).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Windows without an observer and with one take turns, so that each observed one lies between two that are not.
fn measure(
    cluster: &Cluster,
    options: &Options,
    workload: Workload,
    observers: &[Observer],
) -> Result<Table> {
    let name = workload.arguments().join(" ");
    say("overhead", format!("pgbench {name}: warming up"));
    // Both loads start right after a checkpoint; none comes in between.
    cluster.sql("CHECKPOINT")?;
    let mut stream = Stream::start(cluster, workload.arguments(), options.clients, WARM_UP_S)?;
    let mut arms: Vec<Arm> = observers.iter().map(|observer| Arm::new(observer.name())).collect();
    let longest = Duration::from_secs(options.seconds + 60);
    let mut before = stream.window(options.seconds, None)?;
    for round in 0..options.pairs {
        for (observer, arm) in observers.iter().zip(&mut arms) {
            let observing = observer.start(cluster, longest)?;
            let with = stream.window(options.seconds, observing.as_ref().map(Observing::pid))?;
            if let Some(observing) = observing {
                observing.finish(cluster)?;
            }
            let after = stream.window(options.seconds, None)?;
            say(
                "overhead",
                format!(
                    "pgbench {name}: {} of {}, {}: {:.0} tps between {:.0} and {:.0}",
                    round + 1,
                    options.pairs,
                    observer.name(),
                    with.tps,
                    before.tps,
                    after.tps
                ),
            );
            arm.pairs.push(Pair { without: before.mean(&after), with });
            before = after;
        }
    }
    Ok(Table {
        workload: format!("pgbench {name}"),
        clients: options.clients,
        seconds: options.seconds,
        arms,
    })
}
