//! What a program says of itself and what iotrace says of it, compared and written down.
//!
//! `IOTRACE_TEST_EXPERIMENTS=FILE` appends each comparison, a line of JSON: `cargo xtask experiments` makes tables of them.

use std::{env, fs::OpenOptions, io::Write as _};

use serde_json::{Value, json};

/// Largest difference from the program's number, as a share of it; a time may always differ by [`NEAR_SECONDS`].
pub const NEAR_SHARE: f64 = 0.03;
pub const NEAR_SECONDS: f64 = 0.02;

/// One number: what it is, what the program says, and what iotrace says.
pub enum Number {
    Seconds(&'static str, f64, f64),
    /// Bytes per second.
    Bandwidth(&'static str, f64, f64),
    /// A mean, or a ratio.
    Mean(&'static str, f64, f64),
    Count(&'static str, u64, u64),
}

use Number::{Bandwidth, Count, Mean, Seconds};

impl Number {
    fn is_near(&self) -> bool {
        let is_within = |told: f64, found: f64, least: f64| {
            (told - found).abs() <= (told.abs() * NEAR_SHARE).max(least)
        };
        match *self {
            Seconds(_, told, found) => is_within(told, found, NEAR_SECONDS),
            Bandwidth(_, told, found) | Mean(_, told, found) => is_within(told, found, 0.0),
            Count(_, told, found) => told == found,
        }
    }

    /// What it is, and both numbers in the unit that tables have.
    fn row(&self) -> (String, f64, f64) {
        const MIB: f64 = 1_048_576.0;
        match *self {
            Seconds(name, told, found) => (format!("{name}, s"), told, found),
            Bandwidth(name, told, found) => (format!("{name}, MiB/s"), told / MIB, found / MIB),
            Mean(name, told, found) => (name.to_owned(), told, found),
            Count(name, told, found) => (name.to_owned(), told as f64, found as f64),
        }
    }
}

/// Writes down the numbers of one case of an experiment; the line.
pub fn keep(experiment: &str, case: &str, numbers: &[Number]) -> Value {
    let rows = numbers.iter().map(|number| {
        let (name, program, iotrace) = number.row();
        json!({"name": name, "program": program, "iotrace": iotrace})
    });
    let rows: Vec<_> = rows.collect();
    let line = json!({"experiment": experiment, "case": case, "numbers": rows});
    if let Some(path) = env::var_os("IOTRACE_TEST_EXPERIMENTS") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.expect("the file of experiments"), "{line}").expect("written");
    }
    line
}

/// As [`keep`]; fails if any number differs.
pub fn compare(experiment: &str, case: &str, numbers: &[Number]) {
    let line = keep(experiment, case, numbers);
    assert!(numbers.iter().all(Number::is_near), "{line}");
}
