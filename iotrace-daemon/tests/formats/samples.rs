//! Sample outputs in the documentation, which `cargo xtask samples` writes: their numbers are those of another run, their
//! form is that of a report of now.

use std::{collections::BTreeSet, process::Command};

use crate::common::golden;

/// The pages with the first screen of `examples/train.py`.
const SAMPLE_PAGES: [&str; 2] = [
    include_str!("../../../README.md"),
    include_str!("../../../docs/guide/first-report.md"),
];
/// What a line of such a screen may begin with.
const KNOWN_LINES: [&str; 10] = [
    "training reads",
    "checkpoints",
    "startup",
    "other files",
    "page faults",
    "everything else",
    "Epochs:",
    "Saves:",
    "IN CALLS              READ   WRITTEN     FILES  WHERE",
    "Recording:",
];

/// Lines without which a run may be.
const MAY_MISS: [&str; 4] = ["startup", "other files", "page faults", "IN CALLS"];

/// Which of the lines a screen has.
fn lines(screen: &str) -> BTreeSet<&'static str> {
    let lines = screen.lines().filter_map(|line| line.strip_prefix(' '));
    let known = lines.filter_map(|line| {
        KNOWN_LINES
            .into_iter()
            .find(|known| line.starts_with(known))
    });
    known.collect()
}

#[test]
fn the_first_screen_in_the_documentation_is_that_of_a_report() {
    let kept = golden::kept("training");
    let report = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("report")
        .arg(&kept.recording)
        .output()
        .expect("iotrace starts");
    let report = String::from_utf8(report.stdout).expect("UTF-8");
    let wanted = lines(&report);
    assert_eq!(
        wanted.len(),
        KNOWN_LINES.len(),
        "a line has changed: {report}"
    );
    for page in SAMPLE_PAGES {
        let sample = page
            .split_once("<!-- begin: written by `cargo xtask samples` -->\n```text\n")
            .and_then(|(_, rest)| Some(rest.split_once("\n```\n")?.0))
            .expect("a sample");
        let (found, count) = (lines(sample), sample.lines().count());
        for line in &wanted {
            let may_miss = MAY_MISS.iter().any(|missed| line.starts_with(missed));
            assert!(found.contains(line) || may_miss, "no {line}: {sample}");
        }
        assert!(count <= 24, "{count} lines: {sample}");
        for line in sample.lines() {
            let width = line.chars().count();
            assert!(width <= 80, "{width} columns: {line}");
        }
    }
}
