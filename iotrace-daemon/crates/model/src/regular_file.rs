//! Files that somebody else may have put there: regular ones only, since a pipe or a device never ends, and of bounded size.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Longest text file.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Opens a regular file to read it.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Reads a regular file of text: rules or a configuration.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let bytes = open(path)?
        .take(MAX_TEXT_BYTES + 1)
        .read_to_string(&mut text)?;
    if bytes as u64 > MAX_TEXT_BYTES {
        return Err(io::Error::other(format!(
            "it has more than {} MiB",
            MAX_TEXT_BYTES >> 20
        )));
    }
    Ok(text)
}
