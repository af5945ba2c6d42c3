//! The Python package `iotrace`, as a wheel.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{cmd, run};

use super::{VERSION, source_date, tree};

/// Makes the wheel of a copy of the package: building leaves files in it.
pub fn make(work: &Path, output: &Path) -> Result<PathBuf> {
    let source = work.join("python");
    tree::remove(&source)?;
    tree::install_all(&cmd::root().join("python"), &source)?;
    let mut pip = cmd::command(run::target_dir()?.join("python/wheel/bin/python"));
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps"]);
    pip.args(["--no-build-isolation", "--wheel-dir"])
        .arg(output);
    pip.env("SOURCE_DATE_EPOCH", source_date());
    cmd::run(pip.arg(&source))?;
    let wheel = output.join(format!("iotrace-{VERSION}-py3-none-any.whl"));
    let made = wheel.is_file().then_some(wheel);
    made.context("python/pyproject.toml has another version than the workspace: make them the same")
}
