//! `cargo xtask build`: the workspace, and with it the kernel programs.

use anyhow::Result;

use crate::cmd;
use crate::setup::{self, Purpose};

/// Builds everything but the kernel crate by itself, which the daemon's build script builds.
pub fn task(release: bool) -> Result<()> {
    setup::ensure(&[Purpose::Build])?;
    let profile = release.then_some("--release");
    cmd::run(cmd::cargo().args(["build", "--locked"]).args(profile))
}
