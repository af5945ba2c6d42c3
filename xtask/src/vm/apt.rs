//! Debian's packages, of suites that this machine may not be set up for.
//!
//! The view has its own configuration, lists and archives in the cache; the machine's own sources
//! are read, for the address of its mirror, and left as they are. apt checks every file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};

use crate::cmd;

use super::arch::Arch;

/// Suites that have kernels, oldest first, and what bookworm's QEMU is replaced by.
const SUITES: [&str; 5] = [
    "bullseye",
    "bookworm",
    "bookworm-backports",
    "trixie",
    "trixie-backports",
];
/// Security updates, from the machine's mirror of them, if it has one.
const SECURITY_SUITES: [&str; 2] = ["bookworm-security", "trixie-security"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// How old the lists may get: mirrors drop packages, and new kernels come.
const LISTS_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The view.
#[derive(Clone)]
pub struct Apt {
    pub cache: PathBuf,
    config: PathBuf,
}

impl Apt {
    /// Writes the configuration, and fetches the lists where they are old. Each architecture has a cache of its own.
    pub fn prepare(cache: &Path, arch: Arch) -> Result<Self> {
        if !Path::new(KEYRING).exists() {
            bail!("no {KEYRING}: install Debian's package debian-archive-keyring");
        }
        let top = cache.join("apt");
        for dir in ["lists/partial", "archives/partial", "empty"] {
            make_dir(&top.join(dir))?;
        }
        let config = top.join("apt.conf");
        let apt = Self {
            cache: cache.to_owned(),
            config,
        };
        let sources = sources()?;
        let list = top.join("sources.list");
        let known = fs::read_to_string(&list).is_ok_and(|text| text == sources);
        write(&list, &sources)?;
        write(&apt.config, &configuration(&top, arch))?;
        let stamp = top.join("updated");
        if !known || age(&stamp).is_none_or(|age| age > LISTS_LIMIT) {
            cmd::run(apt.command("apt-get").args(["--quiet=2", "update"]))?;
            write(&stamp, "")?;
        }
        Ok(apt)
    }

    /// The names of packages that match a regular expression.
    pub fn names(&self, pattern: &str) -> Result<Vec<String>> {
        let search = ["search", "--names-only", pattern];
        let text = cmd::stdout_of(self.command("apt-cache").args(search))?;
        let names = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }

    /// The directory that holds the files of these packages; `PACKAGE/SUITE` names one's suite.
    pub fn unpacked(&self, name: &str, packages: &[String]) -> Result<PathBuf> {
        // The machines that come up at a time ask for the same packages.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.cache.join(name);
        if directory.exists() {
            return Ok(directory);
        }
        let (archives, files) = (self.cache.join("download"), self.cache.join("unpacked"));
        for dir in [&archives, &files] {
            remove_dir(dir)?;
            make_dir(dir)?;
        }
        let mut download = self.command("apt-get");
        download.args(["--quiet=2", "download"]).args(packages);
        cmd::run(download.current_dir(&archives))?;
        let entries = fs::read_dir(&archives)
            .with_context(|| format!("cannot read {}", archives.display()))?;
        for entry in entries {
            let mut unpack = cmd::command("dpkg-deb");
            cmd::run(unpack.arg("--extract").arg(entry?.path()).arg(&files))?;
        }
        // Only what is whole gets its name.
        fs::rename(&files, &directory)
            .with_context(|| format!("cannot name {}", directory.display()))?;
        remove_dir(&archives)?;
        Ok(directory)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = cmd::command(program);
        command.env("APT_CONFIG", &self.config);
        command
    }
}

/// The sources, at the mirrors that this machine uses.
fn sources() -> Result<String> {
    let format = "$(ORIGIN)|$(LABEL)|$(REPO_URI)";
    let targets = ["indextargets", "--format", format, "Created-By: Packages"];
    let text = cmd::stdout_of(cmd::command("apt-get").args(targets))?;
    let mirror = |label: &str| {
        let prefix = format!("Debian|{label}|");
        text.lines()
            .find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
    };
    let main = mirror("Debian").context(
        "apt on this machine names no mirror of Debian, where the kernels come from: add one to \
         its sources, and run `apt-get update`",
    )?;
    let line =
        |mirror: &str, suite: &str| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
    let mut lines: String = SUITES.iter().map(|suite| line(&main, suite)).collect();
    if let Some(security) = mirror("Debian-Security") {
        lines.extend(SECURITY_SUITES.iter().map(|suite| line(&security, suite)));
    }
    Ok(lines)
}

fn configuration(top: &Path, arch: Arch) -> String {
    let (top, arch) = (top.display(), arch.debian());
    format!(
        "Dir::Etc::sourcelist \"{top}/sources.list\";\n\
         Dir::Etc::sourceparts \"{top}/empty\";\n\
         Dir::Etc::preferences \"{top}/none\";\n\
         Dir::Etc::preferencesparts \"{top}/empty\";\n\
         Dir::State::lists \"{top}/lists\";\n\
         Dir::Cache::archives \"{top}/archives\";\n\
         Dir::Cache::pkgcache \"\";\n\
         Dir::Cache::srcpkgcache \"\";\n\
         APT::Architecture \"{arch}\";\n\
         APT::Architectures \"{arch}\";\n\
         APT::Sandbox::User \"\";\n\
         Acquire::Languages \"none\";\n"
    )
}

fn age(file: &Path) -> Option<Duration> {
    let changed = fs::metadata(file).and_then(|data| data.modified()).ok()?;
    SystemTime::now().duration_since(changed).ok()
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))
}

fn remove_dir(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(())
}
