//! The count that a process keeps of its own calls, in memory that outlives it.
//!
//! Each process has a [`Book`] in a mapping shared with the program's first process, so that the counts of one that is
//! killed or that executes another program are still there. A book has a sheet per file and one, [`BY_NAME`], for calls
//! that name no open file.

use std::{
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    ptr,
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

use serde_json::{Map, Value, json};

/// What a call is counted as: its counter's name, and the name under which its failures stand.
pub const OPS: [(&str, &str); 28] = [
    ("reads", "read"),
    ("writes", "write"),
    ("opens", "open"),
    ("closes", "close"),
    ("dups", "dup"),
    ("fsyncs", "fsync"),
    ("fdatasyncs", "fdatasync"),
    ("sync_file_ranges", "sync_file_range"),
    ("msyncs", "msync"),
    ("seeks", "seek"),
    ("stats", "stat"),
    ("accesses", "access"),
    ("getdents", "getdents"),
    ("truncates", "truncate"),
    ("fallocates", "fallocate"),
    ("renames", "rename"),
    ("links", "link"),
    ("symlinks", "symlink"),
    ("unlinks", "unlink"),
    ("mkdirs", "mkdir"),
    ("rmdirs", "rmdir"),
    ("mmaps", "mmap"),
    ("transfer_reads", "transfer_read"),
    ("transfer_writes", "transfer_write"),
    ("close_ranges", "close_range"),
    ("readlinks", "readlink"),
    ("syncfs", "syncfs"),
    ("syncs", "sync"),
];

/// Kinds of calls, indexes into [`OPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Op {
    Read,
    Write,
    Open,
    Close,
    Dup,
    Fsync,
    Fdatasync,
    SyncFileRange,
    Msync,
    Seek,
    Stat,
    Access,
    Getdents,
    Truncate,
    Fallocate,
    Rename,
    Link,
    Symlink,
    Unlink,
    Mkdir,
    Rmdir,
    Mmap,
    TransferRead,
    TransferWrite,
    CloseRange,
    Readlink,
    Syncfs,
    Sync,
}

/// The sheet of calls that name no open file.
pub const BY_NAME: usize = 0;
/// Calls on what is neither a file nor a directory: counted nowhere.
pub const NOWHERE: usize = usize::MAX;
const SHEETS: usize = 72;
const ERRNOS: usize = 134;

/// Counts of one file, or of calls by name.
#[repr(C)]
pub struct Sheet {
    calls: [AtomicU64; OPS.len()],
    zero_reads: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    errors: [[AtomicU64; ERRNOS]; OPS.len()],
}

/// Counts of one process.
#[repr(C)]
pub struct Book {
    pub pid: AtomicU64,
    /// Calls begun and calls counted: they differ by those in flight.
    pub begun: AtomicU64,
    pub counted: AtomicU64,
    sheets: [Sheet; SHEETS],
}

impl Book {
    /// Counts a call that returned `result`, a negative number for an error.
    pub fn count(&self, op: Op, sheet: usize, result: i64) {
        self.note(op, sheet, result);
        // The last of it: who is killed in the midst has not counted the call.
        self.counted.fetch_add(1, Release);
    }

    fn note(&self, op: Op, sheet: usize, result: i64) {
        let Some(sheet) = self.sheets.get(sheet) else {
            return;
        };
        if result < 0 {
            sheet.errors[op as usize][-result as usize].fetch_add(1, Relaxed);
            return;
        }
        sheet.calls[op as usize].fetch_add(1, Relaxed);
        let bytes = result as u64;
        match op {
            Op::Read if bytes == 0 => drop(sheet.zero_reads.fetch_add(1, Relaxed)),
            Op::Read | Op::TransferRead => drop(sheet.bytes_read.fetch_add(bytes, Relaxed)),
            Op::Write | Op::TransferWrite => drop(sheet.bytes_written.fetch_add(bytes, Relaxed)),
            _ => {}
        }
    }

    fn json(&self, process: &Process) -> Value {
        let files: Map<String, Value> = process
            .labels
            .iter()
            .enumerate()
            .map(|(index, label)| (label.clone(), self.sheets[index + 1].json()))
            .collect();
        json!({
            "role": process.role,
            "pid": self.pid.load(Relaxed),
            "whole": process.whole,
            "begun": self.begun.load(Relaxed),
            "counted": self.counted.load(Relaxed),
            "files": files,
            "by_name": self.sheets[BY_NAME].json(),
        })
    }
}

impl Sheet {
    fn json(&self) -> Value {
        let mut map = Map::new();
        let mut errors = Map::new();
        let mut failures = 0;
        for (index, (counter, operation)) in OPS.iter().enumerate() {
            put(&mut map, counter, self.calls[index].load(Relaxed));
            let mut by_errno = Map::new();
            for (errno, calls) in self.errors[index].iter().enumerate() {
                let calls = calls.load(Relaxed);
                failures += calls;
                put(&mut by_errno, &errno.to_string(), calls);
            }
            if !by_errno.is_empty() {
                errors.insert((*operation).to_owned(), Value::Object(by_errno));
            }
        }
        put(&mut map, "failures", failures);
        put(&mut map, "zero_reads", self.zero_reads.load(Relaxed));
        put(&mut map, "bytes_read", self.bytes_read.load(Relaxed));
        put(&mut map, "bytes_written", self.bytes_written.load(Relaxed));
        map.insert("errors_by_operation".into(), Value::Object(errors));
        Value::Object(map)
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: u64) {
    if value != 0 {
        map.insert(key.into(), value.into());
    }
}

/// A process and its book.
pub struct Process {
    role: String,
    labels: Vec<String>,
    /// Whether the book holds every call that the process made. Not so where it ran a dynamic loader.
    whole: bool,
    book: &'static Book,
}

/// The books of a run.
#[derive(Default)]
pub struct Truth {
    processes: Vec<Process>,
    pub more: Map<String, Value>,
}

/// A child process that may still run.
pub struct Child {
    pub pid: i32,
    pub book: &'static Book,
}

impl Truth {
    /// A book for a process. The files are sheets 1, 2, ... by their paths.
    pub fn book(&mut self, role: &str, files: &[String], whole: bool) -> &'static Book {
        assert!(files.len() < SHEETS, "{} files", files.len());
        let book = map_shared(None);
        self.enter(role, files, whole, book);
        book
    }

    /// A book that another program can open: in a memory file, whose descriptor is not closed by exec.
    pub fn book_for_exec(&mut self, role: &str, files: &[String]) -> (&'static Book, OwnedFd) {
        // SAFETY: the name is a C string, the new descriptor is owned here.
        let memory = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"book".as_ptr(), 0)) };
        // SAFETY: a plain call on our descriptor.
        let sized = unsafe { libc::ftruncate(memory.as_raw_fd(), size_of::<Book>() as i64) };
        assert_eq!(sized, 0, "{}", std::io::Error::last_os_error());
        let book = map_shared(Some(memory.as_raw_fd()));
        self.enter(role, files, false, book);
        (book, memory)
    }

    fn enter(&mut self, role: &str, files: &[String], whole: bool, book: &'static Book) {
        self.processes.push(Process {
            role: role.into(),
            labels: files.to_vec(),
            whole,
            book,
        });
    }

    /// Runs `work` in a forked process that does nothing else, and ends it without the C library's exit.
    pub fn fork(
        &mut self,
        role: &str,
        files: &[String],
        work: impl FnOnce(&'static Book),
    ) -> Child {
        let book = self.book(role, files, true);
        Child {
            pid: fork(book, work),
            book,
        }
    }

    /// As [`Self::fork`], and waits for its end.
    pub fn run(&mut self, role: &str, files: &[String], work: impl FnOnce(&'static Book)) {
        self.fork(role, files, work).wait();
    }

    /// Prints all books.
    pub fn print(self) {
        let processes: Vec<Value> = self
            .processes
            .iter()
            .map(|process| process.book.json(process))
            .collect();
        let mut all = self.more;
        all.insert("processes".into(), processes.into());
        println!("{}", Value::Object(all));
    }
}

/// Runs `work` in a forked process; its pid.
pub fn fork(book: &'static Book, work: impl FnOnce(&'static Book)) -> i32 {
    // SAFETY: the program has one thread when it forks.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            in_child(book, work);
        }
        pid => pid,
    }
}

/// The child's side of a fork.
pub fn in_child(book: &'static Book, work: impl FnOnce(&'static Book)) -> ! {
    // SAFETY: getpid has no preconditions.
    book.pid.store(unsafe { libc::getpid() } as u64, Relaxed);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(book)));
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(if result.is_ok() { 0 } else { 101 }) }
}

impl Child {
    /// Waits for its end, which must be an exit with 0.
    pub fn wait(&self) {
        let status = self.status();
        assert_eq!(status, 0, "a child ended with status {status:#x}");
    }

    /// Waits for its end; its status as wait(2) gives it.
    pub fn status(&self) -> i32 {
        wait(self.pid)
    }
}

/// Waits for the end of `pid`.
pub fn wait(pid: i32) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: the status lives here.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid {
            return status;
        }
        let error = std::io::Error::last_os_error();
        assert_eq!(
            error.raw_os_error(),
            Some(libc::EINTR),
            "waitpid {pid}: {error}"
        );
    }
}

/// Maps a book of zeros: of the memory file `fd`, or without one shared with children only.
pub fn map_shared(fd: Option<i32>) -> &'static Book {
    let flags = libc::MAP_SHARED | if fd.is_some() { 0 } else { libc::MAP_ANONYMOUS };
    // SAFETY: a new mapping, as long as a book, of zeros, which are a valid book; never unmapped.
    unsafe {
        let address = libc::mmap(
            ptr::null_mut(),
            size_of::<Book>(),
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            fd.unwrap_or(-1),
            0,
        );
        assert_ne!(
            address,
            libc::MAP_FAILED,
            "{}",
            std::io::Error::last_os_error()
        );
        &*address.cast::<Book>()
    }
}
