//! `cargo xtask vm --service`: the Debian packages in a small Debian that boots with systemd.
//!
//! `service.sh` says what is looked at; it runs in the machine as a unit of its own, speaks as `init.sh` does, and turns
//! the machine off.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{cmd, dist};

use super::apt::Apt;
use super::guest::{self, Verdict};
use super::kernels::Packages;
use super::plan::{Job, MACHINES};
use super::qemu::{Boot, Qemu, System};

const SCRIPT: &str = include_str!("service.sh");
const UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/root/service.sh
StandardOutput=journal+console
ExecStopPost=/usr/bin/systemctl --no-block poweroff
[Install]
WantedBy=graphical.target
";
const SUITE: &str = "bookworm";
/// What the script needs beside what every Debian has.
const INCLUDED: &str = "systemd-sysv,dbus,procps";
/// How long one check may take, in seconds. All is emulated.
const LIMIT: u32 = 900;
const DISK: u64 = 1 << 30;

/// Boots it; an error where a check failed.
pub fn run(apt: &Apt, qemu: &Qemu, kernels: &[Packages], built: Option<&Path>) -> Result<()> {
    if !cmd::is_root()? {
        bail!("a Debian is installed with the owners of its files: run this as root");
    }
    let kernel = kernels.first().context("no kernel")?.fetch(apt)?;
    let work = apt.cache.join("service");
    let packages = dist::make(built, &work)?;
    let disk = disk(&work, &system(&work)?, &packages.debs)?;
    let jobs: Vec<Job> = checks().map(job).collect();
    let boot = Boot {
        kernel: &kernel,
        machine: &MACHINES[0],
        system: System::Disk(&disk),
        append: "systemd.unit=graphical.target",
        console: work.join("console.log"),
    };
    let outcomes = guest::run(qemu, &boot, &jobs)?;
    let not_passed: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.verdict != Verdict::Passed)
        .map(|outcome| outcome.name.as_str())
        .collect();
    if !not_passed.is_empty() {
        bail!(
            "the service in Linux {} failed: {}; see {}",
            kernel.version,
            not_passed.join(", "),
            boot.console.display()
        );
    }
    println!(
        "the service in Linux {}: {} checks passed",
        kernel.version,
        outcomes.len()
    );
    Ok(())
}

/// The script's checks: its functions of this name.
fn checks() -> impl Iterator<Item = &'static str> {
    let lines = SCRIPT.lines();
    lines.filter_map(|line| line.strip_prefix("check_")?.strip_suffix("() {"))
}

fn job(name: &str) -> Job {
    Job {
        name: name.to_owned(),
        limit: LIMIT,
        is_test: false,
        exit_code: 0,
        command: String::new(),
    }
}

/// A Debian in an archive, fetched once.
fn system(work: &Path) -> Result<PathBuf> {
    let archive = work.join(format!("{SUITE}.tar"));
    if archive.exists() {
        return Ok(archive);
    }
    let new = work.join("new.tar");
    let mut make = cmd::command("mmdebstrap");
    make.args(["--variant=minbase", &format!("--include={INCLUDED}")]);
    make.arg("--aptopt=Acquire::Languages \"none\"");
    cmd::run(make.arg(SUITE).arg(&new))?;
    fs::rename(&new, &archive).with_context(|| format!("cannot name {}", archive.display()))?;
    Ok(archive)
}

/// A disk with that system, the packages installed by its dpkg, which makes sure of the dependencies, and the script.
fn disk(work: &Path, archive: &Path, packages: &[PathBuf; 2]) -> Result<PathBuf> {
    let root = work.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))?;
    }
    fs::create_dir_all(&root)?;
    let mut unpack = cmd::command("tar");
    unpack.args(["--numeric-owner", "-xf"]).arg(archive);
    cmd::run(unpack.arg("-C").arg(&root))?;
    let places = ["root/iotrace.deb", "root/iotrace-daemon.deb"];
    for (package, place) in packages.iter().zip(places) {
        fs::copy(package, root.join(place)).context("cannot copy a package")?;
    }
    let mut install = cmd::command("chroot");
    install.arg(&root).args(["dpkg", "--install"]);
    cmd::run(install.args(places.map(|place| format!("/{place}"))))?;
    let script = root.join("root/service.sh");
    fs::write(&script, SCRIPT).context("cannot write the script")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    fs::write(root.join("etc/systemd/system/check.service"), UNIT).context("cannot write it")?;
    let mut enable = cmd::command("chroot");
    enable
        .arg(&root)
        .args(["systemctl", "enable", "check.service"]);
    cmd::run(&mut enable)?;
    let disk = work.join("disk.img");
    let file = fs::File::create(&disk).context("cannot make a disk")?;
    file.set_len(DISK).context("cannot size a disk")?;
    let mut mkfs = cmd::command("mkfs.ext4");
    cmd::run(mkfs.arg("-q").arg("-d").arg(&root).arg(&disk))?;
    fs::remove_dir_all(&root).context("cannot remove what is on the disk")?;
    Ok(disk)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_script_has_checks() {
        assert!(super::checks().count() > 5);
    }
}
