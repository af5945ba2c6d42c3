//! The interpreters that have a framework.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cmd;

/// The distribution's own, which its packages are for.
const SYSTEM: &str = "/usr/bin/python3";
/// What the virtual environment has, by `pip`'s names: builds for CPUs, of a tenth of the size of others.
const KERAS: [&str; 2] = ["keras==3.15.1", "tensorflow-cpu==2.21.0"];

/// An interpreter.
pub struct Python(PathBuf);

impl Python {
    /// The interpreter for a framework, made if it is not there.
    pub fn find(framework: &str, scratch: &Path) -> Result<Self> {
        let python = match framework {
            "keras" => environment(&scratch.join("keras-environment"))?,
            _ => PathBuf::from(SYSTEM),
        };
        if !python.is_file() {
            bail!(
                "no {}: the demonstration runs the distribution's own python3",
                python.display()
            );
        }
        Ok(Self(python))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A virtual environment with Keras in it.
fn environment(directory: &Path) -> Result<PathBuf> {
    let python = directory.join("bin/python");
    let done = directory.join("installed");
    let wanted = KERAS.join("\n");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let mut make = cmd::command(SYSTEM);
    cmd::run(make.args(["-m", "venv", "--clear"]).arg(directory))?;
    let mut install = cmd::command(&python);
    install.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]);
    cmd::run(install.args(KERAS)).context("cannot install Keras from the Python package index")?;
    fs::write(&done, wanted)?;
    Ok(python)
}
