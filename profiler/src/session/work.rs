//! What the server's workers worked on: the table of an autovacuum worker, the application behind a walsender, the
//! backend a parallel worker works for. They say it in their status entry or their title, which is looked at once per
//! interval: the time since the last look goes to what is found.

use std::collections::{BTreeMap, HashMap};

use profiler_common::backend::Backend;

use super::{
    attachment::Attachment,
    processes::{Life, since},
};
use crate::{model::build::WorkSample, probe::lives::Look, target::procfs};

/// Different works kept; a server that vacuums thousands of tables in a window shows the first.
const MOST_WORKS: usize = 1000;

/// What was seen so far.
#[derive(Default)]
pub(super) struct Works {
    sums: BTreeMap<(Option<String>, String), Work>,
    last: HashMap<u32, Seen>,
}

#[derive(Default)]
struct Work {
    pids: Vec<u32>,
    life: Life,
}

/// A worker at the last look.
struct Seen {
    life: Life,
    /// `None`: it did not say.
    what: Option<(Option<String>, String)>,
}

impl Works {
    /// Takes a look at the workers. At the first look, nothing is known of what they did before.
    pub fn look(&mut self, attachment: &Attachment, look: &Look, now_ns: u64, is_first: bool) {
        let mut now = HashMap::new();
        for backend in &look.backends {
            let Some(kind) = attachment.type_of(backend).filter(|kind| is_worker(kind)) else { continue };
            let life = backend.ledger.life_at(now_ns);
            let what = attachment.work_of(backend, &kind).map(|what| (Some(kind), what));
            let then = self.last.remove(&backend.pid);
            let done = match &then {
                Some(then) => since(&life, &then.life),
                None if is_first => Life::default(),
                None => life,
            };
            // One that is ending says no more what it did.
            let what = what.or_else(|| then.and_then(|then| then.what));
            self.add(what.as_ref(), backend.pid, &done);
            now.insert(backend.pid, Seen { life, what });
        }
        for backend in &look.remains {
            if let Some(then) = self.last.remove(&backend.pid) {
                self.add(then.what.as_ref(), backend.pid, &since(&backend.ledger.life, &then.life));
            }
        }
        self.last = now;
    }

    fn add(&mut self, what: Option<&(Option<String>, String)>, pid: u32, done: &Life) {
        let Some(what) = what else { return };
        if self.sums.len() >= MOST_WORKS && !self.sums.contains_key(what) {
            return;
        }
        let work = self.sums.entry(what.clone()).or_default();
        work.life.iter_mut().zip(done).for_each(|(sum, ns)| *sum += ns);
        if !work.pids.contains(&pid) {
            work.pids.push(pid);
        }
    }

    /// What was seen of the processes of a type.
    pub fn of_type(&self, backend_type: &Option<String>) -> Vec<WorkSample> {
        let own = self.sums.iter().filter(|((kind, _), _)| kind == backend_type);
        own.map(|((_, what), work)| WorkSample {
            what: what.clone(),
            n: work.pids.len() as u64,
            buckets: work.life,
        })
        .collect()
    }
}

fn is_worker(kind: &str) -> bool {
    matches!(kind, "autovacuum worker" | "walsender" | "background worker")
}

impl Attachment {
    fn work_of(&self, backend: &Backend, kind: &str) -> Option<String> {
        match kind {
            "autovacuum worker" => {
                let activity = self.cluster.status_of(backend.pid).ok()??.text?;
                Some(vacuum(&activity).to_owned())
            }
            "walsender" => {
                let status = self.cluster.status_of(backend.pid).ok()??;
                status.application.map(|name| format!("for {name}"))
            }
            _ => background(&procfs::title(backend.pid)?),
        }
    }
}

/// `VACUUM ANALYZE public.accounts` of an autovacuum worker's activity.
fn vacuum(activity: &str) -> &str {
    activity.strip_prefix("autovacuum: ").unwrap_or(activity)
}

/// What a background worker's title says: `postgres: [cluster_name: ]parallel worker for PID 4242`.
fn background(title: &str) -> Option<String> {
    let name = title.strip_prefix("postgres: ")?.trim();
    match name.split_once("parallel worker for PID ") {
        Some((_, leader)) => Some(format!("parallel worker for {leader}")),
        None => Some(name.to_owned()).filter(|name| !name.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_say_what_they_work_on() {
        assert_eq!(vacuum("autovacuum: VACUUM ANALYZE public.t"), "VACUUM ANALYZE public.t");
        assert_eq!(vacuum("autovacuum: BRIN summarize public.i 0"), "BRIN summarize public.i 0");
        for (title, what) in [
            ("postgres: parallel worker for PID 4242", Some("parallel worker for 4242")),
            ("postgres: 15/main: parallel worker for PID 7 ", Some("parallel worker for 7")),
            ("postgres: logical replication launcher", Some("logical replication launcher")),
            ("postgres: ", None),
            ("/usr/lib/postgresql/15/bin/postgres -D /data", None),
        ] {
            assert_eq!(background(title).as_deref(), what, "{title}");
        }
    }

    #[test]
    fn what_a_worker_did_since_the_last_look_is_added_to_its_work() {
        let what = (Some("autovacuum worker".to_owned()), "VACUUM public.t".to_owned());
        let mut works = Works::default();
        let life = |ns| std::array::from_fn(|at| if at == 3 { ns } else { 0 });
        works.add(Some(&what), 11, &life(5));
        works.add(Some(&what), 12, &life(7));
        works.add(Some(&what), 11, &life(1));
        works.add(None, 13, &life(100));
        let seen = works.of_type(&what.0);
        assert_eq!((seen.len(), seen[0].n, seen[0].buckets[3]), (1, 2, 13));
        assert!(works.of_type(&None).is_empty());
    }
}
