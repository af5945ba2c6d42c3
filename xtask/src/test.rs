//! `cargo xtask test`: all tests, those against the running kernel too.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
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
const NEED_ROOT: [&str; 4] = [
    "sight::tests::names_below_directories_that_a_user_may_search",
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

/// Runs all tests, where all tools are there. Fails after the last, where one has failed.
fn run_all() -> Result<()> {
    let mut others: Vec<OsString> = vec!["--lib".into(), "--bins".into()];
    for test in integration_tests()? {
        if test != WAITING {
            others.extend(["--test".into(), test.into()]);
        }
    }
    let waiting = ["--test".into(), WAITING.into()];
    let (said, others) = cmd::run_and_keep(&mut test(&others, &[])?)?;
    let mut failures = failures_in(&said);
    let threads = [("RUST_TEST_THREADS", THREADS_OF_WAITING)];
    let (said, waiting) = cmd::run_and_keep(&mut test(&waiting, &threads)?)?;
    failures.push_str(&failures_in(&said));
    if !failures.is_empty() {
        // Of a long output, often the end alone is kept.
        println!("\nAll failures again:\n{failures}");
    }
    others.and(waiting)
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

    #[test]
    fn failures_are_found_in_the_output_of_all_test_programs() {
        let output = "running 2 tests\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\npanicked\n\n\nfailures:\n    a\n\n\
                      test result: FAILED. 1 passed\nrunning 1 test\ntest failures ... ok\n\ntest result: ok. 1 passed\n";
        assert_eq!(
            failures_in(output),
            "failures:\n\n---- a stdout ----\npanicked\n\n\nfailures:\n    a\n\n"
        );
    }
}
