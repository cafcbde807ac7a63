//! What no compiler checks: every module says what it is for, no line ends in blanks, and the layers of
//! `profiler/src` use each other in one direction.

mod layers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::command::root;

const CRATES: [&str; 5] = ["profiler", "profiler-common", "profiler-ebpf", "xtask", "tests"];
/// File name endings that hold text people write.
const TEXT: [&str; 5] = ["rs", "md", "toml", "tsv", "sh"];

/// Checks the tree.
///
/// # Errors
/// Lists every place that breaks a rule.
pub fn run() -> Result<()> {
    let root = root();
    let mut found = Vec::new();
    for file in text_files(&root)? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let shown = file.strip_prefix(&root).unwrap_or(&file);
        let name = shown.display().to_string();
        found.extend(trailing_blanks(&name, &text));
        if name.ends_with(".rs") {
            found.extend(missing_purpose(&name, &text));
        }
        if let Ok(module) = shown.strip_prefix("profiler/src") {
            found.extend(layers::check(module, &name, &text));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    for line in &found {
        eprintln!("{line}");
    }
    bail!("{} breach{} of the tree's rules", found.len(), if found.len() == 1 { "" } else { "es" })
}

fn text_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![root.join("Cargo.toml"), root.join(".ci/run")];
    files.retain(|file| file.is_file());
    files.extend(
        root.read_dir()?.flatten().map(|e| e.path()).filter(|f| f.extension().is_some_and(|e| e == "md")),
    );
    for dir in CRATES.into_iter().chain(["docs"]) {
        let dir = root.join(dir);
        if dir.is_dir() {
            walk(&dir, &mut files)?;
        }
    }
    files.sort();
    Ok(files)
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in dir.read_dir().with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|end| TEXT.iter().any(|text| end == *text)) {
            files.push(path);
        }
    }
    Ok(())
}

fn trailing_blanks(name: &str, text: &str) -> Vec<String> {
    // A table of tab-separated values may end in an empty column.
    let ends_in_blank = |line: &str| line.ends_with(' ') || (line.ends_with('\t') && !name.ends_with(".tsv"));
    let lines = text.lines().enumerate().filter(|(_, line)| ends_in_blank(line));
    lines.map(|(number, _)| format!("{name}:{}: blanks at the end of the line", number + 1)).collect()
}

fn missing_purpose(name: &str, text: &str) -> Option<String> {
    let opens_well = text.lines().next().is_some_and(|line| line.starts_with("//! "));
    (!opens_well).then(|| format!("{name}:1: a module opens with a `//!` paragraph that says what it is for"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_found_with_their_line() {
        assert_eq!(trailing_blanks("a.rs", "x\ny \nz\t\n").len(), 2);
        assert!(trailing_blanks("a.rs", "x \ny")[0].starts_with("a.rs:1:"));
        assert!(trailing_blanks("a.tsv", "x\t\n").is_empty());
    }

    #[test]
    fn purpose_comes_first() {
        assert!(missing_purpose("a.rs", "//! Why.\nuse x;\n").is_none());
        assert!(missing_purpose("a.rs", "use x;\n//! Why.\n").is_some());
        assert!(missing_purpose("a.rs", "").is_some());
    }
}
