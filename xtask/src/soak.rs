//! `cargo xtask soak`: the churn test of the service for as long as an operator would want to see it.

use anyhow::Result;
use clap::Args;

use crate::test;

#[derive(Args)]
pub struct Options {
    /// How long processes come and go, minutes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
}

/// Runs it, showing what it saw.
pub fn task(options: &Options) -> Result<()> {
    let seconds = (options.minutes * 60).to_string();
    let words = [
        "--package",
        "iotrace-daemon",
        "--test",
        "service",
        "--",
        "churn::",
        "--nocapture",
    ];
    test::with(
        &words.map(Into::into),
        &[("IOTRACE_CHURN_SECONDS", &seconds)],
    )
}
