//! The file, read and checked: an error names the file, the line and the key.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::Config;
use iotrace_model::regular_file;

/// Where the file is, unless another is named. It may be missing there.
pub const DEFAULT_PATH: &str = "/etc/iotrace/iotrace.toml";

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the configuration {path} cannot be read: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        reason: String,
    },
    #[error("the configuration by flags and environment: {0}")]
    Outside(String),
}

impl Config {
    /// Reads `file`, or the default one where none is named; that one may be missing.
    pub fn read(file: Option<&Path>) -> Result<(Self, String), ConfigError> {
        let path = file.unwrap_or(Path::new(DEFAULT_PATH));
        let text = match regular_file::read_text(path) {
            Ok(text) => text,
            Err(error) if file.is_none() && error.kind() == io::ErrorKind::NotFound => {
                String::new()
            }
            Err(source) => {
                return Err(ConfigError::Unreadable {
                    path: path.into(),
                    source,
                });
            }
        };
        Ok((Self::parse(&text, path)?, text))
    }

    /// Parses the text of `path`; what its keys say together is checked later, when the flags are known.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError::Line {
            path: path.into(),
            line: error.span().map_or(1, |span| line_of(text, span.start)),
            reason: error.message().replace('\n', "; "),
        })
    }

    /// Checks the whole; an error names the line of its key, where that stands in the file.
    pub fn checked(self, text: &str, path: &Path) -> Result<Self, ConfigError> {
        match self.check() {
            Ok(()) => Ok(self),
            Err((key, reason)) => Err(match line_of_key(text, key) {
                Some(line) => ConfigError::Line {
                    path: path.into(),
                    line,
                    reason,
                },
                None => ConfigError::Outside(reason),
            }),
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let is_key = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    text.lines().position(is_key).map(|index| index + 1)
}
