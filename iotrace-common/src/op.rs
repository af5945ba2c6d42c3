//! Operation classes: what a system call is counted as.
//!
//! User space fills the kernel's gate table with these by system call *name*, so that no system call number
//! stands in kernel code. A class says both how a call finds its file ([`Shape`]) and what it is counted as.

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
    8 MSYNC "msync" "msync: names memory, so it is counted to the process and to no file.";
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

/// How a traced system call names its file, and where its arguments stand.
///
/// The gate table holds one of these per system call number; 0 means that the call is not traced.
pub mod shape {
    macro_rules! shapes {
        ($($index:literal $konst:ident $doc:literal;)*) => {
            $(#[doc = $doc] pub const $konst: u8 = $index;)*
            /// One more than the highest shape.
            pub const END: u8 = 1 + [$($index),*].len() as u8;
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
        25 ACCESS "(path or directory fd, ...).";
        26 GETDENTS "(fd, ...).";
        27 TRUNCATE_PATH "(path, length).";
        28 FTRUNCATE "(fd, length).";
        29 FALLOCATE "(fd, ...).";
        30 RENAME "(old path, new path).";
        31 RENAMEAT "(old directory fd, old path, new directory fd, new path, ...).";
        32 LINK "(old path, new path).";
        33 LINKAT "(old directory fd, old path, new directory fd, new path, ...).";
        34 SYMLINK "(target, link path) or (target, directory fd, link path).";
        35 UNLINK "(path).";
        36 UNLINKAT "(directory fd, path, flags): a rmdir with AT_REMOVEDIR.";
        37 MKDIR "(path or directory fd, ...).";
        38 RMDIR "(path).";
        39 MMAP "(address, length, protection, flags, fd, offset).";
        40 SENDFILE "(target fd, source fd, ...).";
        41 COPY_FILE_RANGE "(source fd, offset *, target fd, ...); splice has the same places.";
        42 CLOSE_RANGE "(first, last, flags).";
        43 READLINK "(path or directory fd, ...).";
    }
}
