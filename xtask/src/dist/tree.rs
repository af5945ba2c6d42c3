//! The files of a package, laid out as they will be on a machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cmd;

use super::{Built, notices};

/// The kin of distributions that a package is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Debian,
    RedHat,
}

/// A part of the product that has a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The program with its pages and documents.
    Program,
    /// What makes it a service.
    Service,
}

impl Part {
    pub const ALL: [Self; 2] = [Self::Program, Self::Service];

    /// Name of the package.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Program => "iotrace",
            Self::Service => "iotrace-daemon",
        }
    }
}

/// Files of the repository, where they go, their modes, and the part that has them.
const FILES: [(&str, &str, u32, Part); 14] = [
    (
        "deploy/systemd/iotrace.service",
        "usr/lib/systemd/system/iotrace.service",
        0o644,
        Part::Service,
    ),
    (
        "deploy/systemd/job-logs.conf",
        "usr/share/iotrace/systemd/job-logs.conf",
        0o644,
        Part::Service,
    ),
    (
        "deploy/systemd/iotrace.sysusers",
        "usr/lib/sysusers.d/iotrace.conf",
        0o644,
        Part::Service,
    ),
    (
        CONFIGURATION,
        "etc/iotrace/iotrace.toml",
        0o644,
        Part::Service,
    ),
    (
        "deploy/prometheus/rules.yml",
        "usr/share/iotrace/prometheus/rules.yml",
        0o644,
        Part::Service,
    ),
    (
        "deploy/prometheus/alerts.yml",
        "usr/share/iotrace/prometheus/alerts.yml",
        0o644,
        Part::Service,
    ),
    (
        "deploy/prometheus/scrape.yml",
        "usr/share/iotrace/prometheus/scrape.yml",
        0o644,
        Part::Service,
    ),
    (
        "deploy/grafana/iotrace.json",
        "usr/share/iotrace/grafana/iotrace.json",
        0o644,
        Part::Service,
    ),
    (
        "deploy/marker/iotrace.h",
        "usr/share/iotrace/marker/iotrace.h",
        0o644,
        Part::Program,
    ),
    (
        "deploy/marker/iotrace.c",
        "usr/share/iotrace/marker/iotrace.c",
        0o644,
        Part::Program,
    ),
    (
        "python/src/iotrace/__init__.py",
        "usr/share/iotrace/marker/iotrace.py",
        0o644,
        Part::Program,
    ),
    (
        "deploy/slurm/prolog",
        "usr/share/iotrace/slurm/prolog",
        0o755,
        Part::Service,
    ),
    (
        "deploy/slurm/epilog",
        "usr/share/iotrace/slurm/epilog",
        0o755,
        Part::Service,
    ),
    (
        "deploy/slurm/README.md",
        "usr/share/iotrace/slurm/README.md",
        0o644,
        Part::Service,
    ),
];
/// The one that its owner changes.
const CONFIGURATION: &str = "deploy/iotrace.toml";

const LICENCES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-GPL2", "LICENSE-MIT"];

/// The repository's files of a part, where they go, and their modes.
pub fn files(part: Part) -> impl Iterator<Item = (PathBuf, PathBuf, u32)> {
    let files = FILES.iter().filter(move |(.., of)| *of == part);
    files.map(|(from, to, mode, _)| (cmd::root().join(from), PathBuf::from(to), *mode))
}

/// Lays out the files of a part in `stage`.
pub fn lay_out(built: &Built, work: &Path, stage: &Path, family: Family, part: Part) -> Result<()> {
    for (from, to, mode) in files(part) {
        install(&from, &stage.join(to), mode)?;
    }
    match part {
        Part::Program => program(built, work, stage, family),
        Part::Service => Ok(()),
    }
}

/// Lays out the program, its pages, completions and documents.
fn program(built: &Built, work: &Path, stage: &Path, family: Family) -> Result<()> {
    let program = stage.join("usr/bin/iotrace");
    install(&built.iotrace, &program, 0o755)?;
    cmd::run(
        cmd::command("strip")
            .arg("--strip-unneeded")
            .args(["--remove-section=.comment", "--remove-section=.note"])
            .arg(&program),
    )?;
    let share = stage.join("usr/share");
    let zsh = match family {
        Family::Debian => "vendor-completions",
        Family::RedHat => "site-functions",
    };
    let completions = [
        ("bash", share.join("bash-completion/completions/iotrace")),
        ("zsh", share.join(format!("zsh/{zsh}/_iotrace"))),
        ("fish", share.join("fish/vendor_completions.d/iotrace.fish")),
    ];
    let pages = generated(built, work, &share.join("man/man1"), completions)?;
    pages.iter().try_for_each(|page| compress(page))?;
    documents(stage, family)
}

/// Lays out the files of an archive in `stage`, which is new. Its pages are not compressed: they are read where they are.
pub fn lay_out_archive(built: &Built, work: &Path, stage: &Path) -> Result<()> {
    install(&built.iotrace, &stage.join("iotrace"), 0o755)?;
    generated(
        built,
        work,
        &stage.join("man/man1"),
        [
            ("bash", stage.join("completions/iotrace.bash")),
            ("zsh", stage.join("completions/_iotrace")),
            ("fish", stage.join("completions/iotrace.fish")),
        ],
    )?;
    for file in FILES {
        let (from, _, mode, _) = file;
        install(&cmd::root().join(from), &stage.join(from), mode)?;
    }
    for file in LICENCES.iter().chain(&["README.md", "CHANGELOG.md"]) {
        install(&cmd::root().join(file), &stage.join(file), 0o644)?;
    }
    install_all(&cmd::root().join("docs"), &stage.join("docs"))?;
    write(&stage.join("NOTICES"), &notices::text()?)
}

/// Makes the manual pages, in `man`, and the completion of each shell; where the pages are.
fn generated(
    built: &Built,
    work: &Path,
    man: &Path,
    completions: [(&str, PathBuf); 3],
) -> Result<Vec<PathBuf>> {
    let made = work.join("generated");
    cmd::run(
        cmd::command(&built.generate)
            .args(["man", "--dir"])
            .arg(&made),
    )?;
    let mut pages = Vec::new();
    for page in list(&made)? {
        let to = man.join(name_of(&page));
        install(&page, &to, 0o644)?;
        pages.push(to);
    }
    for (shell, to) in completions {
        let text = cmd::stdout_of(cmd::command(&built.generate).args(["completions", shell]))?;
        let from = work.join(shell);
        write(&from, &text)?;
        install(&from, &to, 0o644)?;
    }
    Ok(pages)
}

/// The documents for users, and the licences.
fn documents(stage: &Path, family: Family) -> Result<()> {
    let name = Part::Program.name();
    let documents = stage.join("usr/share/doc").join(name);
    install_all(&cmd::root().join("docs"), &documents)?;
    let licences = match family {
        Family::Debian => documents, // with a file `copyright`, which names the common ones
        Family::RedHat => stage.join("usr/share/licenses").join(name),
    };
    let own: &[&str] = match family {
        Family::Debian => &[],
        Family::RedHat => &LICENCES,
    };
    for licence in own {
        install(&cmd::root().join(licence), &licences.join(licence), 0o644)?;
    }
    fs::create_dir_all(&licences)?;
    let notices = licences.join("NOTICES");
    write(&notices, &notices::text()?)?;
    fs::set_permissions(&notices, fs::Permissions::from_mode(0o644))?;
    compress(&notices)
}

/// Files of a directory, in order.
fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn name_of(path: &Path) -> &Path {
    path.file_name().unwrap_or_default().as_ref()
}

/// Copies a file; its directories are made for everybody to read.
pub fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Copies the files of a directory, and of the directories in it.
pub fn install_all(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => install_all(&entry.path(), &to)?,
            false => install(&entry.path(), &to, 0o644)?,
        }
    }
    Ok(())
}

/// By gzip, without name and time.
pub fn compress(file: &Path) -> Result<()> {
    let mut gzip = cmd::command("gzip");
    cmd::stdout_of(gzip.args(["-9", "-n", "-f"]).arg(file)).map(drop)
}

pub fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

pub fn remove(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("cannot empty {}", directory.display()))?;
    }
    Ok(())
}
