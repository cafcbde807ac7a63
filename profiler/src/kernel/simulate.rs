//! Takes features away from what was found, so that every refusal can be provoked on a kernel that lacks nothing.
//! Reached through a hidden option; it can only make less possible.

use std::str::FromStr;

use super::features::{Features, Support, TRACEPOINTS};

/// One fact to override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Simulate {
    /// `no-btf`: the kernel publishes no types.
    NoBtf,
    /// `no-<map type>`: `no-array`, `no-percpu_array`, `no-ringbuf`.
    NoMap(String),
    /// `no-<tracepoint>`, for each of [`TRACEPOINTS`].
    NoTracepoint(String),
    /// `no-run_delay`: the kernel keeps no run-queue clock.
    NoRunDelay,
    /// `no-privileges`: an ordinary user.
    NoPrivileges,
    /// `no-bpf_statistics`.
    NoBpfStatistics,
    /// `pid-namespace`: this process is in a pid namespace of its own.
    PidNamespace,
    /// `lockdown=<mode>`.
    Lockdown(String),
    /// `kernel=<release>`.
    Kernel(String),
}

impl FromStr for Simulate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((name, value)) = text.split_once('=') {
            return match name {
                "lockdown" => Ok(Simulate::Lockdown(value.to_owned())),
                "kernel" => Ok(Simulate::Kernel(value.to_owned())),
                _ => Err(unknown(text)),
            };
        }
        match text {
            "no-btf" => Ok(Simulate::NoBtf),
            "no-array" | "no-percpu_array" | "no-ringbuf" => {
                Ok(Simulate::NoMap(text["no-".len()..].to_owned()))
            }
            "no-run_delay" => Ok(Simulate::NoRunDelay),
            "no-privileges" => Ok(Simulate::NoPrivileges),
            "no-bpf_statistics" => Ok(Simulate::NoBpfStatistics),
            "pid-namespace" => Ok(Simulate::PidNamespace),
            _ => match text.strip_prefix("no-") {
                Some(name) if TRACEPOINTS.contains(&name) => Ok(Simulate::NoTracepoint(name.to_owned())),
                _ => Err(unknown(text)),
            },
        }
    }
}

fn unknown(text: &str) -> String {
    format!(
        "cannot simulate {text:?}: known are no-btf, no-array, no-percpu_array, no-ringbuf, no-run_delay, \
         no-privileges, no-bpf_statistics, pid-namespace, lockdown=MODE, kernel=RELEASE and no-TRACEPOINT for {}",
        TRACEPOINTS.join(", ")
    )
}

impl Features {
    /// Overrides what was found.
    pub fn simulate(mut self, simulated: &[Simulate]) -> Self {
        for fact in simulated {
            self.apply(fact);
        }
        self
    }

    fn apply(&mut self, fact: &Simulate) {
        let no = || Support::No("simulated".to_owned());
        match fact {
            Simulate::NoBtf => {
                self.btf = no();
                let reason = "the kernel's type information is missing (simulated)";
                self.offsets = Err(reason.to_owned());
                self.block = Err(reason.to_owned());
                self.tracepoints.clear();
            }
            Simulate::NoMap(name) => {
                self.maps.insert(name.clone(), no());
            }
            Simulate::NoTracepoint(name) => {
                self.tracepoints.remove(name);
            }
            Simulate::NoRunDelay => {
                self.run_delay = no();
                self.offsets =
                    Err("struct task_struct of this kernel has no member sched_info (simulated)".to_owned());
            }
            Simulate::NoPrivileges => {
                self.privileges = Some(super::privilege::Privileges { user: 1000, ..Default::default() });
            }
            Simulate::NoBpfStatistics => self.bpf_statistics = no(),
            Simulate::PidNamespace => self.initial_pid_namespace = Some(false),
            Simulate::Lockdown(mode) => self.lockdown = Some(mode.clone()),
            Simulate::Kernel(release) => self.release = Some(release.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::border::{BorderSignal, choose};

    #[test]
    fn names_are_checked() {
        assert_eq!("no-sys_enter".parse(), Ok(Simulate::NoTracepoint("sys_enter".to_owned())));
        assert_eq!("lockdown=integrity".parse(), Ok(Simulate::Lockdown("integrity".to_owned())));
        for wrong in ["", "no-", "no-sched", "btf", "lockdown", "other=1"] {
            let error = wrong.parse::<Simulate>().expect_err(wrong);
            assert!(error.contains("no-percpu_array") && error.contains("sock_send_length"), "{error}");
        }
    }

    #[test]
    fn the_border_falls_back_in_order_of_price() {
        let chosen = |simulated: &[Simulate]| {
            let mut features = Features::gather();
            features.tracepoints = TRACEPOINTS.iter().map(|&name| (name.to_owned(), 1)).collect();
            choose(&features.simulate(simulated), true).map(|border| border.signal)
        };
        let no = |name: &str| Simulate::NoTracepoint(name.to_owned());
        assert_eq!(chosen(&[]), Some(BorderSignal::SockSendLength));
        assert_eq!(chosen(&[no("sock_send_length")]), Some(BorderSignal::SysEnterSendto));
        assert_eq!(chosen(&[no("sock_send_length"), no("sys_enter")]), None);
        assert_eq!(
            choose(&Features::gather(), false).map(|border| border.signal.is_exact()),
            Some(false),
            "asked for, so approximate whatever the kernel has"
        );
    }
}
