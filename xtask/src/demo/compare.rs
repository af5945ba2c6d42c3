//! Tables of two columns that must be equal.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::figures::count;
use super::strace::Log;

/// Calls and bytes that are compared with strace's.
const COUNTERS: [&str; 12] = [
    "opens",
    "closes",
    "reads",
    "zero_reads",
    "writes",
    "seeks",
    "fsyncs",
    "fdatasyncs",
    "renames",
    "unlinks",
    "bytes_read",
    "bytes_written",
];

/// Rows of a name and two numbers.
pub struct Table {
    titles: [&'static str; 3],
    rows: Vec<(String, u64, u64)>,
}

impl Table {
    pub fn new(what: &'static str, wanted: &'static str, found: &'static str) -> Self {
        Self {
            titles: [what, wanted, found],
            rows: Vec::new(),
        }
    }

    /// What the program says it did, beside the report's phases, epochs and checkpoints.
    pub fn program(&mut self, program: &Value, report: &Value) -> Result<()> {
        let said = |key: &str| program[key].as_u64();
        let events = |key: &str| {
            let list = report[key].as_array();
            list.with_context(|| format!("the report has no {key}"))
        };
        let sum = |key: &str, counter: &str| -> Result<u64> {
            let numbers = events(key)?.iter().map(|event| event[counter].as_u64());
            numbers
                .sum::<Option<u64>>()
                .with_context(|| format!("{key} have no {counter}"))
        };
        let phase = |name: &str, counter: &str| number(&report["phases"][name], counter);
        for (title, key, found) in [
            ("epochs", "epochs", events("epochs")?.len() as u64),
            (
                "bytes read in epochs",
                "training_bytes",
                sum("epochs", "bytes_read")?,
            ),
            (
                "checkpoints",
                "checkpoints",
                events("checkpoints")?.len() as u64,
            ),
            (
                "bytes of checkpoints",
                "checkpoint_bytes",
                sum("checkpoints", "bytes_written")?,
            ),
            ("restores", "restores", events("restores")?.len() as u64),
            (
                "phase training: files",
                "training_files",
                phase("training", "files"),
            ),
            (
                "phase training: reads",
                "training_reads",
                phase("training", "reads"),
            ),
            (
                "phase training: bytes read",
                "training_bytes",
                phase("training", "bytes_read"),
            ),
            (
                "phase checkpoint: files",
                "checkpoint_files",
                phase("checkpoint", "files"),
            ),
            (
                "phase checkpoint: bytes written",
                "checkpoint_bytes",
                phase("checkpoint", "bytes_written"),
            ),
            ("loader processes", "loaders", loaders(report)),
        ] {
            // What one of the programs cannot know is not compared.
            if let Some(wanted) = said(key) {
                self.rows.push((title.to_owned(), wanted, found));
            }
        }
        self.files(program, report)
    }

    /// What the program knows of files that it mapped.
    fn files(&mut self, program: &Value, report: &Value) -> Result<()> {
        for (name, file) in program["files"].as_object().into_iter().flatten() {
            let rows = report["files"].as_array().into_iter().flatten();
            let is_it = |path: &str| path.ends_with(&format!("/{name}"));
            let row = rows
                .into_iter()
                .find(|row| row["path"].as_str().is_some_and(is_it))
                .with_context(|| format!("the report has no {name}"))?;
            let came = number(file, "after") - number(file, "before");
            let fetched = number(row, "bytes_fetched");
            self.rows.extend([
                (
                    format!("{name}: size"),
                    number(file, "size"),
                    number(row, "size"),
                ),
                (format!("{name}: bytes from storage"), came, fetched),
            ]);
        }
        Ok(())
    }

    /// What strace counted, beside the report's totals of the same processes.
    pub fn strace(&mut self, log: &Log, report: &Value) -> Result<()> {
        let processes = report["processes"]
            .as_array()
            .context("the report has no processes")?;
        let traced: Vec<_> = processes
            .iter()
            .filter(|process| log.threads.contains(&number(process, "pid")))
            .collect();
        if traced.is_empty() {
            bail!("strace and iotrace have no process in common");
        }
        for counter in COUNTERS {
            let wanted = log.counts.get(counter).copied().unwrap_or(0);
            let found = traced
                .iter()
                .map(|process| number(&process["totals"], counter));
            self.rows
                .push((counter.replace('_', " "), wanted, found.sum()));
        }
        let phase = |name: &str, counter: &str| number(&report["phases"][name], counter);
        self.rows.extend([
            (
                "bytes read, phase training".to_owned(),
                log.training_bytes,
                phase("training", "bytes_read"),
            ),
            (
                "bytes written, phase checkpoint".to_owned(),
                log.checkpoint_bytes,
                phase("checkpoint", "bytes_written"),
            ),
        ]);
        Ok(())
    }

    /// Prints it. A row whose numbers differ is an error, after all are shown.
    pub fn print(&self) -> Result<()> {
        let [what, wanted, found] = self.titles;
        println!("{what:32} {wanted:>15} {found:>15}");
        for (title, wanted, found) in &self.rows {
            let mark = if wanted == found { "" } else { "  DIFFERENT" };
            println!(
                "{title:32} {:>15} {:>15}{mark}",
                count(*wanted),
                count(*found)
            );
        }
        println!();
        let different = self
            .rows
            .iter()
            .filter(|(_, wanted, found)| wanted != found)
            .count();
        if different > 0 {
            bail!(
                "{different} of {} numbers differ between {wanted} and {found}",
                self.rows.len()
            );
        }
        Ok(())
    }
}

/// Processes that read training data.
fn loaders(report: &Value) -> u64 {
    let files = report["files"].as_array().into_iter().flatten();
    let readers = files.filter(|row| row["phase"] == "training" && number(row, "reads") > 0);
    let pids: BTreeSet<u64> = readers.map(|row| number(row, "pid")).collect();
    pids.len() as u64
}

/// A counter of an object; 0 where it is absent.
pub fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or(0)
}
