//! The interpreters that have a framework.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cmd;

/// The distribution's own, which its packages are for.
const SYSTEM: &str = "/usr/bin/python3";
/// What the virtual environment has, by `pip`'s names: builds for CPUs, of a tenth of the size of others.
const KERAS: &[&str] = &["keras==3.15.1", "tensorflow-cpu==2.21.0"];
/// What it has beside the distribution's PyTorch.
const TENSORS: &[&str] = &["safetensors==0.8.0"];

/// An interpreter.
pub struct Python(PathBuf);

impl Python {
    /// The interpreter for a framework, made if it is not there.
    pub fn find(framework: &str, scratch: &Path) -> Result<Self> {
        let python = match framework {
            "keras" => environment(&scratch.join("keras-environment"), KERAS, &[])?,
            "tensors" => {
                let directory = scratch.join("tensors-environment");
                environment(&directory, TENSORS, &["--system-site-packages"])?
            }
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

/// A virtual environment with these packages in it.
fn environment(directory: &Path, packages: &[&str], options: &[&str]) -> Result<PathBuf> {
    let python = directory.join("bin/python");
    let done = directory.join("installed");
    let wanted = packages.join("\n");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let mut make = cmd::command(SYSTEM);
    make.args(["-m", "venv", "--clear"]).args(options);
    cmd::run(make.arg(directory))?;
    let mut install = cmd::command(&python);
    install.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]);
    cmd::run(install.args(packages))
        .with_context(|| format!("cannot install {wanted} from the Python package index"))?;
    fs::write(&done, wanted)?;
    Ok(python)
}
