//! The server's executable: exported symbols, the transaction counter, the version it was built as. Read through
//! `/proc/PID/exe`, so that it is the file that runs, even if an upgrade has replaced or deleted it on disk.

use std::{
    fs,
    path::{Path, PathBuf},
};

use object::{
    Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags, elf, read::elf::ElfFile64,
};

use super::{
    counter::{self, FUNCTION, Machine},
    error::TargetError,
    procfs,
};

/// Auxiliary vector entry that holds the program's entry point as loaded.
const AT_ENTRY: u64 = 9;

/// Longest function decoded, bytes, where the symbol does not tell its size.
const MAX_FUNCTION: u64 = 128;

/// Addresses in every process of the server, after relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbols {
    /// `my_wait_event_info`: pointer to the word that names the wait.
    pub my_wait_event_info: u64,
    /// `MyBEEntry`: pointer to the process' `PgBackendStatus`; null early and late in its life.
    pub my_be_entry: u64,
    /// `MyProc`: pointer to its `PGPROC`; null early and late.
    pub my_proc: u64,
    /// `MyProcPid`, 4 bytes, in the process' own pid namespace.
    pub my_proc_pid: u64,
    /// `MyDatabaseId`, 4 bytes.
    pub my_database_id: Option<u64>,
    /// `debug_query_string`: pointer to the message being processed.
    pub debug_query_string: Option<u64>,
    /// `pgstat_track_activities`, 1 byte.
    pub track_activities: Option<u64>,
    /// `pgstat_track_activity_query_size`, 4 bytes.
    pub track_activity_query_size: Option<u64>,
    /// `wal_sync_method` (`sync_method` before 17), 4 bytes.
    pub wal_sync_method: Option<u64>,
    /// `fullPageWrites`, 1 byte.
    pub full_page_writes: Option<u64>,
    /// `enableFsync`, 1 byte.
    pub enable_fsync: Option<u64>,
    /// The next local transaction id, 4 bytes; grows by one with each transaction the process starts.
    pub local_transaction_counter: u64,
}

/// An executable opened for reading.
pub struct Binary {
    pid: u32,
    path: PathBuf,
    /// The whole file: its symbols are all over it, and reading them one by one takes 20,000 system calls.
    data: Vec<u8>,
}

impl Binary {
    /// Opens the executable of a process; `path` is its name for messages.
    pub fn open(pid: u32, path: &Path) -> Result<Self, TargetError> {
        let data = fs::read(procfs::path(pid, "exe"))
            .map_err(|source| TargetError::reading(pid, "the executable", source))?;
        Ok(Self { pid, path: path.to_owned(), data })
    }

    /// Opens an executable that does not run; its addresses are those of the file.
    #[cfg(test)]
    pub(super) fn open_file(path: &Path) -> std::io::Result<Self> {
        Ok(Self { pid: 0, path: path.to_owned(), data: fs::read(path)? })
    }

    /// How far the process' addresses lie above the file's; 0 for an executable that is not position-independent.
    pub fn load_bias(&self) -> Result<u64, TargetError> {
        let elf = self.parse()?;
        let loaded = procfs::auxiliary(self.pid, AT_ENTRY)
            .map_err(|source| TargetError::reading(self.pid, "the auxiliary vector", source))?
            .ok_or_else(|| self.error("was started without an entry point in its auxiliary vector"))?;
        let bias = loaded.checked_sub(elf.entry());
        // An executable started through an explicit loader has the loader's entry point.
        bias.filter(|bias| {
            bias % 4096 == 0 && (*bias == 0 || elf.elf_header().e_type.get(elf.endian()) == elf::ET_DYN)
        })
        .ok_or_else(|| self.error(&format!("is not where its entry point {loaded:#x} says")))
    }

    /// The exported symbols and the transaction counter, at their addresses under a load bias.
    pub fn symbols(&self, bias: u64) -> Result<Symbols, TargetError> {
        let elf = self.parse()?;
        let optional = |name: &str| {
            let symbol =
                elf.dynamic_symbols().find(|symbol| symbol.name() == Ok(name) && symbol.is_definition());
            symbol.map(|symbol| symbol.address().wrapping_add(bias))
        };
        let required = |symbol| {
            optional(symbol).ok_or_else(|| TargetError::SymbolMissing { path: self.path.clone(), symbol })
        };
        Ok(Symbols {
            my_wait_event_info: required("my_wait_event_info")?,
            my_be_entry: required("MyBEEntry")?,
            my_proc: required("MyProc")?,
            my_proc_pid: required("MyProcPid")?,
            my_database_id: optional("MyDatabaseId"),
            debug_query_string: optional("debug_query_string"),
            track_activities: optional("pgstat_track_activities"),
            track_activity_query_size: optional("pgstat_track_activity_query_size"),
            wal_sync_method: optional("wal_sync_method").or_else(|| optional("sync_method")),
            full_page_writes: optional("fullPageWrites"),
            enable_fsync: optional("enableFsync"),
            local_transaction_counter: self.local_transaction_counter()?.wrapping_add(bias),
        })
    }

    /// Address of the local transaction counter in the file's numbering.
    pub fn local_transaction_counter(&self) -> Result<u64, TargetError> {
        let elf = self.parse()?;
        let function = elf
            .dynamic_symbols()
            .find(|symbol| symbol.name() == Ok(FUNCTION) && symbol.is_definition())
            .ok_or_else(|| TargetError::SymbolMissing { path: self.path.clone(), symbol: FUNCTION })?;
        let machine = match elf.architecture() {
            Architecture::X86_64 => Machine::X86_64,
            Architecture::Aarch64 => Machine::Aarch64,
            other => return Err(self.error(&format!("is built for {other:?}: x86-64 and aarch64 are known"))),
        };
        let size = if function.size() == 0 { MAX_FUNCTION } else { function.size().min(MAX_FUNCTION) };
        let code = elf
            .segments()
            .find_map(|segment| segment.data_range(function.address(), size).ok().flatten())
            .ok_or_else(|| self.error(&format!("holds no code for {FUNCTION}")))?;
        let address = counter::decode(machine, code, function.address())
            .map_err(|source| TargetError::Counter { path: self.path.clone(), source })?;
        let is_variable = elf.segments().any(|segment| {
            let inside = segment.address() <= address && address + 4 <= segment.address() + segment.size();
            inside && is_writable(segment.flags())
        });
        if !is_variable || address % 4 != 0 {
            return Err(
                self.error(&format!("names {address:#x} as its transaction counter, which is no variable"))
            );
        }
        Ok(address)
    }

    /// The version text of the build (`15.18`), searched among its constants: `major` followed by the minor number.
    /// `None` where it is not there, as in development versions.
    pub fn version_text(&self, major: &str) -> Option<String> {
        let elf = self.parse().ok()?;
        let constants = elf.section_by_name(".rodata")?.data().ok()?;
        let prefix = format!("PostgreSQL {major}.");
        let at = constants
            .windows(prefix.len())
            .position(|window| window[0] == b'P' && window == prefix.as_bytes())?;
        let minor: String = constants[at + prefix.len()..]
            .iter()
            .map(|&byte| byte as char)
            .take_while(char::is_ascii_digit)
            .collect();
        (!minor.is_empty()).then(|| format!("{major}.{minor}"))
    }

    fn parse(&self) -> Result<ElfFile64<'_>, TargetError> {
        ElfFile64::parse(&*self.data).map_err(|error| self.error(&format!("is no 64-bit ELF file: {error}")))
    }

    fn error(&self, reason: &str) -> TargetError {
        TargetError::Binary { pid: self.pid, path: self.path.clone(), reason: reason.to_owned() }
    }
}

fn is_writable(flags: SegmentFlags) -> bool {
    matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.contains(elf::PF_W))
}
