//! Which signal marks the end of a transaction, chosen by what the kernel has. The order is the measured one:
//! cheapest exact signal first.

use super::features::Features;

/// How the end of a unit is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BorderSignal {
    /// BTF tracepoint `sock_send_length` (about kernel 6.3 and later).
    SockSendLength,
    /// BTF tracepoint `sys_enter`, filtered on `sendto`.
    SysEnterSendto,
    /// The scheduler alone: approximate, units whose next request is already there are merged.
    Scheduler,
}

impl BorderSignal {
    /// Stable name for reports.
    pub fn name(self) -> &'static str {
        match self {
            BorderSignal::SockSendLength => "sock_send_length",
            BorderSignal::SysEnterSendto => "sys_enter_sendto",
            BorderSignal::Scheduler => "scheduler",
        }
    }

    /// Whether every transaction is counted.
    pub fn is_exact(self) -> bool {
        self != BorderSignal::Scheduler
    }
}

/// A signal and the sentence that says why it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Border {
    /// The signal.
    pub signal: BorderSignal,
    /// Why.
    pub reason: String,
}

/// Chooses the border signal. `exact` is false where the user asked for `--borders sched`. `None`: no exact signal
/// exists on this kernel, and falling back to the approximate one is the user's decision.
pub fn choose(features: &Features, exact: bool) -> Option<Border> {
    let border = |signal, reason: &str| Some(Border { signal, reason: reason.to_owned() });
    if !exact {
        return border(
            BorderSignal::Scheduler,
            "asked for: approximate, transactions whose next request is already waiting are merged",
        );
    }
    if features.has_tracepoint("sock_send_length") {
        return border(BorderSignal::SockSendLength, "the cheapest exact signal, and this kernel has it");
    }
    if features.has_tracepoint("sys_enter") {
        return border(
            BorderSignal::SysEnterSendto,
            "exact; this kernel has no sock_send_length (about 6.3 and later), which costs less",
        );
    }
    None
}
