//! The parts of a recording, of which the newest may be replaced while it is read.

use std::{
    collections::BTreeSet,
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{
    Error, REPLACED_FILE, checksums,
    meta::{Meta, is_part},
};
use iotrace_model::regular_file;

/// Longest name that [`REPLACED_FILE`] can hold.
const MAX_NAME_BYTES: u64 = 64;

/// Names of the parts that count, in order: those that the recorder listed, and those that it did not live to list; without
/// those that another one replaces.
pub fn names(directory: &Path, listed: &[String]) -> Result<BTreeSet<String>, Error> {
    let fail = |cause| Error::io("read", directory, cause);
    let mut parts: BTreeSet<String> = listed.iter().cloned().collect();
    let mut replaced = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let name = entry
            .map_err(fail)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if is_part(&name) {
            replaced.extend(replaced_by(&directory.join(&name))?);
            parts.insert(name);
        }
    }
    for name in replaced {
        parts.remove(&name);
    }
    Ok(parts)
}

/// The name of the part that a part replaces.
fn replaced_by(part: &Path) -> Result<Option<String>, Error> {
    let path = part.join(REPLACED_FILE);
    let mut text = String::new();
    let read = regular_file::open(&path)
        .and_then(|file| file.take(MAX_NAME_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path, error)),
    }
    let name = text.trim_end();
    let is_older = part
        .file_name()
        .is_some_and(|own| own.as_encoded_bytes() > name.as_bytes());
    if !is_part(name) || !is_older {
        return Err(Error::damaged(path, "it does not name an older part"));
    }
    Ok(Some(name.into()))
}

/// Visits the directories of all parts in order, whose files are as they were written; `visit` says whether to go on.
/// [`Error::Replaced`]: the last one visited was replaced at the same time, and what was read of it may not be all.
pub fn each(
    directory: &Path,
    meta: &Meta,
    mut visit: impl FnMut(&Path) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut left = names(directory, &meta.parts)?;
    while let Some(name) = left.pop_first() {
        let path: PathBuf = directory.join(&name);
        if !path.is_dir() {
            // Another one has replaced it since they were listed.
            left = names(directory, &Meta::read(directory)?.parts)?;
            if left.contains(&name) {
                return Err(Error::damaged(path, "it is missing"));
            }
            left.retain(|other| *other > name);
            continue;
        }
        let goes_on = checksums::check(&path).and_then(|()| visit(&path));
        if !path.is_dir() {
            return Err(Error::Replaced(path));
        }
        if !goes_on? {
            break;
        }
    }
    Ok(())
}
