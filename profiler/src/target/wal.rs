//! How the server is set to make its write-ahead log durable, read from the postmaster's memory: the settings can only be
//! changed for the whole server.

use super::{Cluster, Memory};

/// Values of `wal_sync_method`, in the server's order; the same in 14 to 18:
/// <https://github.com/postgres/postgres/blob/REL_15_STABLE/src/include/access/xlog.h#L21> and
/// <https://github.com/postgres/postgres/blob/REL_17_STABLE/src/include/access/xlog.h#L22>
const METHODS: [&str; 5] = ["fsync", "fdatasync", "open_sync", "fsync_writethrough", "open_datasync"];

/// The settings; `None` where one could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalSettings {
    /// `wal_sync_method` as `show` prints it.
    pub sync_method: Option<&'static str>,
    /// `full_page_writes`.
    pub full_page_writes: Option<bool>,
    /// `fsync`: off = nothing is synced, whatever the method.
    pub fsync: Option<bool>,
}

impl WalSettings {
    /// Whether a write of the log is its sync (`open_sync`, `open_datasync`). Not where that is not known: then only
    /// syncs that are calls of their own are recognised.
    pub fn writes_synchronously(&self) -> bool {
        self.fsync == Some(true) && self.sync_method.is_some_and(|method| method.starts_with("open_"))
    }
}

impl Cluster {
    /// Reads the settings as the postmaster has them now.
    pub fn wal_settings(&self) -> WalSettings {
        let Ok(memory) = Memory::open(self.postmaster_pid()) else { return WalSettings::default() };
        let flag = |address: Option<u64>| memory.u8(address?).ok().map(|value| value != 0);
        let method = self.symbols.wal_sync_method.and_then(|address| memory.u32(address).ok());
        WalSettings {
            sync_method: method.and_then(|method| METHODS.get(method as usize).copied()),
            full_page_writes: flag(self.symbols.full_page_writes),
            fsync: flag(self.symbols.enable_fsync),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_open_methods_sync_in_the_write_and_only_with_fsync() {
        for method in METHODS {
            for fsync in [None, Some(false), Some(true)] {
                let settings = WalSettings { sync_method: Some(method), fsync, full_page_writes: None };
                let expected = fsync == Some(true) && ["open_sync", "open_datasync"].contains(&method);
                assert_eq!(settings.writes_synchronously(), expected, "{method} {fsync:?}");
            }
        }
        assert!(!WalSettings { fsync: Some(true), ..WalSettings::default() }.writes_synchronously());
    }
}
