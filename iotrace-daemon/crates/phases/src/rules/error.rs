//! Why rules cannot be used: what is wrong, where, and the mend.

use std::{fmt, io, path::PathBuf};

use crate::dfa::TooLarge;

/// Something wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the file.
    pub file: String,
    /// First line is 1.
    pub line: usize,
    /// What is wrong, and the mend.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("cannot read the rules in {path}: {source}; name a file that can be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<Problem>),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}
