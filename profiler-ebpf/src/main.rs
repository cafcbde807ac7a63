//! The eBPF programs: scheduler edges and transaction borders of one PostgreSQL cluster's backends.
//!
//! Every program leaves after one array look-up when the task is not a followed backend. The arithmetic is
//! [`profiler_common`]'s; this crate only reads the kernel and the server and keeps the sums.
#![no_std]
#![no_main]
// For the one instruction the language has no name for on this machine, see `block::add`.
#![feature(asm_experimental_arch)]

mod block;
mod border;
mod config;
mod count;
mod flush;
mod held;
mod lifecycle;
mod maps;
mod process;
mod request;
mod sched;
mod server;
mod task;

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The object's licence: the kernel offers the helpers used here to GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
