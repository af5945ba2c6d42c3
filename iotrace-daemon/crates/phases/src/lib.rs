//! Which phase of a training job I/O belongs to, by path, direction and filesystem.
//!
//! ```text
//! rules (TOML, built-in catalogue) -> dfa (one table) -> Verdict of a path -> context (what only the run tells, copies among it)
//! ```
//!
//! [`Classifier`] sorts paths, `check` finds rules that never win; `docs/guide/phases.md` describes the rules.

pub mod check;
pub mod context;
pub mod copies;
mod data_names;
pub mod dfa;
pub mod glob;
mod made_once;
pub mod path_glob;
pub mod phase;
pub mod rules;
pub mod used;

use std::sync::LazyLock;

use dfa::{Table, Verdict};
use rules::{BUILTIN_TEXT, RuleSet, RulesError};

use iotrace_model::mounts;

/// Rules with their table.
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: RuleSet,
    table: Table,
}

/// A rule that matches a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match<'a> {
    /// Its place.
    pub rule: usize,
    /// Its first glob that matches.
    pub glob: &'a str,
}

impl Classifier {
    /// Compiles `rules`.
    pub fn new(rules: RuleSet) -> Result<Self, RulesError> {
        let mut all = rules.all().iter();
        if all.len() > 0 && all.all(|rule| rule.origin.is_builtin) {
            return Ok(Self::builtin().clone());
        }
        let table = dfa::build(rules.all())?;
        Ok(Self { rules, table })
    }

    /// The built-in rules with the table that is stored of them.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Classifier> = LazyLock::new(|| {
            let compiled = RuleSet::builtin().and_then(|rules| {
                let table = match dfa::stored(BUILTIN_TEXT) {
                    Some(table) => table,
                    None => dfa::build_within(rules.all(), &dfa::CpuTime::unlimited())?,
                };
                Ok(Classifier { rules, table })
            });
            compiled.unwrap_or_else(|error| panic!("the built-in rules do not compile: {error}"))
        });
        &BUILTIN
    }

    /// The rules, by the numbers that verdicts have.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Their table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What the file or directory at `path` is, on a filesystem of type `fs_type`, which may be empty.
    pub fn verdict(&self, path: &[u8], is_directory: bool, fs_type: &str) -> Verdict {
        let base = self.table.base(mounts::family(fs_type));
        self.table.verdict(path, is_directory, base)
    }

    /// Every rule that matches, whatever the direction, in order.
    pub fn matches(&self, path: &[u8], is_directory: bool, fs_type: &str) -> Vec<Match<'_>> {
        let mut matches = Vec::new();
        for (index, rule) in self.rules.all().iter().enumerate() {
            if !rule.is_on(mounts::family(fs_type)) {
                continue;
            }
            let matching = rule.globs.iter().find(|glob| {
                dfa::of_glob(glob, rule.ignore_case)
                    .is_some_and(|unit| unit.matches(path, is_directory))
            });
            matches.extend(matching.map(|glob| Match {
                rule: index,
                glob: glob.text(),
            }));
        }
        matches
    }
}

#[cfg(test)]
mod tests;
