//! `cargo xtask demo`: real training programs under iotrace, held to what they print and to what strace counts.
//!
//! Each program that trains (`examples/train_*.py`) does so on made-up images of CIFAR-10's shape, twice: once under
//! iotrace alone, whose phases, epochs and checkpoints are compared with what the program says it did; and once under iotrace
//! and strace at one time, whose counts of the same calls are compared. `examples/load_tensors.py` maps files instead,
//! and is held to what mincore(2) says of them. A difference fails the task.
//!
//! - `python`: the interpreter with the framework
//! - `compare`: tables of two columns that must be equal
//! - `strace`: what strace's logs count
//! - `figures`: what the report says beyond that

mod compare;
mod figures;
mod python;
mod strace;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::setup::{self, Purpose};
use crate::{cmd, run};
use compare::Table;
use python::Python;

/// A training program.
#[derive(Subcommand)]
pub enum Demo {
    /// PyTorch, of the distribution's packages: shuffled samples by DataLoader workers, torch.save per epoch.
    Pytorch(Options),
    /// Keras on TensorFlow, in a virtual environment: tf.data, ModelCheckpoint per epoch.
    Keras(Options),
    /// PyTorch loading a safetensors file and an array of NumPy's, both of them mapped and not in memory.
    Tensors,
}

/// How long it trains.
#[derive(Args)]
pub struct Options {
    /// Passes over the data set, with a checkpoint after each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..))]
    epochs: u32,
    /// Processes (PyTorch) or threads (TensorFlow) that load data.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
}

/// Runs a demonstration.
pub fn task(demo: &Demo) -> Result<()> {
    let (name, program, purpose) = match demo {
        Demo::Pytorch(_) => ("pytorch", "train_pytorch.py", Purpose::Pytorch),
        Demo::Keras(_) => ("keras", "train_keras.py", Purpose::Keras),
        Demo::Tensors => ("tensors", "load_tensors.py", Purpose::Pytorch),
    };
    let arguments = match demo {
        Demo::Pytorch(options) | Demo::Keras(options) => options.arguments(),
        Demo::Tensors => Vec::new(),
    };
    setup::ensure(&[Purpose::Build, Purpose::Demo, purpose])?;
    cmd::run(cmd::cargo().args(["build", "--locked", "--package", "iotrace-daemon"]))?;
    let scratch = run::target_dir()?.join("demo");
    fs::create_dir_all(&scratch)?;
    let run = Run {
        python: Python::find(name, &scratch)?,
        program: cmd::root().join("examples").join(program),
        data: scratch.join("data"),
        directory: scratch.join(name),
        arguments,
    };
    run.make_data()?;
    // Both, so that a difference in one does not hide the other.
    let program = run.compare_with_program();
    run.compare_with_strace()?;
    program
}

impl Options {
    /// As the programs take them.
    fn arguments(&self) -> Vec<String> {
        let Self { epochs, workers } = self;
        vec![format!("--epochs={epochs}"), format!("--workers={workers}")]
    }
}

/// One demonstration.
struct Run {
    python: Python,
    program: PathBuf,
    data: PathBuf,
    /// Where its recordings and reports go, emptied first.
    directory: PathBuf,
    /// What else the program is told.
    arguments: Vec<String>,
}

/// What a run left behind.
struct Outcome {
    /// The line of JSON that the program printed.
    program: Value,
    /// The report.
    report: Value,
}

impl Run {
    fn make_data(&self) -> Result<()> {
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory)?;
        }
        fs::create_dir_all(&self.directory)?;
        let mut make = cmd::command(self.python.path());
        make.arg(&self.program).arg("--data").arg(&self.data);
        cmd::run(make.arg("--make"))
    }

    fn compare_with_program(&self) -> Result<()> {
        let outcome = self.trace("alone", None)?;
        figures::print(&outcome.report, &outcome.program);
        let page = self.directory.join("report.html");
        let mut report = cmd::as_root(&iotrace()?)?;
        report.arg("report").arg(self.directory.join("alone"));
        cmd::run(report.args(["--format", "html", "--output"]).arg(&page))?;
        println!("The page of this run: {}\n", page.display());
        let mut table = Table::new("what was done", "program", "iotrace");
        table.program(&outcome.program, &outcome.report)?;
        table.print()
    }

    fn compare_with_strace(&self) -> Result<()> {
        let logs = self.directory.join("strace");
        fs::create_dir(&logs)?;
        let outcome = self.trace("with-strace", Some(&logs))?;
        let mut table = Table::new("calls that succeeded", "strace", "iotrace");
        table.strace(&strace::read(&logs)?, &outcome.report)?;
        table.print()
    }

    /// Runs the program under iotrace; and under strace too, with its logs in a directory.
    fn trace(&self, name: &str, logs: Option<&Path>) -> Result<Outcome> {
        let recording = self.directory.join(name);
        let output = self.directory.join(format!("{name}-output"));
        let printed = self.directory.join(format!("{name}.out"));
        let mut record = cmd::as_root(&iotrace()?)?;
        let report = self.directory.join(format!("{name}.json"));
        record
            .args(["record", "--flush", "1s", "--report"])
            .arg(&report);
        record.arg("--output").arg(&recording).arg("--");
        if let Some(logs) = logs {
            record.arg("strace").args(strace::OPTIONS);
            record.arg("-o").arg(logs.join("log"));
        }
        record.arg(self.python.path()).arg(&self.program);
        record.arg("--data").arg(&self.data);
        record.arg("--output").arg(&output);
        record.args(&self.arguments);
        // What frameworks say on standard error is theirs; a failure shows it.
        let messages = self.directory.join(format!("{name}.err"));
        record.stdout(File::create(&printed)?);
        record.stderr(Stdio::from(File::create(&messages)?));
        if let Err(error) = cmd::run(&mut record) {
            bail!("{error:#}: {}", fs::read_to_string(&messages)?);
        }
        Outcome::read(&printed, &report)
    }
}

impl Outcome {
    /// The last line that the program printed, and the report.
    fn read(printed: &Path, report: &Path) -> Result<Self> {
        let last_object = |path: &Path| {
            let text = fs::read_to_string(path)?;
            let line = text.lines().last().unwrap_or_default();
            serde_json::from_str(line)
                .with_context(|| format!("{} ends in no object", path.display()))
        };
        Ok(Self {
            report: last_object(report)?,
            program: last_object(printed)?,
        })
    }
}

/// The iotrace that was built.
fn iotrace() -> Result<String> {
    let path = run::target_dir()?.join("debug/iotrace");
    Ok(path.display().to_string())
}
