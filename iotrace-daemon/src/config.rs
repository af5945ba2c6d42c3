//! What the user set: `--rules FILE`, else `iotrace.toml` here, else the machine's.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use iotrace_analysis::findings::thresholds::Thresholds;
use iotrace_model::regular_file;
use iotrace_phases::{
    Classifier,
    rules::{RuleSet, RulesError},
};
use iotrace_recording::directory::effective_user;

/// Where rules and thresholds are looked for when no file is named, in order.
const PLACES: [&str; 2] = ["iotrace.toml", "/etc/iotrace/iotrace.toml"];

/// The file with the user's rules and thresholds: the named one, else the first that exists.
pub fn file(named: Option<&Path>) -> Option<PathBuf> {
    let found = || {
        let mut places = PLACES.iter().map(PathBuf::from);
        places.find(|path| path.exists() && is_trusted(path))
    };
    named.map(Path::to_owned).or_else(found)
}

/// Whether root may read a file that it did not name: in the directory of a user it may be that user's.
fn is_trusted(path: &Path) -> bool {
    let is_roots = |about: fs::Metadata| about.uid() == 0 && about.mode() & 0o022 == 0;
    if effective_user() != 0 || path.is_absolute() || fs::metadata(path).is_ok_and(is_roots) {
        return true;
    }
    log::warn!(
        "{} here is ignored: it does not belong to root alone; --rules {0} reads it",
        path.display()
    );
    false
}

/// The rules that assign phases to files, and the thresholds of findings.
pub struct Sorting {
    pub classifier: Classifier,
    pub thresholds: Thresholds,
}

impl Sorting {
    /// Of the file that [`file`] finds, compiled.
    pub fn read(named: Option<&Path>) -> Result<Self, RulesError> {
        let (rules, thresholds) = read(named)?;
        Ok(Self {
            classifier: Classifier::new(rules)?,
            thresholds,
        })
    }
}

/// Rules, the built-in ones behind them, and thresholds of the file that [`file`] finds.
pub fn read(named: Option<&Path>) -> Result<(RuleSet, Thresholds), RulesError> {
    let Some(path) = file(named) else {
        return Ok((RuleSet::builtin()?, Thresholds::default()));
    };
    let text = match regular_file::read_text(&path) {
        Ok(text) => text,
        // The service's own, which holds its users' passwords.
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::PermissionDenied => {
            log::info!(
                "{} may not be read: files are sorted by the built-in rules",
                path.display()
            );
            return Ok((RuleSet::builtin()?, Thresholds::default()));
        }
        Err(source) => return Err(RulesError::Read { path, source }),
    };
    let name = path.to_string_lossy();
    let rules = RuleSet::parse(&name, &text)?.with_builtin()?;
    let thresholds = Thresholds::parse(&name, &text).map_err(RulesError::Wrong)?;
    Ok((rules, thresholds))
}
