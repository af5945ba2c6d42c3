//! Operation classes: what a system call is counted as, and all that follows from it.
//!
//! A new class is a row of [`operations`](NAMES), a row of the shapes for each way that its calls pass their arguments,
//! and its counter in the model's table. User space fills the kernel's gate table by system call *name*, so that no
//! system call number is in kernel code.

use crate::phases::direction;

macro_rules! operations {
    ($($index:literal $konst:ident $name:literal $class:ident $direction:ident [$($trait:ident)*] $doc:literal;)*) => {
        $(#[doc = $doc] pub const $konst: usize = $index;)*
        /// Number of operation classes.
        pub const COUNT: usize = [$($index),*].len();
        /// Names of the operation classes, by index, as they appear in reports.
        pub const NAMES: [&str; COUNT] = [$($name),*];
        const _: () = {
            let order: [usize; COUNT] = [$($index),*];
            let mut i = 0;
            while i < COUNT { assert!(order[i] == i); i += 1; }
        };

        /// The class of an operation that succeeded, by which its duration and its time are summed.
        #[inline(always)]
        pub const fn class_of(op: usize) -> usize {
            match op {
                $($index => class::$class,)*
                _ => class::METADATA,
            }
        }

        /// Whether an operation takes bytes out of a file. Comparisons, which become fewer instructions than a switch.
        #[inline(always)]
        pub const fn is_read(op: usize) -> bool {
            false $(|| class::$class == class::READ && op == $index)*
        }

        /// How an operation uses its file.
        #[inline(always)]
        pub const fn direction_of(op: usize) -> u8 {
            match op {
                $($index => direction::$direction,)*
                _ => direction::AS_OPENED,
            }
        }

        #[inline(always)]
        const fn traits_of(op: usize) -> u8 {
            match op {
                $($index => 0 $(| $trait)*,)*
                _ => 0,
            }
        }
    };
}

// The index, the name in reports, the class of its duration, how it uses its file, and traits.
operations! {
    0 READ "read" READ READ [STORES_RESULT] "read, pread64, readv, preadv, preadv2.";
    1 WRITE "write" WRITE WRITE [FILLS_CACHE] "write, pwrite64, writev, pwritev, pwritev2.";
    2 OPEN "open" OPEN AS_OPENED [LOOKS_UP] "open, openat, openat2, creat.";
    3 CLOSE "close" METADATA AS_OPENED [] "close.";
    4 DUP "dup" METADATA AS_OPENED [] "dup, dup2, dup3, fcntl with F_DUPFD or F_DUPFD_CLOEXEC.";
    5 FSYNC "fsync" SYNC WRITE [CHANGES] "fsync.";
    6 FDATASYNC "fdatasync" SYNC WRITE [CHANGES] "fdatasync.";
    7 SYNC_FILE_RANGE "sync_file_range" SYNC WRITE [CHANGES] "sync_file_range.";
    8 MSYNC "msync" SYNC AS_OPENED [CHANGES] "msync: counted to the file whose mapping begins at its address or has it inside.";
    9 SEEK "seek" METADATA AS_OPENED [] "lseek.";
    10 STAT "stat" METADATA AS_OPENED [LOOKS_UP STORES_RESULT] "stat, lstat, fstat, newfstatat, statx.";
    11 ACCESS "access" METADATA AS_OPENED [LOOKS_UP] "access, faccessat, faccessat2.";
    12 GETDENTS "getdents" METADATA READ [STORES_RESULT] "getdents, getdents64.";
    13 TRUNCATE "truncate" METADATA WRITE [CHANGES] "truncate, ftruncate.";
    14 FALLOCATE "fallocate" METADATA WRITE [CHANGES FILLS_CACHE] "fallocate.";
    15 RENAME "rename" METADATA AS_OPENED [CHANGES] "rename, renameat, renameat2.";
    16 LINK "link" METADATA AS_OPENED [CHANGES] "link, linkat.";
    17 SYMLINK "symlink" METADATA AS_OPENED [] "symlink, symlinkat.";
    18 UNLINK "unlink" METADATA AS_OPENED [CHANGES] "unlink, unlinkat.";
    19 MKDIR "mkdir" METADATA AS_OPENED [] "mkdir, mkdirat.";
    20 RMDIR "rmdir" METADATA AS_OPENED [] "rmdir, unlinkat with AT_REMOVEDIR.";
    21 MMAP "mmap" METADATA AS_OPENED [STORES_RESULT] "mmap of a file.";
    22 TRANSFER_READ "transfer_read" READ READ [] "The source side of sendfile, copy_file_range and splice.";
    23 TRANSFER_WRITE "transfer_write" WRITE WRITE [FILLS_CACHE] "The target side of sendfile, copy_file_range and splice.";
    24 CLOSE_RANGE "close_range" METADATA AS_OPENED [] "close_range: counted to the process, since it names no single file.";
    25 READLINK "readlink" METADATA AS_OPENED [LOOKS_UP STORES_RESULT] "readlink, readlinkat.";
    26 SYNCFS "syncfs" SYNC WRITE [CHANGES] "syncfs: all files of the filesystem, counted to the file of its descriptor.";
    27 SYNC "sync" SYNC AS_OPENED [CHANGES] "sync: all files, counted to the process.";
}

/// In place of an operation: the call is counted as nothing itself.
pub const NONE: usize = COUNT;

/// It looks for a file by its path.
const LOOKS_UP: u8 = 1;
/// It changes a file or its names, but does not write it.
const CHANGES: u8 = 1 << 1;
/// It puts data of its own into the page cache.
const FILLS_CACHE: u8 = 1 << 2;
/// It stores its result in the program's memory, and writes to no file.
const STORES_RESULT: u8 = 1 << 3;

/// Classes of operations whose durations are counted together.
pub mod class {
    /// Reads, and the source side of transfers.
    pub const READ: usize = 0;
    /// Writes, and the target side of transfers.
    pub const WRITE: usize = 1;
    /// Opens.
    pub const OPEN: usize = 2;
    /// All others that move no data and sync none.
    pub const METADATA: usize = 3;
    /// fsync, fdatasync, sync_file_range, msync, syncfs, sync.
    pub const SYNC: usize = 4;
    /// Whatever failed.
    pub const FAILED: usize = 5;
    /// Number of classes.
    pub const COUNT: usize = 6;
    /// Names of the classes, by index, as they appear in metrics.
    pub const NAMES: [&str; COUNT] = ["read", "write", "open", "metadata", "sync", "failed"];
}

/// Whether an operation puts bytes into a file.
#[inline(always)]
pub const fn is_write(op: usize) -> bool {
    class_of(op) == class::WRITE
}

/// Whether an operation moves bytes out of a file or into it.
#[inline(always)]
pub const fn moves_bytes(op: usize) -> bool {
    matches!(class_of(op), class::READ | class::WRITE)
}

/// Whether an operation writes data back to storage.
#[inline(always)]
pub const fn is_sync(op: usize) -> bool {
    class_of(op) == class::SYNC
}

/// Whether what was written before an operation has reached storage when it returns. sync_file_range does not flush the
/// device's cache, nor write what is needed to find the data.
#[inline(always)]
pub const fn makes_durable(op: usize) -> bool {
    matches!(op, FSYNC | FDATASYNC | SYNCFS | SYNC)
}

/// Whether an operation syncs the file of a descriptor: all that sync but msync and sync.
#[inline(always)]
pub const fn is_file_sync(op: usize) -> bool {
    is_sync(op) && direction_of(op) == direction::WRITE
}

/// Whether an operation changes what is in a file: those that use it as written, but for syncs.
pub const fn modifies(op: usize) -> bool {
    direction_of(op) == direction::WRITE && !is_sync(op)
}

/// Whether an operation looks for a file by its path.
#[inline(always)]
pub const fn looks_up(op: usize) -> bool {
    traits_of(op) & LOOKS_UP != 0
}

/// Whether an operation changes a file or its names, but does not write it.
#[inline(always)]
pub const fn changes(op: usize) -> bool {
    traits_of(op) & CHANGES != 0
}

/// Whether an operation puts data of its own into the page cache.
#[inline(always)]
pub const fn fills_cache(op: usize) -> bool {
    traits_of(op) & FILLS_CACHE != 0
}

/// Whether an operation stores its result in the program's memory, and writes to no file.
#[inline(always)]
pub const fn stores_result(op: usize) -> bool {
    traits_of(op) & STORES_RESULT != 0
}

/// What the gate table holds per system call number: everything the kernel side must know of a call.
///
/// All zero: the call is not traced.
#[repr(C, align(4))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Where the arguments stand ([`shape`]).
    pub shape: u8,
    /// What the call is counted as; [`COUNT`]: as nothing itself.
    pub op: u8,
    /// How the call names its file ([`source`]).
    pub source: u8,
    /// How it uses its file ([`crate::phases::direction`]).
    pub direction: u8,
}

impl Call {
    /// A call that is not traced.
    pub const UNTRACED: Self = Self {
        shape: 0,
        op: 0,
        source: 0,
        direction: 0,
    };
}

const _: () = assert!(size_of::<Call>() == 4);

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::Call {}
}

/// How a call names its file.
pub mod source {
    /// The first argument is its descriptor.
    pub const DESCRIPTOR: u8 = 1;
    /// By path, or not at all: counted to the process.
    pub const NAME: u8 = 2;
    /// The returned descriptor is its descriptor.
    pub const RETURNED: u8 = 3;
    /// mmap: the fifth argument, unless the mapping is anonymous.
    pub const MAPPED: u8 = 4;
    /// sendfile: the first argument is the target, the second the source.
    pub const TARGET_SOURCE: u8 = 5;
    /// copy_file_range, splice: the first argument is the source, the third the target.
    pub const SOURCE_TARGET: u8 = 6;
    /// newfstatat, statx: the first argument's descriptor where the path is empty, else by path.
    pub const MAYBE_EMPTY_PATH: u8 = 7;
    /// fcntl: the first argument, but only where the command duplicates it.
    pub const FCNTL: u8 = 8;
    /// libaio's calls: no file of their own, but the requests that they hand over have.
    pub const REQUESTS: u8 = 9;
    /// msync: the file that the memory at the first argument is a mapping of.
    pub const MEMORY: u8 = 10;
}

macro_rules! shapes {
    ($($index:literal $konst:ident $op:ident $source:ident [$($syscall:literal),*] $doc:literal;)*) => {
        /// Where the arguments of a traced system call are.
        pub mod shape {
            $(#[doc = $doc] pub const $konst: u8 = $index;)*
        }

        /// Names of the traced system calls and the shape of each, for user space to fill the gate table with. A name that a
        /// machine's table of system calls does not have is left out there.
        pub const SYSCALLS: &[(&str, u8)] = &[$($(($syscall, shape::$konst),)*)*];

        /// The gate table's entry for a shape.
        pub const fn call(number: u8) -> Call {
            let (op, source) = match number {
                $($index => ($op, source::$source),)*
                _ => return Call::UNTRACED,
            };
            Call {
                shape: number,
                op: op as u8,
                source,
                direction: direction_of(op),
            }
        }
    };
}

// The index, the operation, how the file is named, the system calls (those of the 32-bit interface after the native ones),
// and the arguments.
shapes! {
    1 READ READ DESCRIPTOR ["read"] "(fd, buffer, count): at the file's own position.";
    2 WRITE WRITE DESCRIPTOR ["write"] "(fd, buffer, count): at the file's own position.";
    3 PREAD READ DESCRIPTOR ["pread64", "pread"] "(fd, buffer, count, offset).";
    4 PWRITE WRITE DESCRIPTOR ["pwrite64", "pwrite"] "(fd, buffer, count, offset).";
    5 READV READ DESCRIPTOR ["readv"] "(fd, vectors, vector count).";
    6 WRITEV WRITE DESCRIPTOR ["writev"] "(fd, vectors, vector count).";
    7 PREADV READ DESCRIPTOR ["preadv", "preadv2"] "(fd, vectors, vector count, offset); preadv2 with offset -1 is at the file's own position.";
    8 PWRITEV WRITE DESCRIPTOR ["pwritev", "pwritev2"] "(fd, vectors, vector count, offset); as PREADV.";
    9 OPEN OPEN RETURNED ["open"] "(path, flags, mode): the file is the returned descriptor's.";
    10 OPENAT OPEN RETURNED ["openat"] "(directory fd, path, flags, mode).";
    11 OPENAT2 OPEN RETURNED ["openat2"] "(directory fd, path, struct open_how *, size).";
    12 CREAT OPEN RETURNED ["creat"] "(path, mode).";
    13 CLOSE CLOSE DESCRIPTOR ["close"] "(fd).";
    14 DUP DUP DESCRIPTOR ["dup", "dup2", "dup3"] "(fd, ...).";
    15 FCNTL DUP FCNTL ["fcntl", "fcntl64"] "(fd, command, ...): traced only for F_DUPFD and F_DUPFD_CLOEXEC.";
    16 FSYNC FSYNC DESCRIPTOR ["fsync"] "(fd).";
    17 FDATASYNC FDATASYNC DESCRIPTOR ["fdatasync"] "(fd).";
    18 SYNC_FILE_RANGE SYNC_FILE_RANGE DESCRIPTOR ["sync_file_range"] "(fd, ...).";
    19 MSYNC MSYNC MEMORY ["msync"] "(address, ...).";
    20 SEEK SEEK DESCRIPTOR ["lseek", "_llseek"] "(fd, ...).";
    21 FSTAT STAT DESCRIPTOR ["fstat", "fstat64", "oldfstat"] "(fd, ...).";
    22 STAT_PATH STAT NAME ["stat", "lstat", "stat64", "lstat64", "oldstat", "oldlstat"] "(path, struct stat *).";
    23 NEWFSTATAT STAT MAYBE_EMPTY_PATH ["newfstatat", "fstatat64", "fstatat"] "(directory fd, path, struct stat *, flags): fstat where the path is empty.";
    24 STATX STAT MAYBE_EMPTY_PATH ["statx"] "(directory fd, path, flags, mask, struct statx *): as NEWFSTATAT.";
    25 ACCESS ACCESS NAME ["access"] "(path, ...).";
    26 GETDENTS GETDENTS DESCRIPTOR ["getdents", "getdents64", "readdir"] "(fd, ...).";
    27 TRUNCATE_PATH TRUNCATE NAME ["truncate", "truncate64"] "(path, length).";
    28 FTRUNCATE TRUNCATE DESCRIPTOR ["ftruncate", "ftruncate64"] "(fd, length).";
    29 FALLOCATE FALLOCATE DESCRIPTOR ["fallocate"] "(fd, ...).";
    30 RENAME RENAME NAME ["rename"] "(old path, new path).";
    31 RENAMEAT RENAME NAME ["renameat"] "(old directory fd, old path, new directory fd, new path).";
    32 LINK LINK NAME ["link", "linkat"] "(old path, new path), or with directory fds as RENAMEAT.";
    33 SYMLINK SYMLINK NAME ["symlink", "symlinkat"] "(target, link path) or (target, directory fd, link path).";
    34 UNLINK UNLINK NAME ["unlink"] "(path).";
    35 UNLINKAT UNLINK NAME ["unlinkat"] "(directory fd, path, flags): a rmdir with AT_REMOVEDIR.";
    36 MKDIR MKDIR NAME ["mkdir", "mkdirat"] "(path or directory fd, ...).";
    37 RMDIR RMDIR NAME ["rmdir"] "(path).";
    38 MMAP MMAP MAPPED ["mmap", "mmap2"] "(address, length, protection, flags, fd, offset).";
    39 SENDFILE TRANSFER_READ TARGET_SOURCE ["sendfile", "sendfile64"] "(target fd, source fd, ...).";
    40 COPY_FILE_RANGE TRANSFER_READ SOURCE_TARGET ["copy_file_range", "splice"] "(source fd, offset *, target fd, ...); splice has the same places.";
    41 CLOSE_RANGE CLOSE_RANGE NAME ["close_range"] "(first, last, flags).";
    42 READLINK READLINK NAME ["readlink"] "(path, ...).";
    43 RENAMEAT2 RENAME NAME ["renameat2"] "As RENAMEAT, with flags behind.";
    44 ACCESSAT ACCESS NAME ["faccessat", "faccessat2"] "(directory fd, path, ...).";
    45 READLINKAT READLINK NAME ["readlinkat"] "(directory fd, path, ...).";
    46 IO_SETUP NONE REQUESTS ["io_setup"] "(number, context *): no operation of its own, as the next three.";
    47 IO_SUBMIT NONE REQUESTS ["io_submit"] "(context, number, struct iocb **).";
    48 IO_GETEVENTS NONE REQUESTS ["io_getevents", "io_pgetevents"] "(context, least, most, struct io_event *, ...).";
    49 IO_DESTROY NONE REQUESTS ["io_destroy"] "(context).";
    50 SYNCFS SYNCFS DESCRIPTOR ["syncfs"] "(fd).";
    51 SYNC SYNC NAME ["sync"] "().";
}
