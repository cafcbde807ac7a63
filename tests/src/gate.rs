//! Saying why a test did not run, and what a test measured.
//!
//! libtest swallows what the print macros write in a passing test; a skip nobody sees is a hole nobody sees. So both
//! functions write to standard error themselves.

use std::io::{Write as _, stderr};

/// Prints why a test, or a part of it, is not run.
pub fn skip(reason: &str) {
    drop(writeln!(stderr(), "SKIPPED: {reason}"));
}

/// Prints a measured number.
pub fn note(text: &str) {
    drop(writeln!(stderr(), "    {text}"));
}

/// Whether the test may run: as root. Prints the reason if not.
pub fn root() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    skip("attaching needs root: run `sudo -E cargo xtask test`");
    false
}
