//! Getting attached: checks, choice of the server, probes in place, running backends taken up.

use std::collections::HashMap;

use super::{
    SessionError, clock, idle,
    options::{BordersWanted, Options},
    plan::plan,
};
use crate::{
    kernel::{
        border::{self, Border, BorderSignal},
        features::Features,
    },
    preflight,
    probe::{self, Probes},
    target::{self, Cluster},
};

/// Probes in place on one server.
pub struct Attachment {
    pub(super) features: Features,
    pub(super) cluster: Cluster,
    pub(super) border: Border,
    pub(super) probes: Probes,
    /// Backend type by pid, as far as asked for.
    pub(super) types: HashMap<u32, Option<String>>,
    /// Backends there when the probes came.
    n_enrolled: usize,
    track_activities: Option<bool>,
}

impl Attachment {
    /// Checks every precondition, attaches, and takes up the backends that are there. Nothing is counted yet.
    ///
    /// # Errors
    /// The first thing missing, in the words `pgstall doctor` uses.
    pub fn new(options: &Options) -> Result<Attachment, SessionError> {
        let features = Features::gather().simulate(&options.simulate);
        preflight::require_kernel(&features).map_err(SessionError::Refused)?;
        let postmaster = target::select(&options.selector)?;
        let cluster = Cluster::open(&postmaster)?;
        let verified = cluster.verify()?;
        let border = choose(&features, options.borders)?;
        if verified.track_activities == Some(false) {
            return Err(SessionError::Refused(
                "track_activities is off, need on: the server then tells neither where a transaction ends nor \
                 which statement runs (ALTER SYSTEM SET track_activities = on; SELECT pg_reload_conf())"
                    .to_owned(),
            ));
        }
        let children = cluster.child_pids()?;
        let plan = plan(&features, &cluster, border.signal, children.len())?;
        let mut probes = Probes::load(&plan)?;
        probes.attach(plan.border)?;
        let mut attachment = Attachment {
            features,
            cluster,
            border,
            probes,
            types: HashMap::new(),
            n_enrolled: 0,
            track_activities: verified.track_activities,
        };
        attachment.enrol(plan.client_read)?;
        Ok(attachment)
    }

    /// Takes up the processes that were there before the fork probe.
    fn enrol(&mut self, client_read: u32) -> Result<(), SessionError> {
        for pid in self.cluster.child_pids()? {
            let now_ns = clock::monotonic_ns().map_err(anyhow::Error::from)?;
            let asleep = idle::asleep(&self.cluster, pid);
            let start = asleep.as_ref().map_or(probe::enrol::Start::Unseen, |asleep| {
                probe::enrol::Start::Idle {
                    run_delay_ns: asleep.run_delay_ns,
                    client_read,
                    local_transactions: asleep.local_transactions,
                }
            });
            if !self.probes.enrol(pid, now_ns, start)? {
                continue;
            }
            self.n_enrolled += 1;
            if target::procfs::stat(pid).is_none() {
                self.probes.dismiss(pid)?;
            } else if asleep.is_some_and(|asleep| !asleep.still(pid)) {
                self.probes.mark_unseen(pid);
            }
        }
        Ok(())
    }

    /// The server.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What ends a transaction in this run.
    pub fn border(&self) -> &Border {
        &self.border
    }

    /// How many of the server's processes were there when the probes came.
    pub fn n_enrolled(&self) -> usize {
        self.n_enrolled
    }

    /// Whether the server-wide setting that the borders rest on could be read.
    pub fn track_activities_known(&self) -> bool {
        self.track_activities.is_some()
    }
}

fn choose(features: &Features, wanted: BordersWanted) -> Result<Border, SessionError> {
    let refused = || SessionError::Refused(preflight::no_exact_border(features));
    match wanted {
        BordersWanted::Exact => border::choose(features, true).ok_or_else(refused),
        BordersWanted::Scheduler => border::choose(features, false).ok_or_else(refused),
        BordersWanted::Signal(signal) => {
            let tracepoint = match signal {
                BorderSignal::SockSendLength => "sock_send_length",
                BorderSignal::SysEnterSendto => "sys_enter",
                BorderSignal::Scheduler => "sched_switch",
            };
            if !features.has_tracepoint(tracepoint) {
                return Err(SessionError::Refused(format!("this kernel has no BTF tracepoint {tracepoint}")));
            }
            Ok(Border { signal, reason: "asked for".to_owned() })
        }
    }
}
