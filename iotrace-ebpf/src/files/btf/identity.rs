//! Which file a descriptor is: the open file itself, by way of task -> files -> fdt -> fd[n] -> file -> inode.
//!
//! So dup, fork, descriptors passed over sockets, exec and descriptors opened before iotrace came are all right
//! without tracking any of them. Writes no map.

use core::ffi::c_void;

use iotrace_common::{key::FileId, limits::COMPACT_INODE_BYTES};

use crate::{
    core::{
        config::{
            FDT_FD, FDT_MAX, FILE_INODE, FILES_FDT, HAS_CAST, INODE_GENERATION, INODE_INO,
            INODE_IS_COMPACT, INODE_MODE, INODE_SB, SB_BLOCK_SIZE, SB_DEV, TASK_FILES, TYPE_FILE,
            TYPE_INODE, TYPE_SUPER_BLOCK,
        },
        memory::{Address, field, load, pointer, probe_at},
        thread::Thread,
    },
    platform::{load_of, untrusted},
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
    /// Block size of its filesystem, bytes, if it was asked for; of what is not traced, the type in its mode ([`iotrace_common::diag::skipped`]).
    pub block: u64,
}

/// The `struct file` behind descriptor `fd` of `task`; 0 if there is none.
#[inline(always)]
pub fn of_descriptor(task: Address, fd: u32) -> u64 {
    // SAFETY: the task is the running one; each field is a pointer of the type that its offset's name says.
    let (table, slots) = unsafe {
        let files: Address = load_of(untrusted(task), &TASK_FILES);
        let table: Address = load_of(files, &FILES_FDT);
        (table, load_of::<u32>(table, &FDT_MAX))
    };
    if fd >= slots {
        return 0;
    }
    // SAFETY: as above. What it points to is an array, which the verifier has no type for.
    let array: u64 = unsafe { load_of(table, &FDT_FD) };
    pointer(array + u64::from(fd) * 8)
}

/// Identity of the open file at `file` (0: none), with the block size of its filesystem if `with_block`.
#[inline(always)]
pub fn identify(file: u64, with_block: bool) -> Open {
    if file == 0 {
        return Open {
            kind: Kind::Closed,
            id: FileId::NONE,
            file,
            block: 0,
        };
    }
    let inode = Inode::read(field(file, &TYPE_FILE, &FILE_INODE));
    let kind = inode.mode & TYPE_MASK;
    if kind != REGULAR && kind != DIRECTORY {
        return Open {
            kind: Kind::Other,
            id: FileId::NONE,
            file,
            block: u64::from(kind),
        };
    }
    let block = if with_block {
        field(inode.superblock, &TYPE_SUPER_BLOCK, &SB_BLOCK_SIZE)
    } else {
        0
    };
    Open {
        kind: Kind::Traced,
        id: inode.id(),
        file,
        block,
    }
}

/// Identity of the inode at `inode`.
#[inline(always)]
pub fn id_of(inode: u64) -> FileId {
    Inode::read(inode).id()
}

/// Identity of the inode at `inode`, if it is a regular file's or a directory's.
#[inline(always)]
pub fn identify_inode(inode: u64) -> Option<FileId> {
    let inode = Inode::read(inode);
    let kind = inode.mode & TYPE_MASK;
    (kind == REGULAR || kind == DIRECTORY).then(|| inode.id())
}

/// The thread's call failed. Its file was known.
#[inline(always)]
pub fn failed(_thread: &mut Thread) {}

/// What the identity takes of a `struct inode`.
struct Inode {
    mode: u16,
    generation: u32,
    number: u64,
    superblock: u64,
}

impl Inode {
    #[inline(always)]
    fn read(inode: u64) -> Self {
        if INODE_IS_COMPACT.is_set() && !HAS_CAST.is_set() {
            let mut found = Self {
                mode: 0,
                generation: 0,
                number: 0,
                superblock: 0,
            };
            read_compact(inode, &mut found);
            return found;
        }
        Self {
            mode: field(inode, &TYPE_INODE, &INODE_MODE),
            generation: field(inode, &TYPE_INODE, &INODE_GENERATION),
            number: field(inode, &TYPE_INODE, &INODE_INO),
            superblock: field(inode, &TYPE_INODE, &INODE_SB),
        }
    }

    #[inline(always)]
    fn id(&self) -> FileId {
        FileId {
            device: field(self.superblock, &TYPE_SUPER_BLOCK, &SB_DEV),
            generation: self.generation,
            inode: self.number,
        }
    }
}

/// One probe where all four fields stand in the first bytes: a quarter of the cost of four. Not inlined: the bytes would
/// take a quarter of the stack that all functions in a chain of calls share.
#[inline(never)]
fn read_compact(inode: u64, found: &mut Inode) {
    let head: [u64; COMPACT_INODE_BYTES / 8] = probe_at(inode as Address);
    let head = (&raw const head).cast::<c_void>();
    // SAFETY: the daemon has checked that the four fields stand inside the bytes read, aligned.
    unsafe {
        found.mode = load(head, &INODE_MODE);
        found.generation = load(head, &INODE_GENERATION);
        found.number = load(head, &INODE_INO);
        found.superblock = load(head, &INODE_SB);
    }
}
