//! Where the kernel has no type information (BTF): files are told by following descriptors, since nothing that they lead
//! to can be read.
//!
//! A descriptor gets a number, a handle, when it is made or first used, and keeps it until it is closed; duplicates and
//! forked processes have the same. Counters are kept by handle, and user space finds out which file that is.

/// `FileId::device` of a handle in place of a file: no device has it.
pub const DEVICE: u32 = u32::MAX;

/// Processes of which it is known since when they run, and from which others got their descriptors (an LRU).
pub const PROCESSES: u32 = 65_536;
/// Descriptors that are followed (an LRU: one that is forgotten gets another handle at its next use).
pub const DESCRIPTORS: u32 = 262_144;
/// Longest path that is sent, bytes.
pub const PATH_BYTES: usize = 4096;
/// In place of a process's exit status: a signal may have ended it.
pub const STATUS_UNKNOWN: u32 = u32::MAX;

/// A handle: nanoseconds of the moment that it was made and the number of the CPU, which no two have in common.
pub const HANDLE: u64 = (1 << 59) - 1;
/// Set beside a handle that was made by the call itself.
pub const FRESH: u64 = 1 << 59;
/// Where the type of what a descriptor is stands (`st_mode >> 12`); 0: not known, or a regular file.
pub const TYPE_SHIFT: u32 = 60;
/// In place of a type, what has none: an eventfd and its like.
pub const NAMELESS: u64 = 0xf;

/// Which descriptor of which process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub tgid: u32,
    pub fd: u32,
    /// When the process was first seen, nanoseconds since boot.
    pub start: u64,
}

/// A descriptor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptor {
    /// Handle and type; 0: it was closed.
    pub handle: u64,
    /// When that was, `CLOCK_MONOTONIC` nanoseconds.
    pub since: u64,
    /// 1: an exec closes it.
    pub close_on_exec: u64,
}

/// What a process has closed without its saying which.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Closed {
    /// Its last exec, `CLOCK_MONOTONIC` nanoseconds; 0: none.
    pub executed: u64,
    /// Its last close_range, and the lowest descriptor of all of them.
    pub ranged: u64,
    pub from: u64,
}

impl Closed {
    /// Whether a descriptor may have been closed by it.
    #[inline(always)]
    pub fn closes(&self, known: &Descriptor, fd: u32) -> bool {
        known.handle == 0
            || known.close_on_exec != 0 && known.since < self.executed
            || u64::from(fd) >= self.from && known.since < self.ranged
    }
}

/// What is known of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// When it was made, or first seen, nanoseconds since boot.
    pub start: u64,
    /// When it was forked, `CLOCK_MONOTONIC` nanoseconds; 0: that was not seen.
    pub forked: u64,
    /// What its parent had closed by then, and what it has closed itself.
    pub before: Closed,
    pub now: Closed,
    pub parents_start: u64,
    pub parent: u32,
    /// Its exit status, if it ends by saying one.
    pub status: u32,
    /// Not 0: its first thread ends before others.
    pub left: u64,
}

impl Process {
    /// Where its parent's descriptor stands.
    #[inline(always)]
    pub fn parents_key(&self, fd: u32) -> Key {
        Key {
            tgid: self.parent,
            fd,
            start: self.parents_start,
        }
    }
}

/// How an [`Opened`] came to be.
pub mod origin {
    /// It was there when it was first used.
    pub const FOUND: u32 = 0;
    /// By a path, which follows.
    pub const PATH: u32 = 1;
    /// By memfd_create, whose name follows.
    pub const MEMORY: u32 = 2;
    /// No descriptor: the process has changed its working directory to the path that follows.
    pub const DIRECTORY: u32 = 3;
}

/// A descriptor that was given a handle; behind it the path that the program gave, if it gave one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Opened {
    pub header: crate::event::Header,
    pub handle: u64,
    /// Handle of the directory that the path starts from; 0: the working directory.
    pub base: u64,
    pub fd: u32,
    /// See [`origin`].
    pub origin: u32,
    /// Flags of the open.
    pub flags: u64,
}

/// What the kernel side does at a system call beside counting it, by number.
pub mod action {
    macro_rules! actions {
        ($($index:literal $konst:ident $doc:literal;)*) => {
            $(#[doc = $doc] pub const $konst: u8 = $index;)*
        };
    }
    actions! {
        1 OPEN "(path, flags).";
        2 OPENAT "(directory, path, flags).";
        3 CREAT "(path).";
        4 OPENAT2 "(directory, path, struct open_how *).";
        5 CLOSE "(fd).";
        6 DUP "(fd).";
        7 DUP2 "(fd, fd).";
        8 DUP3 "(fd, fd, flags).";
        9 FCNTL "(fd, command, value).";
        10 CLOSE_RANGE "(first, ...).";
        11 PIPE "(int[2]).";
        12 SOCKETPAIR "(domain, type, protocol, int[2]).";
        13 SOCKET "Returns a socket.";
        14 NAMELESS "Returns a descriptor of no file.";
        15 MEMFD "(name).";
        16 EXEC "Begins another program.";
        17 EXIT_GROUP "(status).";
        18 CHDIR "(path).";
        19 FCHDIR "(fd).";
        20 EXIT "(status): of the thread alone.";
        21 IOCTL "(fd, command): whether an exec closes it.";
    }
}

/// Calls that mean something for descriptors, each with its [`action`].
pub const ACTIONS: [(&str, u8); 40] = {
    use action::*;
    [
        ("open", OPEN),
        ("openat", OPENAT),
        ("creat", CREAT),
        ("openat2", OPENAT2),
        ("close", CLOSE),
        ("dup", DUP),
        ("dup2", DUP2),
        ("dup3", DUP3),
        ("fcntl", FCNTL),
        ("close_range", CLOSE_RANGE),
        ("pipe", PIPE),
        ("pipe2", PIPE),
        ("socketpair", SOCKETPAIR),
        ("socket", SOCKET),
        ("accept", SOCKET),
        ("accept4", SOCKET),
        ("eventfd", NAMELESS),
        ("eventfd2", NAMELESS),
        ("epoll_create", NAMELESS),
        ("epoll_create1", NAMELESS),
        ("timerfd_create", NAMELESS),
        ("signalfd", NAMELESS),
        ("signalfd4", NAMELESS),
        ("inotify_init", NAMELESS),
        ("inotify_init1", NAMELESS),
        ("fanotify_init", NAMELESS),
        ("perf_event_open", NAMELESS),
        ("pidfd_open", NAMELESS),
        ("userfaultfd", NAMELESS),
        ("io_uring_setup", NAMELESS),
        ("memfd_create", MEMFD),
        ("execve", EXEC),
        ("execveat", EXEC),
        ("exit_group", EXIT_GROUP),
        ("exit", EXIT),
        ("chdir", CHDIR),
        ("fchdir", FCHDIR),
        ("ioctl", IOCTL),
        ("fsopen", NAMELESS),
        ("memfd_secret", NAMELESS),
    ]
};

const _: () = {
    assert!(size_of::<Key>() == 16);
    assert!(size_of::<Descriptor>() == 24);
    assert!(size_of::<Process>() == 2 * 8 + 2 * size_of::<Closed>() + 8 + 2 * 4 + 8);
    assert!(size_of::<Closed>() == 24);
    assert!(size_of::<Opened>() == 32 + 32);
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (the sizes asserted above are the sums of the fields).
    unsafe impl aya::Pod for super::Key {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Descriptor {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Process {}
}
