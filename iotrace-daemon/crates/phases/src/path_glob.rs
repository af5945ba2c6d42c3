//! Globs of [`glob`](super::glob) on the command line, and the files that they choose.

use std::str::FromStr;

use super::{
    dfa::{self, Unit},
    glob::{Glob, GlobError},
};

/// Why a text cannot be used as a glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathGlobError {
    #[error(transparent)]
    Glob(#[from] GlobError),
    #[error("it is too large: write a shorter glob, with fewer * and **")]
    TooLarge,
}

/// A glob with its automaton.
#[derive(Clone, Debug)]
pub struct PathGlob {
    text: String,
    unit: Unit,
}

impl FromStr for PathGlob {
    type Err = PathGlobError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let glob = Glob::new(text)?;
        let unit = dfa::of_glob(&glob, false).ok_or(PathGlobError::TooLarge)?;
        let text = text.to_owned();
        Ok(Self { text, unit })
    }
}

impl PathGlob {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches the whole path of a file or a directory.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        self.unit.matches(path, is_directory)
    }
}

/// Files that globs choose: those that one of `include` matches, or all if there is none, without those that one of
/// `exclude` matches.
#[derive(Clone, Debug, Default)]
pub struct FileChoice {
    pub include: Vec<PathGlob>,
    pub exclude: Vec<PathGlob>,
}

impl FileChoice {
    /// Whether it has no glob: all files are chosen.
    pub fn is_everything(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether the file or directory at `path` is chosen.
    pub fn has(&self, path: &[u8], is_directory: bool) -> bool {
        let is_matched =
            |globs: &[PathGlob]| globs.iter().any(|glob| glob.matches(path, is_directory));
        (self.include.is_empty() || is_matched(&self.include)) && !is_matched(&self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(include: &[&str], exclude: &[&str]) -> FileChoice {
        let [include, exclude] = [include, exclude].map(|globs| {
            let globs = globs.iter().map(|glob| glob.parse());
            globs.collect::<Result<_, _>>().expect("globs")
        });
        FileChoice { include, exclude }
    }

    #[test]
    fn exclude_wins_and_nothing_included_is_everything() {
        let all = choice(&[], &[]);
        assert!(all.is_everything() && all.has(b"/data/a", false) && all.has(b"", false));
        let some = choice(&["/data/**", "*.pt"], &["*.log", "/data/tmp/**"]);
        for path in ["/data/a", "/data/b/c", "/out/x.pt"] {
            assert!(some.has(path.as_bytes(), false), "{path}");
        }
        for path in ["/data", "/out/x", "/data/a.log", "/data/tmp/x.pt", ""] {
            assert!(!some.has(path.as_bytes(), false), "{path}");
        }
        assert!(some.has(b"/data", true), "the directory itself");
        let others = choice(&[], &["/data/**"]);
        assert!(others.has(b"/out/x", false) && !others.has(b"/data/x", false));
    }

    #[test]
    fn a_star_stays_within_a_component() {
        let some = choice(&["/data/*.bin"], &[]);
        assert!(some.has(b"/data/a.bin", false) && !some.has(b"/data/b/a.bin", false));
    }

    #[test]
    fn what_is_no_glob_says_why() {
        let error = "/data/[a".parse::<PathGlob>().unwrap_err();
        assert_eq!(error, GlobError::OpenClass.into());
        assert!(error.to_string().contains("[ is not closed"), "{error}");
        // Which byte is the 24th from the end is known at the end alone.
        let large = format!("/{}a*", "?".repeat(24));
        assert_eq!(
            large.parse::<PathGlob>().unwrap_err(),
            PathGlobError::TooLarge
        );
    }
}
