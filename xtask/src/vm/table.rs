//! What came out: a row for each test, a column for each kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, bail};

use super::arch::Arch;
use super::guest::{Outcome, Verdict};
use super::kept::Row;
use super::kernels::{Kernel, Release};
use super::plan::Machine;

/// A kernel's column.
pub type Column = (Arch, Release);

/// All outcomes.
#[derive(Default)]
pub struct Table {
    /// Versions by architecture and release.
    pub kernels: BTreeMap<Column, String>,
    /// Machine and test, in the order in which they came.
    rows: Vec<(&'static str, String)>,
    /// The commit that ran, and what came of it.
    cells: BTreeMap<(usize, Column), (String, Outcome)>,
}

impl Table {
    /// Takes in what a machine did.
    pub fn add(&mut self, kernel: &Kernel, machine: &Machine, outcomes: Vec<Outcome>) {
        let column = (kernel.arch, kernel.release);
        let version = format!("{}{}", kernel.version, kernel.arch);
        for outcome in outcomes {
            self.insert(
                column,
                version.clone(),
                machine.name,
                String::new(),
                outcome,
            );
        }
    }

    /// Puts one outcome in, in place of that of an earlier run.
    pub fn insert(
        &mut self,
        column: Column,
        version: String,
        machine: &'static str,
        commit: String,
        outcome: Outcome,
    ) {
        self.kernels.insert(column, version);
        let row = self.row(machine, &outcome.name);
        self.cells.insert((row, column), (commit, outcome));
    }

    /// All outcomes, one by one.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.cells
            .iter()
            .map(|((row, column), (commit, outcome))| Row {
                column: *column,
                version: self.kernels[column].clone(),
                machine: self.rows[*row].0,
                commit: commit.clone(),
                outcome: outcome.clone(),
            })
    }

    /// The commits that ran.
    pub fn commits(&self) -> BTreeSet<&str> {
        self.cells
            .values()
            .map(|(commit, _)| commit.as_str())
            .collect()
    }

    fn row(&mut self, machine: &'static str, test: &str) -> usize {
        let same = |(m, t): &(&str, String)| *m == machine && t == test;
        self.rows.iter().position(same).unwrap_or_else(|| {
            self.rows.push((machine, test.to_owned()));
            self.rows.len() - 1
        })
    }

    /// An error that says how many did not pass, if any did not.
    pub fn verdict(&self) -> Result<()> {
        let count = |verdict| {
            let verdicts = self.cells.values().map(|(_, outcome)| outcome.verdict);
            verdicts.filter(|one| *one == verdict).count()
        };
        let (passed, unable) = (count(Verdict::Passed), count(Verdict::NoModule));
        let all = self.cells.len() - unable;
        if all == 0 || passed < all {
            bail!(
                "{} of {all} tests in virtual machines did not pass",
                all - passed
            );
        }
        println!("{all} tests in virtual machines passed");
        if unable > 0 {
            println!(
                "{unable} could not run: of those kernels the package lists have the image, and the modules no more"
            );
        }
        Ok(())
    }

    /// What tests measured: machine, test, kernel, words.
    pub fn measured(&self) -> impl Iterator<Item = (&str, &str, String, &str)> {
        self.cells.iter().flat_map(|((row, column), (_, outcome))| {
            let (machine, test) = &self.rows[*row];
            let words = outcome.measured.iter();
            words.map(move |words| (*machine, test.as_str(), name(column), words.as_str()))
        })
    }
}

/// In Markdown, which the terminal reads as well.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| machine | test |")?;
        self.kernels
            .keys()
            .try_for_each(|column| write!(f, " {} |", name(column)))?;
        write!(f, "\n|---|---|")?;
        self.kernels.keys().try_for_each(|_| write!(f, "---|"))?;
        for (index, (machine, test)) in self.rows.iter().enumerate() {
            write!(f, "\n| {machine} | {} |", test.replace('_', " "))?;
            for column in self.kernels.keys() {
                let cell = self.cells.get(&(index, *column));
                write!(
                    f,
                    " {} |",
                    cell.map_or("", |(_, outcome)| outcome.verdict.word())
                )?;
            }
        }
        writeln!(f)
    }
}

fn name((arch, release): &Column) -> String {
    format!("{release}{arch}")
}

impl Verdict {
    pub const ALL: [Self; 5] = [
        Self::Passed,
        Self::Failed,
        Self::Died,
        Self::NotBegun,
        Self::NoModule,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed => "**failed**",
            Self::Died => "**died**",
            Self::NotBegun => "**did not run**",
            Self::NoModule => "no module",
        }
    }
}
