//! The log of a volume: one entry per request, in memory until asked for, in a file of fixed-size records.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::shape::Operation;

/// First bytes of the file; the digit is the version of the records.
const MAGIC: &[u8; 16] = b"pgstall-volume-1";

/// Size of a record, bytes.
const RECORD: usize = 32;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What was asked for.
    pub operation: Operation,
    /// When the volume read the request, ns of CLOCK_MONOTONIC.
    pub arrival_ns: u64,
    /// When it began to answer.
    pub reply_ns: u64,
    /// Where on the volume; 0 for a flush.
    pub offset: u64,
    /// How much; 0 for a flush.
    pub bytes: u32,
}

impl Entry {
    /// From arrival to reply, ns.
    pub fn latency_ns(&self) -> u64 {
        self.reply_ns.saturating_sub(self.arrival_ns)
    }

    /// Little endian: arrival, reply, offset, bytes, operation, three zeros.
    fn to_record(self) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        record[0..8].copy_from_slice(&self.arrival_ns.to_le_bytes());
        record[8..16].copy_from_slice(&self.reply_ns.to_le_bytes());
        record[16..24].copy_from_slice(&self.offset.to_le_bytes());
        record[24..28].copy_from_slice(&self.bytes.to_le_bytes());
        record[28] = self.operation as u8;
        record
    }

    fn of_record(record: &[u8; RECORD]) -> Result<Entry> {
        let long = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&record[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let operation = Operation::ALL.into_iter().find(|operation| *operation as u8 == record[28]);
        Ok(Entry {
            operation: operation.with_context(|| format!("an operation of number {}", record[28]))?,
            arrival_ns: long(0),
            reply_ns: long(8),
            offset: long(16),
            bytes: u32::from_le_bytes([record[24], record[25], record[26], record[27]]),
        })
    }
}

/// Takes entries and, when told to, writes them to a file.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: Mutex<BufWriter<File>>,
    waiting: Mutex<Vec<Entry>>,
}

impl Log {
    /// A new log in that file, which is overwritten.
    pub fn create(path: &Path) -> Result<Log> {
        let file = File::create(path).with_context(|| format!("cannot write the log {}", path.display()))?;
        let mut file = BufWriter::new(file);
        file.write_all(MAGIC)?;
        Ok(Log { path: path.to_owned(), file: Mutex::new(file), waiting: Mutex::new(Vec::new()) })
    }

    /// Adds an entry. Only takes it; no I/O.
    pub fn push(&self, entry: Entry) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Writes what was taken so far.
    pub fn flush(&self) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let written = taken.iter().try_for_each(|entry| file.write_all(&entry.to_record()));
        written.and_then(|()| file.flush()).with_context(|| self.path.display().to_string())
    }
}

/// Reads a log; the entries stand in the order of their replies, nearly.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let Some(records) = bytes.strip_prefix(MAGIC) else {
        bail!("{} is no log of a volume: it does not begin with {MAGIC:?}", path.display());
    };
    let (records, rest) = records.as_chunks::<RECORD>();
    ensure!(rest.is_empty(), "{} ends within a record", path.display());
    records.iter().map(Entry::of_record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() -> Result<()> {
        let path = std::env::temp_dir().join(format!("pgstall-volume-log-{}", std::process::id()));
        let log = Log::create(&path)?;
        let entries = Operation::ALL.map(|operation| Entry {
            operation,
            arrival_ns: u64::MAX - 1,
            reply_ns: u64::MAX,
            offset: 1 << 40,
            bytes: 8192,
        });
        log.push(entries[0]);
        log.flush()?;
        log.push(entries[1]);
        log.push(entries[2]);
        log.flush()?;
        assert_eq!(read(&path)?, entries);

        let whole = std::fs::read(&path)?;
        std::fs::write(&path, &whole[..whole.len() - 1])?;
        assert!(read(&path).is_err(), "cut short");
        std::fs::write(&path, b"something else")?;
        assert!(read(&path).is_err(), "no log");
        std::fs::remove_file(&path)?;
        Ok(())
    }
}
