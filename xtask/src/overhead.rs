//! `cargo xtask overhead`: what attaching costs. Paired runs of pgbench with and without an observer, in
//! alternating order, and a null pair (without and without) among them that shows how much of a difference is
//! noise of this machine.

mod cpu;
mod observer;
mod summary;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cluster::{Cluster, DEFAULT_PARENT};
use crate::command::{is_root, say};
use crate::load::Figures;
use crate::{demo, interrupt, postgres, setup};
use observer::Observer;
use summary::{Arm, Pair, Run, Table};

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
    /// Seconds of one run
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Pairs of runs per observer
    #[arg(long, default_value_t = 20)]
    pairs: u32,
    /// Size of pgbench's tables; everything must fit into the server's 512 MB of buffers
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// Where the throw-away server's files go; a real disk, for real fsyncs
    #[arg(long, default_value = DEFAULT_PARENT)]
    dir: PathBuf,
    /// Write every single run and the summary to this file
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

fn measure(
    cluster: &Cluster,
    options: &Options,
    workload: Workload,
    observers: &[Observer],
) -> Result<Table> {
    let name = workload.arguments().join(" ");
    say("overhead", format!("pgbench {name}: warming up"));
    one_run(cluster, options, workload, &Observer::none())?;
    let mut arms: Vec<Arm> = observers.iter().map(|observer| Arm::new(observer.name())).collect();
    for round in 0..options.pairs {
        for (number, (observer, arm)) in observers.iter().zip(&mut arms).enumerate() {
            // Alternating, so that a drift of the machine favours neither side.
            let without_first = (round as usize + number).is_multiple_of(2);
            let run = |with: bool| {
                let none = Observer::none();
                one_run(cluster, options, workload, if with { observer } else { &none })
            };
            let (first, second) = (run(!without_first)?, run(without_first)?);
            let (without, with) = if without_first { (first, second) } else { (second, first) };
            say(
                "overhead",
                format!(
                    "pgbench {name}: pair {} of {}, {}: {:.0} and {:.0} tps",
                    round + 1,
                    options.pairs,
                    observer.name(),
                    without.tps,
                    with.tps
                ),
            );
            arm.pairs.push(Pair { without_first, without, with });
        }
    }
    Ok(Table {
        workload: format!("pgbench {name}"),
        clients: options.clients,
        seconds: options.seconds,
        arms,
    })
}

fn one_run(cluster: &Cluster, options: &Options, workload: Workload, observer: &Observer) -> Result<Run> {
    let postmaster = cluster.pid().context("the server has been stopped")?;
    // Every run starts from the same place between two checkpoints.
    cluster.sql("CHECKPOINT")?;
    let observing = observer.start(cluster, Duration::from_secs(options.seconds + 60))?;
    let before = cpu::Reading::of_server(postmaster)?;
    let (clients, seconds) = (options.clients.to_string(), options.seconds.to_string());
    let mut pgbench = cluster.pgbench(workload.arguments());
    pgbench.args(["--no-vacuum", "--jobs", "2", "--client", &clients, "--time", &seconds]);
    let mut pgbench =
        interrupt::spawn(pgbench.stdout(Stdio::piped()).stderr(Stdio::piped()), libc::SIGTERM, true)?;
    interrupt::wait(&mut pgbench, "pgbench", Duration::from_secs(options.seconds + 30))?;
    let output = pgbench.wait_with_output()?;
    let figures = Figures::read(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| String::from_utf8_lossy(&output.stderr).trim_end().to_owned())?;
    let server_cpu = before.until_quiet(Duration::from_secs(5))?;
    let observed = observing.map(|observing| observing.finish(cluster)).transpose()?;
    Ok(Run {
        tps: figures.tps,
        transactions: figures.transactions,
        server_cpu,
        observer_cpu: observed.as_ref().map(|observed| observed.cpu),
        counted: observed.and_then(|observed| observed.counted),
    })
}
