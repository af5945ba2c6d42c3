//! The recordings that are served, by their names.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use iotrace_recording::Error;

/// Those of the command line.
pub struct Recordings {
    all: Vec<(String, PathBuf)>,
}

impl Recordings {
    /// Of these directories, each of which must be a recording.
    pub fn new(directories: Vec<PathBuf>) -> anyhow::Result<Self> {
        for directory in &directories {
            // One that is damaged says so when it is asked for.
            let about = iotrace_recording::about(directory);
            if let Err(error @ (Error::NotARecording(_) | Error::Io { .. })) = about {
                return Err(error.into());
            }
        }
        let named = |directory: PathBuf| (directory.to_string_lossy().into_owned(), directory);
        let mut all: Vec<_> = directories.into_iter().map(named).collect();
        all.dedup();
        Ok(Self { all })
    }

    /// Names and directories, in the order of the command line.
    pub fn all(&self) -> &[(String, PathBuf)] {
        &self.all
    }

    /// The directories of these names; of the only recording where none is named.
    pub fn named(&self, names: &[String]) -> anyhow::Result<Vec<PathBuf>> {
        if !names.is_empty() {
            return names.iter().map(|name| self.one(name)).collect();
        }
        match &self.all[..] {
            [(only, _)] => Ok(vec![self.one(only)?]),
            _ => bail!("name a recording of {}", self.names()),
        }
    }

    /// The directory of one name.
    pub fn one(&self, name: &str) -> anyhow::Result<PathBuf> {
        let found = self.all.iter().find(|(known, _)| known == name);
        let (_, directory) = found.with_context(|| {
            format!("name a recording of {}: there is no {name:?}", self.names())
        })?;
        check_links(directory)?;
        Ok(directory.clone())
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.all.iter().map(|(name, _)| &**name).collect();
        format!("{names:?}")
    }
}

/// Refuses links in a recording: they may lead out of it.
pub fn check_links(directory: &Path) -> anyhow::Result<()> {
    let check = || {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                return Ok(Some(entry.path()));
            }
            if !kind.is_dir() {
                continue;
            }
            for entry in fs::read_dir(entry.path())? {
                let entry = entry?;
                if entry.file_type()?.is_symlink() {
                    return Ok(Some(entry.path()));
                }
            }
        }
        Ok(None)
    };
    let found: io::Result<Option<PathBuf>> = check();
    let found = found.with_context(|| format!("cannot read {}", directory.display()))?;
    match found {
        Some(link) => bail!(
            "replace {} by what it leads to: a recording that is served has no symbolic links",
            link.display()
        ),
        None => Ok(()),
    }
}
