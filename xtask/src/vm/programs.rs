//! iotrace, its tests and what they trace, linked statically: the machines have no libraries.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{cmd, run};

use super::arch::Arch;

/// The package that builds `iotrace`, and its tests.
const PACKAGE: &str = "iotrace-daemon";
/// The program that the tests trace, and its package.
const WORKLOAD: (&str, &str) = ("workload", "iotrace-workload");
/// The program of the tests that trace.
const KERNEL: &str = "kernel";

/// What goes into the machines, at the paths where it was built: tests look for iotrace there.
pub struct Programs {
    pub arch: Arch,
    pub iotrace: PathBuf,
    pub workload: PathBuf,
    /// The tests that trace.
    pub kernel: PathBuf,
    /// Their names, `FILE::NAME`.
    pub tests: Vec<String>,
}

/// Builds them into a directory of their own, whose flags are not the usual ones.
pub fn build(arch: Arch) -> Result<Programs> {
    let target = run::target_dir()?.join("vm");
    let (workload, package) = WORKLOAD;
    // Apart: `cargo test` builds the program only for tests of its own package.
    let packages = ["build", "--package", package, "--package", PACKAGE];
    let mut artifacts = cargo(arch, &target, &packages)?;
    artifacts.extend(cargo(
        arch,
        &target,
        &["test", "--package", PACKAGE, "--no-run", "--test", KERNEL],
    )?);
    let kernel = executable(&artifacts, "test", KERNEL)?;
    Ok(Programs {
        arch,
        iotrace: executable(&artifacts, "bin", "iotrace")?,
        workload: executable(&artifacts, "bin", workload)?,
        tests: tests_of(arch, &kernel)?,
        kernel,
    })
}

/// What user-mode QEMU has no call for: process_vm_readv(2), bpf(2).
const NOT_EMULATED: [&str; 2] = [
    "environment::tests::memory_has_what_the_file_has",
    "kernel::preemption::tests::what_is_seen_is_what_the_release_does",
];

/// Runs the unit tests of a processor that this machine does not have.
pub fn unit_tests(arch: Arch, emulator: &str) -> Result<()> {
    let target = run::target_dir()?.join("vm");
    let mut cargo = static_cargo(arch, &target, &["test", "--workspace", "--lib"]);
    cargo.args(["--exclude", "iotrace-ebpf", "--exclude", "xtask"]);
    cargo.env(variable(arch, "RUNNER"), emulator);
    cargo.arg("--");
    for test in NOT_EMULATED {
        cargo.args(["--skip", test]);
    }
    cmd::run(&mut cargo)
}

/// Runs cargo with static linking; what it says of what it built.
fn cargo(arch: Arch, target: &Path, args: &[&str]) -> Result<Vec<Value>> {
    let mut cargo = static_cargo(arch, target, args);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    eprintln!("+ {}", cmd::shown(&cargo));
    let messages = cmd::stdout_of(cargo.stderr(Stdio::inherit()))?;
    Ok(messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

/// A command of cargo's with static linking.
fn static_cargo(arch: Arch, target: &Path, args: &[&str]) -> Command {
    let mut cargo = cmd::cargo();
    cargo.args(args);
    cargo.args(["--locked", "--release"]);
    cargo.args(["--target", arch.target()]);
    cargo.arg("--target-dir").arg(target);
    // Nothing here needs more than names in a backtrace, and every byte is copied into each machine.
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    let mut flags = env::var("RUSTFLAGS").unwrap_or_default();
    flags.push_str(" -C target-feature=+crt-static");
    cargo.env("RUSTFLAGS", flags);
    if let Some(compiler) = arch.cross_compiler() {
        cargo.env(format!("CC_{}", arch.target().replace('-', "_")), compiler);
        cargo.env(variable(arch, "LINKER"), compiler);
    }
    cargo
}

/// The variable that tells cargo something of a target.
fn variable(arch: Arch, what: &str) -> String {
    let target = arch.target().replace('-', "_").to_uppercase();
    format!("CARGO_TARGET_{target}_{what}")
}

/// The file that cargo says it built for a target. Of `iotrace` that is the program, not its own unit tests, which
/// have the same name.
fn executable(artifacts: &[Value], kind: &str, name: &str) -> Result<PathBuf> {
    let built = artifacts.iter().filter(|artifact| {
        let target = &artifact["target"];
        artifact["reason"] == "compiler-artifact"
            && target["name"] == name
            && target["kind"][0] == kind
            && (kind == "test" || artifact["profile"]["test"] == false)
    });
    let mut paths = built.filter_map(|artifact| artifact["executable"].as_str());
    let path = paths.next().map(PathBuf::from);
    path.with_context(|| format!("cargo built no {kind} `{name}`"))
}

/// What a test program says it has. It is static, so it runs here as it does in the machines.
fn tests_of(arch: Arch, binary: &Path) -> Result<Vec<String>> {
    let mut command = match arch.emulator() {
        None => cmd::command(binary),
        Some(emulator) => {
            let mut command = cmd::command(emulator);
            command.arg(binary);
            command
        }
    };
    let list = cmd::stdout_of(command.args(["--list", "--format", "terse"]))?;
    let tests: Vec<String> = list
        .lines()
        .filter_map(|line| line.strip_suffix(": test").map(str::to_owned))
        .collect();
    if tests.is_empty() {
        bail!("{} has no tests", binary.display());
    }
    Ok(tests)
}
