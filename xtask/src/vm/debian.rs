//! A small Debian with the packages of iotrace, which boots with systemd and runs checks.
//!
//! A systemd unit runs a script that does the checks and reports them as `init.sh` does. Then the machine turns itself off.

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

const UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/root/checks
StandardOutput=journal+console
ExecStopPost=/usr/bin/systemctl --no-block poweroff
[Install]
WantedBy=graphical.target
";
const SUITE: &str = "bookworm";
/// How long one check may take, in seconds. All is emulated.
const LIMIT: u32 = 900;

/// What is installed in addition to the packages, and what is checked.
pub struct Debian {
    /// What is checked, for messages and the names of files.
    pub name: &'static str,
    /// Debian's packages in addition to those that every Debian has.
    pub included: &'static str,
    /// Modules of the kernel, in the order in which they load.
    pub modules: &'static [&'static str],
    pub script: &'static str,
    /// The names of what the script checks.
    pub checks: Vec<String>,
    /// Bytes of its disk.
    pub disk: u64,
}

impl Debian {
    /// Boots it; an error where a check failed. `built`: see [`dist::make`].
    pub fn run(
        &self,
        apt: &Apt,
        qemu: &Qemu,
        kernels: &[Packages],
        built: Option<&Path>,
    ) -> Result<()> {
        if !cmd::is_root()? {
            bail!("a Debian is installed with the owners of its files: run this as root");
        }
        let kernel = kernels.first().context("no kernel")?;
        let kernel = kernel.fetch(apt, self.modules)?;
        if kernel.modules.len() < self.modules.len() {
            bail!(
                "Linux {} has not all of these modules: {}",
                kernel.version,
                self.modules.join(", ")
            );
        }
        let work = apt.cache.join(self.name);
        let packages = dist::make(built, &work)?;
        let disk = self.disk(&work, &packages.debs, &kernel.modules)?;
        let jobs: Vec<Job> = self.checks.iter().map(|name| job(name)).collect();
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
        let (name, version) = (self.name, &kernel.version);
        if !not_passed.is_empty() {
            bail!(
                "{name} in Linux {version}: failed: {}; see {}",
                not_passed.join(", "),
                boot.console.display()
            );
        }
        println!(
            "{name} in Linux {version}: {} checks passed",
            outcomes.len()
        );
        Ok(())
    }

    /// The system in an archive, fetched once.
    fn archive(&self, work: &Path) -> Result<PathBuf> {
        let archive = work.join(format!("{SUITE}.tar"));
        if archive.exists() {
            return Ok(archive);
        }
        let new = work.join("new.tar");
        let mut make = cmd::command("mmdebstrap");
        make.args(["--variant=minbase", &format!("--include={}", self.included)]);
        make.arg("--aptopt=Acquire::Languages \"none\"");
        cmd::run(make.arg(SUITE).arg(&new))?;
        fs::rename(&new, &archive).with_context(|| format!("cannot name {}", archive.display()))?;
        Ok(archive)
    }

    /// A disk with that system, the packages installed by its dpkg, which makes sure of the dependencies, the modules and the
    /// script.
    fn disk(&self, work: &Path, packages: &[PathBuf; 2], modules: &[PathBuf]) -> Result<PathBuf> {
        let root = work.join("root");
        if root.exists() {
            fs::remove_dir_all(&root)
                .with_context(|| format!("cannot remove {}", root.display()))?;
        }
        fs::create_dir_all(&root)?;
        let mut unpack = cmd::command("tar");
        unpack
            .args(["--numeric-owner", "-xf"])
            .arg(self.archive(work)?);
        cmd::run(unpack.arg("-C").arg(&root))?;
        let places = ["root/iotrace.deb", "root/iotrace-daemon.deb"];
        for (package, place) in packages.iter().zip(places) {
            fs::copy(package, root.join(place)).context("cannot copy a package")?;
        }
        let mut install = cmd::command("chroot");
        install.arg(&root).args(["dpkg", "--install"]);
        cmd::run(install.args(places.map(|place| format!("/{place}"))))?;
        let place = root.join("root/modules");
        fs::create_dir(&place).context("cannot make the directory of the modules")?;
        for (index, module) in modules.iter().enumerate() {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            fs::copy(module, place.join(format!("{index}-{name}")))
                .context("cannot copy a module")?;
        }
        let script = root.join("root/checks");
        fs::write(&script, self.script).context("cannot write the script")?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        fs::write(root.join("etc/systemd/system/check.service"), UNIT)
            .context("cannot write it")?;
        let mut enable = cmd::command("chroot");
        enable
            .arg(&root)
            .args(["systemctl", "enable", "check.service"]);
        cmd::run(&mut enable)?;
        let disk = work.join("disk.img");
        let file = fs::File::create(&disk).context("cannot make a disk")?;
        file.set_len(self.disk).context("cannot size a disk")?;
        let mut mkfs = cmd::command("mkfs.ext4");
        cmd::run(mkfs.arg("-q").arg("-d").arg(&root).arg(&disk))?;
        fs::remove_dir_all(&root).context("cannot remove what is on the disk")?;
        Ok(disk)
    }
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
