//! The file that is served: its content in memory, its answers late, each request in the log.

use std::{
    cell::Cell,
    ffi::OsStr,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};
use rustix::fs::{FallocateFlags, MemfdFlags};

use super::{
    clock::{Line, now_ns, sleep_until},
    log::{Entry, Log},
    shape::{Operation, Shape},
};

/// Requests that can be at the volume at one time: as many as a loop device has tags, and some to spare for what is
/// none of its requests.
pub const THREADS: usize = 128 + 4;

/// The file's name.
pub const NAME: &str = "volume";

/// Largest request. The loop device's own limit is set below it, so that one request of the device is one of the log.
const MAX_REQUEST: u32 = 1 << 20;

const ROOT: INodeNo = INodeNo::ROOT;
const INODE: INodeNo = INodeNo(2);

/// Nothing ever changes, so the kernel need not ask again.
const KEEP: Duration = Duration::from_secs(86_400);

/// What can be changed while the volume serves.
#[derive(Debug, Default)]
pub struct Control {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    shape: Shape,
    line: Line,
    log: Option<Arc<Log>>,
}

impl Control {
    /// Changes how the volume answers; requests that wait already keep their time.
    pub fn set_shape(&self, shape: Shape) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).shape = shape;
    }

    /// Begins to log.
    pub fn set_log(&self, log: Option<Arc<Log>>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).log = log;
    }
}

/// The file system.
#[derive(Debug)]
pub struct Disk {
    content: File,
    size: u64,
    control: Arc<Control>,
}

impl Disk {
    /// A disk of zeros; memory is taken as it is written to.
    pub fn new(size_bytes: u64, control: Arc<Control>) -> Result<Disk> {
        let content =
            rustix::fs::memfd_create("pgstall-volume", MemfdFlags::CLOEXEC).context("memfd_create")?;
        let content = File::from(content);
        content.set_len(size_bytes).with_context(|| format!("a volume of {size_bytes} bytes"))?;
        Ok(Disk { content, size: size_bytes, control })
    }

    /// Does the work at once, holds the answer back as long as it must be, answers, and logs.
    fn serve<T>(
        &self,
        (operation, offset, bytes): (Operation, u64, u32),
        work: impl FnOnce() -> io::Result<T>,
        answer: impl FnOnce(io::Result<T>),
    ) {
        let arrival_ns = now_ns();
        let (due_ns, log) = {
            let mut state = self.control.state.lock().unwrap_or_else(PoisonError::into_inner);
            let latency = state.shape.latency(operation).draw(&mut rand::rng());
            let spacing = state.shape.spacing(operation, bytes.into());
            let admitted = state.line.admit(arrival_ns, spacing);
            (admitted + latency.as_nanos() as u64, state.log.clone())
        };
        let result = work();
        sleep_until(due_ns);
        let reply_ns = now_ns();
        answer(result);
        if let Some(log) = log {
            log.push(Entry { operation, arrival_ns, reply_ns, offset, bytes });
        }
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, size) = match inode {
            ROOT => (FileType::Directory, 0),
            INODE => (FileType::RegularFile, self.size),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o600,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

thread_local! {
    /// What a read answers with; kept, so that the answer costs no fresh memory.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Filesystem for Disk {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let needed = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES | InitFlags::FUSE_BIG_WRITES;
        config.add_capabilities(needed).map_err(|missing| {
            io::Error::other(format!("the kernel's FUSE has no {missing:?}, without which there is no depth"))
        })?;
        let refused = |nearest| io::Error::other(format!("the kernel's FUSE allows no more than {nearest}"));
        config.set_max_write(MAX_REQUEST).map_err(refused)?;
        // Above this number the kernel keeps asynchronous requests to itself.
        config.set_max_background(THREADS as u16 * 2).map_err(|nearest| refused(nearest.into()))?;
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(INODE) {
            Some(attributes) if parent == ROOT && name == NAME => {
                reply.entry(&KEEP, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&KEEP, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Without parallel writes each would wait for the one before it to be submitted.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let work = || {
            let mut buffer = BUFFER.take();
            buffer.resize(size as usize, 0);
            self.content.read_exact_at(&mut buffer, offset)?;
            Ok(buffer)
        };
        self.serve((Operation::Read, offset, size), work, |result| match result {
            Ok(buffer) => {
                reply.data(&buffer);
                BUFFER.set(buffer);
            }
            Err(error) => reply.error(error.into()),
        });
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size = data.len() as u32;
        let work = || {
            // A write beyond the end would make the volume grow.
            if offset.checked_add(size.into()).is_none_or(|end| end > self.size) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.content.write_all_at(data, offset)
        };
        self.serve((Operation::Write, offset, size), work, |result| match result {
            Ok(()) => reply.written(size),
            Err(error) => reply.error(error.into()),
        });
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.serve((Operation::Flush, 0, 0), || Ok(()), |_| reply.ok());
    }

    /// A discard, or writing zeros: either way what was there is given back. At once, and not in the log.
    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        if !mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.content, punch, offset, length) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(io::Error::from(error).into()),
        }
    }

    /// The close of a file descriptor, which is nothing of the volume's.
    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }
}
