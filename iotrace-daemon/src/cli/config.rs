//! What the user set: `--rules FILE`, else `iotrace.toml` here, else the machine's.

use std::path::{Path, PathBuf};

/// Where rules and thresholds are looked for when no file is named, in order.
const PLACES: [&str; 2] = ["iotrace.toml", "/etc/iotrace/iotrace.toml"];

/// The file with the user's rules and thresholds: the named one, else the first that is there.
pub fn file(named: Option<&Path>) -> Option<PathBuf> {
    let found = || PLACES.iter().map(PathBuf::from).find(|path| path.exists());
    named.map(Path::to_owned).or_else(found)
}
