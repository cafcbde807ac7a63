//! What the names in a profile mean, in a few words.

use profiler_common::{bucket::Bucket, loss::Loss};

/// Completes "… of the time went …".
pub(super) fn doing(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::PageRead => "reading data pages",
        Bucket::WalFsync => "waiting for WAL to reach disk",
        Bucket::Lock => "waiting for locks",
        Bucket::Cpu => "running on a CPU",
        Bucket::RunQueue => "waiting for a free CPU",
        Bucket::Client => "waiting for the client in an open transaction",
        Bucket::Replication => "waiting for a standby",
        Bucket::OtherIo => "in other file I/O",
        Bucket::OtherWait => "in other waits",
        Bucket::Unattributed => "blocked without a named wait",
    }
}

/// What a wait event means, for those met most; names regardless of case.
pub(super) fn meaning(class: &str, event: &str) -> Option<&'static str> {
    const MEANINGS: &[(&str, &str, &str)] = &[
        ("IO", "DataFileRead", "own page read"),
        ("IO", "AioIoCompletion", "asynchronous read"),
        ("IO", "AioIoUringExecution", "asynchronous read"),
        ("IPC", "BufferIO", "another's page read"),
        ("IO", "WALSync", "own flush"),
        ("IO", "WALWrite", "own write of WAL"),
        ("LWLock", "WALWrite", "another's flush"),
        ("LWLock", "WALInsert", "WAL insertion"),
        ("LWLock", "BufferContent", "page latch"),
        ("LWLock", "BufferMapping", "buffer look-up"),
        ("LWLock", "LockManager", "lock table"),
        ("LWLock", "ProcArray", "snapshots, commits"),
        ("BufferPin", "BufferPin", "page pinned"),
        ("Lock", "transactionid", "row lock"),
        ("Lock", "tuple", "row lock, queued"),
        ("Lock", "relation", "table lock"),
        ("Lock", "extend", "table growing"),
        ("Lock", "virtualxid", "older snapshots"),
        ("Lock", "advisory", "advisory lock"),
        ("Client", "ClientRead", "next command"),
        ("Client", "ClientWrite", "client reads slowly"),
        ("IPC", "SyncRep", "standby's reply"),
        ("IPC", "ExecuteGather", "parallel workers"),
        ("IO", "DataFileWrite", "writing dirty pages"),
        ("IO", "DataFileExtend", "table growing"),
        ("IO", "BufFileRead", "temporary file"),
        ("IO", "BufFileWrite", "temporary file"),
        ("Timeout", "PgSleep", "pg_sleep()"),
        ("Timeout", "VacuumDelay", "vacuum throttling"),
        ("Unnamed", "NoWaitEvent", "page fault, kernel"),
    ];
    MEANINGS
        .iter()
        .find(|(of_class, name, _)| *of_class == class && name.eq_ignore_ascii_case(event))
        .map(|(_, _, meaning)| *meaning)
}

/// What a loss means for the numbers, and whether it bears on the budget itself.
pub(super) fn loss(name: &str) -> (&'static str, bool) {
    let Some(loss) = Loss::ALL.into_iter().find(|loss| loss.name() == name) else {
        return ("a loss this version does not know", true);
    };
    match loss {
        Loss::RecordDropped => {
            ("records did not fit the ring buffer: statements and slowest may be incomplete", false)
        }
        Loss::WaitUnreadable => ("waits could not be read: their time is in unattributed", true),
        Loss::StatusUnreadable => {
            ("backend states could not be read: those transactions merged with the next", true)
        }
        Loss::CounterUnreadable => {
            ("transaction counters could not be read: those transactions merged with the next", true)
        }
        Loss::EdgeMissing => ("scheduler edges were missing: that time is in unattributed", true),
        Loss::ClockDisorder => ("timestamps out of order: taken as no time", true),
        Loss::EventTableFull => {
            ("waits beyond the table of one transaction: in their bucket, not under their name", false)
        }
        Loss::SlotsExhausted => ("backends found no free slot and were not followed", true),
        Loss::EndedInTransaction => ("backends ended inside a transaction, which is not counted", false),
        Loss::TextUnreadable => ("statement texts could not be read", false),
        Loss::BeganUnseen => ("transactions that began before the attach, not counted", false),
        Loss::WakeUnseen => {
            ("sleeps whose wake-up was not seen: split by the kernel's run-queue clock instead", false)
        }
        Loss::SwitchInUnseen => {
            ("switches onto a CPU the kernel did not trace: taken from its accounting", false)
        }
        Loss::IdleSend => ("sends without a new transaction (answers in pieces, lone Syncs), no loss", false),
    }
}
