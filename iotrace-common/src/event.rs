//! What the kernel programs send on the event ring buffer: names, process notices and the fill notice. Never one
//! event per operation.
//!
//! Every event opens with a [`Header`]; a variable part of `payload` bytes follows the fixed part.

use core::mem::size_of;

use crate::{key::FileId, library::Progress, rights::Rights};

/// The name of a file at first sight: a [`Name`], then its components, leaf first.
pub const FILE: u32 = 1;
/// The program of a process: a [`Name`], components as for [`FILE`].
pub const EXE: u32 = 2;
/// An exec: an [`Exec`], then the command line's bytes, arguments ended by NUL.
pub const EXEC: u32 = 3;
/// A new process: a [`Fork`].
pub const FORK: u32 = 4;
/// The end of a process: an [`Exit`].
pub const EXIT: u32 = 5;
/// The old name of a rename that succeeded: a [`Name`] as for [`UNLINK`]. The new one follows as [`RENAME_TO`].
pub const RENAME_FROM: u32 = 6;
/// The new name of the rename before it, by the same thread.
pub const RENAME_TO: u32 = 7;
/// A name that was unlinked: a [`Name`]; the components are those of the directory that the path starts from, and
/// the path as the program gave it follows them.
pub const UNLINK: u32 = 8;
/// The counters of this generation are half full: a [`Header`] alone.
pub const FILL: u32 = 9;
/// A piece of the environment of a process that has called exec: an [`Environment`], then its bytes. The pieces of one come
/// in their order.
pub const ENVIRONMENT: u32 = 10;

/// A directory that a file was looked for in vain in, at the first time: a [`Name`] whose `file` is the directory that the
/// path starts from and whose `size` is the hash of its `LookKey`; payload as for [`UNLINK`], the path up to its last slash.
pub const MISSING: u32 = 11;

/// A file that a process mapped as code, at first sight: a [`Mapped`].
pub const MAPPED: u32 = 12;
/// An object that a library opened: an [`Object`], then its name up to a NUL.
pub const OBJECT: u32 = 13;
/// A mark of a program's own: a [`Mark`], then its name up to a NUL.
pub const MARK: u32 = 14;
/// The control group of a process that calls exec: a [`Header`], then the names on the way from the group up to the
/// hierarchy's root, ended by NUL each. Comes before the [`ENVIRONMENT`] of the same exec.
pub const CGROUP: u32 = 15;

/// The end of a thread, where CPU time is counted: a [`ThreadEnd`].
pub const THREAD_END: u32 = 16;

/// Where the kernel has no type information, a descriptor that was given a handle: a [`crate::nobtf::Opened`], then a path.
pub const OPENED: u32 = 17;

/// With `--lines`: a file that a process mapped as code: a [`Header`] alone.
pub const CODE_MAPPED: u32 = 18;
/// A stack of Python frames at first sight: a [`crate::lines::Stack`], then its frames.
pub const STACK: u32 = 19;
/// A stack of a native program at first sight: a [`crate::lines::NativeStack`], then the bytes from its top on.
pub const NATIVE_STACK: u32 = 22;
/// A code object at first sight: a [`crate::lines::Code`]; and a piece of its line table: a [`crate::lines::Piece`].
pub const CODE: u32 = 20;
pub const LINE_TABLE: u32 = 21;

/// Start of every event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    /// One of the constants of this module.
    pub kind: u32,
    /// Bytes of the variable part.
    pub payload: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time: u64,
    pub tgid: u32,
    pub tid: u32,
    /// `start_boottime` of the process, nanoseconds since boot.
    pub start: u64,
}

/// Flags of a [`Name`].
pub mod name_flags {
    /// The path was longer than `PATH_BYTES` or deeper than `PATH_COMPONENTS`: the leading components are missing.
    pub const TRUNCATED: u32 = 1;
    /// The file had no name any more when it was first seen.
    pub const DELETED: u32 = 2;
    /// Of the second half of a rename: the two names changed places (RENAME_EXCHANGE).
    pub const EXCHANGED: u32 = 4;
    /// The open that it was first seen by did not make it.
    pub const EXISTED: u32 = 8;
}

/// Fixed part of every event that carries a path.
///
/// A component is one length byte and that many bytes, without slashes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Name {
    pub header: Header,
    /// [`FileId::NONE`] for names that were given as a path only.
    pub file: FileId,
    /// Size of the file when it was named, bytes.
    pub size: u64,
    /// `super_block.s_magic`: the filesystem's type.
    pub magic: u64,
    /// `inode.i_mode`.
    pub mode: u32,
    /// See [`name_flags`].
    pub flags: u32,
    /// Bytes of the payload that are components; the rest is a path as the program gave it.
    pub components: u32,
    /// `super_block.s_blocksize`, bytes.
    pub block_size: u32,
}

impl Header {
    /// All zero.
    pub const NONE: Self = Self {
        kind: 0,
        payload: 0,
        time: 0,
        tgid: 0,
        tid: 0,
        start: 0,
    };
}

impl Name {
    /// All zero.
    pub const NONE: Self = Self {
        header: Header::NONE,
        file: FileId::NONE,
        size: 0,
        magic: 0,
        mode: 0,
        flags: 0,
        components: 0,
        block_size: 0,
    };
}

/// An exec.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Exec {
    pub header: Header,
    /// Those of programs without type information have the user's id alone.
    pub rights: Rights,
    pub parent: u32,
    pub pad: u32,
    /// `task_struct.comm`.
    pub comm: [u8; 16],
}

/// A piece of an environment: variables, ended by NUL each.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment {
    pub header: Header,
    /// Where the piece starts, bytes.
    pub offset: u32,
    /// Size of the whole environment, bytes; at most `ENVIRONMENT_PIECES` pieces of it are sent.
    pub total: u32,
}

/// A new process; the header is the parent's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fork {
    pub header: Header,
    /// The child's.
    pub rights: Rights,
    pub child: u32,
    pub pad: u32,
    /// `start_boottime` of the child.
    pub child_start: u64,
    /// `task_struct.comm` of the child, which is its parent's until it execs.
    pub comm: [u8; 16],
}

/// The end of a thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadEnd {
    pub header: Header,
    /// See [`crate::cpu::ThreadTime`].
    pub runtime: u64,
    pub called: u64,
}

/// The end of a process (its last thread).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Exit {
    pub header: Header,
    /// As wait(2) gives it: exit code << 8 | signal.
    pub status: u32,
    pub pad: u32,
}

/// A file that was mapped as code.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped {
    pub header: Header,
    pub file: FileId,
}

/// A file or a data set that a library opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Object {
    pub header: Header,
    /// Its number, and that of the object that its name starts from; 0: none.
    pub object: u64,
    pub parent: u64,
}

/// A mark: the start of a range, its end, or a moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    pub header: Header,
    /// What all traced processes had done until then.
    pub progress: Progress,
    /// Place of the function in [`crate::library::FUNCTIONS`].
    pub function: u32,
    pub pad: u32,
}

const _: () = {
    assert!(size_of::<Mapped>() == 48);
    assert!(size_of::<Object>() == 48);
    assert!(size_of::<Mark>() == 72);
    assert!(size_of::<Header>() == 32);
    assert!(size_of::<Name>() == 32 + 16 + 16 + 16);
    assert!(size_of::<Exec>() == 32 + 32 + 8 + 16);
    assert!(size_of::<Environment>() == 40);
    assert!(size_of::<Fork>() == 32 + 32 + 16 + 16);
    assert!(size_of::<Exit>() == 40);
};
