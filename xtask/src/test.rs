//! `cargo xtask test`: every test there is. Compiled as the calling user; only the end-to-end tests, which load
//! probes and start servers under other users, run as root.

use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command::{cargo, root, say, shown};
use crate::{demo, setup};

/// Which tests.
#[derive(clap::Args)]
pub struct Options {
    /// Only the tests that need neither root nor a server
    #[arg(long, conflicts_with = "e2e")]
    unit: bool,
    /// Only the end-to-end tests
    #[arg(long)]
    e2e: bool,
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// Runs them; the last lines on standard output are the test runners' own results.
///
/// # Errors
/// When a test fails or does not compile.
pub fn run(options: &Options) -> Result<()> {
    let begun = Instant::now();
    setup::run(&setup::Options { check: false, tests: true })?;
    let mut suites = Vec::new();
    if !options.e2e {
        suites.extend(unit_tests(options.filter.as_deref())?);
    }
    if !options.unit {
        suites.extend(end_to_end_tests(options.filter.as_deref())?);
    }
    conclude(&suites, begun)
}

/// One test program's end.
struct Suite {
    name: String,
    /// Its own `test result:` line; `None` when it died before printing one.
    result: Option<String>,
    passed: bool,
}

fn unit_tests(filter: Option<&str>) -> Result<Vec<Suite>> {
    // The crates' own tests include documentation tests, which only cargo can run.
    let mut test = cargo()?;
    test.args([
        "test",
        "--no-fail-fast",
        "--workspace",
        "--exclude",
        "profiler-ebpf",
        "--exclude",
        "pgstall-tests",
    ]);
    test.args(filter);
    say("test", shown(&test));
    let (lines, passed) = results(&mut test, &mut std::io::stdout())?;
    let count = lines.len();
    let suite = |(number, line): (usize, String)| Suite {
        name: format!("unit tests {} of {count}", number + 1),
        passed: line.starts_with("test result: ok"),
        result: Some(line),
    };
    let mut suites: Vec<Suite> = lines.into_iter().enumerate().map(suite).collect();
    if !passed && suites.iter().all(|suite| suite.passed) {
        suites.push(Suite { name: "unit tests (compiling)".to_owned(), result: None, passed });
    }
    Ok(suites)
}

fn end_to_end_tests(filter: Option<&str>) -> Result<Vec<Suite>> {
    let pgstall = demo::build()?;
    let mut suites = Vec::new();
    for (name, program) in compiled_tests()? {
        // sudo drops the environment, so the variables are part of the command.
        let mut test = demo::privileged(Path::new("/usr/bin/env"))?;
        test.arg(format!("PGSTALL={}", pgstall.display()))
            .arg(format!("CARGO_MANIFEST_DIR={}", crate_dir().display()));
        let settings =
            std::env::vars().filter(|(name, _)| name.starts_with("PGSTALL_") || name == "CARGO_TARGET_DIR");
        test.args(settings.map(|(name, value)| format!("{name}={value}")));
        test.arg(program).args(["--test-threads=1"]).args(filter).current_dir(crate_dir());
        say("test", format!("{name}: {}", shown(&test)));
        let (lines, passed) = results(&mut test, &mut std::io::stdout())?;
        suites.push(Suite { name, result: lines.into_iter().next_back(), passed });
    }
    Ok(suites)
}

fn crate_dir() -> PathBuf {
    root().join("tests")
}

/// Compiles the end-to-end tests and returns each program with its name.
fn compiled_tests() -> Result<Vec<(String, PathBuf)>> {
    let mut build = cargo()?;
    build.args([
        "test",
        "--package",
        "pgstall-tests",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let output =
        build.stderr(Stdio::inherit()).output().with_context(|| format!("cannot run {}", shown(&build)))?;
    if !output.status.success() {
        bail!("{} failed ({})", shown(&build), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(test_program).collect())
}

/// The test program a line of cargo's messages tells of.
fn test_program(line: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool() == Some(true);
    let program = message["executable"].as_str().filter(|_| is_test)?;
    Some((message["target"]["name"].as_str()?.to_owned(), PathBuf::from(program)))
}

/// Runs a test command, passes on to `out` what it prints, and returns its result lines and whether it succeeded.
fn results(command: &mut Command, out: &mut dyn Write) -> Result<(Vec<String>, bool)> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {}", shown(command)))?;
    let mut found = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            writeln!(out, "{line}")?;
            if line.starts_with("test result: ") {
                found.push(line);
            }
        }
    }
    Ok((found, child.wait()?.success()))
}

fn conclude(suites: &[Suite], begun: Instant) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "\n{} s, all results:", begun.elapsed().as_secs())?;
    for suite in suites {
        let result = suite.result.as_deref().unwrap_or("ended without a result");
        writeln!(out, "{:<28} {result}", suite.name)?;
    }
    let failed: Vec<&str> =
        suites.iter().filter(|suite| !suite.passed).map(|suite| suite.name.as_str()).collect();
    if suites.is_empty() || !failed.is_empty() {
        bail!(
            "failed: {}",
            if suites.is_empty() { "no test program was found".to_owned() } else { failed.join(", ") }
        );
    }
    let total =
        |word: &str| suites.iter().filter_map(|suite| count(suite.result.as_deref()?, word)).sum::<u64>();
    // In the runner's own words, so that whoever reads those reads this.
    writeln!(
        out,
        "test result: ok. {} passed; {} failed; {} ignored; {} measured; {} filtered out; finished in {:.2}s",
        total("passed"),
        total("failed"),
        total("ignored"),
        total("measured"),
        total("filtered out"),
        begun.elapsed().as_secs_f64()
    )?;
    Ok(())
}

/// The number before a word of a result line.
fn count(line: &str, word: &str) -> Option<u64> {
    let (_, counts) = line.split_once(". ")?;
    counts.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_result_line() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.01s";
        assert_eq!(count(line, "passed"), Some(12));
        assert_eq!(count(line, "filtered out"), Some(7));
        assert_eq!(count(line, "surprised"), None);
    }

    #[test]
    fn only_test_programs_are_run() {
        let message = |test: bool| {
            format!(
                r#"{{"target":{{"name":"count"}},"profile":{{"test":{test}}},"executable":"/x/count-1"}}"#
            )
        };
        assert_eq!(test_program(&message(true)), Some(("count".to_owned(), PathBuf::from("/x/count-1"))));
        assert_eq!(test_program(&message(false)), None);
        assert_eq!(test_program("warning: unused"), None);
    }

    #[test]
    fn a_failing_program_is_no_success() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101"]);
        // Not our own output: the line in it would be taken for a result of this run.
        let mut out = Vec::new();
        let (lines, passed) = results(&mut command, &mut out).unwrap_or_default();
        assert_eq!((lines.len(), passed), (1, false));
        assert!(out.starts_with(b"test result: FAILED"));
    }
}
