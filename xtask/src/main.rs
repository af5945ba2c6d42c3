//! iotrace's development tasks, run as `cargo xtask TASK`. Each task has its own file.
//!
//! A task installs what it needs and is missing (see [`setup`]), so that a fresh machine with Rust
//! needs no other step.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod adding;
mod bench;
mod build;
mod ci;
mod cmd;
mod demo;
mod dist;
mod experiments;
mod frameworks;
mod fuzz;
mod lint;
mod page;
mod run;
mod samples;
mod scoreboard;
mod setup;
mod soak;
mod test;
mod vm;

/// The search for command lines in the documentation, the same that the daemon's tests make.
#[cfg(test)]
#[path = "../../iotrace-daemon/src/documented.rs"]
mod documented;
/// The command line for the kernel crate, the same that builds it into the daemon.
#[path = "../../iotrace-daemon/crates/programs/build/kernel_crate.rs"]
mod kernel_crate;
/// The search for the kernel crate's compiler, the same that the daemon's build makes.
#[path = "../../iotrace-daemon/crates/programs/build/toolchain.rs"]
mod toolchain;

/// iotrace's development tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the tools that building, testing and linting need and this machine lacks.
    Setup {
        /// Only say what is missing, and fail if anything is.
        #[arg(long)]
        check: bool,
    },
    /// Build iotrace.
    Build {
        /// Build with optimizations.
        #[arg(long)]
        release: bool,
    },
    /// Build iotrace with optimizations and run it, with sudo where that is needed.
    Run {
        /// The arguments of iotrace, after `--`.
        #[arg(last = true)]
        args: Vec<OsString>,
    },
    /// Run all tests, with sudo where that is needed.
    Test {
        /// Only those that need no privilege and no BPF toolchain: unit tests, and what is made of recordings.
        #[arg(long)]
        fast: bool,
        /// Arguments of `cargo test`, after `--`; a second `--` leads to those of the tests.
        #[arg(last = true)]
        args: Vec<OsString>,
    },
    /// Run programs that say themselves what they did, and print how many of iotrace's conclusions are right.
    Scoreboard(scoreboard::Options),
    /// Repeat experiments of published studies, and compare iotrace with the programs' own clocks.
    Experiments(experiments::Options),
    /// Measure what iotrace costs the programs that it traces.
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Trace real training programs, and compare with what they and strace count.
    Demo {
        #[command(subcommand)]
        demo: demo::Demo,
    },
    /// Train by each framework that the Python package has a callback for, and compare the ranges with what was done.
    Frameworks,
    /// Run the tests that trace on other kernels, in virtual machines.
    Vm(vm::Options),
    /// Feed hostile input to what iotrace parses: recordings, rules, configuration, requests, kernel events.
    Fuzz(fuzz::Options),
    /// Build the packages: deb and rpm.
    Dist(dist::Options),
    /// Let thousands of processes of many jobs come and go under the service, for ten minutes.
    Soak(soak::Options),
    /// Make the pictures and sample outputs of the documentation again, of programs that are recorded now.
    Samples,
    /// Check the format, the word list, the lints (kernel crate too) and the dependencies.
    Lint,
    /// Add something of each kind to a copy of the tree, and test that nothing else must be edited.
    Adding,
    /// Do all that the continuous integration does: lint and test.
    Ci,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not by returning it, which would print a backtrace: the causes say all there is.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup { check: true } => setup::check(),
        Task::Setup { check: false } => setup::all(),
        Task::Build { release } => build::task(release),
        Task::Run { args } => run::task(&args),
        Task::Test { fast: true, args } => test::fast(&args),
        Task::Test { fast: false, args } => test::task(&args),
        Task::Scoreboard(options) => scoreboard::task(&options),
        Task::Experiments(options) => experiments::task(&options),
        Task::Bench { bench } => bench::task(&bench),
        Task::Demo { demo } => demo::task(&demo),
        Task::Frameworks => frameworks::task(),
        Task::Vm(options) => vm::task(&options),
        Task::Dist(options) => dist::task(&options),
        Task::Fuzz(options) => fuzz::task(&options),
        Task::Soak(options) => soak::task(&options),
        Task::Samples => samples::task(),
        Task::Lint => lint::task(),
        Task::Adding => adding::task(),
        Task::Ci => ci::task(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_task_in_the_documentation_is_one() {
        let (faults, count) = documented::faults(&["cargo", "xtask"], &Cli::command());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert!(count > 30, "{count} command lines");
    }
}
