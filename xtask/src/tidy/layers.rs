//! The layers of `profiler/src`: who may use whom, read from the paths the sources name.

use std::collections::BTreeSet;
use std::path::Path;

/// Each module uses only its own layer and those before it.
const LAYERS: [&[&str]; 6] = [
    &["apportion", "kernel", "target", "units", "wait"],
    &["model", "preflight", "storage"],
    &["driver", "probe"],
    &["report"],
    &["session"],
    &["cli"],
];

/// Modules that work on values only, and what they must not name: a report can be made anywhere, of any profile.
const PURE: [&str; 2] = ["model", "report"];
const IMPURE: [&str; 5] = ["aya::", "std::fs", "std::net", "std::process", "libc::"];

/// Pairs in the same or an earlier layer that must not meet all the same.
const APART: [(&str, &str); 2] = [("driver", "probe"), ("probe", "driver")];

/// Checks one file. `module` is its path below `src`, `name` the one shown.
pub fn check(module: &Path, name: &str, text: &str) -> Vec<String> {
    let Some(first) = module.iter().next().and_then(|part| part.to_str()) else { return Vec::new() };
    let own = first.trim_end_matches(".rs");
    if ["lib", "main"].contains(&own) {
        return Vec::new();
    }
    let Some(own_layer) = layer(own) else {
        return vec![format!("{name}: module `{own}` has no layer: give it one in xtask/src/tidy/layers.rs")];
    };
    let code = without_comments(text);
    let mut found = Vec::new();
    for used in modules_used(&code) {
        let upward = layer(&used).is_some_and(|layer| layer > own_layer);
        if upward || APART.contains(&(own, used.as_str())) {
            found.push(format!("{name}: `{own}` must not use `{used}`: {}", order()));
        }
    }
    if PURE.contains(&own) {
        // A test may read a fixture.
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        let named = IMPURE.into_iter().filter(|word| names(code, word));
        found
            .extend(named.map(|word| {
                format!("{name}: `{own}` does no I/O and knows no aya type, but names `{word}`")
            }));
    }
    found
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn order() -> String {
    LAYERS.iter().map(|layer| layer.join(", ")).collect::<Vec<_>>().join(" → ")
}

/// Whether the text names a path, and not merely another that ends the same.
fn names(code: &str, path: &str) -> bool {
    code.match_indices(path).any(|(at, _)| {
        !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
            && (path.ends_with(':')
                || !code[at + path.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The first segments after every `crate::`, grouped imports included.
fn modules_used(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, word) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + word.len()..];
        match rest.strip_prefix('{') {
            Some(group) => used.extend(heads(group)),
            None => used.extend(identifier(rest)),
        }
    }
    used
}

/// The first segment of each path of a braced group, whose opening brace has been read.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut expects, mut heads) = (1, true, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => expects = true,
            _ if depth == 1 && expects && !c.is_whitespace() => {
                heads.extend(identifier(&group[at..]));
                expects = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn identifier(text: &str) -> Option<String> {
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(path: &str, text: &str) -> usize {
        check(Path::new(path), path, text).len()
    }

    #[test]
    fn upward_edges_are_found_in_every_spelling() {
        assert_eq!(breaches("kernel/btf.rs", "use crate::model::Profile;"), 1);
        assert_eq!(breaches("kernel.rs", "use crate::{units::Nanos, session::{self, run}, report};"), 2);
        assert_eq!(breaches("model/txn.rs", "fn f() -> crate::probe::Reader {}"), 1);
        assert_eq!(breaches("probe/mod.rs", "use crate::cli;"), 1);
        assert_eq!(breaches("probe/mod.rs", "use crate::driver::Load;"), 1);
    }

    #[test]
    fn downward_edges_and_comments_are_fine() {
        assert_eq!(
            breaches("cli/attach.rs", "use crate::{session, report, model::Profile};\nuse crate::kernel;"),
            0
        );
        assert_eq!(breaches("kernel.rs", "//! See crate::session.\nuse crate::units; // crate::cli\n"), 0);
        assert_eq!(breaches("kernel.rs", "use profiler_common::bucket; use mycrate::cli;"), 0);
        assert_eq!(breaches("main.rs", "use pgstall::cli; use crate::cli;"), 0);
    }

    #[test]
    fn the_model_is_pure() {
        assert_eq!(breaches("model/profile.rs", "use aya::maps::Array;\nuse std::fs;"), 2);
        assert_eq!(breaches("report/text.rs", "use std::io::Write;\nlet himalaya::x = std::fsync;"), 0);
        assert_eq!(breaches("report/text.rs", "fn f() {}\n#[cfg(test)]\nmod tests { use std::fs; }"), 0);
        assert_eq!(breaches("probe/load.rs", "use aya::Ebpf; use std::fs;"), 0);
    }

    #[test]
    fn a_module_without_a_layer_is_named() {
        assert_eq!(breaches("surprise.rs", ""), 1);
    }
}
