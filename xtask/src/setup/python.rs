//! Virtual environments of Python's, in `python/NAME` below the target directory, where tests find them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::{cmd, run};

use super::apt;

/// The file that says what was installed.
const DONE: &str = "installed";

/// Packages that the index has as source alone: the first is Python and jars, the second a little C.
const SOURCE_ONLY: &str = "pyspark,recorder-utils";

/// What is missing: the environment, or packages of these versions in it.
pub fn lack(name: &str, packages: &[&str]) -> Option<String> {
    let done = directory(name).ok()?.join(DONE);
    let installed = fs::read_to_string(&done).unwrap_or_default();
    (installed != packages.join("\n"))
        .then(|| format!("no {} in {}", packages.join(" "), done.display()))
}

/// Makes the environment anew.
pub fn install(name: &str, packages: &[&str]) -> Result<()> {
    let directory = directory(name)?;
    let make = || {
        let mut make = cmd::command("python3");
        cmd::run(make.args(["-m", "venv", "--clear"]).arg(&directory))
    };
    // Debian's Python comes without the module.
    make().or_else(|_| apt::install(&["python3-venv"]).and_then(|()| make()))?;
    let mut install = cmd::command(interpreter(name)?);
    install.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]);
    install.args(["--no-binary", SOURCE_ONLY]);
    cmd::run(install.args(packages)).context("the Python package index did not give it")?;
    fs::write(directory.join(DONE), packages.join("\n"))
        .context("cannot write down what was installed")
}

/// The environment's interpreter.
pub fn interpreter(name: &str) -> Result<PathBuf> {
    Ok(directory(name)?.join("bin/python"))
}

fn directory(name: &str) -> Result<PathBuf> {
    Ok(run::target_dir()?.join("python").join(name))
}
