//! Every precondition of attaching: what was found, what is needed, what to do. `pgstall doctor` prints them all,
//! `pgstall attach` runs the same ones and refuses with the same sentences.

mod kernel_checks;
mod render;
mod server_checks;
mod storage_check;

use serde::Serialize;

use crate::{
    kernel::{features::Features, simulate::Simulate},
    target::{discover, select::Selector},
};

pub use kernel_checks::kernel_checks;
pub use render::render_text;
pub use server_checks::server_checks;

/// How a precondition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Met.
    Ok,
    /// Something will be missing or cost more.
    Warning,
    /// Attaching is refused.
    Failed,
}

/// One precondition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name, snake_case.
    pub name: &'static str,
    /// Process id of the server it is about; `None` = the host.
    pub postmaster_pid: Option<u32>,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What is needed, and what for.
    pub needed: String,
    /// What to do about it, where something can be done.
    pub fix: Option<String>,
}

impl Check {
    /// The sentence attaching is refused with.
    pub fn sentence(&self) -> String {
        let mut text = format!("{}: {} (needed: {}", self.name, self.found, self.needed);
        if let Some(fix) = &self.fix {
            text.push_str("; fix: ");
            text.push_str(fix);
        }
        text.push(')');
        text
    }

    fn ok(name: &'static str, found: impl Into<String>, needed: impl Into<String>) -> Self {
        let (found, needed) = (found.into(), needed.into());
        Self { name, postmaster_pid: None, state: State::Ok, found, needed, fix: None }
    }

    fn not_ok(
        name: &'static str,
        state: State,
        found: impl Into<String>,
        needed: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { state, fix: Some(fix.into()), ..Self::ok(name, found, needed) }
    }

    fn unless(self, holds: bool, otherwise: State, fix: impl Into<String>) -> Self {
        if holds { self } else { Self { state: otherwise, fix: Some(fix.into()), ..self } }
    }
}

/// What to examine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which servers; everything is examined where nothing is said.
    pub selector: Selector,
    /// Whether exact transaction borders are wanted (`false`: `--borders sched`).
    pub exact_borders: bool,
    /// Features to pretend are missing.
    pub simulate: Vec<Simulate>,
}

impl Default for Options {
    fn default() -> Self {
        Self { selector: Selector::default(), exact_borders: true, simulate: Vec::new() }
    }
}

/// Examines the host and every server that fits.
pub fn gather(options: &Options) -> Vec<Check> {
    let features = Features::gather().simulate(&options.simulate);
    let mut checks = kernel_checks(&features, options.exact_borders);
    let needed = "a running PostgreSQL 14 to 18";
    match discover::discover() {
        Err(error) => checks.push(Check::not_ok(
            "postmaster",
            State::Failed,
            format!("/proc could not be read: {error}"),
            needed,
            "mount -t proc proc /proc",
        )),
        Ok(found) => {
            let fitting = found.fitting(&options.selector);
            if let Err(error) = &fitting {
                let fix = "start the server, or name one of those running";
                checks.push(Check::not_ok("postmaster", State::Failed, error.to_string(), needed, fix));
            }
            for postmaster in fitting.unwrap_or_default() {
                checks.extend(server_checks(postmaster));
            }
        }
    }
    checks
}

/// The checks that forbid attaching.
pub fn refusals(checks: &[Check]) -> Vec<&Check> {
    checks.iter().filter(|check| check.state == State::Failed).collect()
}
