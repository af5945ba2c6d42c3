//! What tells a file from others, where the kernel's own identity of it cannot be read.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    time::{Duration, UNIX_EPOCH},
};

use iotrace_common::{diag, key::FileId, nobtf::Opened};

use iotrace_model::host;
use iotrace_model::input::FileName;

/// In place of what a kernel's generation would be: the file's own identity could not be told.
pub(super) const UNKNOWN: u32 = u32::MAX;
/// In what stands in place of a generation: it was made up, and is no time.
pub(super) const OTHER: u32 = 1 << 31;
/// Filesystems take the time from the last clock tick, of which there are at least 100 a second; and some more.
const COARSE: Duration = Duration::from_millis(20);
/// `O_DIRECTORY` of x86-64.
const O_DIRECTORY: u64 = 0o200_000;

/// Whether iotrace looks at files of this type.
pub(super) fn is_file(mode: u32) -> bool {
    matches!(mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR)
}

/// The diagnostic that counts operations on what is no file.
pub(super) fn reason(mode: u32) -> u32 {
    diag::skipped((mode & libc::S_IFMT).into())
}

/// A device as the kernel numbers it.
pub(super) fn device(metadata: &Metadata) -> u32 {
    let device = metadata.dev();
    libc::major(device) << 20 | libc::minor(device)
}

/// Identity of a file. In place of the kernel's generation stands when it was made, where the filesystem knows.
pub(super) fn identity(metadata: &Metadata) -> FileId {
    let made = metadata.created().ok();
    let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let generation = made.map_or(0, |made| {
        let ns = made.as_nanos() as u64;
        ((ns ^ ns >> 32) as u32) & !OTHER
    });
    FileId {
        device: device(metadata),
        generation,
        inode: metadata.ino(),
    }
}

/// Whether a file may have been made after a moment of `CLOCK_MONOTONIC`.
pub(super) fn is_younger(metadata: &Metadata, moment: u64) -> bool {
    let (Ok(made), Ok(clock)) = (metadata.created(), host::clock()) else {
        return false;
    };
    let made = made.duration_since(UNIX_EPOCH).unwrap_or_default();
    let made = made + COARSE;
    i64::try_from(made.as_nanos()).is_ok_and(|made| made > clock.unix_ns(moment))
}

/// An identity that no file has.
pub(super) fn nameless(handle: u64, device: u32) -> FileId {
    FileId {
        device,
        generation: UNKNOWN,
        inode: handle,
    }
}

/// The name of a file of which at most the path is known.
pub(super) fn unknown(opened: &Opened, path: Vec<u8>, device: u32) -> FileName {
    let kind = if opened.flags & O_DIRECTORY != 0 {
        libc::S_IFDIR
    } else {
        libc::S_IFREG
    };
    FileName {
        file: nameless(opened.handle, device),
        path,
        size: 0,
        mode: kind,
        magic: 0,
        block_size: 0,
        truncated: false,
        deleted: false,
        existed: false,
    }
}
