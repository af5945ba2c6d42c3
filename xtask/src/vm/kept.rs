//! How each test ended when it last ran, over all runs: a kernel takes an emulated machine half an hour, so the table of
//! all of them need not come from one run. Kept in the cache, with the commit that ran.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::cmd;

use super::arch::Arch;
use super::guest::{Outcome, Verdict};
use super::kernels::Release;
use super::plan::MACHINES;
use super::table::{Column, Table};

const FILE: &str = "outcomes.json";

/// What all runs found, and what one adds to it.
pub struct Kept {
    path: PathBuf,
    /// What ran.
    commit: String,
}

impl Kept {
    /// That of a cache, for a run of what is checked out now.
    pub fn new(cache: &Path) -> Self {
        Self {
            path: cache.join(FILE),
            commit: commit(),
        }
    }

    /// Adds what came out.
    pub fn add(&self, new: &Table) -> Result<()> {
        let mut table = self.table()?;
        for mut row in new.rows() {
            row.commit.clone_from(&self.commit);
            row.put(&mut table);
        }
        let rows: Vec<Value> = table.rows().map(|row| row.json()).collect();
        let text = serde_json::to_string_pretty(&rows).context("cannot write JSON")?;
        fs::write(&self.path, text).with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// All of it, machine by machine.
    pub fn table(&self) -> Result<Table> {
        let mut table = Table::default();
        let Ok(text) = fs::read_to_string(&self.path) else {
            return Ok(table);
        };
        let values: Vec<Value> = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged: remove it", self.path.display()))?;
        // A row of a machine that there is no more, or of another format, is none.
        let mut rows: Vec<Row> = values.iter().filter_map(read).collect();
        rows.sort_by_key(|row| MACHINES.iter().position(|one| one.name == row.machine));
        rows.into_iter().for_each(|row| row.put(&mut table));
        Ok(table)
    }
}

/// What is checked out, by its short name; with `-dirty` where files were changed since.
fn commit() -> String {
    let mut git = cmd::command("git");
    git.args(["describe", "--always", "--dirty", "--exclude", "*"]);
    cmd::stdout_of(&mut git).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// One outcome, with all that says whose it is.
pub struct Row {
    pub column: Column,
    pub version: String,
    pub machine: &'static str,
    pub commit: String,
    pub outcome: Outcome,
}

impl Row {
    pub fn put(self, table: &mut Table) {
        let Self {
            column,
            version,
            machine,
            commit,
            outcome,
        } = self;
        table.insert(column, version, machine, commit, outcome);
    }

    fn json(&self) -> Value {
        let (arch, Release(major, minor)) = self.column;
        let Outcome {
            name,
            verdict,
            measured,
        } = &self.outcome;
        json!({
            "arch": arch.debian(),
            "release": [major, minor],
            "version": self.version,
            "machine": self.machine,
            "commit": self.commit,
            "test": name,
            "verdict": verdict.word(),
            "measured": measured,
        })
    }
}

fn read(value: &Value) -> Option<Row> {
    let text = |key: &str| value[key].as_str();
    let number = |index: usize| u32::try_from(value["release"][index].as_u64()?).ok();
    let arch = [Arch::Amd64, Arch::Arm64]
        .into_iter()
        .find(|arch| Some(arch.debian()) == text("arch"))?;
    let machine = MACHINES
        .iter()
        .find(|machine| Some(machine.name) == text("machine"))?;
    let verdict = Verdict::ALL
        .into_iter()
        .find(|verdict| Some(verdict.word()) == text("verdict"))?;
    let measured = value["measured"].as_array()?.iter();
    Some(Row {
        column: (arch, Release(number(0)?, number(1)?)),
        version: text("version")?.to_owned(),
        machine: machine.name,
        commit: text("commit")?.to_owned(),
        outcome: Outcome {
            name: text("test")?.to_owned(),
            verdict,
            measured: measured
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(verdict: Verdict, commit: &str) -> Row {
        Row {
            column: (Arch::Arm64, Release(6, 12)),
            version: "6.12.1".into(),
            machine: MACHINES[0].name,
            commit: commit.into(),
            outcome: Outcome {
                name: "exact::a_test".into(),
                verdict,
                measured: vec!["1 call".into()],
            },
        }
    }

    #[test]
    fn the_last_outcome_of_a_test_stands() {
        let mut table = Table::default();
        row(Verdict::Died, "a").put(&mut table);
        let kept = read(&row(Verdict::Passed, "b").json()).unwrap();
        kept.put(&mut table);
        let rows: Vec<Row> = table.rows().collect();
        let [row] = &rows[..] else {
            panic!("{} rows", rows.len())
        };
        assert_eq!(row.outcome.verdict, Verdict::Passed);
        assert_eq!(row.outcome.measured, ["1 call"]);
        assert_eq!((row.commit.as_str(), row.version.as_str()), ("b", "6.12.1"));
        assert!(read(&json!({"arch": "vax"})).is_none());
    }
}
