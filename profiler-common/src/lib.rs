//! Everything that crosses the border between the eBPF programs and userspace, and the pure ledger both sides use.
//!
//! Layout rules: every shared type is `repr(C)`, without implicit padding (asserted at compile time), and carries
//! no Rust enum: a discriminant the other side does not know must stay a number. The crate knows no kernel helper,
//! no clock and no file; time enters as an argument. Units: durations and instants are nanoseconds of
//! `CLOCK_MONOTONIC` unless a name says otherwise.
#![no_std]

pub mod backend;
pub mod block;
pub mod bucket;
pub mod event;
pub mod flush;
pub mod held;
pub mod histogram;
pub mod history;
pub mod ledger;
pub mod loss;
pub mod process;
pub mod record;
pub mod storage;
pub mod totals;
pub mod tunables;

/// Declares that a type may be copied in and out of BPF maps, and that it has the size its fields add up to.
macro_rules! shared {
    ($type:ty, $size:expr) => {
        const _: () = assert!(size_of::<$type>() == $size);
        const _: () = assert!(align_of::<$type>() <= 8);
        // SAFETY: repr(C), integers only, and the size assertion above leaves no room for padding.
        #[cfg(feature = "user")]
        unsafe impl aya::Pod for $type {}
    };
}
pub(crate) use shared;
