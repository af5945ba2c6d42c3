//! The part of docs/reference/kernel-support.md that a run writes.

use std::fmt::Write as _;

use anyhow::Result;

use crate::page;

use super::table::Table;

const FILE: &str = "docs/reference/kernel-support.md";
const COMMAND: &str = "cargo xtask vm --write-docs";

/// Replaces the part by this table.
pub fn write(table: &Table) -> Result<()> {
    page::write(FILE, COMMAND, &part(table))
}

fn part(table: &Table) -> String {
    let versions: Vec<&str> = table.kernels.values().map(String::as_str).collect();
    let commits: Vec<&str> = table.commits().into_iter().collect();
    let mut part = format!(
        "\nDebian's kernels {}.\nEach test as it ended when it last ran there, on {}. An empty field was not run.\n\n{table}",
        versions.join(", "),
        commits.join(", "),
    );
    let mut rows = table.measured().peekable();
    if rows.peek().is_some() {
        part.push_str("\n| kernel | machine | test | measured |\n|---|---|---|---|\n");
    }
    for (machine, test, release, words) in rows {
        let test = test.replace('_', " ");
        // Writing to a string cannot fail.
        let _ = writeln!(part, "| {release} | {machine} | {test} | {words} |");
    }
    part.push('\n');
    part
}
