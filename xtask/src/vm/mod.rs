//! `cargo xtask vm`: the tests that trace, on other kernels, each booted in a virtual machine.
//!
//! - [`apt`]: Debian's packages through an apt view of our own, into `vmcache/`
//! - [`kernels`]: which kernels there are, and the files of one
//! - [`programs`]: iotrace and its tests, linked statically
//! - [`plan`]: which tests run, and in which machines
//! - [`initramfs`], `init.sh`: all that a machine has
//! - [`qemu`], [`guest`]: the machine, and what it says
//! - [`table`], [`docs`]: what came out
//! - [`self_check`]: whether they find what they must find
//! - [`service`], `service.sh`: the Debian package in a small Debian, whose systemd runs the unit
//!
//! A kernel that does not boot and a test that does not run are failures, never left out.

mod apt;
mod docs;
mod guest;
mod initramfs;
mod kernels;
mod plan;
mod programs;
mod qemu;
mod self_check;
mod service;
mod table;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cmd;
use crate::setup::{self, Purpose};

use apt::Apt;
use guest::{Outcome, Verdict};
use plan::{Job, Plan};
use qemu::{Boot, Qemu, System};
use table::Table;

#[derive(Args)]
pub struct Options {
    /// Kernels by release, `newest`, or `all` that the package lists have.
    #[arg(long, value_delimiter = ',', default_values = ["6.1", "6.12", "6.18", "newest"])]
    kernel: Vec<String>,
    /// Further kernel parameters.
    #[arg(long, default_value = "")]
    append: String,
    /// Write the table into docs/kernel-support.md.
    #[arg(long)]
    write_docs: bool,
    /// Make sure instead that what must not pass does not.
    #[arg(long, conflicts_with_all = ["kernel", "append", "write_docs", "tests"])]
    self_check: bool,
    /// Install the Debian package in a small Debian instead, on the first of the kernels, and see whether its systemd
    /// runs the service.
    #[arg(long, conflicts_with_all = ["self_check", "write_docs", "tests"])]
    service: bool,
    /// With `--service`: package what cargo built in this directory, rather than building with optimizations.
    #[arg(long, value_name = "DIR", requires = "service")]
    built: Option<PathBuf>,
    /// Only tests whose name, FILE::NAME, has one of these words in it.
    #[arg(last = true)]
    tests: Vec<String>,
}

/// Runs the chosen tests on the chosen kernels and prints the table of both.
pub fn task(options: &Options) -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!("the virtual machines are x86-64: run this on an x86-64 Linux");
    }
    setup::ensure(&[Purpose::Build, Purpose::Vm])?;
    let cache = cache()?;
    let apt = Apt::prepare(&cache)?;
    let kernels = kernels::choose(&apt, &options.kernel)?;
    let qemu = qemu::find(&apt)?;
    if options.service {
        return service::run(&apt, &qemu, &kernels, options.built.as_deref());
    }
    let programs = programs::build()?;
    if options.self_check {
        return self_check::run(&apt, &qemu, &programs);
    }
    let plan = Plan::new(&programs, &options.tests)?;
    let mut table = Table::default();
    for kernel in &kernels {
        let kernel = kernel.fetch(&apt)?;
        for (machine, jobs) in plan.machines(kernel.release) {
            let image = initramfs::write(&apt, &kernel, &programs, &jobs)?;
            let boot = Boot {
                kernel: &kernel,
                machine,
                system: System::Archive(&image),
                append: &options.append,
                console: cache.join(format!("console-{}-{}.log", kernel.release, machine.word)),
            };
            table.add(&kernel, machine, boot_once_or_twice(&qemu, &boot, &jobs)?);
        }
    }
    println!("\n{table}");
    if options.write_docs {
        docs::write(&table)?;
    }
    table.verdict()
}

/// Boots a machine; once more only where it began no test, which is QEMU's doing or the hardware's.
fn boot_once_or_twice(qemu: &Qemu, boot: &Boot<'_>, jobs: &[Job]) -> Result<Vec<Outcome>> {
    let (version, machine) = (&boot.kernel.version, boot.machine.name);
    eprintln!("vm: Linux {version}, {machine}: {} tests", jobs.len());
    let outcomes = guest::run(qemu, boot, jobs)?;
    if outcomes
        .iter()
        .any(|outcome| outcome.verdict != Verdict::NotBegun)
    {
        return Ok(outcomes);
    }
    eprintln!("vm: Linux {version}, {machine}: no test began; booting a second and last time");
    guest::run(&qemu.emulating(), boot, jobs)
}

/// Where packages and machines are kept.
fn cache() -> Result<PathBuf> {
    let cache = cmd::root().join("vmcache");
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    Ok(cache)
}
