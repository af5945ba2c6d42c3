//! System calls, made directly and counted.

use std::{ffi::CString, sync::atomic::Ordering::Relaxed};

use crate::book::{BY_NAME, Book, NOWHERE, Op};

/// Result of a call: what it returned, or the error number.
pub type Outcome = Result<usize, i32>;

/// A null-terminated path.
pub fn path(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).expect("a path without NUL")
}

/// Makes calls and counts them in a book.
#[derive(Clone, Copy)]
pub struct Calls {
    pub book: &'static Book,
}

/// Makes system call `nr`; no library comes between.
pub fn raw(nr: i64, args: &[usize]) -> i64 {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    let [a, b, c, d, e, f] = six;
    // SAFETY: the callers pass what the call takes; pointers are to memory that lives over the call.
    let result = unsafe { libc::syscall(nr, a, b, c, d, e, f) };
    if result == -1 {
        -i64::from(errno())
    } else {
        result
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn outcome(result: i64) -> Outcome {
    usize::try_from(result).map_err(|_| -result as i32)
}

impl Calls {
    /// Makes call `nr` and counts it on a sheet.
    pub fn call(&self, op: Op, sheet: usize, nr: i64, args: &[usize]) -> Outcome {
        self.book.begun.fetch_add(1, Relaxed);
        let result = raw(nr, args);
        self.book.count(op, sheet, result);
        outcome(result)
    }

    /// As [`Self::call`], which must not fail.
    #[track_caller]
    pub fn must(&self, op: Op, sheet: usize, nr: i64, args: &[usize]) -> usize {
        match self.call(op, sheet, nr, args) {
            Ok(result) => result,
            Err(error) => panic!(
                "{op:?} {args:x?}: {}",
                std::io::Error::from_raw_os_error(error)
            ),
        }
    }

    /// As [`Self::call`], which must fail with `errno`.
    #[track_caller]
    pub fn must_fail(&self, op: Op, sheet: usize, nr: i64, args: &[usize], errno: i32) {
        assert_eq!(
            self.call(op, sheet, nr, args),
            Err(errno),
            "{op:?} {args:x?}"
        );
    }

    /// openat: counted on the file's sheet where it succeeds, as by name where it does not.
    pub fn try_open(&self, sheet: usize, path: &CString, flags: i32) -> Result<i32, i32> {
        self.book.begun.fetch_add(1, Relaxed);
        let args = [
            libc::AT_FDCWD as usize,
            path.as_ptr() as usize,
            flags as usize,
            0o644,
        ];
        let result = raw(libc::SYS_openat, &args);
        let sheet = if result < 0 { BY_NAME } else { sheet };
        self.book.count(Op::Open, sheet, result);
        outcome(result).map(|fd| fd as i32)
    }

    /// openat, which must not fail.
    #[track_caller]
    pub fn open(&self, sheet: usize, path: &CString, flags: i32) -> i32 {
        match self.try_open(sheet, path, flags) {
            Ok(fd) => fd,
            Err(error) => panic!(
                "open {path:?}: {}",
                std::io::Error::from_raw_os_error(error)
            ),
        }
    }

    #[track_caller]
    pub fn close(&self, sheet: usize, fd: i32) {
        self.must(Op::Close, sheet, libc::SYS_close, &[fd as usize]);
    }

    pub fn read(&self, sheet: usize, fd: i32, buffer: &mut [u8]) -> Outcome {
        self.call(
            Op::Read,
            sheet,
            libc::SYS_read,
            &[fd as usize, buffer.as_mut_ptr() as usize, buffer.len()],
        )
    }

    pub fn write(&self, sheet: usize, fd: i32, buffer: &[u8]) -> Outcome {
        self.call(
            Op::Write,
            sheet,
            libc::SYS_write,
            &[fd as usize, buffer.as_ptr() as usize, buffer.len()],
        )
    }

    pub fn pread(&self, sheet: usize, fd: i32, buffer: &mut [u8], offset: u64) -> Outcome {
        let args = [
            fd as usize,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
            offset as usize,
        ];
        self.call(Op::Read, sheet, libc::SYS_pread64, &args)
    }

    pub fn pwrite(&self, sheet: usize, fd: i32, buffer: &[u8], offset: u64) -> Outcome {
        let args = [
            fd as usize,
            buffer.as_ptr() as usize,
            buffer.len(),
            offset as usize,
        ];
        self.call(Op::Write, sheet, libc::SYS_pwrite64, &args)
    }

    #[track_caller]
    pub fn seek(&self, sheet: usize, fd: i32, offset: i64, whence: i32) -> usize {
        self.must(
            Op::Seek,
            sheet,
            libc::SYS_lseek,
            &[fd as usize, offset as usize, whence as usize],
        )
    }

    /// unlinkat; counted with the file, where iotrace knows it by that path.
    #[track_caller]
    pub fn unlink(&self, sheet: usize, path: &CString) {
        self.must(
            Op::Unlink,
            sheet,
            libc::SYS_unlinkat,
            &[libc::AT_FDCWD as usize, path.as_ptr() as usize, 0],
        );
    }

    /// renameat2, as [`Self::unlink`].
    #[track_caller]
    pub fn rename(&self, sheet: usize, from: &CString, to: &CString, flags: u32) {
        let cwd = libc::AT_FDCWD as usize;
        self.must(
            Op::Rename,
            sheet,
            libc::SYS_renameat2,
            &[
                cwd,
                from.as_ptr() as usize,
                cwd,
                to.as_ptr() as usize,
                flags as usize,
            ],
        );
    }

    /// A call on something that is no file: not counted.
    #[track_caller]
    pub fn nowhere(&self, nr: i64, args: &[usize]) -> usize {
        self.must(Op::Read, NOWHERE, nr, args)
    }

    /// A pipe: its two ends, which are no files.
    pub fn pipe(&self) -> [i32; 2] {
        let mut ends = [0_i32; 2];
        assert_eq!(raw(libc::SYS_pipe2, &[ends.as_mut_ptr() as usize, 0]), 0);
        ends
    }
}

/// Numbers of system calls by their names.
pub mod nr {
    #[cfg(target_arch = "x86_64")]
    pub use libc::{
        SYS_access as access, SYS_creat as creat, SYS_dup2 as dup2, SYS_link as link,
        SYS_lstat as lstat, SYS_mkdir as mkdir, SYS_open as open, SYS_readlink as readlink,
        SYS_rename as rename, SYS_rmdir as rmdir, SYS_stat as stat, SYS_symlink as symlink,
        SYS_unlink as unlink,
    };
    pub use libc::{
        SYS_close as close, SYS_close_range as close_range, SYS_copy_file_range as copy_file_range,
        SYS_dup as dup, SYS_dup3 as dup3, SYS_faccessat as faccessat, SYS_faccessat2 as faccessat2,
        SYS_fallocate as fallocate, SYS_fcntl as fcntl, SYS_fdatasync as fdatasync,
        SYS_fstat as fstat, SYS_fsync as fsync, SYS_ftruncate as ftruncate,
        SYS_getdents64 as getdents64, SYS_linkat as linkat, SYS_lseek as lseek,
        SYS_mkdirat as mkdirat, SYS_mmap as mmap, SYS_msync as msync, SYS_newfstatat as newfstatat,
        SYS_openat as openat, SYS_openat2 as openat2, SYS_pread64 as pread64, SYS_preadv as preadv,
        SYS_preadv2 as preadv2, SYS_pwritev as pwritev, SYS_pwritev2 as pwritev2, SYS_read as read,
        SYS_readlinkat as readlinkat, SYS_readv as readv, SYS_renameat as renameat,
        SYS_renameat2 as renameat2, SYS_sendfile as sendfile, SYS_splice as splice,
        SYS_statx as statx, SYS_symlinkat as symlinkat, SYS_sync as sync,
        SYS_sync_file_range as sync_file_range, SYS_syncfs as syncfs, SYS_truncate as truncate,
        SYS_unlinkat as unlinkat, SYS_write as write, SYS_writev as writev,
    };
}
