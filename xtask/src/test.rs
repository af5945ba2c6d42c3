//! `cargo xtask test`: all tests, those against the running kernel too.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::cmd;
use crate::fuzz;
use crate::run::target_dir;
use crate::setup::{self, Purpose};

/// Runs `cargo test` with these arguments. Tests that load kernel programs need root: where we are
/// not root, cargo runs every test binary through sudo (and builds them as the user we are).
pub fn task(args: &[OsString]) -> Result<()> {
    // Arguments choose tests.
    if !args.is_empty() {
        return with(args, &[]);
    }
    setup::ensure(&PURPOSES)?;
    run_all()?;
    fuzz::task(&fuzz::Options {
        targets: Vec::new(),
        seconds: FUZZ_SECONDS,
    })
}

/// What all tests need.
const PURPOSES: [Purpose; 3] = [Purpose::Build, Purpose::Dist, Purpose::Test];

/// How long hostile input is made for each target: a minute for all.
const FUZZ_SECONDS: u64 = 10;

/// Unit tests of what a user without privileges is not told.
const NEED_ROOT: [&str; 5] = [
    "sight::tests::names_below_directories_that_a_user_may_search",
    "jobs::keep::tests::a_log_is_of_the_user_that_its_directory_has",
    "jobs::keep::tests::who_fills_logs_loses_own_ones_alone",
    "socket::peer::tests::a_process_with_more_rights_than_its_user_is_denied",
    "kernel::block::tests::this_kernel_has_all_of_it",
];

/// Runs those tests that need no privilege and no BPF toolchain: unit tests, those of `xtask` left out, which build
/// packages, and what is made of recordings.
pub fn fast(args: &[OsString]) -> Result<()> {
    setup::ensure(&[Purpose::Fast])?;
    let mut test = cmd::cargo();
    test.args(["test", "--locked", "--no-fail-fast", "--workspace"]);
    for package in ["iotrace-ebpf", "iotrace-programs", "xtask"] {
        test.args(["--exclude", package]);
    }
    test.args([
        "--no-default-features",
        "--lib",
        "--bins",
        "--test",
        "formats",
    ]);
    test.args(args);
    if !args.iter().any(|arg| arg == "--") {
        test.arg("--");
    }
    for name in NEED_ROOT {
        test.args(["--skip", name]);
    }
    cmd::run(&mut test)
}

/// As [`task`] with these variables in the environment.
pub fn with(args: &[OsString], variables: &[(&str, &str)]) -> Result<()> {
    setup::ensure(&PURPOSES)?;
    run(args, variables)
}

/// Tests that wait most of the time. There are more threads than tests that run at a time, because each waits for its turn.
const WAITING: &str = "service";
const THREADS_OF_WAITING: &str = "12";

/// Of a whole run, how many tests may fail at first. A test that compares clocks can fail because of what the host does at that
/// moment, so what failed runs once more, alone; more than these are no accident.
const MAX_REPEATED: usize = 5;

/// Runs all tests, where all tools are there. Tests that fail run again, alone, behind the last one; fails where one fails again.
fn run_all() -> Result<()> {
    let mut others: Vec<OsString> = vec!["--lib".into(), "--bins".into()];
    let mut all = others.clone();
    for name in integration_tests()? {
        let chosen = ["--test".into(), name.clone().into()];
        all.extend(chosen.clone());
        if name != WAITING {
            others.extend(chosen);
        }
    }
    let waiting = ["--test".into(), WAITING.into()];
    let (mut output, others) = cmd::run_and_keep(&mut test(&others, &[])?)?;
    let threads = [("RUST_TEST_THREADS", THREADS_OF_WAITING)];
    let (said, waiting) = cmd::run_and_keep(&mut test(&waiting, &threads)?)?;
    output.push_str(&said);
    let Err(error) = others.and(waiting) else {
        return Ok(());
    };
    // Of a long output, often the end alone is kept.
    println!("\nAll failures again:\n{}", failures_in(&output));
    let failed = failed_in(&output);
    if failed.is_empty() || failed.len() > MAX_REPEATED || has_ended_early(&output) {
        return Err(error);
    }
    println!(
        "These tests failed, and run again, each alone: {}",
        failed.join(", ")
    );
    all.extend(["--", "--exact", "--test-threads", "1"].map(Into::into));
    all.extend(failed.iter().map(Into::into));
    let (said, again) = cmd::run_and_keep(&mut test(&all, &[])?)?;
    again?;
    ensure!(
        passed_in(&said) >= failed.len(),
        "not all tests that failed ran again"
    );
    println!("\nFailed at first, and passed alone: {}", failed.join(", "));
    Ok(())
}

/// What the test programs printed of tests that failed, of all that cargo ran.
fn failures_in(output: &str) -> String {
    let mut failures = String::new();
    let mut is_of_failure = false;
    for line in output.lines() {
        is_of_failure = (is_of_failure || line == "failures:") && !line.starts_with("test result:");
        if is_of_failure {
            failures.push_str(line);
            failures.push('\n');
        }
    }
    failures
}

/// The names of the tests that failed, of all test programs: each prints them behind its last `failures:`.
fn failed_in(output: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut of_program: Vec<&str> = Vec::new();
    for line in output.lines() {
        match line.strip_prefix("    ") {
            _ if line == "failures:" => of_program.clear(),
            _ if line.starts_with("test result: FAILED") => {
                names.extend(of_program.drain(..).map(str::to_owned));
            }
            Some(name) => of_program.push(name),
            None => {}
        }
    }
    names
}

/// Whether a test program ended without a result, as by a signal: which of its tests failed is not known then.
fn has_ended_early(output: &str) -> bool {
    let is_result = |line: &&str| line.starts_with("test result: ");
    let is_start = |line: &&str| {
        let number = line
            .strip_prefix("running ")
            .and_then(|line| line.split(' ').next());
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    output.lines().filter(is_start).count() != output.lines().filter(is_result).count()
}

/// How many tests passed, of all test programs.
fn passed_in(output: &str) -> usize {
    let results = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "));
    let passed = results.filter_map(|line| {
        let (before, _) = line.split_once(" passed")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    passed.sum()
}

/// The names of the workspace's integration tests.
fn integration_tests() -> Result<Vec<String>> {
    let mut metadata = cmd::cargo();
    metadata.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&cmd::stdout_of(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let tests = targets.filter(|target| target["kind"][0] == "test");
    let names = tests.filter_map(|target| Some(target["name"].as_str()?.to_owned()));
    Ok(names.collect())
}

/// Runs the tests of the kernel that these words choose, one at a time. The environment names a file in `variable`, to which they
/// append lines of JSON; returns those, and whether the tests passed.
pub fn told(
    variable: &str,
    words: &[&str],
    variables: &[(&str, &str)],
) -> Result<(String, Result<()>)> {
    setup::ensure(&[Purpose::Build, Purpose::Test])?;
    let file = target_dir()?.join("told.jsonl");
    fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
    let name = file
        .to_str()
        .context("the path of the target directory is not UTF-8")?;
    let arguments = "--package iotrace-daemon --test kernel -- --test-threads 1";
    let arguments = arguments.split(' ').chain(words.iter().copied());
    let arguments: Vec<OsString> = arguments.map(Into::into).collect();
    let passed = run(&arguments, &[&[(variable, name)], variables].concat());
    Ok((fs::read_to_string(&file)?, passed))
}

/// Runs the tests that these arguments choose, with these variables in the environment, where all tools are there.
pub fn run(args: &[OsString], variables: &[(&str, &str)]) -> Result<()> {
    cmd::run(&mut test(args, variables)?)
}

/// The command of these tests.
fn test(args: &[OsString], variables: &[(&str, &str)]) -> Result<Command> {
    let mut test = cmd::cargo();
    test.args(["test", "--locked", "--no-fail-fast"]).args(args);
    test.envs(variables.iter().copied());
    if !cmd::is_root()? {
        let variable = format!(
            "CARGO_TARGET_{}_RUNNER",
            host()?.replace('-', "_").to_uppercase()
        );
        test.env(variable, sudo()?);
    }
    Ok(test)
}

/// The runner: sudo with our environment, and with our `PATH`, which sudo replaces otherwise.
fn sudo() -> Result<String> {
    let path = env::var("PATH").context("PATH is not set, or is not UTF-8")?;
    Ok(format!("sudo -E env PATH={path}"))
}

/// The target that cargo builds the tests for.
fn host() -> Result<String> {
    let version = cmd::stdout_of(cmd::cargo().arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("`cargo -vV` does not name its host")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 2 tests\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n    panicked\n\n\nfailures:\n    a\n\n\
                          test result: FAILED. 1 passed; 1 failed\nrunning 1 test\ntest failures ... ok\n\ntest result: ok. 1 passed; 0 failed\n";

    #[test]
    fn failures_are_found_in_the_output_of_all_test_programs() {
        assert_eq!(
            failures_in(OUTPUT),
            "failures:\n\n---- a stdout ----\n    panicked\n\n\nfailures:\n    a\n\n"
        );
        assert_eq!(failed_in(OUTPUT), ["a"]);
        assert_eq!(passed_in(OUTPUT), 2);
    }

    #[test]
    fn a_test_program_that_was_killed_has_no_result() {
        assert!(!has_ended_early(OUTPUT));
        let killed = format!("{OUTPUT}running 3 tests\ntest b ... ok\n");
        assert!(has_ended_early(&killed));
    }
}
