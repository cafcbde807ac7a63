//! Many connections: attaching stays quick, the agent small, and nothing is lost.

use std::time::Duration;

use anyhow::Result;
use pgstall_tests::{
    attach::Attach,
    builds::Build,
    checks::nothing_lost,
    gate,
    pgbench::{self, Running},
    procfs,
    server::Plan,
};

const IDLE: usize = 500;
const ACTIVE: u64 = 64;

/// How long attaching may take, from the start of the process.
const ATTACH_LIMIT: Duration = Duration::from_secs(2);

/// What the agent may take, bytes.
const MEMORY_LIMIT: u64 = 100 * 1000 * 1000;

#[test]
fn idle_and_active_connections() -> Result<()> {
    if !gate::root() {
        return Ok(());
    }
    let build = Build::installed()?;
    let server = Plan::new(&build).setting("max_connections", "700").start()?;
    pgbench::initialise(&server, 1)?;
    let idle = (0..IDLE).map(|_| server.connect()).collect::<Result<Vec<_>>>()?;

    // The load is there before, so that attaching meets busy backends, and beyond the window.
    let mut load = Running::start(&server, ["-n", "-S", "-c64", "-j4", "-T8"])?;
    let mut observer = server.connect()?;
    pgstall_tests::poll::until("the load's connections", Duration::from_secs(20), || {
        let clients =
            observer.number("select count(*) from pg_stat_activity where backend_type = 'client backend'")?;
        Ok((clients as u64 > IDLE as u64 + ACTIVE).then_some(()))
    })?;
    let attach = Attach::start_without_records(&server, &["--slowest", "10"])?;
    let attached_after = attach.attached_after;
    let agent = attach.pid();
    load.wait(Duration::from_secs(60))?;
    let memory = procfs::peak_memory_bytes(agent)?;
    let (profile, _) = attach.stop()?;
    drop(idle);

    gate::note(&format!(
        "{IDLE} idle, {ACTIVE} active: attached after {attached_after:?}, agent {:.1} MB, {} transactions, losses {:?}",
        memory as f64 / 1e6,
        profile.transactions()?,
        profile.losses()?,
    ));
    assert!(attached_after < ATTACH_LIMIT, "attached after {attached_after:?}");
    assert!(memory < MEMORY_LIMIT, "the agent takes {memory} bytes");
    assert!(profile.transactions()? > 1000, "the load was not seen");
    nothing_lost(&profile)
}
