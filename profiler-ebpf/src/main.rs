//! The eBPF programs.
fn main() {}
