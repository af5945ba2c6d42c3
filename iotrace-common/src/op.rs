//! Operation classes: what a system call is counted as.
//!
//! User space fills the kernel's gate table by system call *name*, so that no system call number stands in kernel
//! code. An entry ([`Call`]) says what a call is counted as, how it names its file, and where its arguments stand.

macro_rules! operations {
    ($($index:literal $konst:ident $name:literal $doc:literal;)*) => {
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
    };
}

operations! {
    0 READ "read" "read, pread64, readv, preadv, preadv2.";
    1 WRITE "write" "write, pwrite64, writev, pwritev, pwritev2.";
    2 OPEN "open" "open, openat, openat2, creat.";
    3 CLOSE "close" "close.";
    4 DUP "dup" "dup, dup2, dup3, fcntl with F_DUPFD or F_DUPFD_CLOEXEC.";
    5 FSYNC "fsync" "fsync.";
    6 FDATASYNC "fdatasync" "fdatasync.";
    7 SYNC_FILE_RANGE "sync_file_range" "sync_file_range.";
    8 MSYNC "msync" "msync: counted to the file whose mapping begins at its address or has it inside.";
    9 SEEK "seek" "lseek.";
    10 STAT "stat" "stat, lstat, fstat, newfstatat, statx.";
    11 ACCESS "access" "access, faccessat, faccessat2.";
    12 GETDENTS "getdents" "getdents, getdents64.";
    13 TRUNCATE "truncate" "truncate, ftruncate.";
    14 FALLOCATE "fallocate" "fallocate.";
    15 RENAME "rename" "rename, renameat, renameat2.";
    16 LINK "link" "link, linkat.";
    17 SYMLINK "symlink" "symlink, symlinkat.";
    18 UNLINK "unlink" "unlink, unlinkat.";
    19 MKDIR "mkdir" "mkdir, mkdirat.";
    20 RMDIR "rmdir" "rmdir, unlinkat with AT_REMOVEDIR.";
    21 MMAP "mmap" "mmap of a file.";
    22 TRANSFER_READ "transfer_read" "The source side of sendfile, copy_file_range and splice.";
    23 TRANSFER_WRITE "transfer_write" "The target side of sendfile, copy_file_range and splice.";
    24 CLOSE_RANGE "close_range" "close_range: counted to the process, since it names no single file.";
    25 READLINK "readlink" "readlink, readlinkat.";
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

/// Names of the traced system calls and the shape of each, for user space to fill the gate table with.
///
/// A name that a machine's table of system calls does not have is left out there.
pub const SYSCALLS: [(&str, u8); 78] = {
    use shape::*;
    [
        ("read", READ),
        ("pread64", PREAD),
        ("readv", READV),
        ("preadv", PREADV),
        ("preadv2", PREADV),
        ("write", WRITE),
        ("pwrite64", PWRITE),
        ("writev", WRITEV),
        ("pwritev", PWRITEV),
        ("pwritev2", PWRITEV),
        ("open", OPEN),
        ("openat", OPENAT),
        ("openat2", OPENAT2),
        ("creat", CREAT),
        ("close", CLOSE),
        ("close_range", CLOSE_RANGE),
        ("dup", DUP),
        ("dup2", DUP),
        ("dup3", DUP),
        ("fcntl", FCNTL),
        ("fsync", FSYNC),
        ("fdatasync", FDATASYNC),
        ("sync_file_range", SYNC_FILE_RANGE),
        ("msync", MSYNC),
        ("lseek", SEEK),
        ("stat", STAT_PATH),
        ("lstat", STAT_PATH),
        ("fstat", FSTAT),
        ("newfstatat", NEWFSTATAT),
        ("statx", STATX),
        ("access", ACCESS),
        ("faccessat", ACCESSAT),
        ("faccessat2", ACCESSAT),
        ("getdents", GETDENTS),
        ("getdents64", GETDENTS),
        ("truncate", TRUNCATE_PATH),
        ("ftruncate", FTRUNCATE),
        ("fallocate", FALLOCATE),
        ("rename", RENAME),
        ("renameat", RENAMEAT),
        ("renameat2", RENAMEAT2),
        ("link", LINK),
        ("linkat", LINK),
        ("symlink", SYMLINK),
        ("symlinkat", SYMLINK),
        ("unlink", UNLINK),
        ("unlinkat", UNLINKAT),
        ("mkdir", MKDIR),
        ("mkdirat", MKDIR),
        ("rmdir", RMDIR),
        ("mmap", MMAP),
        ("sendfile", SENDFILE),
        ("copy_file_range", COPY_FILE_RANGE),
        ("splice", COPY_FILE_RANGE),
        ("readlink", READLINK),
        ("readlinkat", READLINKAT),
        ("io_setup", IO_SETUP),
        ("io_submit", IO_SUBMIT),
        ("io_getevents", IO_GETEVENTS),
        ("io_pgetevents", IO_GETEVENTS),
        ("io_destroy", IO_DESTROY),
        // The 32-bit interface's own names, for the table of its numbers.
        ("pread", PREAD),
        ("pwrite", PWRITE),
        ("_llseek", SEEK),
        ("stat64", STAT_PATH),
        ("lstat64", STAT_PATH),
        ("fstat64", FSTAT),
        ("fstatat64", NEWFSTATAT),
        ("truncate64", TRUNCATE_PATH),
        ("ftruncate64", FTRUNCATE),
        ("fcntl64", FCNTL),
        ("sendfile64", SENDFILE),
        ("mmap2", MMAP),
        ("fstatat", NEWFSTATAT),
        ("oldstat", STAT_PATH),
        ("oldlstat", STAT_PATH),
        ("oldfstat", FSTAT),
        ("readdir", GETDENTS),
    ]
};

/// The gate table's entry for a shape.
pub const fn call(number: u8) -> Call {
    use shape as s;
    use source::{
        DESCRIPTOR, MAPPED, MAYBE_EMPTY_PATH, MEMORY, NAME, REQUESTS, RETURNED, SOURCE_TARGET,
        TARGET_SOURCE,
    };
    let (op, source) = match number {
        s::READ | s::PREAD | s::READV | s::PREADV => (READ, DESCRIPTOR),
        s::WRITE | s::PWRITE | s::WRITEV | s::PWRITEV => (WRITE, DESCRIPTOR),
        s::OPEN | s::OPENAT | s::OPENAT2 | s::CREAT => (OPEN, RETURNED),
        s::CLOSE => (CLOSE, DESCRIPTOR),
        s::DUP => (DUP, DESCRIPTOR),
        s::FCNTL => (DUP, source::FCNTL),
        s::FSYNC => (FSYNC, DESCRIPTOR),
        s::FDATASYNC => (FDATASYNC, DESCRIPTOR),
        s::SYNC_FILE_RANGE => (SYNC_FILE_RANGE, DESCRIPTOR),
        s::MSYNC => (MSYNC, MEMORY),
        s::SEEK => (SEEK, DESCRIPTOR),
        s::FSTAT => (STAT, DESCRIPTOR),
        s::STAT_PATH => (STAT, NAME),
        s::NEWFSTATAT | s::STATX => (STAT, MAYBE_EMPTY_PATH),
        s::ACCESS | s::ACCESSAT => (ACCESS, NAME),
        s::GETDENTS => (GETDENTS, DESCRIPTOR),
        s::TRUNCATE_PATH => (TRUNCATE, NAME),
        s::FTRUNCATE => (TRUNCATE, DESCRIPTOR),
        s::FALLOCATE => (FALLOCATE, DESCRIPTOR),
        s::RENAME | s::RENAMEAT | s::RENAMEAT2 => (RENAME, NAME),
        s::LINK => (LINK, NAME),
        s::SYMLINK => (SYMLINK, NAME),
        s::UNLINK | s::UNLINKAT => (UNLINK, NAME),
        s::MKDIR => (MKDIR, NAME),
        s::RMDIR => (RMDIR, NAME),
        s::MMAP => (MMAP, MAPPED),
        s::SENDFILE => (TRANSFER_READ, TARGET_SOURCE),
        s::COPY_FILE_RANGE => (TRANSFER_READ, SOURCE_TARGET),
        s::CLOSE_RANGE => (CLOSE_RANGE, NAME),
        s::READLINK | s::READLINKAT => (READLINK, NAME),
        s::IO_SETUP | s::IO_SUBMIT | s::IO_GETEVENTS | s::IO_DESTROY => (COUNT, REQUESTS),
        _ => return Call::UNTRACED,
    };
    Call {
        shape: number,
        op: op as u8,
        source,
        direction: direction_of(op),
    }
}

/// How an operation uses its file.
pub const fn direction_of(op: usize) -> u8 {
    use crate::phases::direction;
    match op {
        READ | TRANSFER_READ | GETDENTS => direction::READ,
        WRITE | TRANSFER_WRITE | FSYNC | FDATASYNC | SYNC_FILE_RANGE | TRUNCATE | FALLOCATE => {
            direction::WRITE
        }
        _ => direction::AS_OPENED,
    }
}

/// Where the arguments of a traced system call stand.
pub mod shape {
    macro_rules! shapes {
        ($($index:literal $konst:ident $doc:literal;)*) => {
            $(#[doc = $doc] pub const $konst: u8 = $index;)*
        };
    }
    shapes! {
        1 READ "(fd, buffer, count): at the file's own position.";
        2 WRITE "(fd, buffer, count): at the file's own position.";
        3 PREAD "(fd, buffer, count, offset).";
        4 PWRITE "(fd, buffer, count, offset).";
        5 READV "(fd, vectors, vector count).";
        6 WRITEV "(fd, vectors, vector count).";
        7 PREADV "(fd, vectors, vector count, offset); preadv2 with offset -1 is at the file's own position.";
        8 PWRITEV "(fd, vectors, vector count, offset); as PREADV.";
        9 OPEN "(path, flags, mode): the file is the returned descriptor's.";
        10 OPENAT "(directory fd, path, flags, mode).";
        11 OPENAT2 "(directory fd, path, struct open_how *, size).";
        12 CREAT "(path, mode).";
        13 CLOSE "(fd).";
        14 DUP "(fd, ...).";
        15 FCNTL "(fd, command, ...): traced only for F_DUPFD and F_DUPFD_CLOEXEC.";
        16 FSYNC "(fd).";
        17 FDATASYNC "(fd).";
        18 SYNC_FILE_RANGE "(fd, ...).";
        19 MSYNC "(address, ...).";
        20 SEEK "(fd, ...).";
        21 FSTAT "(fd, ...).";
        22 STAT_PATH "(path, struct stat *).";
        23 NEWFSTATAT "(directory fd, path, struct stat *, flags): fstat where the path is empty.";
        24 STATX "(directory fd, path, flags, mask, struct statx *): as NEWFSTATAT.";
        25 ACCESS "(path, ...).";
        26 GETDENTS "(fd, ...).";
        27 TRUNCATE_PATH "(path, length).";
        28 FTRUNCATE "(fd, length).";
        29 FALLOCATE "(fd, ...).";
        30 RENAME "(old path, new path).";
        31 RENAMEAT "(old directory fd, old path, new directory fd, new path).";
        32 LINK "(old path, new path), or with directory fds as RENAMEAT.";
        33 SYMLINK "(target, link path) or (target, directory fd, link path).";
        34 UNLINK "(path).";
        35 UNLINKAT "(directory fd, path, flags): a rmdir with AT_REMOVEDIR.";
        36 MKDIR "(path or directory fd, ...).";
        37 RMDIR "(path).";
        38 MMAP "(address, length, protection, flags, fd, offset).";
        39 SENDFILE "(target fd, source fd, ...).";
        40 COPY_FILE_RANGE "(source fd, offset *, target fd, ...); splice has the same places.";
        41 CLOSE_RANGE "(first, last, flags).";
        42 READLINK "(path, ...).";
        43 RENAMEAT2 "As RENAMEAT, with flags behind.";
        44 ACCESSAT "(directory fd, path, ...).";
        45 READLINKAT "(directory fd, path, ...).";
        46 IO_SETUP "(number, context *): no operation of its own, as the next three.";
        47 IO_SUBMIT "(context, number, struct iocb **).";
        48 IO_GETEVENTS "(context, least, most, struct io_event *, ...).";
        49 IO_DESTROY "(context).";
    }
}
