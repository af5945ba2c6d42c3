//! Toolchains and components by rustup.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cmd;
use crate::toolchain::{self, RUSTUP_TOOLCHAIN};

/// How long a download may take before the next road is tried. Offline, rustup repeats its
/// attempts for minutes.
const LIMIT: Duration = Duration::from_secs(240);

/// Installs the kernel crate's nightly with the library sources, or adds them where it is there.
pub fn install_nightly() -> Result<()> {
    require()?;
    if toolchain::rustup_rustc().is_some() {
        return add_nightly_component("rust-src");
    }
    let install = [
        "toolchain",
        "install",
        RUSTUP_TOOLCHAIN,
        "--profile",
        "minimal",
    ];
    let options = ["--component", "rust-src", "--no-self-update"];
    cmd::run_within(cmd::command("rustup").args(install).args(options), LIMIT)
}

/// Adds a component to the kernel crate's nightly.
pub fn add_nightly_component(name: &str) -> Result<()> {
    add(name, RUSTUP_TOOLCHAIN)
}

/// Adds a component to the toolchain that runs cargo.
pub fn add_component(name: &str) -> Result<()> {
    add(name, &own(name)?)
}

/// Adds the libraries for another processor to the toolchain that runs cargo.
pub fn add_target(name: &str) -> Result<()> {
    let arguments = ["target", "add", name, "--toolchain", &own(name)?];
    cmd::run_within(cmd::command("rustup").args(arguments), LIMIT)
}

/// The toolchain that runs cargo, which is to get `name`.
fn own(name: &str) -> Result<String> {
    let toolchain = env::var("RUSTUP_TOOLCHAIN").with_context(|| {
        format!("install `{name}` from where this Rust came from: it is not rustup's")
    })?;
    require()?;
    Ok(toolchain)
}

fn add(name: &str, toolchain: &str) -> Result<()> {
    let arguments = ["component", "add", name, "--toolchain", toolchain];
    cmd::run_within(cmd::command("rustup").args(arguments), LIMIT)
}

fn require() -> Result<()> {
    if toolchain::on_path("rustup").next().is_none() {
        bail!("no `rustup` on PATH");
    }
    Ok(())
}
