//! `cargo xtask scoreboard`: how often iotrace's conclusions are right, on programs that say themselves what they did.
//!
//! The programs, what they say and the comparison are those of `iotrace-daemon/tests/kernel/corpus.rs`, which writes a line of
//! JSON for each program that it runs to the file in the environment; here are the sums.

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::Value;

use crate::bench::table;
use crate::test;

/// The variable with the file of the scores.
const SCORES: &str = "IOTRACE_TEST_SCORES";
/// The conclusions, as the test names them.
const CONCLUSIONS: [&str; 4] = ["saves", "loads", "copies", "epochs"];

#[derive(Args)]
pub struct Options {
    /// Run each program at all flush intervals (250 ms, 1 s, 5 s) instead of one of them.
    #[arg(long)]
    all_flushes: bool,
}

/// Runs the corpus, prints the table, and fails if a conclusion is wrong.
pub fn task(options: &Options) -> Result<()> {
    let flushes = if options.all_flushes { "all" } else { "one" };
    let flushes = [("IOTRACE_TEST_FLUSHES", flushes)];
    let (scores, passed) = test::told(SCORES, &["corpus::"], &flushes)?;
    let board = Board::of(&scores)?;
    println!();
    table::print(&board.rows());
    passed
}

/// Sums of one conclusion.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    /// As often as the programs say, as the report says, and as both say.
    told: u64,
    found: u64,
    right: u64,
    /// Largest difference of a start or a length, seconds, where the programs say them.
    largest_error: Option<f64>,
    /// The program that has it.
    of: String,
}

/// Sums by conclusion.
#[derive(Debug, Default, PartialEq)]
struct Board {
    runs: usize,
    sums: [Sums; CONCLUSIONS.len()],
}

impl Board {
    /// Of lines of JSON.
    fn of(lines: &str) -> Result<Self> {
        let mut board = Self::default();
        for line in lines.lines() {
            let run: Value =
                serde_json::from_str(line).context("a line of the scores is no JSON")?;
            board.runs += 1;
            for (sums, name) in board.sums.iter_mut().zip(CONCLUSIONS) {
                let score = &run["scores"][name];
                let count = |key: &str| {
                    let count = score[key].as_u64();
                    count.with_context(|| format!("{name} of {} have no {key}", run["program"]))
                };
                sums.told += count("told")?;
                sums.found += count("found")?;
                sums.right += count("right")?;
                let error = score["largest_error_seconds"].as_f64();
                if error > sums.largest_error {
                    sums.largest_error = error;
                    sums.of = format!(
                        "{} at {}",
                        run["program"].as_str().unwrap_or_default(),
                        run["flush"].as_str().unwrap_or_default()
                    );
                }
            }
        }
        Ok(board)
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![table::words(&format!(
            "{} runs|told|found|right|precision|recall|largest error|of",
            self.runs
        ))];
        for (sums, name) in self.sums.iter().zip(CONCLUSIONS) {
            let counts = [sums.told, sums.found, sums.right].map(|count| count.to_string());
            let error = sums.largest_error.map_or_else(
                || "not told".to_owned(),
                |seconds| format!("{:.0} ms", seconds * 1e3),
            );
            let mut row = vec![name.to_owned()];
            row.extend(counts);
            row.extend([
                share(sums.right, sums.found),
                share(sums.right, sums.told),
                error,
            ]);
            row.push(sums.of.clone());
            rows.push(row);
        }
        rows
    }
}

/// A share, to a tenth of a percent and never rounded to all.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => {
            let tenths = part * 1000 / whole;
            format!("{}.{} %", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"program": "a", "flush": "1s", "scores": {"saves": {"told": 3, "found": 4, "right": 3, "largest_error_seconds": 0.004},
        "loads": {"told": 0, "found": 0, "right": 0, "largest_error_seconds": null}, "copies": {"told": 1, "found": 0, "right": 0, "largest_error_seconds": null},
        "epochs": {"told": 2, "found": 2, "right": 2, "largest_error_seconds": null}}}"#;

    #[test]
    fn runs_add_up() {
        let first = LINES.replace('\n', " ");
        let second = first.replace("0.004", "0.03").replace("\"a\"", "\"b\"");
        let board = Board::of(&format!("{first}\n{second}\n{first}\n")).expect("scores");
        assert_eq!(board.runs, 3);
        let saves = &board.sums[0];
        assert_eq!((saves.told, saves.found, saves.right), (9, 12, 9));
        assert_eq!(
            (saves.largest_error, saves.of.as_str()),
            (Some(0.03), "b at 1s")
        );
        let rows = board.rows();
        assert_eq!(
            rows[1][1..].join(" "),
            "9 12 9 75.0 % 100.0 % 30 ms b at 1s"
        );
        assert_eq!(rows[2][1..].join(" "), "0 0 0 - - not told ");
        assert_eq!(rows[3][1..].join(" "), "3 0 0 - 0.0 % not told ");
        assert_eq!(share(9_999, 10_000), "99.9 %");
    }

    #[test]
    fn a_score_that_is_not_there_is_an_error() {
        assert!(Board::of("{}").is_err());
        assert!(Board::of("no JSON").is_err());
        assert_eq!(Board::of("").expect("nothing"), Board::default());
    }
}
