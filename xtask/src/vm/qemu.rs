//! The machine.
//!
//! QEMU before 8 lets kernels die in every tenth boot, so a newer one is fetched where this machine's is older. Without
//! hardware to help, one thread emulates all CPUs: with more, kernels die while they change their own code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::cmd;
use crate::toolchain;

use super::apt::Apt;
use super::arch::Arch;
use super::kernels::Kernel;
use super::plan::Machine;

/// The first major release that boots kernels reliably.
const RELIABLE: u32 = 8;
/// The suite that has one for the machine whose own is too old, and the codename of that machine's.
const BACKPORTS: (&str, &str) = ("bookworm", "bookworm-backports");
/// The directory for them, and the packages.
const fn packages(arch: Arch) -> (&'static str, [&'static str; 4]) {
    let (name, system) = match arch {
        Arch::Amd64 => ("qemu", "qemu-system-x86"),
        Arch::Arm64 => ("qemu-arm64", "qemu-system-arm"),
    };
    let common = ["qemu-system-common", "qemu-system-data", "seabios"];
    (name, [system, common[0], common[1], common[2]])
}
const MEMORY: &str = "2048";
/// Disks: the filesystem of each, and its size.
const DISKS: [(&str, u64); 2] = [("ext4", 1 << 30), ("xfs", 320 << 20)];

/// A QEMU that boots kernels reliably, and how it runs a guest's instructions.
#[derive(Clone)]
pub struct Qemu {
    pub arch: Arch,
    program: PathBuf,
    /// Where its firmware is, if not where it looks.
    firmware: Vec<PathBuf>,
    disks: Vec<PathBuf>,
    accelerator: &'static str,
}

/// What to boot.
pub struct Boot<'a> {
    pub kernel: &'a Kernel,
    pub machine: &'a Machine,
    pub system: System<'a>,
    pub append: &'a str,
    /// Where what the machine prints goes, but for what it says of the tests.
    pub console: PathBuf,
}

impl Boot<'_> {
    /// What it is called while it runs.
    pub fn label(&self) -> String {
        let Kernel { release, arch, .. } = self.kernel;
        format!("Linux {release}{arch}, {}", self.machine.name)
    }
}

/// What the machine's first process is in.
#[derive(Clone, Copy)]
pub enum System<'a> {
    /// An archive, and disks beside it.
    Archive(&'a Path),
    /// A disk of its own, whose contents the machine may change; it may start again.
    Disk(&'a Path),
}

/// This machine's QEMU, or a newer one.
pub fn find(apt: &Apt, arch: Arch) -> Result<Qemu> {
    let own = toolchain::on_path(arch.qemu()).next();
    let disks = DISKS
        .iter()
        .map(|(kind, size)| disk(&apt.cache, kind, *size));
    let disks = disks.collect::<Result<_>>()?;
    let is_missing = own.is_none();
    let mut qemu = Qemu {
        arch,
        program: own.unwrap_or_else(|| arch.qemu().into()),
        firmware: vec![],
        disks,
        accelerator: accelerator(arch),
    };
    if is_missing || qemu.major()? < RELIABLE {
        qemu.fetch(apt)?;
    }
    Ok(qemu)
}

/// Emulated; see above.
const EMULATED: &str = "tcg,thread=single";
const HARDWARE: &str = "kvm";

/// The hardware's help, where its processors say that they have it: the device alone promises nothing.
fn accelerator(arch: Arch) -> &'static str {
    let device = fs::File::options().read(true).write(true).open("/dev/kvm");
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let helps = processors
        .split_whitespace()
        .any(|flag| matches!(flag, "vmx" | "svm"));
    if arch == Arch::Amd64 && device.is_ok() && helps {
        HARDWARE
    } else {
        EMULATED
    }
}

impl Qemu {
    fn major(&self) -> Result<u32> {
        let text = cmd::stdout_of(cmd::command(&self.program).arg("--version"))?;
        let number = text
            .split(' ')
            .find_map(|word| word.split('.').next()?.parse().ok());
        number.with_context(|| format!("{} does not say its version", self.program.display()))
    }

    fn fetch(&mut self, apt: &Apt) -> Result<()> {
        let (codename, suite) = BACKPORTS;
        let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
        if !system.contains(&format!("VERSION_CODENAME={codename}")) {
            bail!(
                "{} is not there, or older than {RELIABLE} and kernels die in it: install a newer QEMU",
                self.program.display()
            );
        }
        let (name, packages) = packages(self.arch);
        let packages = packages.map(|package| format!("{package}/{suite}"));
        let files = apt.unpacked(name, &packages)?;
        self.program = files.join("usr/bin").join(self.arch.qemu());
        self.firmware = ["usr/share/seabios", "usr/share/qemu"]
            .map(|at| files.join(at))
            .into();
        Ok(())
    }

    /// How many machines this one runs at a time: an emulated one takes one processor and is idle for a fifth of its
    /// time, others take as many as they have.
    pub fn at_once(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let machines = if self.accelerator == EMULATED {
            cpus * 3 / 2
        } else {
            cpus / 2
        };
        machines.max(1)
    }

    /// The same without the hardware's help.
    pub fn emulating(&self) -> Self {
        Self {
            accelerator: EMULATED,
            ..self.clone()
        }
    }

    /// The command that boots a machine. Its standard output is the machine's second serial line.
    pub fn command(&self, boot: &Boot<'_>) -> Command {
        let mut qemu = cmd::command(&self.program);
        for firmware in &self.firmware {
            qemu.arg("-L").arg(firmware);
        }
        let (board, emulated) = self.arch.board();
        let cpu = if self.accelerator == HARDWARE {
            "host"
        } else {
            emulated
        };
        qemu.args(["-machine", board, "-accel", self.accelerator, "-cpu", cpu]);
        qemu.args(["-smp", &boot.machine.cpus.to_string(), "-m", MEMORY]);
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none"]);
        qemu.arg("-serial")
            .arg(format!("file:{}", boot.console.display()));
        qemu.args(["-serial", "stdio"]);
        qemu.arg("-kernel").arg(&boot.kernel.image);
        let console = format!("console={} quiet panic=-1", self.arch.console());
        let mut words = vec![console.as_str(), boot.machine.append, boot.append];
        match boot.system {
            System::Archive(archive) => {
                qemu.args(["-no-reboot", "-initrd"]).arg(archive);
                for (number, disk) in self.disks.iter().enumerate() {
                    attach(&mut qemu, number, disk, "on");
                }
            }
            System::Disk(disk) => {
                words.push("root=/dev/nvme0n1 rw");
                attach(&mut qemu, 0, disk, "off");
            }
        }
        qemu.arg("-append").arg(words.join(" "));
        qemu.stdout(Stdio::piped());
        qemu
    }
}

/// Gives the machine a disk; `snapshot`: whether what it writes is thrown away.
fn attach(qemu: &mut Command, number: usize, disk: &Path, snapshot: &str) {
    let disk = disk.display();
    qemu.arg("-drive").arg(format!(
        "file={disk},format=raw,if=none,id=disk{number},snapshot={snapshot}"
    ));
    let device = format!("nvme,drive=disk{number},serial=disk{number}");
    qemu.arg("-device").arg(device);
}

/// A disk with a filesystem, which machines do not change: what they write is thrown away.
fn disk(cache: &Path, kind: &str, size: u64) -> Result<PathBuf> {
    let path = cache.join(format!("{kind}.img"));
    if path.exists() {
        return Ok(path);
    }
    let new = cache.join(format!("{kind}.new"));
    let file = fs::File::create(&new).with_context(|| format!("cannot make {}", new.display()))?;
    file.set_len(size)
        .with_context(|| format!("cannot size {}", new.display()))?;
    let program = format!("mkfs.{kind}");
    let mkfs = toolchain::on_path(&program).next();
    let mkfs = mkfs.with_context(|| format!("no `{program}` on PATH"))?;
    cmd::run(cmd::command(mkfs).arg("-q").arg(&new))?;
    fs::rename(&new, &path).with_context(|| format!("cannot name {}", path.display()))?;
    Ok(path)
}
