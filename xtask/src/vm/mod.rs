//! `cargo xtask vm`: the tests that trace, on other kernels, each booted in a virtual machine.
//!
//! - [`arch`]: the processors of machines
//! - [`apt`]: Debian's packages through an apt view of our own, into `vmcache/`
//! - [`kernels`]: which kernels there are, and the files of one
//! - [`programs`]: iotrace and its tests, linked statically
//! - [`plan`]: which tests run, and in which machines
//! - [`initramfs`], `init.sh`: all that a machine has
//! - [`qemu`], [`guest`]: the machine, and what it says
//! - [`table`], [`kept`], [`docs`]: what came out, now and before
//! - [`self_check`]: whether they find what they must find
//! - [`debian`]: a small Debian with the packages, which runs checks
//! - [`service`], `service.sh`: the unit, run by its systemd
//! - [`power_cuts`], `power_cuts.py`: checkpoints saved on a logged disk
//!
//! A kernel that does not boot and a test that does not run are failures, never left out.

mod apt;
mod arch;
mod debian;
mod docs;
mod guest;
mod initramfs;
mod kept;
mod kernels;
mod plan;
mod power_cuts;
mod programs;
mod qemu;
mod self_check;
mod service;
mod table;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cmd;
use crate::setup::{self, Purpose};

use apt::Apt;
use arch::{ARM64_SUFFIX, Arch};
use guest::{Outcome, Verdict};
use kept::Kept;
use kernels::Kernel;
use plan::{Job, Machine, Plan};
use programs::Programs;
use qemu::{Boot, Qemu, System};
use table::Table;

#[derive(Args)]
pub struct Options {
    /// Kernels by release, `newest`, or `all` that the package lists have and one of arm64's; others of arm64 with
    /// `-arm64` behind it.
    #[arg(long, value_delimiter = ',', default_values = ["6.1", "6.12", "6.18", "newest"])]
    kernel: Vec<String>,
    /// Further kernel parameters.
    #[arg(long, default_value = "")]
    append: String,
    /// Write the table into docs/reference/kernel-support.md: of each kernel and test the last run, this one's or one before it.
    #[arg(long)]
    write_docs: bool,
    /// Make sure instead that what must not pass does not.
    #[arg(long, conflicts_with_all = ["kernel", "append", "write_docs", "tests"])]
    self_check: bool,
    /// Install the Debian package in a small Debian instead, on the first of the kernels, and see whether its systemd
    /// runs the service.
    #[arg(long, group = "debian", conflicts_with_all = ["self_check", "write_docs", "tests"])]
    service: bool,
    /// Cut the power of that Debian while PyTorch saves checkpoints instead, and see whether iotrace says which survive.
    #[arg(long, group = "debian", conflicts_with_all = ["self_check", "write_docs", "tests"])]
    power_cuts: bool,
    /// With `--service` or `--power-cuts`: package what cargo built in this directory, rather than building with optimizations.
    #[arg(long, value_name = "DIR", requires = "debian")]
    built: Option<PathBuf>,
    /// Only tests whose name, FILE::NAME, has one of these words in it.
    #[arg(last = true)]
    tests: Vec<String>,
}

/// Runs the chosen tests on the chosen kernels and prints the table of both.
pub fn task(options: &Options) -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!("the virtual machines are emulated or x86-64: run this on an x86-64 Linux");
    }
    setup::ensure(&[Purpose::Build, Purpose::Vm])?;
    let cache = cache()?;
    let apt = Apt::prepare(&cache, Arch::Amd64)?;
    let (own, arm64) = by_arch(&options.kernel);
    let kernels = kernels::choose(&apt, Arch::Amd64, own)?;
    let qemu = qemu::find(&apt, Arch::Amd64)?;
    let debian = match options {
        Options { service: true, .. } => Some(service::debian()),
        Options {
            power_cuts: true, ..
        } => Some(power_cuts::debian()?),
        _ => None,
    };
    if let Some(debian) = debian {
        return debian.run(&apt, &qemu, &kernels, options.built.as_deref());
    }
    if options.self_check {
        return self_check::run(&apt, &qemu, &programs::build(Arch::Amd64)?);
    }
    let mut fleets = Vec::new();
    if !kernels.is_empty() {
        let kernels: Result<_> = kernels
            .iter()
            .map(|kernel| kernel.fetch(&apt, &kernels::OF_TESTS))
            .collect();
        fleets.push(Fleet::new(&apt, qemu, kernels?)?);
    }
    if !arm64.is_empty() {
        fleets.push(Fleet::of_arm64(&apt, &arm64)?);
        // Of what runs in the machines a choice was made, of the unit tests none.
        if let (true, Some(emulator)) = (options.tests.is_empty(), Arch::Arm64.emulator()) {
            programs::unit_tests(Arch::Arm64, emulator)?;
        }
    }
    let kept = Kept::new(&cache);
    let mut table = Table::default();
    for fleet in &fleets {
        fleet.run(options, &kept, &mut table)?;
    }
    println!("\n{table}");
    if options.write_docs {
        docs::write(&kept.table()?)?;
    }
    table.verdict()
}

/// The release of arm64 that `all` has: Debian's stable one.
const ARM64_OF_ALL: &str = "6.12";

/// The words for x86-64 and those for arm64, whose ending is taken off.
fn by_arch(words: &[String]) -> (Vec<&str>, Vec<&str>) {
    let (mut own, mut arm64) = (Vec::new(), Vec::new());
    for word in words {
        match word.strip_suffix(ARM64_SUFFIX) {
            Some(word) => arm64.push(word),
            None => own.push(word.as_str()),
        }
        if word == "all" {
            arm64.push(ARM64_OF_ALL);
        }
    }
    (own, arm64)
}

/// The machines of one architecture.
struct Fleet {
    apt: Apt,
    qemu: Qemu,
    kernels: Vec<Kernel>,
    programs: Programs,
}

/// A machine that is to boot.
struct Guest<'a> {
    kernel: &'a Kernel,
    machine: &'static Machine,
    jobs: Vec<Job>,
    /// What it cannot do for want of modules.
    unable: Vec<Job>,
}

impl Fleet {
    fn new(apt: &Apt, qemu: Qemu, kernels: Vec<Kernel>) -> Result<Self> {
        let programs = programs::build(qemu.arch)?;
        let apt = apt.clone();
        Ok(Self {
            apt,
            qemu,
            kernels,
            programs,
        })
    }

    /// The machine's own packages bring the QEMU, and arm64's all that runs in it.
    fn of_arm64(own: &Apt, words: &[&str]) -> Result<Self> {
        setup::ensure(&[Purpose::Arm64])?;
        let qemu = qemu::find(own, Arch::Arm64)?;
        let cache = own.cache.join(Arch::Arm64.debian());
        std::fs::create_dir_all(&cache)
            .with_context(|| format!("cannot make {}", cache.display()))?;
        let apt = Apt::prepare(&cache, Arch::Arm64)?;
        let kernels = kernels::choose(&apt, Arch::Arm64, words.iter().copied())?;
        let kernels: Result<_> = kernels
            .iter()
            .map(|kernel| kernel.fetch(&apt, &kernels::OF_TESTS))
            .collect();
        Self::new(&apt, qemu, kernels?)
    }

    /// Boots all machines.
    fn run(&self, options: &Options, kept: &Kept, table: &mut Table) -> Result<()> {
        let plan = Plan::new(&self.programs, &options.tests)?;
        let mut guests = Vec::new();
        for kernel in &self.kernels {
            let machines = plan.machines(kernel.release);
            guests.extend(machines.into_iter().map(|(machine, jobs)| {
                let is_able = |job: &Job| kernel.has_modules || !job.needs_module();
                let (jobs, unable) = jobs.into_iter().partition(is_able);
                Guest {
                    kernel,
                    machine,
                    jobs,
                    unable,
                }
            }));
        }
        let mut outcomes = self.boot_all(&guests, &options.append, kept)?;
        // In the order of the plan, whatever the order in which they ended.
        outcomes.sort_by_key(|(index, _)| *index);
        for (_, outcomes) in outcomes {
            outcomes.rows().for_each(|row| row.put(table));
        }
        Ok(())
    }

    /// As many at a time as this machine runs, those with most to do first; how each ended, by its index, is kept as soon
    /// as it has.
    fn boot_all(
        &self,
        guests: &[Guest<'_>],
        append: &str,
        kept: &Kept,
    ) -> Result<Vec<(usize, Table)>> {
        let mut order: Vec<_> = guests.iter().enumerate().collect();
        order.sort_by_key(|(_, guest)| Reverse(guest.jobs.len()));
        let order = Mutex::new(order.into_iter());
        let next = || order.lock().ok()?.next();
        thread::scope(|scope| {
            let (done, ended) = mpsc::channel();
            for _ in 0..self.qemu.at_once() {
                let done = done.clone();
                scope.spawn(move || {
                    while let Some((index, guest)) = next() {
                        let outcomes = self.boot(guest, append);
                        // Nobody listens after an error.
                        if done.send((index, outcomes)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(done);
            let keep = |(index, outcomes): (usize, Result<_>)| {
                let guest: &Guest<'_> = &guests[index];
                let mut table = Table::default();
                table.add(guest.kernel, guest.machine, outcomes?);
                let unable = guest.unable.iter().map(Outcome::without_module);
                table.add(guest.kernel, guest.machine, unable.collect());
                kept.add(&table)?;
                Ok((index, table))
            };
            ended.into_iter().map(keep).collect()
        })
    }

    fn boot(&self, guest: &Guest<'_>, append: &str) -> Result<Vec<Outcome>> {
        let Guest {
            kernel,
            machine,
            jobs,
            ..
        } = guest;
        if jobs.is_empty() {
            return Ok(vec![]);
        }
        let cache: &Path = &self.apt.cache;
        let word = format!("{}-{}", kernel.release, machine.word);
        let image = cache.join(format!("initramfs-{word}.cpio"));
        initramfs::write(&self.apt, kernel, &self.programs, jobs, &image)?;
        let boot = Boot {
            kernel,
            machine,
            system: System::Archive(&image),
            append,
            console: cache.join(format!("console-{word}.log")),
        };
        let outcomes = boot_once_or_twice(&self.qemu, &boot, jobs);
        std::fs::remove_file(&image)
            .with_context(|| format!("cannot remove {}", image.display()))?;
        outcomes
    }
}

/// Boots a machine; once more only where it began no test, which is QEMU's doing or the hardware's.
fn boot_once_or_twice(qemu: &Qemu, boot: &Boot<'_>, jobs: &[Job]) -> Result<Vec<Outcome>> {
    let label = boot.label();
    eprintln!("vm: {label}: {} tests", jobs.len());
    let outcomes = guest::run(qemu, boot, jobs)?;
    if outcomes
        .iter()
        .any(|outcome| outcome.verdict != Verdict::NotBegun)
    {
        return Ok(outcomes);
    }
    eprintln!("vm: {label}: no test began; booting a second and last time");
    guest::run(&qemu.emulating(), boot, jobs)
}

/// Where packages and machines are kept.
fn cache() -> Result<PathBuf> {
    let cache = cmd::root().join("vmcache");
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    Ok(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kernels_are_those_of_both_processors() {
        let words = ["all", "7.3", "6.1-arm64"].map(str::to_owned);
        let (own, arm64) = by_arch(&words);
        assert_eq!(own, ["all", "7.3"]);
        assert_eq!(arm64, [ARM64_OF_ALL, "6.1"]);
    }
}
