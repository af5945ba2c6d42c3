//! The Debian packages, by dpkg-deb.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cmd;

use super::tree::{self, Family, Part};
use super::{Built, REVISION, SPLIT, VERSION, source_date};

/// Scripts of the packages themselves.
const fn scripts(part: Part) -> &'static [&'static str] {
    match part {
        Part::Program => &["preinst"],
        Part::Service => &["postinst", "prerm", "postrm"],
    }
}

/// Makes the packages, that of the program first.
pub fn packages(built: &Built, work: &Path, output: &Path) -> Result<[PathBuf; 2]> {
    let make = |part: Part| {
        let stage = work.join("debian-stage").join(part.name());
        tree::remove(&stage)?;
        tree::lay_out(built, work, &stage, Family::Debian, part)?;
        package(part, &stage, work, output)
    };
    let [program, service] = Part::ALL;
    Ok([make(program)?, make(service)?])
}

/// Makes the package of the files in `stage`.
fn package(part: Part, stage: &Path, work: &Path, output: &Path) -> Result<PathBuf> {
    let name = part.name();
    let deploy = cmd::root().join("deploy/debian");
    let documents = stage.join("usr/share/doc").join(name);
    tree::install(
        &deploy.join("copyright"),
        &documents.join("copyright"),
        0o644,
    )?;
    let changes = documents.join("changelog.Debian");
    tree::write(&changes, &changelog()?)?;
    tree::compress(&changes)?;
    let about = stage.join("DEBIAN");
    fs::create_dir_all(&about)?;
    let deploy = deploy.join(name);
    for script in scripts(part) {
        tree::install(&deploy.join(script), &about.join(script), 0o755)?;
    }
    let machine = cmd::stdout_of(cmd::command("dpkg").arg("--print-architecture"))?;
    let (architecture, libraries) = match part {
        Part::Program => (machine.trim(), libraries(stage, work)?),
        Part::Service => {
            tree::write(&about.join("conffiles"), "/etc/iotrace/iotrace.toml\n")?;
            ("all", String::new())
        }
    };
    let template = deploy.join("control");
    let control = fs::read_to_string(&template).with_context(|| template.display().to_string())?;
    let version = format!("{VERSION}-{REVISION}");
    let control = control
        .replace("@VERSION@", &version)
        .replace("@SPLIT@", SPLIT)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@DEPENDS@", &libraries)
        .replace("@SIZE@", &kibibytes(stage)?.to_string());
    tree::write(&about.join("control"), &control)?;
    let package = output.join(format!("{name}_{version}_{architecture}.deb"));
    let mut build = cmd::command("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Zxz"]);
    build.env("SOURCE_DATE_EPOCH", source_date());
    cmd::run(build.arg(stage).arg(&package))?;
    Ok(package)
}

/// The packages of the libraries that the binary is linked with, by the versions of the symbols that it uses.
fn libraries(stage: &Path, work: &Path) -> Result<String> {
    // dpkg-shlibdeps wants to be in a source package.
    let debian = work.join("debian");
    fs::create_dir_all(&debian)?;
    tree::write(&debian.join("control"), "Source: iotrace\n")?;
    let mut ask = cmd::command("dpkg-shlibdeps");
    ask.current_dir(work)
        .args(["-O", "-e"])
        .arg(stage.join("usr/bin/iotrace"));
    let said = cmd::stdout_of(&mut ask)?;
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(line
        .context("dpkg-shlibdeps names no dependency")?
        .to_owned())
}

fn changelog() -> Result<String> {
    let mut date = cmd::command("date");
    date.args(["--utc", "--rfc-email", "--date"]);
    let date = cmd::stdout_of(date.arg(format!("@{}", source_date())))?;
    Ok(format!(
        "iotrace ({VERSION}-{REVISION}) stable; urgency=medium\n\n  * Release {VERSION}.\n\n \
         -- The iotrace developers <iotrace@localhost>  {date}"
    ))
}

/// What the files take on a disk, as policy 5.6.20 counts it.
fn kibibytes(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let data = entry.metadata()?;
        sum += if data.is_dir() {
            1 + kibibytes(&entry.path())?
        } else {
            data.size().div_ceil(1024)
        };
    }
    Ok(sum)
}
