//! `cargo xtask bench`: what iotrace costs the programs that it traces. Commands, not tests: they
//! print which target was reached and fail only where they cannot measure.
//!
//! - `syscall`, `files`: the two measurements
//! - `trace`: what the operation trace costs, beside other tracers
//! - `beyond`: mapped files, io_uring, and calls of libraries
//! - `start`: how long a recording takes to begin and end
//! - `programs`: what tracers cost whole programs
//! - `report`: time and memory of reports of many files
//! - `share`: what recordings through the service cost other processes
//! - `service`: what the service costs, by `scrape` and `daemon`
//! - `tracer`, `iotrace`, `raw`: what is measured: the tracers, and the hooks that do nothing
//! - `worker`, `call`: the traced program; `remote`: its handle in this process
//! - `others`: whether another tracer disturbs
//! - `machine`, `stats`, `table`: what stands above, in and around a table

mod beyond;
mod call;
mod files;
mod iotrace;
mod lines;
mod machine;
mod others;
mod programs;
mod raw;
mod remote;
mod report;
mod service;
mod share;
mod start;
mod stats;
mod syscall;
pub mod table;
mod trace;
mod tracer;
mod worker;

use std::env;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};

use crate::setup::{self, Purpose};
use crate::{cmd, run};

/// Names Darshan's library, to compare with.
const DARSHAN_VARIABLE: &str = "DARSHAN_LIB";

/// A measurement.
#[derive(Subcommand)]
pub enum Bench {
    /// Measure what a system call costs more, under iotrace and other tracers.
    Syscall(syscall::Options),
    /// Measure epochs over many small files in the page cache.
    Files(files::Options),
    /// Measure what a page fault on a mapped file costs more.
    Mmap(beyond::Options),
    /// Measure what a read by io_uring costs more.
    Uring(beyond::Options),
    /// Measure what a call of a library costs more that uprobes see.
    Uprobe(beyond::Options),
    /// Measure what a request to a block device costs more.
    Block(beyond::Options),
    /// Measure what a wait of a thread costs more.
    Waits(beyond::Options),
    /// Measure what an open in Python costs more whose line is found.
    Lines(beyond::Options),
    /// Measure what the operation trace costs, and how many operations it keeps up with, beside other tracers.
    Trace(trace::Options),
    /// Measure the service's CPU time, memory and slowdown at several rates of operations.
    Daemon(service::rates::Options),
    /// Measure a scrape of the service with many processes and files.
    Scrape(service::scrape::Options),
    /// Measure what recordings through the service cost other processes.
    Share(share::Options),
    /// Measure how long a recording of a program that does nothing takes.
    Start(start::Options),
    /// Measure what whole programs take longer: data loaders and a job that saves much, under iotrace and other tracers.
    Programs(programs::Options),
    /// Measure time and memory of reports of recordings with many files.
    Report(report::Options),
    /// The traced program.
    #[command(hide = true)]
    Worker(worker::Options),
    /// A program that the service counts.
    #[command(hide = true)]
    Program(service::program::Options),
    /// A program whose operations are traced.
    #[command(hide = true)]
    Operations(trace::program::Options),
}

/// What all measurements take.
#[derive(Args, Clone)]
pub struct Common {
    /// Rounds; all variants are measured once in each [default: 10, of trace 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// This is the optimized build, and has the rights that it needs.
    #[arg(long, hide = true)]
    ready: bool,
    /// One round, with as little of everything as shows that the measurement works: the figures say nothing else.
    #[arg(long, hide = true)]
    brief: bool,
}

impl Common {
    /// Rounds of most measurements.
    fn rounds(&self) -> u32 {
        self.rounds_or(10)
    }

    /// Rounds of a measurement: `usual`, unless the command line has another number.
    fn rounds_or(&self, usual: u32) -> u32 {
        self.rounds.unwrap_or(unless_brief(usual, 1))
    }
}

/// Whether as little is measured as shows that the measurement works.
static BRIEF: AtomicBool = AtomicBool::new(false);

fn is_brief() -> bool {
    BRIEF.load(Relaxed)
}

/// How much of something is measured.
fn unless_brief<T>(usual: T, brief: T) -> T {
    match is_brief() {
        true => brief,
        false => usual,
    }
}

/// Installs the tracers that iotrace is compared with, as far as they can be.
fn install_tracers() {
    if !is_brief()
        && let Err(error) = setup::ensure(&[Purpose::Tracers])
    {
        eprintln!("other tracers cannot be installed, and are left out: {error:#}");
    }
}

/// A program of the same build as this one.
fn built(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program's own file")?;
    Ok(own.with_file_name(name))
}

/// Runs a measurement: builds with optimizations, and measures from that build, as root.
pub fn task(bench: &Bench) -> Result<()> {
    let common = match bench {
        Bench::Worker(options) => return worker::run(options),
        Bench::Syscall(options) => &options.common,
        Bench::Operations(options) => return trace::program::run(options),
        Bench::Trace(options) => &options.common,
        Bench::Program(options) => return service::program::run(options),
        Bench::Files(options) => &options.common,
        Bench::Mmap(options)
        | Bench::Uring(options)
        | Bench::Uprobe(options)
        | Bench::Block(options)
        | Bench::Waits(options)
        | Bench::Lines(options) => &options.common,
        Bench::Daemon(options) => &options.common,
        Bench::Scrape(options) => &options.common,
        Bench::Share(options) => &options.common,
        Bench::Start(options) => &options.common,
        Bench::Programs(options) => &options.common,
        Bench::Report(options) => &options.common,
    };
    if !common.ready {
        return from_optimized();
    }
    BRIEF.store(common.brief, Relaxed);
    match bench {
        Bench::Worker(_) | Bench::Program(_) | Bench::Operations(_) => Ok(()),
        Bench::Trace(options) => trace::run(options),
        Bench::Daemon(options) => service::rates::run(options),
        Bench::Scrape(options) => service::scrape::run(options),
        Bench::Share(options) => share::run(options),
        Bench::Start(options) => start::run(options),
        Bench::Programs(options) => programs::run(options),
        Bench::Report(options) => report::run(options),
        Bench::Syscall(options) => syscall::run(options),
        Bench::Files(options) => files::run(options),
        Bench::Mmap(options) => beyond::run(options, &beyond::MMAP),
        Bench::Uring(options) => beyond::run(options, &beyond::URING),
        Bench::Uprobe(options) => beyond::run(options, &beyond::UPROBE),
        Bench::Block(options) => beyond::run(options, &beyond::BLOCK),
        Bench::Waits(options) => beyond::run(options, &beyond::WAITS),
        Bench::Lines(options) => lines::run(options),
    }
}

/// Builds, and passes this command line to the optimized build of this program.
fn from_optimized() -> Result<()> {
    setup::ensure(&[Purpose::Build])?;
    let packages = ["iotrace-daemon", "iotrace-made", "xtask"];
    cmd::run(
        cmd::cargo()
            .args(["build", "--locked", "--release"])
            .args(packages.iter().flat_map(|name| ["--package", name])),
    )?;
    let mut measure = cmd::as_root("env")?; // sudo drops the environment, and env(1) brings it back
    if let Some(library) = env::var_os(DARSHAN_VARIABLE) {
        let mut variable = std::ffi::OsString::from(DARSHAN_VARIABLE);
        variable.push("=");
        variable.push(library);
        measure.arg(variable);
    }
    measure.arg(run::target_dir()?.join("release/xtask"));
    measure.args(env::args_os().skip(1)).arg("--ready");
    cmd::run(&mut measure)
}

/// Where recordings and files on disk go: below the target directory, emptied first.
fn scratch() -> Result<PathBuf> {
    let scratch = run::target_dir()?.join("bench");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)
            .with_context(|| format!("cannot empty {}", scratch.display()))?;
    }
    std::fs::create_dir_all(&scratch)
        .with_context(|| format!("cannot make {}", scratch.display()))?;
    Ok(scratch)
}

/// Makes an empty directory; removes what is in it.
fn empty(directory: &std::path::Path) -> Result<()> {
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    Ok(std::fs::create_dir_all(directory)?)
}
