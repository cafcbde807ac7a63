//! `cargo xtask wait-events [--check]`: turns profiler/data/wait_events.tsv into profiler/src/wait/names.rs.
//!
//! The data file holds one line per major version and wait event: major, class, class byte, event id, name. It is
//! the place to edit; the Rust file is generated and checked in so that a build needs no generator.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result, bail};

/// `wait_event_info` word → event name, per major version.
type Tables<'a> = BTreeMap<u32, BTreeMap<u32, &'a str>>;

/// Writes the generated file; with `check`, compares it instead and fails if it is out of date.
pub fn run(check: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in no workspace")?;
    let source = root.join("profiler/data/wait_events.tsv");
    let target = root.join("profiler/src/wait/names.rs");
    let data = fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let generated = generate(&parse(&data).with_context(|| format!("in {}", source.display()))?)?;
    if check {
        let present =
            fs::read_to_string(&target).with_context(|| format!("cannot read {}", target.display()))?;
        if present != generated {
            bail!("{} does not match its data file; run `cargo xtask wait-events`", target.display());
        }
        return Ok(());
    }
    fs::write(&target, generated).with_context(|| format!("cannot write {}", target.display()))
}

fn parse(data: &str) -> Result<Tables<'_>> {
    let mut tables = Tables::new();
    for (at, line) in data.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [major, _class, class_byte, id, name] = fields[..] else {
            bail!("line {}: found {} fields, need 5", at + 1, fields.len());
        };
        let number = |text: &str| text.parse::<u32>().with_context(|| format!("line {}: {text:?}", at + 1));
        let class = class_byte.strip_prefix("0x").context("class byte without 0x")?;
        let class =
            u32::from_str_radix(class, 16).with_context(|| format!("line {}: {class_byte:?}", at + 1))?;
        let word = class << 24 | number(id)?;
        if let Some(other) = tables.entry(number(major)?).or_default().insert(word, name) {
            bail!("line {}: {name} has the number of {other}", at + 1);
        }
    }
    Ok(tables)
}

fn generate(tables: &Tables<'_>) -> Result<String> {
    let mut out = String::from(
        "//! Names of PostgreSQL's wait events by major version.\n//!\n\
         //! Generated from data/wait_events.tsv by `cargo xtask wait-events`; edit the data file, not this one.\n\n\
         /// Event names of one major version, sorted by their `wait_event_info` word.\n\
         pub(super) type Names = &'static [(u32, &'static str)];\n\n\
         /// Every major version known, oldest first.\n\
         pub(super) const MAJORS: &[(u32, Names)] = &[",
    );
    let majors: Vec<String> = tables.keys().map(|major| format!("({major}, PG{major})")).collect();
    writeln!(out, "{}];", majors.join(", "))?;
    for (major, names) in tables {
        writeln!(out, "\nconst PG{major}: Names = &[")?;
        for (word, name) in names {
            writeln!(out, "    (0x{word:08X}, \"{name}\"),")?;
        }
        writeln!(out, "];")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_names_match_their_data_file() -> Result<()> {
        run(true)
    }

    #[test]
    fn two_names_for_one_number_are_refused() {
        let data = "major\tclass\tclass_byte\tevent_id\tname\n14\tIO\t0x0A\t1\tA\n14\tIO\t0x0A\t1\tB\n";
        assert!(parse(data).is_err());
    }
}
