//! Read-only view of another process' memory through `/proc/PID/mem`.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::procfs;

/// Another process' memory.
pub struct Memory {
    file: File,
}

impl Memory {
    /// Opens it for reading; needs the right to trace the process.
    pub fn open(pid: u32) -> io::Result<Self> {
        Ok(Self { file: File::open(procfs::path(pid, "mem"))? })
    }

    /// Fills `buffer` from `address`.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, address)
    }

    /// A 1-byte value.
    pub fn u8(&self, address: u64) -> io::Result<u8> {
        let mut bytes = [0; 1];
        self.read(address, &mut bytes)?;
        Ok(bytes[0])
    }

    /// A 4-byte value.
    pub fn u32(&self, address: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    /// An 8-byte value.
    pub fn u64(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// A NUL-terminated text of at most `most` bytes. A character cut in two at the end is dropped, bytes that are
    /// no UTF-8 are replaced.
    pub fn text(&self, address: u64, most: usize) -> io::Result<String> {
        let mut buffer = vec![0; most];
        let n_read = self.file.read_at(&mut buffer, address)?;
        let bytes = buffer[..n_read].split(|&byte| byte == 0).next().unwrap_or_default();
        let whole = match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
            _ => bytes,
        };
        Ok(String::from_utf8_lossy(whole).into_owned())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn own_memory_is_read_back() {
        let memory = Memory::open(std::process::id()).unwrap();
        let number = Box::new(0x0123_4567_89ab_cdef_u64);
        let address = &raw const *number as u64;
        assert_eq!(memory.u64(address).unwrap(), *number);
        assert_eq!(memory.u32(address).unwrap(), 0x89ab_cdef);
        assert_eq!(memory.u8(address).unwrap(), 0xef);
        let text = "select 'ä'\0rest".as_bytes().to_vec();
        let address = text.as_ptr() as u64;
        assert_eq!(memory.text(address, text.len()).unwrap(), "select 'ä'");
        assert_eq!(memory.text(address, 9).unwrap(), "select '", "half a character");
        assert!(memory.u64(8).is_err(), "nothing is mapped at zero");
    }
}
