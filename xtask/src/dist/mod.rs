//! `cargo xtask dist`: the packages of iotrace, for Debian's kin by dpkg-deb and for Red Hat's by rpmbuild, and archives of
//! static programs.
//!
//! - [`tree`]: the files of a package, where they go
//! - [`notices`]: the licences of what the binary contains
//! - [`deb`], [`rpm`]: the packages themselves
//! - [`archive`]: static programs with all that a user needs, checksums, the list of what is compiled in
//! - [`wheel`]: the Python package of marks and callbacks
//!
//! `iotrace` is the program with its documents, `iotrace-daemon` the service. Another program has a package of the name
//! `iotrace`, too (a block tracer of Open CAS), whose binary is at the same place: that of Debian's kin refuses to replace it,
//! and rpm does not replace its versions by ours, which are lower.

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
use std::process::Command;

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

/// The crate of the program.
const CRATE: &str = "iotrace-daemon";
/// The profile in Cargo.toml.
const PROFILE: &str = "shipped";
const WITHOUT_EXTENSIONS: &str = "-USQLITE_ENABLE_DBSTAT_VTAB -USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS \
                                  -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE";
/// Revision of the packages of this version.
const REVISION: &str = "2";
/// The first version with two packages; `iotrace-daemon` was all of it before.
const SPLIT: &str = "0.1.0-2";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds the packages and archives; says where they are.
pub fn task(options: &Options) -> Result<()> {
    let output = match &options.output {
        Some(output) => output.clone(),
        None => run::target_dir()?.join("dist"),
    };
    let Packages { debs, rpms } = make(options.built.as_deref(), &output)?;
    let mut made: Vec<PathBuf> = debs.into_iter().chain(rpms).collect();
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

/// What was made for each kin of distributions: the program's package, and the service's.
pub struct Packages {
    pub debs: [PathBuf; 2],
    pub rpms: [PathBuf; 2],
}

/// Builds, unless that is done, and makes the packages in `output`.
pub fn make(built: Option<&Path>, output: &Path) -> Result<Packages> {
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

/// Builds the program; where it is.
fn build() -> Result<PathBuf> {
    cmd::run(&mut cargo_build())?;
    Ok(run::target_dir()?.join(PROFILE))
}

/// Builds the program as it is shipped.
fn cargo_build() -> Command {
    let mut build = cmd::cargo();
    build.args(["build", "--locked", "--profile", PROFILE]);
    build.args(["--package", CRATE, "--bin", "iotrace"]);
    // Extensions that no statement of `iotrace mcp` needs.
    build.env("LIBSQLITE3_FLAGS", WITHOUT_EXTENSIONS);
    build
}

/// Makes all packages in `output`.
fn packages(built: &Built, output: &Path) -> Result<Packages> {
    fs::create_dir_all(output).with_context(|| format!("cannot make {}", output.display()))?;
    let output = output.canonicalize().context("where packages go")?;
    let work = output.join("work");
    let packages = Packages {
        debs: deb::packages(built, &work, &output)?,
        rpms: rpm::packages(built, &work, &output)?,
    };
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
