//! What standard output and standard error are.

use std::io::{self, IsTerminal as _, Write as _};

use crate::report::text::Style;

/// Whether there is a standard output at all; the standard library would write nowhere and say nothing.
pub fn stdout_is_open() -> bool {
    // SAFETY: asks for the flags of a file descriptor, which need not exist.
    unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) != -1 }
}

/// Columns where they cannot be asked for.
const DEFAULT_COLUMNS: usize = 100;

/// Style for a report on standard output.
pub fn stdout_style() -> Style {
    let terminal = io::stdout().is_terminal();
    Style {
        width: columns().unwrap_or(DEFAULT_COLUMNS),
        color: terminal && !no_color(),
        unicode: !terminal || is_utf8(),
    }
}

/// Whether the locale says that the terminal shows more than ASCII.
fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Writes to standard error; where that is closed, nobody wants to know.
pub fn note(text: &str) {
    let mut stderr = io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// A line on standard error.
pub fn say(message: &str) {
    note(&format!("pgstall: {message}\n"));
}

/// Whether to show progress.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// <https://no-color.org>: present and not empty.
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb")
}

fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a valid place for the answer.
    let answered = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) } == 0;
    (answered && size.ws_col != 0).then_some(size.ws_col.into())
}
