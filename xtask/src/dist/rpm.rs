//! The RPM packages, by rpmbuild.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cmd;

use super::tree::{self, Family, Part};
use super::{Built, REVISION, SPLIT, VERSION, source_date};

/// Makes the packages, that of the program first.
pub fn packages(built: &Built, work: &Path, output: &Path) -> Result<[PathBuf; 2]> {
    let stage = work.join("rpm-stage");
    tree::remove(&stage)?;
    for part in Part::ALL {
        tree::lay_out(built, work, &stage, Family::RedHat, part)?;
    }
    let top = work.join("rpmbuild");
    fs::create_dir_all(&top)?;
    let mut build = cmd::command("rpmbuild");
    build.args(["-bb", "--quiet", "--target", &format!("{ARCH}-linux")]);
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("_rpmdir", output.display().to_string()),
        (
            "_rpmfilename",
            "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm".into(),
        ),
        // Its own database: the machine's, which Debian has none of, says nothing about dependencies here.
        ("_dbpath", top.join("db").display().to_string()),
        ("_binary_payload", "w6.xzdio".into()),
        ("_buildhost", "localhost".into()),
        ("use_source_date_epoch_as_buildtime", "1".into()),
        ("clamp_mtime_to_source_date_epoch", "1".into()),
        ("iotrace_version", VERSION.into()),
        ("iotrace_release", REVISION.into()),
        ("iotrace_split", SPLIT.into()),
        ("iotrace_stage", stage.display().to_string()),
    ] {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    build.env("SOURCE_DATE_EPOCH", source_date());
    cmd::run(build.arg(cmd::root().join("deploy/rpm/iotrace.spec")))?;
    tree::remove(&top)?;
    let made = |part: Part, architecture: &str| {
        let name = part.name();
        let package = output.join(format!("{name}-{VERSION}-{REVISION}.{architecture}.rpm"));
        let made = package.is_file().then_some(package);
        made.context("rpmbuild made no package of the name that was asked for")
    };
    Ok([made(Part::Program, ARCH)?, made(Part::Service, "noarch")?])
}
