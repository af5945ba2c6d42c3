//! `cargo xtask fuzz`: hostile input for all that iotrace parses, made by libFuzzer.
//!
//! The targets are in `iotrace-daemon/fuzz/targets`. Each begins with the inputs below `seeds`; what it finds new is kept
//! below the target directory, so that the next run goes on from there. An input that fails is kept there too.

use std::{env::consts::ARCH, fs, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::{
    cmd, run,
    setup::{self, Purpose},
};

const FUZZ: &str = "iotrace-daemon/fuzz";
/// With all optimizations the targets take longer to build than they run in the tests.
const OPT_LEVEL: &str = "1";

/// What a target of fuzzing is.
struct Target {
    name: &'static str,
    /// Longest input, bytes.
    max_bytes: usize,
}

const TARGETS: [Target; 6] = [
    target("recording", 32 << 10),
    target("rules", 4 << 10),
    target("config", 4 << 10),
    target("socket", 4 << 10),
    target("events", 8 << 10),
    target("timeline", 32 << 10),
];

const fn target(name: &'static str, max_bytes: usize) -> Target {
    Target { name, max_bytes }
}

#[derive(clap::Args)]
pub struct Options {
    /// Only these targets [default: all].
    #[arg(value_name = "TARGET", value_parser = TARGETS.map(|target| target.name))]
    pub targets: Vec<String>,
    /// How long each runs.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub seconds: u64,
}

/// Runs the targets that are named, or all.
pub fn task(options: &Options) -> Result<()> {
    setup::ensure(&[Purpose::Fuzz])?;
    let is_asked = |target: &&Target| {
        options.targets.is_empty() || options.targets.iter().any(|name| name == target.name)
    };
    let mut build = cmd::cargo();
    build.args(["fuzz", "build", "--fuzz-dir", FUZZ]);
    // The sanitizer needs a flag that is not stable.
    build.env("RUSTC_BOOTSTRAP", "1");
    build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", OPT_LEVEL);
    cmd::run(&mut build)?;
    let target_dir = run::target_dir()?;
    let mut failed = Vec::new();
    for target in TARGETS.iter().filter(is_asked) {
        if let Err(error) = run_one(target, options.seconds, &target_dir) {
            failed.push(format!("{}: {error:#}", target.name));
        }
    }
    if !failed.is_empty() {
        bail!("fuzzing found faults:\n{}", failed.join("\n"));
    }
    Ok(())
}

fn run_one(target: &Target, seconds: u64, target_dir: &Path) -> Result<()> {
    let program = target_dir.join(format!(
        "{ARCH}-unknown-linux-gnu/release/fuzz_{}",
        target.name
    ));
    let corpus = target_dir.join("fuzz").join(target.name);
    fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    let mut fuzz = cmd::command(program);
    fuzz.arg(format!("-max_total_time={seconds}"));
    fuzz.arg(format!("-max_len={}", target.max_bytes));
    fuzz.arg(format!("-artifact_prefix={}-failed-", corpus.display()));
    // One input may take 10 s and 1 GiB; the report of a run is its last lines.
    fuzz.args([
        "-timeout=10",
        "-rss_limit_mb=1024",
        "-verbosity=0",
        "-print_funcs=0",
        "-use_value_profile=1",
    ]);
    fuzz.arg(&corpus);
    let seeds = cmd::root().join(FUZZ).join("seeds").join(target.name);
    if seeds.exists() {
        fuzz.arg(seeds);
    }
    cmd::run(&mut fuzz)
}
