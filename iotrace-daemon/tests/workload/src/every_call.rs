//! Every traced call, with success and with failure, at least once each and each a different number of times.

use std::ffi::CString;

use crate::{
    book::{BY_NAME, NOWHERE, Op, Truth},
    calls::{self, Calls, path},
};

/// A call that must succeed: `ok!(calls, KIND of SHEET: name(arguments))`.
macro_rules! ok {
    ($calls:expr, $op:ident of $sheet:ident: $name:ident($($argument:expr),*)) => {
        $calls.must(Op::$op, $sheet, calls::nr::$name, &[$($argument as usize),*])
    };
}

/// A call that must fail with an error.
macro_rules! fails {
    ($calls:expr, $op:ident of $sheet:ident: $name:ident($($argument:expr),*) with $errno:ident) => {
        $calls.must_fail(Op::$op, $sheet, calls::nr::$name, &[$($argument as usize),*], libc::$errno)
    };
}

const DATA: usize = 1;
const COPY: usize = 2;
const DIRECTORY: usize = 3;
const EMPTY: usize = 4;
const RENAMED: usize = 5;
const OTHER: usize = 6;

const CWD: usize = libc::AT_FDCWD as usize;
const BAD_FD: usize = 999;

/// Runs all of it in one child.
pub fn run(truth: &mut Truth, dir: &str) {
    let files = ["data", "copy", "", "empty", "renamed", "other"];
    let labels: Vec<String> = files
        .iter()
        .map(|name| format!("{dir}/{name}").trim_end_matches('/').into())
        .collect();
    truth.run("every call", &labels, |book| {
        let calls = Calls { book };
        let all = All { calls, dir };
        all.opens_and_closes();
        all.reads_and_writes();
        all.metadata();
        all.names();
        all.transfers();
        all.memory();
    });
}

struct All<'a> {
    calls: Calls,
    dir: &'a str,
}

impl All<'_> {
    fn path(&self, name: &str) -> CString {
        path(format!("{}/{name}", self.dir))
    }

    fn opens_and_closes(&self) {
        let c = self.calls;
        let (data, missing) = (self.path("data"), self.path("missing"));
        let data_at = data.as_ptr() as usize;
        let missing_at = missing.as_ptr() as usize;
        // openat
        let fd = c.open(DATA, &data, libc::O_CREAT | libc::O_RDWR | libc::O_EXCL);
        assert_eq!(
            c.try_open(DATA, &data, libc::O_CREAT | libc::O_EXCL),
            Err(libc::EEXIST)
        );
        assert_eq!(
            c.try_open(DATA, &missing, libc::O_RDONLY),
            Err(libc::ENOENT)
        );
        assert_eq!(
            c.try_open(DATA, &data, libc::O_DIRECTORY),
            Err(libc::ENOTDIR)
        );
        assert_eq!(
            c.try_open(DATA, &path(self.dir), libc::O_WRONLY),
            Err(libc::EISDIR)
        );
        c.close(DATA, fd);
        // Closed already.
        fails!(c, Close of BY_NAME: close(fd) with EBADF);
        fails!(c, Close of BY_NAME: close(usize::MAX) with EBADF);
        // open, creat
        #[cfg(target_arch = "x86_64")]
        {
            for _ in 0..2 {
                let fd = ok!(c, Open of DATA: open(data_at, libc::O_RDONLY));
                c.close(DATA, fd as i32);
            }
            fails!(c, Open of BY_NAME: open(missing_at, 0) with ENOENT);
            let fd = ok!(c, Open of EMPTY: creat(self.path("empty").as_ptr(), 0o600));
            c.close(EMPTY, fd as i32);
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let fd = c.open(EMPTY, &self.path("empty"), libc::O_CREAT | libc::O_WRONLY);
            c.close(EMPTY, fd);
        }
        // openat2: struct open_how { flags, mode, resolve }
        let how = [libc::O_RDONLY as u64, 0, 0];
        let how_at = how.as_ptr() as usize;
        for _ in 0..3 {
            let fd = ok!(c, Open of DATA: openat2(CWD, data_at, how_at, 24));
            c.close(DATA, fd as i32);
        }
        fails!(c, Open of BY_NAME: openat2(CWD, missing_at, how_at, 24) with ENOENT);
        fails!(c, Open of BY_NAME: openat2(CWD, data_at, how_at, 1) with EINVAL);
        // A descriptor that can do nothing but name its file.
        let fd = c.open(DATA, &data, libc::O_PATH);
        fails!(c, Read of DATA: read(fd, 0, 0) with EBADF);
        c.close(DATA, fd);
        // Relative to a directory.
        let dir = c.open(DIRECTORY, &path(self.dir), libc::O_DIRECTORY);
        let name = path("data");
        let fd = ok!(c, Open of DATA: openat(dir, name.as_ptr(), 0));
        c.close(DATA, fd as i32);
        c.close(DIRECTORY, dir);
        // dup, dup2, dup3, fcntl
        let fd = c.open(DATA, &data, libc::O_RDWR) as usize;
        let mut copies = vec![ok!(c, Dup of DATA: dup(fd))];
        #[cfg(target_arch = "x86_64")]
        copies.push(ok!(c, Dup of DATA: dup2(fd, 100)));
        copies.push(ok!(c, Dup of DATA: dup3(fd, 101, libc::O_CLOEXEC)));
        copies.push(ok!(c, Dup of DATA: fcntl(fd, libc::F_DUPFD, 200)));
        copies.push(ok!(c, Dup of DATA: fcntl(fd, libc::F_DUPFD_CLOEXEC, 300)));
        fails!(c, Dup of BY_NAME: dup(BAD_FD) with EBADF);
        fails!(c, Dup of DATA: dup3(fd, fd, 0) with EINVAL);
        fails!(c, Dup of DATA: fcntl(fd, libc::F_DUPFD, usize::MAX / 2) with EINVAL);
        // Duplicates nothing: not counted.
        ok!(c, Dup of NOWHERE: fcntl(fd, libc::F_GETFL));
        fails!(c, Dup of NOWHERE: fcntl(BAD_FD, libc::F_GETFL) with EBADF);
        for copy in copies {
            c.close(DATA, copy as i32);
        }
        // close_range names no single file.
        ok!(c, CloseRange of BY_NAME: close_range(fd, fd, 0));
        fails!(c, CloseRange of BY_NAME: close_range(5, 4, 0) with EINVAL);
        // Neither file nor directory.
        for end in c.pipe() {
            ok!(c, Close of NOWHERE: close(end));
        }
        let null = c.open(NOWHERE, &path("/dev/null"), libc::O_RDWR);
        ok!(c, Read of NOWHERE: read(null, 0, 0));
        c.close(NOWHERE, null);
    }

    fn reads_and_writes(&self) {
        let c = self.calls;
        let fd = c.open(DATA, &self.path("data"), libc::O_RDWR | libc::O_TRUNC);
        let f = fd as usize;
        let block = vec![7_u8; 100_000];
        for size in [1_usize, 10, 1000, 100_000] {
            assert_eq!(c.write(DATA, fd, &block[..size]), Ok(size));
        }
        assert_eq!(c.write(DATA, fd, &[]), Ok(0));
        assert_eq!(c.pwrite(DATA, fd, &block[..333], 1 << 20), Ok(333));
        let mut buffer = vec![0_u8; 100_000];
        c.seek(DATA, fd, 0, libc::SEEK_SET);
        assert_eq!(c.read(DATA, fd, &mut buffer[..1]), Ok(1));
        assert_eq!(c.read(DATA, fd, &mut buffer[..50_000]), Ok(50_000));
        assert_eq!(c.read(DATA, fd, &mut []), Ok(0));
        // Short: less is left than asked for.
        assert_eq!(
            c.pread(DATA, fd, &mut buffer[..1000], (1 << 20) + 300),
            Ok(33)
        );
        // At the end, and behind it.
        assert_eq!(c.pread(DATA, fd, &mut buffer, (1 << 20) + 333), Ok(0));
        assert_eq!(c.pread(DATA, fd, &mut buffer, 1 << 30), Ok(0));
        // Vectors.
        let vector = |at: usize, length: usize| [buffer.as_ptr() as usize + at, length];
        let vectors = [
            vector(0, 10),
            vector(100, 0),
            vector(200, 23),
            vector(1000, 500),
        ];
        let v = vectors.as_ptr() as usize;
        ok!(c, Read of DATA: readv(f, v, 4));
        ok!(c, Read of DATA: preadv(f, v, 3, 5000, 0));
        ok!(c, Read of DATA: preadv2(f, v, 4, 600, 0, 0));
        ok!(c, Read of DATA: preadv2(f, v, 4, usize::MAX, usize::MAX, 0));
        ok!(c, Write of DATA: writev(f, v, 4));
        ok!(c, Write of DATA: pwritev(f, v, 4, 77, 0));
        ok!(c, Write of DATA: pwritev2(f, v, 2, 8888, 0, 0));
        ok!(c, Write of DATA: pwritev2(f, v, 2, usize::MAX, usize::MAX, libc::RWF_APPEND));
        // Failures on the open file.
        c.seek(DATA, fd, 0, libc::SEEK_SET);
        fails!(c, Read of DATA: read(f, 8, 100) with EFAULT);
        fails!(c, Write of DATA: write(f, 8, 100) with EFAULT);
        fails!(c, Read of DATA: pread64(f, v, 1, usize::MAX) with EINVAL);
        fails!(c, Read of DATA: readv(f, v, usize::MAX) with EINVAL);
        fails!(c, Seek of DATA: lseek(f, usize::MAX, 0) with EINVAL);
        c.close(DATA, fd);
        let read_only = c.open(DATA, &self.path("data"), libc::O_RDONLY);
        assert_eq!(c.write(DATA, read_only, b"x"), Err(libc::EBADF));
        c.close(DATA, read_only);
        // Failures without a file.
        fails!(c, Read of BY_NAME: read(BAD_FD, v, 1) with EBADF);
        fails!(c, Write of BY_NAME: write(usize::MAX, v, 1) with EBADF);
        // A directory.
        let dir = c.open(DIRECTORY, &path(self.dir), libc::O_DIRECTORY);
        assert_eq!(c.read(DIRECTORY, dir, &mut buffer), Err(libc::EISDIR));
        let at = buffer.as_mut_ptr() as usize;
        while ok!(c, Getdents of DIRECTORY: getdents64(dir, at, 4096)) != 0 {}
        let file = c.open(DATA, &self.path("data"), libc::O_RDONLY);
        fails!(c, Getdents of DATA: getdents64(file, at, 4096) with ENOTDIR);
        ok!(c, Fsync of DIRECTORY: fsync(dir));
        ok!(c, Syncfs of DIRECTORY: syncfs(dir));
        c.close(DIRECTORY, dir);
        c.close(DATA, file);
        // Pipes and their failures: nowhere.
        let [from, to] = c.pipe();
        c.nowhere(libc::SYS_write, &[to as usize, v, 16]);
        c.nowhere(libc::SYS_read, &[from as usize, at, 16]);
        fails!(c, Seek of NOWHERE: lseek(from, 0, 0) with ESPIPE);
        c.close(NOWHERE, from);
        c.close(NOWHERE, to);
    }

    fn metadata(&self) {
        let c = self.calls;
        let data = self.path("data");
        let (d, missing) = (data.as_ptr() as usize, self.path("missing"));
        let m = missing.as_ptr() as usize;
        let empty = c"".as_ptr() as usize;
        let fd = c.open(DATA, &data, libc::O_RDWR);
        let f = fd as usize;
        let mut room = [0_u64; 64];
        let at = room.as_mut_ptr() as usize;
        // By path: to the process.
        #[cfg(target_arch = "x86_64")]
        {
            ok!(c, Stat of BY_NAME: stat(d, at));
            ok!(c, Stat of BY_NAME: lstat(d, at));
            fails!(c, Stat of BY_NAME: stat(m, at) with ENOENT);
            ok!(c, Access of BY_NAME: access(d, 0));
            fails!(c, Access of BY_NAME: access(m, 0) with ENOENT);
        }
        ok!(c, Stat of BY_NAME: newfstatat(CWD, d, at, 0));
        fails!(c, Stat of BY_NAME: newfstatat(CWD, m, at, 0) with ENOENT);
        ok!(c, Stat of BY_NAME: statx(CWD, d, 0, 0x7ff, at));
        fails!(c, Stat of BY_NAME: statx(CWD, m, 0, 0x7ff, at) with ENOENT);
        ok!(c, Access of BY_NAME: faccessat(CWD, d, 0));
        ok!(c, Access of BY_NAME: faccessat2(CWD, d, 0, 0));
        fails!(c, Access of BY_NAME: faccessat2(CWD, m, 0, 0) with ENOENT);
        // By descriptor: to the file.
        ok!(c, Stat of DATA: fstat(f, at));
        fails!(c, Stat of BY_NAME: fstat(BAD_FD, at) with EBADF);
        fails!(c, Stat of DATA: fstat(f, 8) with EFAULT);
        for _ in 0..4 {
            ok!(c, Stat of DATA: newfstatat(f, empty, at, libc::AT_EMPTY_PATH));
        }
        for _ in 0..2 {
            ok!(c, Stat of DATA: statx(f, empty, libc::AT_EMPTY_PATH, 0x7ff, at));
        }
        // An empty path on a page that was not touched before, which only the call itself brings in.
        let untouched = || {
            let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let readable = libc::PROT_READ as usize;
            c.nowhere(libc::SYS_mmap, &[0, 4096, readable, kind, usize::MAX, 0])
        };
        ok!(c, Stat of DATA: newfstatat(f, untouched(), at, libc::AT_EMPTY_PATH));
        fails!(c, Stat of DATA: newfstatat(f, untouched(), 8, libc::AT_EMPTY_PATH) with EFAULT);
        fails!(c, Stat of BY_NAME: newfstatat(f, empty, at, 0) with ENOENT);
        // The flag with a path that is not empty: by path.
        ok!(c, Stat of BY_NAME: newfstatat(f, d, at, libc::AT_EMPTY_PATH));
        // Seeks of each kind.
        for (offset, whence) in [
            (5, libc::SEEK_SET),
            (5, libc::SEEK_CUR),
            (-5, libc::SEEK_END),
        ] {
            c.seek(DATA, fd, offset, whence);
        }
        fails!(c, Seek of BY_NAME: lseek(BAD_FD, 0, 0) with EBADF);
        // Syncs.
        ok!(c, Fsync of DATA: fsync(f));
        ok!(c, Fdatasync of DATA: fdatasync(f));
        ok!(c, Fdatasync of DATA: fdatasync(f));
        for _ in 0..3 {
            ok!(c, SyncFileRange of DATA: sync_file_range(f, 0, 0, 2));
        }
        ok!(c, Syncfs of DATA: syncfs(f));
        for _ in 0..2 {
            ok!(c, Sync of BY_NAME: sync());
        }
        fails!(c, Fsync of BY_NAME: fsync(BAD_FD) with EBADF);
        fails!(c, Fdatasync of BY_NAME: fdatasync(BAD_FD) with EBADF);
        fails!(c, Syncfs of BY_NAME: syncfs(BAD_FD) with EBADF);
        fails!(c, SyncFileRange of DATA: sync_file_range(f, 0, 0, 1 << 30) with EINVAL);
        // Lengths.
        ok!(c, Truncate of DATA: ftruncate(f, 50_000));
        ok!(c, Truncate of BY_NAME: truncate(d, 60_000));
        ok!(c, Truncate of BY_NAME: truncate(d, 70_000));
        fails!(c, Truncate of BY_NAME: truncate(m, 0) with ENOENT);
        fails!(c, Truncate of DATA: ftruncate(f, usize::MAX) with EINVAL);
        ok!(c, Fallocate of DATA: fallocate(f, 0, 0, 80_000));
        fails!(c, Fallocate of DATA: fallocate(f, 0, 0, 0) with EINVAL);
        fails!(c, Fallocate of BY_NAME: fallocate(BAD_FD, 0, 0, 1) with EBADF);
        c.close(DATA, fd);
    }

    fn names(&self) {
        let c = self.calls;
        let p = |name: &str| self.path(name);
        let at = |path: &CString| path.as_ptr() as usize;
        // Directories.
        let (made, also_made) = (p("made"), p("also-made"));
        ok!(c, Mkdir of BY_NAME: mkdirat(CWD, at(&made), 0o755));
        ok!(c, Mkdir of BY_NAME: mkdirat(CWD, at(&also_made), 0o755));
        fails!(c, Mkdir of BY_NAME: mkdirat(CWD, at(&made), 0o755) with EEXIST);
        let remove = libc::AT_REMOVEDIR as usize;
        ok!(c, Rmdir of BY_NAME: unlinkat(CWD, at(&made), remove));
        fails!(c, Rmdir of BY_NAME: unlinkat(CWD, at(&made), remove) with ENOENT);
        fails!(c, Rmdir of BY_NAME: unlinkat(CWD, at(&p("")), remove) with ENOTEMPTY);
        fails!(c, Unlink of BY_NAME: unlinkat(CWD, at(&also_made), 0) with EISDIR);
        ok!(c, Rmdir of BY_NAME: unlinkat(CWD, at(&also_made), remove));
        // Links.
        let (hard, soft, data) = (p("hard"), p("soft"), p("data"));
        ok!(c, Link of BY_NAME: linkat(CWD, at(&data), CWD, at(&hard), 0));
        fails!(c, Link of BY_NAME: linkat(CWD, at(&data), CWD, at(&hard), 0) with EEXIST);
        ok!(c, Symlink of BY_NAME: symlinkat(at(&data), CWD, at(&soft)));
        fails!(c, Symlink of BY_NAME: symlinkat(at(&data), CWD, at(&soft)) with EEXIST);
        let room = [0_u8; 4096];
        for _ in 0..2 {
            ok!(c, Readlink of BY_NAME: readlinkat(CWD, at(&soft), room.as_ptr(), 4096));
        }
        fails!(c, Readlink of BY_NAME: readlinkat(CWD, at(&data), room.as_ptr(), 4096) with EINVAL);
        // The hard link and the symbolic link are the same file.
        for name in [&hard, &soft] {
            let fd = c.open(DATA, name, libc::O_RDONLY);
            c.close(DATA, fd);
        }
        // Names that iotrace knows no file by.
        c.unlink(BY_NAME, &hard);
        c.unlink(BY_NAME, &soft);
        fails!(c, Unlink of BY_NAME: unlinkat(CWD, at(&soft), 0) with ENOENT);
        // Renames: of a file that is known, which counts with it, and of names that are not.
        let before = p("before");
        let fd = c.open(RENAMED, &before, libc::O_CREAT | libc::O_WRONLY);
        assert_eq!(c.write(RENAMED, fd, b"12345"), Ok(5));
        c.close(RENAMED, fd);
        c.rename(RENAMED, &before, &p("between"), 0);
        c.rename(
            RENAMED,
            &p("between"),
            &p("renamed"),
            libc::RENAME_NOREPLACE,
        );
        let fd = c.open(RENAMED, &p("renamed"), libc::O_RDONLY);
        assert_eq!(c.read(RENAMED, fd, &mut [0; 10]), Ok(5));
        c.close(RENAMED, fd);
        let (gone, target) = (p("missing"), p("renamed"));
        fails!(c, Rename of BY_NAME: renameat(CWD, at(&gone), CWD, at(&before)) with ENOENT);
        let keep = libc::RENAME_NOREPLACE;
        fails!(c, Rename of BY_NAME: renameat2(CWD, at(&data), CWD, at(&target), keep) with EEXIST);
        #[cfg(target_arch = "x86_64")]
        {
            ok!(c, Mkdir of BY_NAME: mkdir(at(&made), 0o700));
            ok!(c, Rename of BY_NAME: rename(at(&made), at(&also_made)));
            ok!(c, Rmdir of BY_NAME: rmdir(at(&also_made)));
            fails!(c, Rmdir of BY_NAME: rmdir(at(&also_made)) with ENOENT);
            ok!(c, Link of BY_NAME: link(at(&data), at(&hard)));
            ok!(c, Unlink of BY_NAME: unlink(at(&hard)));
            fails!(c, Unlink of BY_NAME: unlink(at(&hard)) with ENOENT);
            ok!(c, Symlink of BY_NAME: symlink(at(&data), at(&soft)));
            ok!(c, Readlink of BY_NAME: readlink(at(&soft), room.as_ptr(), 4096));
            ok!(c, Unlink of BY_NAME: unlink(at(&soft)));
        }
    }

    fn transfers(&self) {
        let c = self.calls;
        let source = c.open(DATA, &self.path("data"), libc::O_RDONLY);
        let target = c.open(COPY, &self.path("copy"), libc::O_CREAT | libc::O_RDWR);
        let (s, t) = (source as usize, target as usize);
        // Between two files: counted at both ends.
        let both = |nr: i64, args: &[usize]| -> usize {
            let moved = c.must(Op::TransferRead, DATA, nr, args);
            c.book.count(Op::TransferWrite, COPY, moved as i64);
            moved
        };
        assert_eq!(both(libc::SYS_sendfile, &[t, s, 0, 10_000]), 10_000);
        assert_eq!(
            both(libc::SYS_copy_file_range, &[s, 0, t, 0, 20_000, 0]),
            20_000
        );
        assert_eq!(both(libc::SYS_copy_file_range, &[s, 0, t, 0, 3, 0]), 3);
        // At the end of the source.
        c.seek(DATA, source, 0, libc::SEEK_END);
        assert_eq!(both(libc::SYS_sendfile, &[t, s, 0, 10_000]), 0);
        // With a pipe at one end: counted at the other.
        let [from, to] = c.pipe();
        let mut offset = 0_u64;
        let at = (&raw mut offset) as usize;
        ok!(c, TransferRead of DATA: splice(s, at, to, 0, 5000, 0));
        ok!(c, TransferWrite of COPY: splice(from, 0, t, 0, 5000, 0));
        ok!(c, TransferRead of DATA: sendfile(to, s, at, 100));
        // With a pipe at both ends: at neither.
        let [from_2, to_2] = c.pipe();
        c.nowhere(
            libc::SYS_splice,
            &[from as usize, 0, to_2 as usize, 0, 100, 0],
        );
        for end in [from, to, from_2, to_2] {
            c.close(NOWHERE, end);
        }
        // Failures, counted at the source.
        fails!(c, TransferRead of DATA: sendfile(BAD_FD, s, 0, 1) with EBADF);
        fails!(c, TransferRead of BY_NAME: sendfile(t, BAD_FD, 0, 1) with EBADF);
        fails!(c, TransferRead of DATA: copy_file_range(s, 0, t, 0, 1, 77) with EINVAL);
        fails!(c, TransferRead of DATA: splice(s, 0, t, 0, 1, 0) with EINVAL);
        c.close(DATA, source);
        c.close(COPY, target);
    }

    fn memory(&self) {
        let c = self.calls;
        let fd = c.open(OTHER, &self.path("other"), libc::O_CREAT | libc::O_RDWR);
        let f = fd as usize;
        ok!(c, Truncate of OTHER: ftruncate(f, 8192));
        let (rw, shared, private) = (
            (libc::PROT_READ | libc::PROT_WRITE) as usize,
            libc::MAP_SHARED as usize,
            libc::MAP_PRIVATE as usize,
        );
        let mapped = ok!(c, Mmap of OTHER: mmap(0, 8192, rw, shared, f, 0));
        ok!(c, Mmap of OTHER: mmap(0, 4096, rw, private, f, 4096));
        fails!(c, Mmap of OTHER: mmap(0, 4096, rw, shared, f, 1) with EINVAL);
        fails!(c, Mmap of BY_NAME: mmap(0, 4096, rw, shared, BAD_FD, 0) with EBADF);
        // Anonymous, whatever the descriptor says: not counted.
        let anonymous = private | libc::MAP_ANONYMOUS as usize;
        c.nowhere(libc::SYS_mmap, &[0, 4096, rw, anonymous, f, 0]);
        c.nowhere(libc::SYS_mmap, &[0, 4096, rw, anonymous, usize::MAX, 0]);
        // What goes through the mapping is no call.
        // SAFETY: mapped above, two pages, readable and writable.
        unsafe { (mapped as *mut u8).write(1) };
        ok!(c, Msync of OTHER: msync(mapped, 8192, libc::MS_SYNC));
        fails!(c, Msync of OTHER: msync(mapped, 8192, 64) with EINVAL);
        // No mapping, and memory that is no file's.
        fails!(c, Msync of BY_NAME: msync(0, 4096, libc::MS_SYNC) with ENOMEM);
        let plain = c.nowhere(libc::SYS_mmap, &[0, 4096, rw, anonymous, usize::MAX, 0]);
        ok!(c, Msync of BY_NAME: msync(plain, 4096, libc::MS_SYNC));
        c.close(OTHER, fd);
    }
}
