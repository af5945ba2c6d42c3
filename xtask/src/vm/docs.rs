//! The part of docs/reference/kernel-support.md that a run writes.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};

use crate::cmd;

use super::table::Table;

const FILE: &str = "docs/reference/kernel-support.md";
/// The written part stands between these.
const BEGIN: &str = "<!-- begin: written by `cargo xtask vm --write-docs` -->\n";
const END: &str = "<!-- end -->\n";

/// Replaces the part by this table.
pub fn write(table: &Table) -> Result<()> {
    let path = cmd::root().join(FILE);
    let old = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    let new = replaced(&old, &part(table)).with_context(|| {
        format!(
            "{FILE} has lost the lines `{}` and `{}`",
            BEGIN.trim_end(),
            END.trim_end()
        )
    })?;
    fs::write(&path, new).with_context(|| format!("cannot write {FILE}"))?;
    eprintln!("vm: wrote {FILE}");
    Ok(())
}

/// The text with another part between the two lines.
fn replaced(text: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{part}{END}{after}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_page_stays() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(
            replaced(&page, "new\n"),
            Some(format!("a\n{BEGIN}new\n{END}b\n"))
        );
        assert_eq!(replaced("nothing", "new"), None);
    }
}
