//! Checksums. The files of a part have theirs in a file beside them; `meta.json` holds its own.
//!
//! A part is written once and never changed, so a bit that is another than when it was written is found. Recordings of
//! earlier versions have none.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _, Write as _},
    path::Path,
};

use flate2::Crc;

use super::Error;
use crate::directory::Directory;
use iotrace_model::regular_file;

/// Lines of a checksum (CRC-32 as of gzip, hexadecimal), a size (bytes), and the name of a file.
const FILE_NAME: &str = "checksums";
/// A part has far fewer files, with far shorter names.
const MAX_BYTES: u64 = 64 << 10;

/// Writes the checksums of all files of a part into it.
pub(super) fn write(part: &Directory) -> io::Result<()> {
    let mut names = part.names()?;
    names.sort_unstable();
    let mut text = String::new();
    for name in names {
        let (sum, bytes) = sum_of(part.open_file(&name)?)?;
        text += &line_of(sum, bytes, &name);
        text.push('\n');
    }
    let mut file = part.create(FILE_NAME)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Fails where a file of a part is not as it was written.
pub(super) fn check(part: &Path) -> Result<(), Error> {
    let path = part.join(FILE_NAME);
    let text = match regular_file::open(&path) {
        Ok(file) => {
            let mut text = String::new();
            let read = file.take(MAX_BYTES).read_to_string(&mut text);
            read.map_err(|cause| Error::damaged(&path, cause))?;
            text
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("read", path, error)),
    };
    for line in text.lines() {
        let name =
            name_in(line).ok_or_else(|| Error::damaged(&path, "a line of it is no checksum"))?;
        let path = part.join(name);
        let found = regular_file::open(&path).and_then(sum_of);
        let (sum, bytes) = found.map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => Error::damaged(&path, "it is missing"),
            _ => Error::io("read", &path, cause),
        })?;
        if line_of(sum, bytes, name) != line {
            return Err(Error::damaged(&path, "its checksum is another"));
        }
    }
    Ok(())
}

fn line_of(sum: u32, bytes: u64, name: &OsStr) -> String {
    format!("{sum:08x} {bytes} {}", name.to_string_lossy())
}

/// The name of the file that a line is of: one in this directory.
fn name_in(line: &str) -> Option<&OsStr> {
    let name = line.splitn(3, ' ').nth(2)?;
    let is_plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    is_plain.then_some(OsStr::new(name))
}

fn sum_of(mut file: File) -> io::Result<(u32, u64)> {
    let mut crc = Crc::new();
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((crc.sum(), bytes)),
            Ok(read) => {
                crc.update(&buffer[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Stands in `meta.json` for its checksum while that is taken.
pub(super) const UNSEALED: &str = "00000000";
const META_KEY: &str = "\"checksum\": \"";

/// Puts the checksum of a text into it, where it has [`UNSEALED`].
pub(super) fn seal(text: &mut [u8]) {
    if let Some(place) = place(text) {
        let sum = format!("{:08x}", crc(text));
        text[place..place + UNSEALED.len()].copy_from_slice(sum.as_bytes());
    }
}

/// Whether a text is as it was sealed, or never was.
pub(super) fn is_intact(text: &[u8]) -> bool {
    let Some(place) = place(text) else {
        return true;
    };
    let mut unsealed = text.to_vec();
    unsealed[place..place + UNSEALED.len()].copy_from_slice(UNSEALED.as_bytes());
    seal(&mut unsealed);
    unsealed == text
}

fn crc(text: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(text);
    crc.sum()
}

/// Where the first checksum in a text begins: a key of the format, before anything that a program chose.
fn place(text: &[u8]) -> Option<usize> {
    let key = META_KEY.as_bytes();
    let at = text.windows(key.len()).position(|part| part == key)? + key.len();
    (text.len() >= at + UNSEALED.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_is_found() {
        let mut text = br#"{"version": 1, "checksum": "00000000", "value": 12}"#.to_vec();
        assert!(!is_intact(&text), "not sealed");
        seal(&mut text);
        assert!(is_intact(&text));
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let is_key = place(&changed).is_none();
            assert!(is_key || !is_intact(&changed), "bit {bit}");
        }
        assert!(is_intact(b"{}"), "of an earlier version");
    }
}
