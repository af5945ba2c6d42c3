//! `cargo xtask dist`: the packages of iotrace, for Debian's kin by dpkg-deb and for Red Hat's by rpmbuild, and archives of
//! static programs.
//!
//! - [`tree`]: the files of a package, where they go
//! - [`notices`]: the licences of what the binary contains
//! - [`deb`], [`rpm`]: the packages themselves
//! - [`archive`]: static programs with all that a user needs, checksums, the list of what is compiled in
//! - [`wheel`]: the Python package of marks and callbacks
//!
//! The package is `iotrace-daemon`, because another program has the name `iotrace` (a block tracer of Open CAS), whose
//! binary is at the same place: the two conflict, and neither provides the other.

mod archive;
mod deb;
mod notices;
mod rpm;
#[cfg(test)]
mod tests;
mod tree;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::setup::{self, Purpose};
use crate::{cmd, run};

/// Options of the task.
#[derive(clap::Args)]
pub struct Options {
    /// Make only the packages, of what cargo built in this directory.
    #[arg(long, value_name = "DIR")]
    built: Option<PathBuf>,
    /// Where the packages go [default: dist/ in the target directory]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

const NAME: &str = "iotrace-daemon";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds the packages and archives; says where they are.
pub fn task(options: &Options) -> Result<()> {
    let output = match &options.output {
        Some(output) => output.clone(),
        None => run::target_dir()?.join("dist"),
    };
    let mut made = make(options.built.as_deref(), &output)?.to_vec();
    // What is built already is linked with the libraries of this machine.
    if options.built.is_none() {
        setup::ensure(&[Purpose::Archive])?;
        made.extend(archive::make(&output)?);
    }
    for file in made {
        println!("{}", file.display());
    }
    Ok(())
}

/// Builds, unless that is done, and makes the packages in `output`: deb and rpm.
pub fn make(built: Option<&Path>, output: &Path) -> Result<[PathBuf; 2]> {
    setup::ensure(&[Purpose::Build, Purpose::Dist])?;
    let built = match built {
        Some(built) => built.to_owned(),
        None => build()?,
    };
    packages(&Built::of(&built), output)
}

/// What cargo built.
struct Built {
    iotrace: PathBuf,
    /// Prints manual pages and completions: `iotrace`, where it runs here.
    generate: PathBuf,
}

impl Built {
    fn of(directory: &Path) -> Self {
        Self {
            iotrace: directory.join("iotrace"),
            generate: directory.join("iotrace"),
        }
    }
}

/// Builds the program with optimizations; where it is.
fn build() -> Result<PathBuf> {
    let mut build = cmd::cargo();
    build.args(["build", "--locked", "--release"]);
    cmd::run(build.args(["--package", NAME, "--bin", "iotrace"]))?;
    Ok(run::target_dir()?.join("release"))
}

/// Makes both packages in `output`.
fn packages(built: &Built, output: &Path) -> Result<[PathBuf; 2]> {
    fs::create_dir_all(output).with_context(|| format!("cannot make {}", output.display()))?;
    let output = output.canonicalize().context("where packages go")?;
    let work = output.join("work");
    let stage = |family| tree::lay_out(built, &work, family);
    let packages = [
        deb::package(&stage(tree::Family::Debian)?, &work, &output)?,
        rpm::package(&stage(tree::Family::RedHat)?, &work, &output)?,
    ];
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    Ok(packages)
}

/// Seconds since 1970 of the commit, so that the same source makes the same packages; of now where git is not asked.
fn source_date() -> String {
    let commit = cmd::stdout_of(cmd::command("git").args(["log", "-1", "--format=%ct"]));
    commit.map_or_else(
        |_| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |now| now.as_secs()).to_string()
        },
        |text| text.trim().to_owned(),
    )
}
