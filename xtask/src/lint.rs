//! `cargo xtask lint`: format, word list, links, layers of crates, lints and dependencies, without exceptions.

mod layers;
mod links;
mod words;

use std::env::consts::ARCH;
use std::time::Duration;

use anyhow::{Error, Result};

use crate::kernel_crate::{self, Machine, OBJECTS};
use crate::setup::{self, Purpose};
use crate::toolchain::Toolchain;
use crate::{cmd, run};

/// How long the database of known vulnerabilities may take to arrive.
const FETCH_LIMIT: Duration = Duration::from_secs(120);

/// Runs every check, the quick ones first.
pub fn task() -> Result<()> {
    setup::ensure(&[Purpose::Build, Purpose::Lint])?;
    cmd::run(cmd::cargo().args(["fmt", "--all", "--check"]))?;
    words::check()?;
    links::check()?;
    layers::check()?;
    dependencies()?;
    kernel_lints()?;
    let clippy = [
        "clippy",
        "--locked",
        "--all-targets",
        "--workspace",
        "--exclude",
        "iotrace-ebpf",
        "--",
        "--deny",
        "warnings",
    ];
    cmd::run(cmd::cargo().args(clippy))
}

/// Clippy for the kernel crate, by the toolchain that builds it.
fn kernel_lints() -> Result<()> {
    let toolchain = Toolchain::find(env!("CARGO_PKG_RUST_VERSION")).map_err(Error::msg)?;
    let machine = Machine {
        arch: ARCH.to_owned(),
        big_endian: cfg!(target_endian = "big"),
    };
    let target_dir = run::target_dir()?.join("kernel-lint");
    for (_, features) in OBJECTS {
        let root = cmd::root();
        let mut clippy =
            kernel_crate::cargo(&toolchain, "clippy", features, &machine, root, &target_dir);
        cmd::run(clippy.args(["--", "--deny", "warnings"]))?;
    }
    Ok(())
}

/// cargo-deny: bans, licences and sources; known vulnerabilities where their database can be had,
/// which the network decides and not the change that is checked.
fn dependencies() -> Result<()> {
    let deny = ["deny", "--locked"];
    let checks = [
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ];
    cmd::run(cmd::cargo().args(deny).args(checks))?;
    let mut fetch = cmd::cargo();
    fetch
        .args(deny)
        .args(["fetch", "db"])
        .env("GIT_TERMINAL_PROMPT", "0");
    if let Err(error) = cmd::run_within(&mut fetch, FETCH_LIMIT) {
        eprintln!("lint: known vulnerabilities were NOT checked: no database: {error:#}");
        return Ok(());
    }
    cmd::run(
        cmd::cargo()
            .args(deny)
            .args(["--offline", "check", "advisories"]),
    )
}
