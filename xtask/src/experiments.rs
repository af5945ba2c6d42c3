//! `cargo xtask experiments`: repeats experiments of published studies, and compares iotrace with the programs' own clocks.
//!
//! The programs and the comparison are tests, which append a line of JSON for each case to the file in the environment; here
//! are the tables.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Deserialize;

use crate::page;
use crate::test;

/// The variable with the file of the cases.
const CASES_VARIABLE: &str = "IOTRACE_TEST_EXPERIMENTS";
/// The tests that compare.
const TEST_FILTERS: [&str; 3] = ["experiments::", "scale::", "staging::staging"];
const PAGE_FILE: &str = "docs/design/experiments.md";
const PAGE_COMMAND: &str = "cargo xtask experiments --write-docs";
/// Width of the longest bar, characters.
const MAX_BAR_CHARS: f64 = 40.0;

#[derive(Args)]
pub struct Options {
    /// Write the tables to docs/design/experiments.md, too.
    #[arg(long)]
    write_docs: bool,
}

/// Runs them and prints the tables; fails if a number is not what the program says.
pub fn task(options: &Options) -> Result<()> {
    let (cases, passed) = test::told(CASES_VARIABLE, &TEST_FILTERS, &[])?;
    let part = part(&cases)?;
    println!("{part}");
    passed?;
    if options.write_docs {
        page::write(PAGE_FILE, PAGE_COMMAND, &part)?;
    }
    Ok(())
}

/// A run of a program.
#[derive(Deserialize)]
struct Case {
    experiment: String,
    case: String,
    numbers: Vec<Number>,
}

#[derive(Deserialize)]
struct Number {
    name: String,
    program: f64,
    iotrace: f64,
}

/// The tables and bars of lines of JSON, by experiment. If a case was measured several times, the last one counts.
fn part(lines: &str) -> Result<String> {
    let mut experiments: Vec<(String, Vec<Case>)> = Vec::new();
    for line in lines.lines() {
        let case: Case =
            serde_json::from_str(line).context("a line of the experiments is no case")?;
        let known = experiments
            .iter()
            .position(|(name, _)| *name == case.experiment);
        let place = known.unwrap_or_else(|| {
            experiments.push((case.experiment.clone(), Vec::new()));
            experiments.len() - 1
        });
        let cases = &mut experiments[place].1;
        match cases.iter_mut().find(|known| known.case == case.case) {
            Some(known) => *known = case,
            None => cases.push(case),
        }
    }
    experiments.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut part = String::new();
    for (name, cases) in &experiments {
        // Writing to a string cannot fail.
        let _ = writeln!(
            part,
            "\n### {name}\n\n{}\n```text\n{}```",
            table(cases),
            bars(cases)
        );
    }
    part.push('\n');
    Ok(part)
}

fn table(cases: &[Case]) -> String {
    let mut table =
        "| | number | program | iotrace | difference |\n|---|---|--:|--:|--:|\n".to_owned();
    for case in cases {
        for number in &case.numbers {
            let Number {
                name,
                program,
                iotrace,
            } = number;
            let (program, iotrace) = (digits(*program), digits(*iotrace));
            let difference = difference(number);
            let case = &case.case;
            let _ = writeln!(
                table,
                "| {case} | {name} | {program} | {iotrace} | {difference} |"
            );
        }
    }
    table
}

/// By how much iotrace's number is larger, of the program's.
fn difference(number: &Number) -> String {
    let Number {
        program, iotrace, ..
    } = number;
    if program == iotrace {
        return "none".to_owned();
    }
    match program.abs() < 0.1 {
        true => format!("{:+.1} ms", (iotrace - program) * 1e3),
        false => format!("{:+.1} %", (iotrace / program - 1.0) * 100.0),
    }
    .replace("-0.0", "+0.0")
}

fn digits(number: f64) -> String {
    match number.fract() == 0.0 {
        true => format!("{number}"),
        false => format!("{number:.3}"),
    }
}

/// The first number of each case, as the program and as iotrace says it.
fn bars(cases: &[Case]) -> String {
    let firsts = cases.iter().filter_map(|case| {
        let first = case.numbers.first()?;
        Some((case.case.as_str(), first))
    });
    let firsts: Vec<_> = firsts.collect();
    let largest = firsts
        .iter()
        .map(|(_, first)| first.program.max(first.iotrace))
        .fold(f64::MIN_POSITIVE, f64::max);
    let width = firsts.iter().map(|(case, _)| case.len()).max().unwrap_or(0);
    let mut bars = firsts
        .first()
        .map(|(_, first)| format!("{}\n", first.name))
        .unwrap_or_default();
    for (case, first) in firsts {
        for (who, value, case) in [
            ("program", first.program, case),
            ("iotrace", first.iotrace, ""),
        ] {
            let bar = "█".repeat((value / largest * MAX_BAR_CHARS).round() as usize);
            let _ = writeln!(bars, "{case:width$}  {who}  {bar} {value:.2}");
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"experiment": "B", "case": "1", "numbers": [{"name": "reading, s", "program": 2.0, "iotrace": 9.0}]}
{"experiment": "A", "case": "x", "numbers": [{"name": "saves", "program": 4, "iotrace": 4}]}
{"experiment": "B", "case": "1", "numbers": [{"name": "reading, s", "program": 2.0, "iotrace": 2.02}]}
{"experiment": "B", "case": "22", "numbers": [{"name": "reading, s", "program": 0.05, "iotrace": 0.06}]}
"#;

    #[test]
    fn a_case_is_a_row_and_two_bars() {
        let part = part(LINES).expect("cases");
        let tables: Vec<&str> = part.split("### ").skip(1).collect();
        assert!(
            tables[0].starts_with("A\n") && tables[1].starts_with("B\n"),
            "{part}"
        );
        assert!(part.contains("| x | saves | 4 | 4 | none |"), "{part}");
        assert!(
            part.contains("| 1 | reading, s | 2 | 2.020 | +1.0 % |"),
            "{part}"
        );
        assert!(
            part.contains("| 22 | reading, s | 0.050 | 0.060 | +10.0 ms |"),
            "{part}"
        );
        let bars: Vec<usize> = tables[1]
            .lines()
            .map(|line| line.matches('█').count())
            .filter(|length| *length > 0)
            .collect();
        assert_eq!(bars, [40, 40, 1, 1]);
    }

    #[test]
    fn what_is_no_case_is_an_error() {
        assert!(part("{}").is_err());
        assert_eq!(part("").expect("nothing"), "\n");
    }
}
