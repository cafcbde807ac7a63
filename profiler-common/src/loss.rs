//! Everything that can go wrong in the kernel, by name: each has a counter, and the report prints those that are not zero.

/// Index of a loss counter in [`Totals::losses`](crate::totals::Totals).
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A record did not fit the ring buffer.
    RecordDropped = 0,
    /// `*my_wait_event_info` could not be read at a switch-out: that wait is charged to `unattributed`.
    WaitUnreadable = 1,
    /// The backend's status entry could not be read at a border: that border was not seen.
    StatusUnreadable = 2,
    /// The backend's local transaction counter could not be read at a border.
    CounterUnreadable = 3,
    /// A switch-out was not seen, or a switch-in before anything was known about the backend: the stretch is charged to
    /// `unattributed`, and a unit that began in it is not counted.
    EdgeMissing = 4,
    /// A timestamp lay before the one it follows: taken as zero time.
    ClockDisorder = 5,
    /// More distinct wait events in one transaction than the table holds: their time is in the bucket, not in the events.
    EventTableFull = 6,
    /// No free slot for a new backend: it was not followed.
    SlotsExhausted = 7,
    /// A backend ended inside a transaction: not counted.
    EndedInTransaction = 8,
    /// The statement text could not be read.
    TextUnreadable = 9,
    /// A send in the idle state without a new transaction (an answer sent in pieces, a lone Sync).
    IdleSend = 10,
    /// The kernel did not trace a switch-in; its instant was taken from the task's `sched_info` instead.
    SwitchInUnseen = 11,
    /// A wake-up was not seen, or came before the switch-out was stamped: the kernel's run-queue clock split the gap.
    WakeUnseen = 12,
    /// A unit ended in the window that had begun before the attach, or whose begin was lost: not counted.
    BeganUnseen = 13,
}

/// Number of loss counters.
pub const LOSSES: usize = 16;

impl Loss {
    /// Every counter.
    pub const ALL: [Loss; 14] = [
        Loss::RecordDropped,
        Loss::WaitUnreadable,
        Loss::StatusUnreadable,
        Loss::CounterUnreadable,
        Loss::EdgeMissing,
        Loss::ClockDisorder,
        Loss::EventTableFull,
        Loss::SlotsExhausted,
        Loss::EndedInTransaction,
        Loss::TextUnreadable,
        Loss::IdleSend,
        Loss::SwitchInUnseen,
        Loss::WakeUnseen,
        Loss::BeganUnseen,
    ];

    /// The stable snake_case name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Loss::RecordDropped => "record_dropped",
            Loss::WaitUnreadable => "wait_unreadable",
            Loss::StatusUnreadable => "status_unreadable",
            Loss::CounterUnreadable => "counter_unreadable",
            Loss::EdgeMissing => "edge_missing",
            Loss::ClockDisorder => "clock_disorder",
            Loss::EventTableFull => "event_table_full",
            Loss::SlotsExhausted => "slots_exhausted",
            Loss::EndedInTransaction => "ended_in_transaction",
            Loss::TextUnreadable => "text_unreadable",
            Loss::IdleSend => "idle_send",
            Loss::SwitchInUnseen => "switch_in_unseen",
            Loss::WakeUnseen => "wake_unseen",
            Loss::BeganUnseen => "began_unseen",
        }
    }
}
