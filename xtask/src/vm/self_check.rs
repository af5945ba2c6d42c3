//! Whether the machines find what they are there to find: what must not pass, does not.
//!
//! A count that is wrong, a field offset that lies, a test that is not there, a helper that the kernel does not have, and
//! a kernel that does not come up.

use anyhow::{Context as _, Result, bail};

use super::apt::Apt;
use super::arch::Arch;
use super::guest::{self, Outcome, Verdict};
use super::initramfs;
use super::kernels;
use super::plan::{EXACT, Job, MACHINES, Plan};
use super::programs::Programs;
use super::qemu::{Boot, Qemu, System};

/// A machine in which nothing may pass.
struct Case {
    kernel: &'static str,
    append: &'static str,
    /// What is wrong, in a job's name, and the environment and test that have it.
    jobs: &'static [(&'static str, &'static str, &'static str)],
}

/// A test that passes where nothing is wrong, by any hook.
const GOOD: &str = "every_call_btf_basic";

const CASES: [Case; 3] = [
    Case {
        kernel: "6.1",
        append: "",
        jobs: &[
            ("a_wrong_count", "IOTRACE_TEST_WRONG_COUNT=1", GOOD),
            ("a_wrong_offset", "IOTRACE_TEST_OFFSET=INODE_INO=8", GOOD),
            ("a_test_that_is_not_there", "NOTHING=1", "no_such_test"),
        ],
    },
    Case {
        kernel: "5.10",
        append: "",
        // The programs for newer kernels.
        jobs: &[("a_missing_helper", "IOTRACE_TEST_PROGRAMS=current", GOOD)],
    },
    Case {
        kernel: "6.1",
        append: "rdinit=/missing",
        jobs: &[("a_kernel_that_does_not_boot", "NOTHING=1", GOOD)],
    },
];

/// Boots all cases; an error where anything passed.
pub fn run(apt: &Apt, qemu: &Qemu, programs: &Programs) -> Result<()> {
    let plan = Plan::new(programs, &[])?;
    let mut passed = Vec::new();
    for case in &CASES {
        for outcome in boot(apt, qemu, programs, &plan, case)? {
            let name = outcome.name.replace('_', " ");
            if outcome.verdict == Verdict::Passed {
                passed.push(name);
            } else {
                println!("found: {name}");
            }
        }
    }
    if !passed.is_empty() {
        bail!("the virtual machines do not find: {}", passed.join(", "));
    }
    println!("the virtual machines find all that they must find");
    Ok(())
}

fn boot(
    apt: &Apt,
    qemu: &Qemu,
    programs: &Programs,
    plan: &Plan<'_>,
    case: &Case,
) -> Result<Vec<Outcome>> {
    let kernels = kernels::choose(apt, Arch::Amd64, [case.kernel])?;
    let kernel = kernels
        .first()
        .context("no kernel")?
        .fetch(apt, &kernels::OF_TESTS)?;
    let jobs = case.jobs.iter().map(|(name, environment, test)| {
        let good = plan.job(EXACT, GOOD)?;
        Ok(Job {
            name: (*name).to_owned(),
            command: format!("env {environment} {}", good.command.replace(GOOD, test)),
            ..good
        })
    });
    let jobs: Vec<Job> = jobs.collect::<Result<_>>()?;
    let image = apt.cache.join("initramfs-self-check.cpio");
    initramfs::write(apt, &kernel, programs, &jobs, &image)?;
    let boot = Boot {
        kernel: &kernel,
        machine: &MACHINES[0],
        system: System::Archive(&image),
        append: case.append,
        console: apt.cache.join("console-self-check.log"),
    };
    guest::run(qemu, &boot, &jobs)
}
