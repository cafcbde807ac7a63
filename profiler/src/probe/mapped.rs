//! A BPF array map seen through a memory mapping: reads and 16-bit stores without system calls, and without the
//! read-modify-write that a map update through the system call would be.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd},
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context as _, Result};
use aya::{
    Pod,
    maps::{Map, MapData},
};

/// A mapped array of `T`.
pub struct Mapped<T> {
    base: NonNull<T>,
    bytes: usize,
    len: usize,
    /// Keeps the map alive as long as its mapping.
    _map: MapData,
    element: PhantomData<T>,
}

// SAFETY: the mapping belongs to this value alone; its content is plain data.
unsafe impl<T: Pod + Send> Send for Mapped<T> {}

impl<T: Pod> Mapped<T> {
    /// Maps an array created with `BPF_F_MMAPABLE`.
    pub fn new(map: Map, len: usize) -> Result<Self> {
        let Map::Array(map) = map else { anyhow::bail!("not an array map") };
        let bytes = (size_of::<T>() * len).next_multiple_of(4096);
        // SAFETY: a new shared mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.fd().as_fd().as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("cannot map a BPF array into memory");
        }
        let base = NonNull::new(base.cast()).context("a BPF array was mapped at address zero")?;
        Ok(Mapped { base, bytes, len, _map: map, element: PhantomData })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the array has no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A copy of one element; the kernel may be writing it.
    pub fn read(&self, at: usize) -> Option<T> {
        // SAFETY: the index is checked; T is plain data, so a torn copy is still a T.
        self.at(at).map(|element| unsafe { element.as_ptr().read_volatile() })
    }

    /// Overwrites one element the kernel does not use at the moment.
    pub fn write(&self, at: usize, value: T) -> Option<()> {
        // SAFETY: the index is checked; T is plain data.
        self.at(at).map(|element| unsafe { element.as_ptr().write_volatile(value) })
    }

    /// Address of one element.
    pub fn at(&self, at: usize) -> Option<NonNull<T>> {
        // SAFETY: the index is checked against the mapping.
        (at < self.len).then(|| unsafe { self.base.add(at) })
    }
}

impl Mapped<[u16; 4]> {
    /// One of the 16-bit cells, for atomic access beside the kernel's.
    pub fn cell(&self, at: usize) -> Option<&AtomicU16> {
        let entry = self.at(at / 4)?.cast::<u16>();
        // SAFETY: an entry has four cells.
        let cell = unsafe { entry.add(at % 4) };
        // SAFETY: aligned, inside the mapping that `self` keeps alive, and both sides use 16-bit accesses.
        Some(unsafe { AtomicU16::from_ptr(cell.as_ptr()) })
    }

    /// The value of one cell, 0 where there is none.
    pub fn value(&self, at: usize) -> u16 {
        self.cell(at).map_or(0, |cell| cell.load(Ordering::Acquire))
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length and nothing borrowed outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
