//! A backend's life, told twice: as the truth, and as the calls the eBPF programs would make of it.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod drawing;
pub mod generate;
pub mod invariants;
pub mod life;
pub mod play;
pub mod programs;
pub mod truth;
