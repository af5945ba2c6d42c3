//! `cargo xtask setup`: installs what the tasks need and this machine lacks.
//!
//! [`table`] says what and why, [`detect`] looks for it, and [`install`] gets it. Looking is quick,
//! so every task does it first; nothing else happens while nothing is missing.

mod apt;
mod bpf_linker;
mod detect;
mod helm;
mod install;
mod interpreters;
mod python;
mod rustup;
mod table;

use anyhow::{Result, bail};

use detect::Found;
pub use python::interpreter;
pub use table::FRAMEWORK_PACKAGES;
use table::{TOOLS, Tool};

/// What a tool is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Build,
    Test,
    /// Part of the tests.
    Fuzz,
    /// Tests that need no privilege and no BPF toolchain; all of it is among [`Purpose::Build`]'s and [`Purpose::Test`]'s.
    Fast,
    Lint,
    Dist,
    /// Not among [`ALL`]: static programs take a C library and a compiler for another processor.
    Archive,
    /// Not among [`ALL`]: virtual machines are much to install, and a task of their own.
    Vm,
    /// Nor is this: another processor in them.
    Arm64,
    /// Not among [`ALL`] either: frameworks are larger still.
    Demo,
    Pytorch,
    Keras,
    /// Nor these, with CUDA in them.
    Frameworks,
    /// For pictures of the documentation.
    Samples,
    /// To compare with, and nothing fails without them.
    Tracers,
}

const ALL: [Purpose; 5] = [
    Purpose::Build,
    Purpose::Test,
    Purpose::Fuzz,
    Purpose::Lint,
    Purpose::Dist,
];

/// Installs what is missing for any task.
pub fn all() -> Result<()> {
    ensure(&ALL)?;
    eprintln!("setup: nothing is missing");
    Ok(())
}

/// Names what is missing, with the reason it is needed; changes nothing.
pub fn check() -> Result<()> {
    let missing = missing(&ALL);
    for (tool, lack) in &missing {
        println!(
            "missing for {:?}: {}: {lack}; it {}",
            tool.purposes,
            tool.kind.name(),
            tool.why
        );
    }
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    bail!(
        "{} missing; `cargo xtask setup` installs them",
        missing.len()
    )
}

/// Installs what is missing for these purposes, and says what and why before it does.
pub fn ensure(purposes: &[Purpose]) -> Result<()> {
    let missing = missing(purposes);
    if missing.is_empty() {
        return Ok(());
    }
    for (tool, lack) in &missing {
        eprintln!(
            "setup: will install {}: {lack}; it {}",
            tool.kind.name(),
            tool.why
        );
    }
    let kinds: Vec<_> = missing.iter().map(|(tool, _)| tool.kind).collect();
    install::install(&kinds)?;
    eprintln!("setup: done");
    Ok(())
}

/// The tools that are missing, each with what was not found.
fn missing(purposes: &[Purpose]) -> Vec<(&'static Tool, String)> {
    let found = Found::look();
    let tools = TOOLS
        .iter()
        .filter(|tool| tool.purposes.iter().any(|one| purposes.contains(one)));
    tools
        .filter_map(|tool| found.lack(tool.kind).map(|lack| (tool, lack)))
        .collect()
}
