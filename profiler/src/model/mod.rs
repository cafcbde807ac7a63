//! The numbers of a run: what the probes counted, and the profile made of it. Pure: no I/O, no clock, no map type.

pub mod aggregates;
pub mod bucket_name;
pub mod build;
pub mod devices;
pub mod findings;
pub mod histogram;
pub mod locks;
pub mod normalise;
pub mod profile;
pub mod slowest;
pub mod statements;
pub mod timeline;
pub mod wal;
