//! Which bucket a wait is charged to: the only table that says so.
//!
//! Event names changed case between majors (`IO/WALWrite` became `IO/WalWrite` in 17) but never meaning, so the
//! table is by class and name, without regard to case, and serves every version. The class matters: `LWLock/WALWrite`
//! is waiting for another backend's flush, `IO/WALWrite` is the own one.

use profiler_common::{
    bucket::{BUCKET_SLOTS, Bucket, kind},
    event::{self, EVENT_SLOTS},
};

use super::{
    class::{CLASSES, class_name},
    name::name_of_index,
};

/// What a class is charged to unless [`EXCEPTIONS`] says otherwise; also what an unknown id of the class gets.
const DEFAULTS: &[(&str, Bucket)] = &[
    ("LWLock", Bucket::Lock),
    ("Lock", Bucket::Lock),
    ("BufferPin", Bucket::Lock),
    ("Activity", Bucket::OtherWait),
    ("Client", Bucket::Client),
    ("Extension", Bucket::OtherWait),
    ("IPC", Bucket::OtherWait),
    ("Timeout", Bucket::OtherWait),
    ("IO", Bucket::OtherIo),
    ("InjectionPoint", Bucket::OtherWait),
];

/// Class, event, bucket.
const EXCEPTIONS: &[(&str, &str, Bucket)] = &[
    ("IO", "DataFileRead", Bucket::PageRead),
    ("IO", "DataFilePrefetch", Bucket::PageRead),
    // Another backend is reading the page already.
    ("IPC", "BufferIO", Bucket::PageRead),
    // PostgreSQL 18: reads done by an I/O worker or by io_uring, and reaping another backend's completion.
    ("IO", "AioIoCompletion", Bucket::PageRead),
    ("IO", "AioIoUringSubmit", Bucket::PageRead),
    ("IO", "AioIoUringExecution", Bucket::PageRead),
    ("LWLock", "AioUringCompletion", Bucket::PageRead),
    ("IO", "WALWrite", Bucket::WalFsync),
    ("IO", "WALSync", Bucket::WalFsync),
    ("IO", "WALSyncMethodAssign", Bucket::WalFsync),
    ("IO", "WALInitWrite", Bucket::WalFsync),
    ("IO", "WALInitSync", Bucket::WalFsync),
    ("LWLock", "WALWrite", Bucket::WalFsync),
    ("Timeout", "CommitDelay", Bucket::WalFsync),
    ("IPC", "SyncRep", Bucket::Replication),
    // Protects the queues of the backends waiting in IPC/SyncRep.
    ("LWLock", "SyncRep", Bucket::Replication),
    // PostgreSQL 17: held until the standbys named in synchronized_standby_slots have confirmed.
    ("Client", "WaitForStandbyConfirmation", Bucket::Replication),
];

/// The bucket of a wait event by class and name; an unknown class, or none, is `unattributed`.
pub fn bucket(class: &str, event: &str) -> Bucket {
    EXCEPTIONS
        .iter()
        .find(|(of_class, name, _)| *of_class == class && name.eq_ignore_ascii_case(event))
        .map(|(_, _, bucket)| *bucket)
        .or_else(|| DEFAULTS.iter().find(|(of_class, _)| *of_class == class).map(|(_, bucket)| *bucket))
        .unwrap_or(Bucket::Unattributed)
}

/// The bucket of every dense index (see [`profiler_common::event`]) for a server of the given major version, as
/// [`Bucket`] discriminants.
pub fn bucket_table(major: u32) -> Box<[u32; EVENT_SLOTS]> {
    let mut table = charge_table(major, false);
    for entry in table.iter_mut() {
        *entry &= BUCKET_SLOTS as u32 - 1;
    }
    table
}

/// The same with the bits of [`kind`]: what the kernel side looks up at each switch-out. `writes_sync`: the server's
/// `wal_sync_method` makes a write of the log its sync.
pub fn charge_table(major: u32, writes_sync: bool) -> Box<[u32; EVENT_SLOTS]> {
    let mut table = Box::new([Bucket::Unattributed as u32; EVENT_SLOTS]);
    for &(class_byte, _) in CLASSES {
        let first = event::index(class_byte << 24);
        for index in first..first + 256 {
            let Some(class) = class_name(class_byte) else { continue };
            let name = name_of_index(major, index);
            table[index as usize] =
                bucket(class, &name.event) as u32 | kinds(class, &name.event, writes_sync);
        }
    }
    table
}

/// What a wait of that class and event is, besides its bucket: bits of [`kind`].
fn kinds(class: &str, event: &str, writes_sync: bool) -> u32 {
    match class {
        "IO" if writes_sync && event.eq_ignore_ascii_case("WALWrite") => kind::STORAGE | kind::WAL_SYNC,
        "IO" if ["WALSync", "WALSyncMethodAssign"].iter().any(|sync| event.eq_ignore_ascii_case(sync)) => {
            kind::STORAGE | kind::WAL_SYNC
        }
        "IO" => kind::STORAGE,
        "Lock" | "LWLock" | "BufferPin" | "IPC" => kind::HELD,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAJORS: std::ops::RangeInclusive<u32> = 14..=18;

    fn from_table(major: u32, word: u32) -> u32 {
        bucket_table(major)[event::index(word) as usize]
    }

    #[test]
    fn every_event_of_every_major_has_a_bucket_of_its_own() {
        for line in include_str!("../../data/wait_events.tsv").lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_ne!(bucket(fields[1], fields[4]), Bucket::Unattributed, "{line}");
        }
    }

    #[test]
    fn every_exception_names_an_event_some_major_has() {
        let data = include_str!("../../data/wait_events.tsv").to_lowercase();
        // PostgreSQL 19 names the sleep that 14–18 leave unnamed.
        for (class, name, _) in EXCEPTIONS.iter().filter(|(_, name, _)| *name != "CommitDelay") {
            let wanted = format!("\t{class}\t").to_lowercase();
            let ending = format!("\t{name}").to_lowercase();
            assert!(
                data.lines().any(|line| line.contains(&wanted) && line.ends_with(&ending)),
                "{class}/{name} is in no major"
            );
        }
    }

    #[test]
    fn the_class_decides_between_events_of_one_name() {
        for major in MAJORS {
            assert_eq!(from_table(major, 0x0100_0008), Bucket::WalFsync as u32, "LWLock/WALWrite");
            assert_eq!(from_table(major, 0x0100_0007), Bucket::Lock as u32, "LWLock/WALBufMapping");
        }
        assert_eq!(bucket("IO", "WalWrite"), Bucket::WalFsync);
        assert_eq!(bucket("LWLock", "WALInsert"), Bucket::Lock);
        assert_eq!(bucket("IO", "WALRead"), Bucket::OtherIo);
    }

    #[test]
    fn page_reads_are_found_under_every_number() {
        for (major, word) in [(14, 0x0A00_000F), (15, 0x0A00_0011), (17, 0x0A00_0011), (18, 0x0A00_0015)] {
            assert_eq!(from_table(major, word), Bucket::PageRead as u32, "IO/DataFileRead of {major}");
        }
        assert_eq!(from_table(18, 0x0A00_0000), Bucket::PageRead as u32, "IO/AioIoCompletion");
        assert_eq!(from_table(17, 0x0A00_0000), Bucket::OtherIo as u32, "IO/BasebackupRead");
        for (major, word) in [(14, 0x0800_0006), (15, 0x0800_0008), (18, 0x0800_0008)] {
            assert_eq!(from_table(major, word), Bucket::PageRead as u32, "IPC/BufferIO of {major}");
        }
    }

    #[test]
    fn a_write_is_a_sync_only_where_the_method_says_so() {
        for (major, write, sync) in [(15, 0x0A00_0048, 0x0A00_0046), (17, 0x0A00_004C, 0x0A00_004A)] {
            for writes_sync in [false, true] {
                let table = charge_table(major, writes_sync);
                let syncs = |word| table[event::index(word) as usize] & kind::WAL_SYNC != 0;
                assert_eq!(syncs(write), writes_sync, "IO/WALWrite of {major}");
                assert!(syncs(sync), "IO/WALSync of {major}");
                assert!(!syncs(0x0100_0008), "LWLock/WALWrite is somebody else's");
            }
        }
    }

    #[test]
    fn locks_sleeps_clients_and_standbys() {
        for major in MAJORS {
            assert_eq!(from_table(major, 0x0300_0005), Bucket::Lock as u32, "Lock/transactionid");
            assert_eq!(from_table(major, 0x0400_0000), Bucket::Lock as u32, "BufferPin");
            assert_eq!(from_table(major, 0x0600_0000), Bucket::Client as u32, "Client/ClientRead");
        }
        assert_eq!(from_table(15, 0x0900_0002), Bucket::OtherWait as u32, "Timeout/PgSleep");
        assert_eq!(from_table(15, 0x0800_002F), Bucket::Replication as u32, "IPC/SyncRep");
    }

    #[test]
    fn no_wait_and_unknown_classes_are_unattributed_but_unknown_ids_follow_their_class() {
        for major in MAJORS {
            let table = bucket_table(major);
            assert_eq!(table[event::UNNAMED as usize], Bucket::Unattributed as u32);
            assert_eq!(from_table(major, 0x0200_0001), Bucket::Unattributed as u32);
            assert_eq!(from_table(major, 0x0100_1234), Bucket::Lock as u32);
            assert_eq!(from_table(major, 0x0A00_00F0), Bucket::OtherIo as u32);
            assert_eq!(from_table(major, 0x0B00_0001), Bucket::OtherWait as u32);
        }
    }
}
