//! `cargo xtask test`: all tests, those against the running kernel too.

use std::env;
use std::ffi::OsString;

use anyhow::{Context as _, Result};

use crate::cmd;
use crate::fuzz;
use crate::setup::{self, Purpose};

/// Runs `cargo test` with these arguments. Tests that load kernel programs need root: where we are
/// not root, cargo runs every test binary through sudo (and builds them as the user we are).
pub fn task(args: &[OsString]) -> Result<()> {
    with(args, &[])?;
    // Arguments choose tests.
    if args.is_empty() {
        fuzz::task(&fuzz::Options {
            targets: Vec::new(),
            seconds: FUZZ_SECONDS,
        })?;
    }
    Ok(())
}

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
    setup::ensure(&[Purpose::Build, Purpose::Dist, Purpose::Test])?;
    run(args, variables)
}

/// The same, where all tools are there.
pub fn run(args: &[OsString], variables: &[(&str, &str)]) -> Result<()> {
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
    cmd::run(&mut test)
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
