//! `cargo xtask bench lines`: what `--lines` adds to an open and close in Python, by how deep the program's stack is, and what
//! `--stacks` adds, for which Python is a native program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::beyond::Options;
use super::iotrace::Recording;
use super::stats::Spread;
use super::{machine, table};

/// Rounds, unless another number is asked for.
const ROUNDS: u32 = 5;

/// Answers each number of frames with the nanoseconds of an open and close below so many.
const PROGRAM: &str = "
import os, sys, time
def below(frames, count):
    if frames > 2:
        return below(frames - 1, count)
    begin = time.perf_counter_ns()
    for _ in range(count):
        os.close(os.open(sys.executable, os.O_RDONLY))
    return (time.perf_counter_ns() - begin) / count
for line in sys.stdin:
    below(int(line), 5_000)
    print(below(int(line), 100_000), flush=True)
";

/// Frames of the program's stack.
const FRAMES: [u32; 2] = [4, 21];
/// What is measured, each for all stacks.
const VARIANTS: [(&str, Option<&[&str]>); 4] = [
    ("untraced", None),
    ("iotrace basic", Some(&[])),
    ("iotrace basic, --lines", Some(&["--lines"])),
    ("iotrace basic, --stacks", Some(&["--stacks"])),
];

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let mut figures = vec![Vec::new(); VARIANTS.len() * FRAMES.len()];
    let rounds = options.common.rounds_or(ROUNDS);
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}, load {}", machine::load());
        for (variant, (_, more)) in VARIANTS.iter().enumerate() {
            for (frames, ns) in measure(*more)?.into_iter().enumerate() {
                figures[frames * VARIANTS.len() + variant].push(ns);
            }
        }
    }
    let mut rows = vec![table::words(
        "an open and close in Python, ns|median|quartiles",
    )];
    for (index, of) in figures.iter().enumerate() {
        let frames = FRAMES[index / VARIANTS.len()];
        let title = VARIANTS[index % VARIANTS.len()].0;
        let Spread { low, median, high } = Spread::of(of).context("no figure")?;
        rows.push(vec![
            format!("  {frames} frames, {title}"),
            format!("{median:.0}"),
            format!("{low:.0} - {high:.0}"),
        ]);
    }
    table::print(&rows);
    Ok(())
}

/// Nanoseconds by number of frames.
fn measure(more: Option<&[&str]>) -> Result<Vec<f64>> {
    let mut python = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("python3 does not start")?;
    let mut asked = python.stdin.take().context("no input")?;
    let mut answers = BufReader::new(python.stdout.take().context("no output")?);
    let mut ask = |frames: u32| {
        writeln!(asked, "{frames}")?;
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        let ns: f64 = answer.trim().parse()?;
        Ok::<_, anyhow::Error>(ns)
    };
    // Has begun.
    ask(FRAMES[0])?;
    let scratch = super::scratch()?;
    let recording = more
        .map(|more| Recording::start_trace(&scratch, &[python.id()], "basic", more))
        .transpose()?;
    let figures = FRAMES.iter().map(|frames| ask(*frames)).collect();
    if let Some(recording) = recording {
        recording.stop()?;
    }
    drop(asked);
    python.wait()?;
    figures
}
