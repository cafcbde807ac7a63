//! The report a person reads: the answer first, then the budget, what is behind it, and how far to trust it.

use std::io;

use crate::model::profile::Profile;

mod budget;
mod devices;
mod findings;
mod lead;
mod locks;
mod page;
mod processes;
mod quality;
mod single;
mod statements;
mod waits;
mod wal;
mod window;

use page::Page;

/// The widest a line may be.
pub const MAX_WIDTH: usize = 100;
const MIN_WIDTH: usize = 72;

/// How the report looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns to use, 72 to 100; others are taken as the nearest of those.
    pub width: usize,
    /// Whether to colour, with the escape sequences every terminal knows.
    pub color: bool,
    /// Whether the terminal shows more than ASCII; without, bars are made of `#` and µ is u.
    pub unicode: bool,
}

impl Default for Style {
    fn default() -> Self {
        Style { width: MAX_WIDTH, color: false, unicode: true }
    }
}

/// What stands beside the title of every section whose numbers rest on approximate borders.
fn approximate(profile: &Profile) -> &'static str {
    if profile.capture.borders.exact { "" } else { "(approximate borders)" }
}

/// Writes the report.
pub fn render(profile: &Profile, style: &Style, out: &mut dyn io::Write) -> io::Result<()> {
    let mut page = Page::new(Style { width: style.width.clamp(MIN_WIDTH, MAX_WIDTH), ..*style });
    lead::write(&mut page, profile);
    if profile.transactions.count != 0 {
        budget::write(&mut page, profile);
    }
    findings::write(&mut page, profile);
    if profile.transactions.count != 0 {
        waits::write(&mut page, profile);
        devices::waits(&mut page, profile);
    }
    devices::write(&mut page, profile);
    wal::write(&mut page, profile);
    locks::write(&mut page, profile);
    window::timeline(&mut page, profile);
    statements::write(&mut page, profile);
    single::slowest(&mut page, profile);
    single::open(&mut page, profile);
    processes::write(&mut page, profile);
    quality::write(&mut page, profile);
    out.write_all(page.finish().as_bytes())
}
