//! Prints checks for a person: one block each, at most 100 columns wide.

use super::{Check, State};

const WIDTH: usize = 100;
const NAME_WIDTH: usize = 19;
const INDENT: usize = "warning ".len() + NAME_WIDTH + 1;

/// Renders checks and a line that counts them.
pub fn render_text(checks: &[Check]) -> String {
    let mut text = String::new();
    let mut of = None;
    for check in checks {
        if check.postmaster_pid != of {
            of = check.postmaster_pid;
            if let Some(pid) = of {
                text.push_str(&format!("\nserver with process id {pid}\n"));
            }
        }
        render_check(&mut text, check);
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (failed, warnings) = (count(State::Failed), count(State::Warning));
    text.push_str(&match (failed, warnings) {
        (0, 0) => format!("\nall {} checks passed\n", checks.len()),
        _ => format!("\n{} checks: {failed} failed, {}\n", checks.len(), plural(warnings, "warning")),
    });
    text
}

fn plural(n: usize, word: &str) -> String {
    if n == 1 { format!("{n} {word}") } else { format!("{n} {word}s") }
}

fn render_check(text: &mut String, check: &Check) {
    let state = match check.state {
        State::Ok => "ok",
        State::Warning => "warning",
        State::Failed => "FAILED",
    };
    let head = format!("{state:<7} {:<NAME_WIDTH$} ", check.name);
    wrap(text, &head, &check.found);
    let blank = " ".repeat(INDENT);
    wrap(text, &format!("{blank}needed: "), &check.needed);
    if let Some(fix) = &check.fix {
        wrap(text, &format!("{blank}fix: "), fix);
    }
}

/// Appends `words` behind `head`, broken at blanks and indented; a word that is too long for a line stays whole.
fn wrap(text: &mut String, head: &str, words: &str) {
    for (at, paragraph) in words.lines().enumerate() {
        let mut line = if at == 0 { head.to_owned() } else { " ".repeat(INDENT) };
        let mut is_fresh = true;
        for word in paragraph.split(' ') {
            if !is_fresh && line.chars().count() + 1 + word.chars().count() > WIDTH {
                text.push_str(line.trim_end());
                text.push('\n');
                line = " ".repeat(INDENT);
                is_fresh = true;
            }
            if !is_fresh {
                line.push(' ');
            }
            line.push_str(word);
            is_fresh = false;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
