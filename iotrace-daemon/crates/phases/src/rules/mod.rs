//! Ordered rules: which paths belong to which phase. The first that matches wins; the user's come before the built-in.
//!
//! ```toml
//! [[rule]]
//! name = "imagenet"
//! phase = "training"                  # startup, training, checkpoint, restore, other
//! glob = ["/lustre/*/imagenet/**"]    # one or a list
//! direction = "read"                  # read, write or any, which is the default
//! fs_type = ["lustre"]                # where absent: on any filesystem
//! ```
//!
//! `docs/guide/phases.md` describes the file. [`RuleSet`] leaves this module.

mod error;
mod file;

use std::{collections::HashSet, path::Path};

pub use error::{Problem, RulesError};

use super::{
    glob::Glob,
    phase::{Direction, Phase},
};
use iotrace_model::regular_file;

/// Maximum number of rules, built-in ones included: the table has 12 bits for the number.
pub const MAX_RULES: usize = 0xfff;

/// The built-in catalogue.
pub(crate) const BUILTIN_TEXT: &str = include_str!("../builtin.toml");
/// How the built-in catalogue is called where a file would be named.
pub const BUILTIN_NAME: &str = "built-in";

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    pub phase: Phase,
    pub globs: Vec<Glob>,
    /// By [`Direction::index`]: whether it says anything of files used so.
    pub directions: [bool; 2],
    /// Filesystems that it is for; empty: all.
    pub fs_types: Vec<String>,
    /// Whether `A` and `a` are the same to its globs.
    pub ignore_case: bool,
    pub origin: Origin,
}

/// Where a rule is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub file: String,
    pub line: usize,
    pub is_builtin: bool,
}

impl Rule {
    /// Whether it is for files of this filesystem.
    pub fn is_on(&self, fs_type: &str) -> bool {
        self.fs_types.is_empty() || self.fs_types.iter().any(|name| name == fs_type)
    }

    /// Whether it is a built-in rule of one of these names.
    pub fn is_builtin_of(&self, names: &[&str]) -> bool {
        self.origin.is_builtin && names.contains(&self.name.as_str())
    }

    /// `read`, `write` or `any`.
    pub fn direction_name(&self) -> &'static str {
        match self.directions {
            [true, true] => "any",
            [true, false] => Direction::Read.name(),
            _ => Direction::Write.name(),
        }
    }
}

/// Rules in their order.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
}

impl RuleSet {
    /// The built-in catalogue.
    pub fn builtin() -> Result<Self, RulesError> {
        let rules = file::parse(BUILTIN_NAME, BUILTIN_TEXT, true).map_err(RulesError::Wrong)?;
        Ok(Self { rules })
    }

    /// The rules in the file at `path`, without the built-in ones.
    pub fn read(path: &Path) -> Result<Self, RulesError> {
        let text = regular_file::read_text(path).map_err(|source| RulesError::Read {
            path: path.into(),
            source,
        })?;
        Self::parse(&path.to_string_lossy(), &text)
    }

    /// The rules in `text`, which is that of `file`, without the built-in ones.
    pub fn parse(file: &str, text: &str) -> Result<Self, RulesError> {
        let rules = file::parse(file, text, false).map_err(RulesError::Wrong)?;
        Ok(Self { rules })
    }

    /// These rules, followed by the built-in ones. A rule with the name of a built-in one replaces it.
    pub fn with_builtin(mut self) -> Result<Self, RulesError> {
        let builtin = Self::builtin()?;
        let names: HashSet<String> = self.rules.iter().map(|rule| rule.name.clone()).collect();
        self.rules.extend(
            builtin
                .rules
                .into_iter()
                .filter(|rule| !names.contains(&rule.name)),
        );
        Ok(self)
    }

    /// All rules, the first first.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }
}
