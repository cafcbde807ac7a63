//! An emulated volume: a file system on a block device that answers as slowly as it is told to, and keeps a log of it.
//!
//! The device is a loop device with direct I/O on a file that a FUSE file system serves out of memory. The kernel sees
//! an ordinary block device with ordinary requests; each is held back for an injected latency and spaced by a rate
//! limit. It runs as a process of its own ([`serve`]), and whoever started it ([`owner`]) holds it by a pipe: the
//! volume goes when the pipe closes, however that came about.
//!
//! What lies between the block layer's two events (issue, complete) and the log's two instants (arrival, reply) is
//! measured in `docs/journal`; it is not part of the injected latency, and no part of it can be injected away.

pub mod shape;

pub mod clock;

pub mod log;

pub mod summary;

pub mod disk;

pub mod connection;

pub mod loopdev;

pub mod filesystem;

pub mod priority;

pub mod serve;

pub mod owner;
