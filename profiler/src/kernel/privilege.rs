//! What this process may do: its effective user and capabilities, read from procfs.

use std::fs;

/// Capability bits: `include/uapi/linux/capability.h`.
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// The capabilities that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// Effective user id.
    pub user: u32,
    /// `CAP_BPF` (kernel 5.8 and later).
    pub bpf: bool,
    /// `CAP_PERFMON` (kernel 5.8 and later).
    pub perfmon: bool,
    /// `CAP_SYS_ADMIN`, which includes the two above.
    pub sys_admin: bool,
    /// `CAP_SYS_PTRACE`, needed to read other users' procfs entries and memory.
    pub sys_ptrace: bool,
}

impl Privileges {
    /// Those of this process; `None` where procfs does not tell.
    pub fn current() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/status").ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let user = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
        let effective = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
        let has = |capability: u32| effective & 1 << capability != 0;
        Some(Self {
            user,
            bpf: has(BPF),
            perfmon: has(PERFMON),
            sys_admin: has(SYS_ADMIN),
            sys_ptrace: has(SYS_PTRACE),
        })
    }

    /// The capabilities lacking for attaching, by name; empty = enough.
    pub fn lacking(&self) -> Vec<&'static str> {
        [
            ("CAP_BPF", self.bpf || self.sys_admin),
            ("CAP_PERFMON", self.perfmon || self.sys_admin),
            ("CAP_SYS_PTRACE", self.sys_ptrace),
        ]
        .into_iter()
        .filter_map(|(name, held)| (!held).then_some(name))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn lacking(effective: &str) -> Vec<&'static str> {
        let status = format!("Name:\tx\nUid:\t0\t1000\t0\t0\nCapEff:\t{effective}\n");
        let privileges = Privileges::parse(&status).unwrap();
        assert_eq!(privileges.user, 1000);
        privileges.lacking()
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        assert_eq!(lacking("000001ffffffffff"), [""; 0]);
        assert_eq!(lacking("0000000000000000"), ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"]);
        assert_eq!(lacking("0000000000200000"), ["CAP_SYS_PTRACE"]);
        assert_eq!(lacking("000000c000080000"), [""; 0]);
        assert_eq!(Privileges::parse("Uid:\t0\n"), None);
    }
}
