//! What the model is fed with: samples of the kernel's counters and its events, decoded.
//!
//! Pure data; `drain` makes these from the maps and the ring buffer, the reader of recordings from its parts.

use iotrace_common::{
    block::TransferKey,
    event::Header,
    key::{FileId, IoKey, LookKey, start_key},
    library::CallKey,
    lines::LineKey,
    rights::Rights,
    trace::Owner,
    waits::Wait,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::IoTotals;
pub use super::negative_lookups::Searched;

/// A process, once: pids are reused, so its start time belongs to its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// [`iotrace_common::key::start_key`] of the process's start.
    pub start: u32,
}

/// The process of each kind of record or key that has its pid and start.
macro_rules! process_of {
    ($($of:ty),*) => {
        $(impl From<&$of> for ProcessId {
            fn from(of: &$of) -> Self {
                Self {
                    pid: of.tgid,
                    start: of.start,
                }
            }
        })*
    };
}

process_of!(IoKey, LookKey, LineKey, CallKey, TransferKey, Owner, Wait);

impl From<&Header> for ProcessId {
    fn from(header: &Header) -> Self {
        Self {
            pid: header.tgid,
            start: start_key(header.start),
        }
    }
}

/// Where a count belongs. `F` names a file or a directory: by its identity, or by its index in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place<F = FileId> {
    /// On a file (or a directory).
    File(F),
    /// Calls that named no open file: by path (stat, rename, unlink...), or failed before a file was found.
    PathOnly,
    /// Operations whose own counter had no room: exact in the process's totals, without their file.
    Overflow,
}

impl<F> Place<F> {
    /// The same place, of a file that is named otherwise.
    pub fn map<T>(self, name: impl FnOnce(F) -> T) -> Place<T> {
        match self {
            Self::File(file) => Place::File(name(file)),
            Self::PathOnly => Place::PathOnly,
            Self::Overflow => Place::Overflow,
        }
    }
}

/// An event of the kernel side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The name of a file at first sight. Comes again when the kernel forgot that it was sent.
    File(FileName),
    /// The program that a process runs.
    Exe { process: ProcessId, path: Vec<u8> },
    /// An exec, or a process that was there already.
    Exec {
        process: ProcessId,
        /// Nanoseconds since boot (`task_struct.start_boottime`).
        start_boottime: u64,
        parent: u32,
        rights: Rights,
        comm: Vec<u8>,
        args: Vec<Vec<u8>>,
    },
    /// The variables that an exec started with, ended by NUL each; only where they are asked for. What [`super::environ`] reads in them is kept.
    Environment {
        process: ProcessId,
        variables: Zeroizing<Vec<u8>>,
    },
    /// The path of the control group that an exec happened in, of version 2 where there is one; only where it is asked for. Comes before
    /// the exec's environment.
    Cgroup { process: ProcessId, path: String },
    /// A new process, which still runs its parent's program.
    Fork {
        parent: ProcessId,
        child: ProcessId,
        child_start_boottime: u64,
        rights: Rights,
        comm: Vec<u8>,
    },
    /// The end of a process. `status` as wait(2): exit code << 8 | signal, or `nobtf::STATUS_UNKNOWN`. `time`: `CLOCK_MONOTONIC` nanoseconds.
    Exit {
        process: ProcessId,
        time: u64,
        status: u32,
    },
    /// A rename that succeeded, of a file or of a directory; absolute paths.
    Rename {
        process: ProcessId,
        time: u64,
        from: Vec<u8>,
        to: Vec<u8>,
        /// The two names changed places.
        exchange: bool,
    },
    /// A directory in which a look-up found nothing; absolute path.
    NegativeLookup {
        process: ProcessId,
        searched: Searched,
        path: Vec<u8>,
    },
    /// A file was mapped as code: it may be a library that is waited for.
    Mapped {
        process: ProcessId,
        time: u64,
        file: FileId,
    },
    /// A library opened a file or an object in one.
    Object {
        process: ProcessId,
        /// Its number, and that of the object that its name starts from; 0: none.
        object: u64,
        parent: u64,
        name: Vec<u8>,
    },
    /// The program marked a moment, or the start or the end of a range. `time`: `CLOCK_MONOTONIC` nanoseconds.
    Mark {
        process: ProcessId,
        tid: u32,
        time: u64,
        /// Place in [`iotrace_common::library::FUNCTIONS`].
        function: u16,
        name: Vec<u8>,
        /// What all traced processes had done until then.
        progress: IoTotals,
    },
    /// A name that was unlinked; absolute path.
    Unlink {
        process: ProcessId,
        time: u64,
        path: Vec<u8>,
    },
}

impl Event {
    /// The process that it is of; none for names, which are of all who use the file.
    pub fn process(&self) -> Option<ProcessId> {
        match self {
            Self::File(_) => None,
            Self::Fork { parent, .. } => Some(*parent),
            Self::Exe { process, .. }
            | Self::Exec { process, .. }
            | Self::Environment { process, .. }
            | Self::Cgroup { process, .. }
            | Self::Exit { process, .. }
            | Self::Rename { process, .. }
            | Self::Mapped { process, .. }
            | Self::Object { process, .. }
            | Self::NegativeLookup { process, .. }
            | Self::Mark { process, .. }
            | Self::Unlink { process, .. } => Some(*process),
        }
    }
}

/// The name of a file at first sight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileName {
    pub file: FileId,
    /// Absolute, any bytes.
    pub path: Vec<u8>,
    /// Size when it was named, bytes.
    pub size: u64,
    /// `st_mode`: tells regular files from directories.
    pub mode: u32,
    /// Filesystem magic (statfs(2) `f_type`).
    pub magic: u64,
    /// Block size of its filesystem, bytes.
    pub block_size: u32,
    /// The leading components are missing: path too long or too deep.
    pub truncated: bool,
    /// It had no name any more when it was first seen.
    pub deleted: bool,
    /// The open that it was first seen by did not make it; false if that is not known.
    pub existed: bool,
}
