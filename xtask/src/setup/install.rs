//! Installs tools, each by the road of its kind.

use anyhow::{Context as _, Error, Result, anyhow, bail};

use crate::cmd;
use crate::toolchain::{Origin, RUSTC_VARIABLE, RUSTUP_TOOLCHAIN, Toolchain};

use super::table::Kind;
use super::{apt, bpf_linker, helm, interpreters, python, rustup};

/// Debian's newest compiler, kept up for its browsers, with cargo and the library sources.
const COMPILER_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// The clippy of that compiler.
const CLIPPY_PACKAGE: &str = "rust-web-clippy";

/// Installs them all: first the distribution's packages, in one call, then the others in order.
pub fn install(kinds: &[Kind]) -> Result<()> {
    let packages: Vec<_> = kinds.iter().filter_map(|kind| kind.package()).collect();
    if !packages.is_empty() {
        apt::install(&packages)?;
    }
    for kind in kinds {
        one(*kind).with_context(|| format!("cannot install {}", kind.name()))?;
    }
    Ok(())
}

fn one(kind: Kind) -> Result<()> {
    match kind {
        Kind::Command { .. } | Kind::Package(_) => Ok(()), // its package is installed
        Kind::Component { name, .. } => rustup::add_component(name),
        Kind::Target(name) => rustup::add_target(name),
        Kind::Crate { name, version } => program(name, version),
        Kind::PythonEnvironment { name, packages } => python::install(name, packages),
        Kind::Interpreters => interpreters::install(),
        Kind::Helm => helm::install(),
        Kind::KernelCompiler => kernel_compiler(),
        Kind::KernelClippy => kernel_clippy(),
        Kind::BpfLinker => bpf_linker::install(&found()?),
    }
}

/// Builds a program from crates.io. It runs for seconds, so it is compiled fast rather than well.
fn program(name: &str, version: &str) -> Result<()> {
    let mut install = cmd::cargo();
    install.args(["install", "--locked", "--force", name, "--version", version]);
    install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    install.env("CARGO_PROFILE_RELEASE_LTO", "off");
    install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    install.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cmd::run(&mut install)
}

/// The kernel crate's compiler, which must be there by now.
fn found() -> Result<Toolchain> {
    Toolchain::find(env!("CARGO_PKG_RUST_VERSION")).map_err(Error::msg)
}

/// rustup's nightly, or the distribution's compiler where rustup has none to give.
fn kernel_compiler() -> Result<()> {
    if std::env::var_os(RUSTC_VARIABLE).is_some() {
        bail!(
            "{:#}; unset {RUSTC_VARIABLE} to have one installed",
            found().unwrap_err()
        );
    }
    let by_rustup = rustup::install_nightly().and_then(|()| found());
    let Err(why) = by_rustup else { return Ok(()) };
    eprintln!("setup: rustup gives no compiler for the kernel crate: {why:#}; trying packages");
    apt::install(&COMPILER_PACKAGES).and_then(|()| found()).map(drop).map_err(|error| {
        anyhow!(
            "{error:#}; install `{RUSTUP_TOOLCHAIN}` with its component `rust-src` by rustup, or \
             any rustc {} or newer with its library sources, and name it in {RUSTC_VARIABLE}",
            env!("CARGO_PKG_RUST_VERSION")
        )
    })
}

/// Clippy is part of a compiler's release, so it comes from where the compiler came from.
fn kernel_clippy() -> Result<()> {
    let toolchain = found()?;
    match toolchain.origin {
        Origin::Rustup => rustup::add_nightly_component("clippy"),
        Origin::Path => apt::install(&[CLIPPY_PACKAGE]),
        Origin::Variable => bail!("install the clippy that belongs to {toolchain}"),
    }
}
