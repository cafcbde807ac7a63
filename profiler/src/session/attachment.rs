//! Getting attached: checks, choice of the server, probes in place, running backends taken up.

use std::collections::HashMap;

use profiler_common::bucket::Bucket;

use super::{
    SessionError, asleep,
    block::Block,
    clock,
    options::{BordersWanted, Options},
    plan::plan,
};
use crate::{
    kernel::{
        border::{self, Border, BorderSignal},
        features::Features,
    },
    preflight::{self, Check},
    probe::{
        Plan, Probes,
        enrol::{Asleep, Kind},
    },
    target::{self, Cluster, WalSettings},
};

/// Probes in place on one server.
pub struct Attachment {
    pub(super) features: Features,
    pub(super) cluster: Cluster,
    pub(super) border: Border,
    pub(super) probes: Probes,
    pub(super) block: Block,
    /// How the server made its log durable when the probes were loaded.
    pub(super) wal_settings: WalSettings,
    /// Backend type by pid, as far as asked for.
    pub(super) types: HashMap<u32, Option<String>>,
    /// Backends there when the probes came.
    n_enrolled: usize,
    /// Start time of the postmaster, which tells it from a later process with its pid.
    postmaster_start: Option<u64>,
}

impl Attachment {
    /// Checks every precondition, attaches, and takes up the backends that are there. Nothing is counted yet.
    ///
    /// # Errors
    /// The first thing missing, in the words `pgstall doctor` uses.
    pub fn new(options: &Options) -> Result<Attachment, SessionError> {
        clock::run_promptly();
        let features = Features::gather().simulate(&options.simulate);
        let exact = options.borders != BordersWanted::Scheduler;
        refuse(&preflight::kernel_checks(&features, exact))?;
        let postmaster = target::select(&options.selector)?;
        refuse(&preflight::server_checks(&postmaster))?;
        let cluster = Cluster::open(&postmaster)?;
        let border = choose(&features, options.borders)?;
        let children = cluster.child_pids()?;
        let block = Block::of(&features, &cluster, options);
        let wal_settings = cluster.wal_settings();
        let plan =
            plan(&features, &cluster, border.signal, children.len(), wal_settings, block.plan.as_ref().ok())?;
        let mut probes = Probes::load(&plan)?;
        probes.attach(&plan)?;
        let mut attachment = Attachment {
            features,
            cluster,
            border,
            probes,
            block,
            wal_settings,
            types: HashMap::new(),
            n_enrolled: 0,
            postmaster_start: target::procfs::stat(postmaster.pid).map(|stat| stat.start_ticks),
        };
        attachment.enrol(&plan)?;
        Ok(attachment)
    }

    /// Takes up the processes that were there before the fork probe.
    fn enrol(&mut self, plan: &Plan) -> Result<(), SessionError> {
        for pid in self.cluster.child_pids()? {
            let now_ns = clock::monotonic_ns().map_err(anyhow::Error::from)?;
            let asleep = asleep::asleep(&self.cluster, pid);
            let start = asleep.as_ref().map(|asleep| Asleep {
                run_delay_ns: asleep.run_delay_ns,
                event: asleep.event,
                bucket: plan
                    .bucket_of_event
                    .get(asleep.event as usize)
                    .copied()
                    .unwrap_or(Bucket::Unattributed as u32),
                idle_at: asleep.idle_at,
            });
            let kind = self.cluster.status_of(pid).ok().flatten().map(|status| Kind {
                backend_type: status.backend_type_number,
                is_client: status.backend_type_number == self.cluster.layout.type_client_backend,
            });
            if !self.probes.enrol(pid, now_ns, kind, start)? {
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

    /// Whether the server is still there.
    pub(super) fn postmaster_lives(&self) -> bool {
        let pid = self.cluster.postmaster_pid();
        let now = target::procfs::stat(pid).map(|stat| stat.start_ticks);
        // A server that ended stays listed, without its executable, until its parent has noticed.
        now.is_some() && now == self.postmaster_start && target::procfs::executable(pid).is_ok()
    }
}

/// Refuses with the sentences `pgstall doctor` shows.
fn refuse(checks: &[Check]) -> Result<(), SessionError> {
    let refusals = preflight::refusals(checks);
    if refusals.is_empty() {
        return Ok(());
    }
    let sentences: Vec<String> = refusals.into_iter().map(Check::sentence).collect();
    Err(SessionError::Refused(sentences.join("\n")))
}

fn choose(features: &Features, wanted: BordersWanted) -> Result<Border, SessionError> {
    let none =
        || SessionError::Refused("this kernel has no exact border signal; try --borders sched".to_owned());
    match wanted {
        BordersWanted::Exact => border::choose(features, true).ok_or_else(none),
        BordersWanted::Scheduler => border::choose(features, false).ok_or_else(none),
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
