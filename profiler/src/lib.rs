//! pgstall: where did each PostgreSQL transaction's time go?
//!
//! Layers, each using only those above it: `kernel`, `target`, `units`, `wait` → `model`, `storage`, `preflight` → `probe` →
//! `report` → `session` → `cli`. `model` and `report` do no I/O and know no aya type.

pub mod apportion;
pub mod cli;
pub mod kernel;
pub mod model;
pub mod preflight;
pub mod probe;
pub mod report;
pub mod session;
pub mod storage;
pub mod target;
pub mod units;
pub mod wait;
