//! Versions of Python that are newer than the distribution's: Debian's own packages of its next release, unpacked below the
//! target directory with the libraries that they need. They run there; nothing of the system changes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::{cmd, run, toolchain};

use super::apt;

/// Minor versions of Python 3.
pub const VERSIONS: [u32; 2] = [14, 15];
/// The release that has them.
const RELEASE: &str = "forky";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What Python's own packages are linked with.
const LIBRARIES: [&str; 9] = [
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libssl3t64",
    "libzstd1",
    "zlib1g",
];

/// What is missing.
pub fn lack() -> Option<String> {
    let root = directory().ok()?;
    let mut programs = VERSIONS.iter().map(|minor| program(&root, *minor));
    let missing = programs.find(|program| !program.is_file())?;
    Some(format!("no {}", missing.display()))
}

/// Fetches, checks and unpacks them.
pub fn install() -> Result<()> {
    ensure!(
        toolchain::on_path("apt-get").next().is_some() && Path::new(KEYS).is_file(),
        "only Debian's packages are known: put the programs of Python 3.14 and 3.15 to {}",
        directory()?.join("usr/bin").display()
    );
    let root = directory()?;
    let archive = archive()?;
    let work = root.with_extension("work");
    for part in ["lists/partial", "cache/archives/partial", "packages"] {
        fs::create_dir_all(work.join(part))?;
    }
    let sources = work.join("sources.list");
    fs::write(
        &sources,
        format!("deb [signed-by={KEYS}] {archive} {RELEASE} main\n"),
    )?;
    let call = |arguments: &[String]| {
        let mut apt = cmd::command("apt-get");
        apt.current_dir(work.join("packages")).arg("-qq");
        for (option, path) in [
            ("Dir::Etc::sourcelist", &sources),
            ("Dir::State::lists", &work.join("lists")),
            ("Dir::Cache", &work.join("cache")),
        ] {
            apt.arg("-o").arg(format!("{option}={}", path.display()));
        }
        // Neither other sources, nor a user without a right to this directory.
        apt.args([
            "-o",
            "Dir::Etc::sourceparts=-",
            "-o",
            "APT::Sandbox::User=root",
        ]);
        cmd::run(apt.args(arguments))
    };
    call(&["update".into()]).with_context(|| format!("the packages of Debian {RELEASE}"))?;
    let mut names = vec!["download".to_owned()];
    for minor in VERSIONS {
        let parts = [
            "python3.{}-minimal",
            "libpython3.{}-minimal",
            "libpython3.{}-stdlib",
        ];
        names.extend(parts.map(|part| part.replace("{}", &minor.to_string())));
    }
    names.extend(LIBRARIES.map(Into::into));
    call(&names)?;
    for package in fs::read_dir(work.join("packages"))? {
        let mut unpack = cmd::command("dpkg-deb");
        cmd::run(unpack.arg("-x").arg(package?.path()).arg(&root))?;
    }
    fs::remove_dir_all(&work)?;
    VERSIONS.iter().try_for_each(|minor| link(&root, *minor))
}

/// Where apt has the packages of this release from.
fn archive() -> Result<String> {
    let find = || {
        let mut apt = cmd::command("apt-get");
        apt.args(["indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"]);
        let targets = cmd::stdout_of(&mut apt)?;
        let mut lines = targets.lines();
        let found = lines.find_map(|line| line.strip_prefix("Debian Debian ").map(Into::into));
        found.context("apt has no source of Debian's packages")
    };
    find().or_else(|_: anyhow::Error| {
        apt::update();
        find()
    })
}

/// Has a program loaded with the libraries that lie with it.
fn link(root: &Path, minor: u32) -> Result<()> {
    let program = program(root, minor);
    let unpacked = program.with_extension("unpacked");
    fs::rename(&program, &unpacked)?;
    let libraries = libraries(root)?;
    let loader = fs::read_dir(&libraries)?
        .filter_map(|file| Some(file.ok()?.path()))
        .find(|file| {
            file.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
        })
        .context("libc6 has no loader")?;
    let mut patch = cmd::command("patchelf");
    patch.arg("--set-interpreter").arg(loader);
    patch.args(["--force-rpath", "--set-rpath"]).arg(libraries);
    cmd::run(patch.arg(&unpacked))?;
    cmd::run(cmd::command(&unpacked).args(["-c", "import json, threading, pathlib"]))?;
    // The last step: what is there under its name is complete.
    fs::rename(&unpacked, &program)?;
    Ok(())
}

/// The directory of libraries, which is named after the processor.
fn libraries(root: &Path) -> Result<PathBuf> {
    let parts = fs::read_dir(root.join("usr/lib"))?;
    let mut parts = parts.filter_map(|part| Some(part.ok()?.path()));
    let found = parts.find(|part| part.to_string_lossy().ends_with("-linux-gnu"));
    found.context("the packages have no libraries")
}

fn program(root: &Path, minor: u32) -> PathBuf {
    root.join("usr/bin").join(format!("python3.{minor}"))
}

fn directory() -> Result<PathBuf> {
    Ok(run::target_dir()?.join("python/debian"))
}
