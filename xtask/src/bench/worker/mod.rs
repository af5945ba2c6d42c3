//! The traced program: a process that does calls when it is asked to, and says how long they took.
//!
//! One question a line on standard input, one answer a line on standard output, so that a measurement
//! costs no process and the tracers see nothing but the calls.
//!
//! - `calls`: the loop of each call; `beyond`: of what is none
//! - `timing`: pieces of such a loop, timed; `cpus`: where they run
//! - `files`: an epoch over many files

mod beyond;
mod calls;
pub mod cpus;
mod files;
mod timing;

use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::path::PathBuf;
use std::str::{FromStr, SplitWhitespace};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use super::BRIEF;
use super::call::Call;
use calls::Places;
use files::Files;

/// What the worker takes.
#[derive(Args)]
pub struct Options {
    /// Where its files in memory go.
    memory: PathBuf,
    /// Where its file on disk goes.
    disk: PathBuf,
    /// As of a measurement.
    #[arg(long)]
    brief: bool,
}

/// Four numbers, which is all that any answer is.
pub type Answer = [f64; 4];

/// Answers until its input ends, then removes its files. A measurement that is interrupted ends the
/// input, so nothing is left behind.
pub fn run(options: &Options) -> Result<()> {
    BRIEF.store(options.brief, Relaxed);
    fs::create_dir_all(&options.memory)
        .with_context(|| format!("cannot make {}", options.memory.display()))?;
    let result = serve(options);
    // Another worker may still have files there, and removes it then.
    let _ = fs::remove_dir(&options.memory);
    result
}

fn serve(options: &Options) -> Result<()> {
    let places = Places::make(&options.memory, &options.disk)?;
    let mut files = Files::new(&options.memory);
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        match answer(&line?, &places, &mut files) {
            Ok([one, two, three, four]) => writeln!(out, "{one} {two} {three} {four}")?,
            Err(error) => writeln!(out, "error {error:#}")?,
        }
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str, places: &Places, files: &mut Files) -> Result<Answer> {
    let mut words = line.split_whitespace();
    match words.next() {
        Some("best") => timing::best(Duration::from_millis(number(&mut words)?)),
        Some("call") => {
            let call = words.next().and_then(Call::find).context("no such call")?;
            timing::time(call, places, number(&mut words)?)
        }
        Some("make") => files.make(number(&mut words)?),
        Some("epoch") => {
            let [first, step, end] = [
                number(&mut words)?,
                number(&mut words)?,
                number(&mut words)?,
            ];
            files.epoch(first, step, end)
        }
        _ => bail!("no such question: {line}"),
    }
}

fn number<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<T> {
    let number = words.next().and_then(|word| word.parse().ok());
    number.context("a number is missing")
}

/// Turns a system call's -1 into its error.
fn check(result: i64) -> Result<i64> {
    if result < 0 {
        return Err(io::Error::last_os_error()).context("a measured call failed");
    }
    Ok(result)
}
