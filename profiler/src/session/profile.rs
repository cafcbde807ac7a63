//! The profile of a watched window.

use super::{attachment::Attachment, ebs, host, options::Options, processes::CLIENT_BACKEND, watch::Watched};
use crate::{
    kernel::border::BorderSignal,
    model::{
        build::{CaptureInput, Inputs, RESTARTED, build},
        profile::{Borders, Filters, Postgres, Probe, Profile, Tool},
    },
    probe::attach,
};
use anyhow::Result;

impl Attachment {
    pub(super) fn profile(&self, options: &Options, mut watched: Watched) -> Result<Profile> {
        let end_ns = watched.window.end_ns;
        let processes = watched.after.lives.pids_since(&watched.before.lives, &self.types);
        let mut types = watched.after.lives.types_since(&watched.before.lives);
        for sample in &mut types {
            sample.work = watched.works.of_type(&sample.backend_type);
        }
        let clients = types.iter().find(|sample| sample.backend_type.as_deref() == Some(CLIENT_BACKEND));
        let capture = CaptureInput {
            borders: Borders {
                signal: self.border.signal.name().to_owned(),
                exact: self.border.signal.is_exact(),
                reason: Some(self.border.reason.clone()),
            },
            backends_followed: Some(clients.map_or(0, |clients| clients.n)),
            statement_every: (watched.aggregates.totals.statements != 0).then_some(watched.statement_every),
            filters: Filters {
                min_latency_ns: options.min_latency.map(|latency| latency.as_nanos() as u64),
                database: options.database.clone(),
                user: options.user.clone(),
            },
            probes: self.probe_list(&watched),
            agent_cpu_ns: watched
                .after
                .agent_cpu_ns
                .zip(watched.before.agent_cpu_ns)
                .map(|(after, before)| after.saturating_sub(before)),
            notes: self.notes(&watched),
        };
        let reads = self.file_reads(&watched.before.reads, &watched.after.reads);
        let mut devices = self.devices(
            &watched.before.devices,
            &watched.after.devices,
            watched.window.duration_ns(),
            &watched.timeline,
        );
        if let Some(devices) = &mut devices {
            ebs::add(devices, &watched.before.ebs, &watched.after.ebs);
        }
        let throttled = watched.after.throttled_ns.zip(watched.before.throttled_ns);
        Ok(build(Inputs {
            tool: Tool {
                name: "pgstall".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                command: "attach".to_owned(),
            },
            host: host::host(
                self.features.release.clone(),
                watched.before.cpu,
                watched.after.cpu,
                throttled.map(|(after, before)| after.saturating_sub(before)),
            ),
            postgres: self.postgres(),
            capture,
            aggregates: &watched.aggregates,
            timeline: watched.timeline,
            n_statements: options.n_statements,
            open: self.open_transactions(end_ns),
            devices,
            types: &types,
            processes: &processes,
            reads: &reads,
            list_pids: options.per_backend,
            wal: Some(self.wal_input(watched.flushes)),
            statements: &mut watched.statements,
            slowest: &watched.slowest,
            locks: Some((&watched.locks, &watched.held)),
            window: watched.window,
        }))
    }

    fn postgres(&self) -> Postgres {
        let postmaster = &self.cluster.postmaster;
        Postgres {
            major: self.cluster.version.major,
            version: postmaster.server_version.clone(),
            pid: postmaster.pid,
            port: postmaster.port,
            data_directory: Some(postmaster.data_directory.display().to_string()),
            binary: Some(postmaster.binary.display().to_string()),
            settings: Default::default(),
        }
    }

    /// The probes with their cost over the whole window, projected from the slices in which it was measured.
    fn probe_list(&self, watched: &Watched) -> Vec<Probe> {
        let measured = watched.cost.measured.as_secs_f64();
        let projected = |figure: u64| {
            let window = watched.window.duration_ns() as f64 / 1e9;
            (measured > 0.0).then(|| (figure as f64 * window / measured).round() as u64)
        };
        let attached = attach::tracepoints(match self.border.signal {
            BorderSignal::SockSendLength => crate::probe::Border::SockSendLength,
            BorderSignal::SysEnterSendto => crate::probe::Border::SysEnterSendto,
            BorderSignal::Scheduler => crate::probe::Border::Scheduler,
        });
        let probes = attached.into_iter().map(|name| {
            let cost = watched.cost.programs.get(name);
            Probe {
                name: name.to_owned(),
                attached: true,
                reason: None,
                runs: cost.and_then(|cost| projected(cost.runs)),
                run_ns: cost.and_then(|cost| projected(cost.run_ns)),
            }
        });
        let block = self.block_probes().into_iter().map(|probe| {
            let cost = watched.cost.programs.get(&probe.name).filter(|_| probe.attached);
            let runs = cost.and_then(|cost| projected(cost.runs));
            let run_ns = cost.and_then(|cost| projected(cost.run_ns));
            Probe { runs, run_ns, ..probe }
        });
        probes.chain(block).collect()
    }

    fn notes(&self, watched: &Watched) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(error) = &watched.cost.error {
            notes.push(format!("the probes' own cost is not known: {error}"));
        } else {
            notes.push(format!(
                "the probes' cost was measured for {:.1} s of the window and projected: the kernel's statistics cost \
                 something themselves",
                watched.cost.measured.as_secs_f64()
            ));
        }
        notes.extend(ebs::notes(&watched.after.ebs));
        if !watched.before.lives.is_whole || !watched.after.lives.is_whole {
            notes.push(
                "processes ended while the sums by type were read, again and again: those may miss, or count twice, what \
                 a few of them did"
                    .to_owned(),
            );
        }
        let checkpointers =
            self.types.values().filter(|kind| kind.as_deref() == Some("checkpointer")).count();
        if checkpointers > 1 {
            notes.push(format!(
                "{RESTARTED} (its checkpointer was replaced): a backend crashed, see the server's log"
            ));
        }
        for (name, after) in &watched.after.skipped {
            let skipped = after - watched.before.skipped.get(name).copied().unwrap_or(0).min(*after);
            if skipped != 0 {
                notes.push(format!(
                    "{name} was skipped {skipped} times, because it would have interrupted itself: what happened then is in \
                     no figure"
                ));
            }
        }
        notes.extend(self.block_notes(&watched.before.devices, &watched.after.devices));
        for name in &watched.owner_unknown {
            notes.push(format!(
                "no connection of {name} was seen, so nothing was counted: names are taken from process titles; give \
                 the oid where update_process_title hides them"
            ));
        }
        notes
    }
}
