//! Recordings: a directory of Parquet parts, one per interval, that outlives the recorder however it ends.
//!
//! ```text
//! let mut recorder = Recorder::create(directory, &run)?;
//! recorder.end_step(&mut model, until);            // more often: ends a step of the interval, writes nothing
//! recorder.flush(&mut model, &run)?;              // every few seconds; ends the model's interval
//! recorder.flush_open(&mut model, &run)?;         // instead: ends it only when it has lasted long enough
//! recorder.finish(&mut model, &run)?;             // the last part, and `complete: true`
//! let Recorded { model, run, complete } = recording::read(directory)?;
//! let Job { model, run, nodes } = recording::read_job(&directories)?;     // one node each
//! ```
//!
//! The operation trace has parts of its own ([`trace`]). A part is written under another name, synced and renamed, so that a
//! directory named `part-NNNNNN` is whole. One of an interval that goes on is replaced by the next, which names it.
//! `docs/reference/recording-format.md` describes the files.

mod checksums;
mod columns;
pub mod directory;
mod job;
pub mod memory;
mod meta;
mod parts;
mod reader;
mod recorder;
#[cfg(test)]
mod reference;
pub mod rows;
mod table;
mod tables;
pub mod timeline;
pub mod trace;

use std::{io, path::PathBuf};

pub use job::{Job, Node, read_job, read_job_and_tell};
pub use reader::{Recorded, about, read};
pub use recorder::Recorder;

pub use crate::directory::Directory;

/// Version of the format. It rises when an older reader would misread a recording; such a reader refuses it.
pub const FORMAT_VERSION: u32 = 1;
/// It rises when something is added that an older reader ignores (a table, a column, a key of `meta.json`) or names as unknown
/// (an operation, a phase and the like); it is 0 again when [`FORMAT_VERSION`] rises. Recordings of an older minor version are
/// read; what they lack is null, 0 or empty.
pub const FORMAT_MINOR_VERSION: u32 = 9;

pub const META: &str = "meta.json";
const PART: &str = "part-";
/// Ending of what is not in its place yet; readers pass it by.
const UNFINISHED: &str = ".tmp";
/// File in a part with the name of the part that it replaces.
const REPLACED_FILE: &str = "replaces";

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is not empty: recordings are never overwritten, name another directory")]
    NotEmpty(PathBuf),
    #[error("{0} is no recording: it has no meta.json")]
    NotARecording(PathBuf),
    #[error(
        "{path} is a recording of format {found}, this iotrace reads up to {FORMAT_VERSION}: update iotrace"
    )]
    Newer { path: PathBuf, found: u64 },
    #[error(
        "{path} has what this iotrace does not know ({cause}): update iotrace, which reads format \
         {FORMAT_VERSION}.{FORMAT_MINOR_VERSION}; this is a recording of {FORMAT_VERSION}.{minor}"
    )]
    NewerMinor {
        path: PathBuf,
        minor: u32,
        cause: String,
    },
    #[error(
        "{first} and {second} are both of {host}: name one recording of each node, and report on the other by itself"
    )]
    SameNode {
        host: String,
        first: PathBuf,
        second: PathBuf,
    },
    #[error("read the recording again: its recorder replaced {0} while it was read")]
    Replaced(PathBuf),
    #[error("{path} is damaged: {cause}; take it from a copy of the recording")]
    Damaged { path: PathBuf, cause: String },
    #[error("cannot {action} {path}: {source}{hint}")]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
        hint: &'static str,
    },
}

impl Error {
    fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room there",
            io::ErrorKind::PermissionDenied if action == "read" => {
                "; read it as its owner or as root, or ask for permission to read it"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "; name a directory that can be written"
            }
            _ => "",
        };
        Self::Io {
            action,
            path: path.into(),
            source,
            hint,
        }
    }

    /// What looks like damage in a recording of a newer minor version may be what that version added.
    fn of_minor(self, minor: u32) -> Self {
        match self {
            Self::Damaged { path, cause } if minor > FORMAT_MINOR_VERSION => {
                Self::NewerMinor { path, minor, cause }
            }
            other => other,
        }
    }

    fn damaged(path: impl Into<PathBuf>, cause: impl ToString) -> Self {
        Self::Damaged {
            path: path.into(),
            cause: cause.to_string(),
        }
    }
}
