//! The preconditions a server must meet.

use std::{error::Error, fmt::Write};

use super::{Check, State, storage_check::storage_check};
use crate::target::{Cluster, Postmaster, TargetError, cluster::Verified, discover::Container};

const COMPATIBLE: &str = "a PostgreSQL 14 to 18 built from the community's sources";

/// Examines one server.
pub fn server_checks(postmaster: &Postmaster) -> Vec<Check> {
    let mut checks = vec![place(postmaster)];
    match Cluster::open(postmaster) {
        Ok(cluster) => {
            checks.extend(addresses(&cluster));
            let verified = cluster.verify();
            checks.push(layout(&verified));
            checks.extend(verified.ok().map(|verified| activities(&verified)));
        }
        Err(error) => checks.push(failure(&error)),
    }
    checks.push(storage_check(postmaster));
    for check in &mut checks {
        check.postmaster_pid = Some(postmaster.pid);
    }
    checks
}

fn place(postmaster: &Postmaster) -> Check {
    let version = postmaster.server_version.as_ref().unwrap_or(&postmaster.pg_version);
    let mut found = format!("PostgreSQL {version} in {}", postmaster.data_directory.display());
    let _ = match postmaster.port {
        Some(port) => write!(found, ", port {port}"),
        None => write!(found, ", port not known yet"),
    };
    if let Some(Container { pid_namespace, mount_namespace, id }) = &postmaster.container {
        if let Some(id) = id {
            let _ = write!(found, ", container {id}");
        }
        for (differs, name) in [(pid_namespace, "pid"), (mount_namespace, "mount")] {
            if *differs {
                let _ = write!(found, ", {name} namespace of its own");
            }
        }
    }
    Check::ok("postmaster", found, "a running PostgreSQL 14 to 18")
}

fn addresses(cluster: &Cluster) -> [Check; 2] {
    let kind = if cluster.load_bias == 0 {
        "not position-independent".to_owned()
    } else {
        format!("loaded at {:#x}", cluster.load_bias)
    };
    let symbols = format!("{}, {kind}, exports what is read", cluster.postmaster.binary.display());
    let counter = format!(
        "at {:#x}, decoded from GetNextLocalTransactionId",
        cluster.symbols.local_transaction_counter
    );
    [
        Check::ok("symbols", symbols, "my_wait_event_info, MyBEEntry, MyProc and MyProcPid in .dynsym"),
        Check::ok("transaction_counter", counter, "the address of the server's local transaction counter"),
    ]
}

fn layout(verified: &Result<Verified, TargetError>) -> Check {
    match verified {
        Ok(verified) => {
            let found = format!("agrees with the memory of {} of its processes", verified.n_processes);
            Check::ok("layout", found, COMPATIBLE)
        }
        Err(error) => failure(error),
    }
}

fn activities(verified: &Verified) -> Check {
    let needed = "track_activities on, the default: transaction borders and statements come from it";
    match verified.track_activities {
        Some(on) => Check::ok("track_activities", if on { "on" } else { "off" }, needed).unless(
            on,
            State::Failed,
            "alter system set track_activities = on; select pg_reload_conf()",
        ),
        None => Check::not_ok(
            "track_activities",
            State::Warning,
            "unknown: the setting is not exported",
            needed,
            "show track_activities",
        ),
    }
}

fn failure(error: &TargetError) -> Check {
    let (name, fix) = match error {
        TargetError::UnsupportedVersion { .. } | TargetError::Layout(_) => {
            ("version", "attach to a server of version 14 to 18")
        }
        TargetError::Denied { .. } => ("symbols", "run it as root: sudo pgstall …"),
        TargetError::Gone { .. } => ("postmaster", "start the server"),
        TargetError::Binary { .. } => ("symbols", "use the server's own packages, unmodified"),
        TargetError::SymbolMissing { .. } => ("symbols", "use a build that exports its symbols (-rdynamic)"),
        TargetError::Counter { .. } => {
            ("transaction_counter", "report the build: pg_config --version --configure")
        }
        TargetError::UnknownLayout { .. } | TargetError::Memory { .. } => {
            ("layout", "use a community build of the same version")
        }
        TargetError::NotReady { .. } => ("layout", "try again once the server accepts connections"),
    };
    let mut found = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(found, ": {cause}");
        source = cause.source();
    }
    Check::not_ok(name, State::Failed, found, COMPATIBLE, fix)
}
