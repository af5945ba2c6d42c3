//! The Python package `iotrace`, as a wheel.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cmd;

use super::{VERSION, source_date, tree};

/// Makes the wheel of a copy of the package: building leaves files in it.
pub fn make(work: &Path, output: &Path) -> Result<PathBuf> {
    let source = work.join("python");
    tree::remove(&source)?;
    tree::install_all(&cmd::root().join("python"), &source)?;
    let mut pip = cmd::command(interpreter()?);
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps"]);
    pip.args(["--no-build-isolation", "--wheel-dir"])
        .arg(output);
    pip.env("SOURCE_DATE_EPOCH", source_date());
    cmd::run(pip.arg(&source))?;
    let wheel = output.join(format!("iotrace-{VERSION}-py3-none-any.whl"));
    let made = wheel.is_file().then_some(wheel);
    made.context("python/pyproject.toml has another version than the workspace: make them the same")
}

/// The interpreter of the environment that has what builds it: below the target directory, which this program or its test is in.
fn interpreter() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program's own file")?;
    let mut places = own
        .ancestors()
        .map(|place| place.join("python/wheel/bin/python"));
    let found = places.find(|place| place.exists());
    found.context("run `cargo xtask setup`, which makes the environment that builds the wheel")
}
