//! Which file a descriptor is: the open file itself, by way of task -> files -> fdt -> fd[n] -> file -> inode.
//!
//! So dup, fork, descriptors passed over sockets, exec and descriptors opened before iotrace came are all right
//! without tracking any of them. Writes no map.

use iotrace_common::key::FileId;

use crate::{
    config::{
        FDT_FD, FDT_MAX, FILE_INODE, FILES_FDT, INODE_GENERATION, INODE_INO, INODE_MODE, INODE_SB,
        SB_DEV, TASK_FILES,
    },
    kernel::{Address, load, probe, probe_at},
};

/// What a descriptor turned out to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file or a directory.
    Traced,
    /// Anything else that is open.
    Other,
    /// Nothing is open there.
    Closed,
}

const TYPE_MASK: u16 = 0xf000;
const REGULAR: u16 = 0x8000;
const DIRECTORY: u16 = 0x4000;

/// An open file: its identity and the address of its `struct file`.
#[derive(Clone, Copy)]
pub struct Open {
    pub kind: Kind,
    pub id: FileId,
    pub file: u64,
}

/// The `struct file` behind descriptor `fd` of `task`; 0 if there is none.
#[inline(always)]
pub fn of_descriptor(task: Address, fd: u32) -> u64 {
    // SAFETY: the task is the running one; each field is a pointer of the type that its offset's name says.
    let (table, slots) = unsafe {
        let files: Address = load(task, &TASK_FILES);
        let table: Address = load(files, &FILES_FDT);
        (table, load::<u32>(table, &FDT_MAX))
    };
    if fd >= slots {
        return 0;
    }
    // SAFETY: as above. What it points to is an array, which the verifier has no type for: read by probe.
    let array: u64 = unsafe { load(table, &FDT_FD) };
    probe_at((array + u64::from(fd) * 8) as Address)
}

/// Identity of the open file at `file` (0: none).
#[inline(always)]
pub fn identify(file: u64) -> Open {
    if file == 0 {
        return Open {
            kind: Kind::Closed,
            id: FileId::NONE,
            file,
        };
    }
    let inode: u64 = probe(file as Address, &FILE_INODE);
    let inode = inode as Address;
    let kind = probe::<u16>(inode, &INODE_MODE) & TYPE_MASK;
    if kind != REGULAR && kind != DIRECTORY {
        return Open {
            kind: Kind::Other,
            id: FileId::NONE,
            file,
        };
    }
    Open {
        kind: Kind::Traced,
        id: id_of(inode),
        file,
    }
}

/// Identity of the inode at `inode`.
#[inline(always)]
pub fn id_of(inode: Address) -> FileId {
    let superblock: u64 = probe(inode, &INODE_SB);
    FileId {
        device: probe(superblock as Address, &SB_DEV),
        generation: probe(inode, &INODE_GENERATION),
        inode: probe(inode, &INODE_INO),
    }
}
