//! The calls whose cost is measured.

/// A call, or a pair of calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    Pread,
    Read,
    DiskRead,
    PageRead,
    Getppid,
    Stat,
    OpenClose,
    TwoThreads,
    TwoDescriptors,
    Fault,
    UringRead,
    Fread,
    DirectRead,
    Wake,
}

impl Call {
    pub const ALL: [Self; 9] = [
        Self::Pread,
        Self::Read,
        Self::DiskRead,
        Self::PageRead,
        Self::Getppid,
        Self::Stat,
        Self::OpenClose,
        Self::TwoThreads,
        Self::TwoDescriptors,
    ];

    /// Those that are none of the system calls that iotrace counts.
    const BEYOND: [Self; 5] = [
        Self::Fault,
        Self::UringRead,
        Self::Fread,
        Self::DirectRead,
        Self::Wake,
    ];

    /// As the worker is asked for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pread => "pread",
            Self::Read => "read",
            Self::DiskRead => "disk-read",
            Self::PageRead => "page-read",
            Self::Getppid => "getppid",
            Self::Stat => "stat",
            Self::OpenClose => "open-close",
            Self::TwoThreads => "two-threads",
            Self::TwoDescriptors => "two-descriptors",
            Self::Fault => "fault",
            Self::UringRead => "uring-read",
            Self::Fread => "fread",
            Self::DirectRead => "direct-read",
            Self::Wake => "wake",
        }
    }

    /// As the tables name it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pread => "pread of 1 byte (tmpfs)",
            Self::Read => "read of 1 byte (tmpfs)",
            Self::DiskRead => "pread of 1 byte (file on disk, in the page cache)",
            Self::PageRead => "pread of 4 KiB (tmpfs)",
            Self::Getppid => "getppid, which no tracer here is interested in",
            Self::Stat => "stat by path",
            Self::OpenClose => "open and close, both together",
            Self::TwoThreads => "pread of 1 byte by two threads through one descriptor, each",
            Self::TwoDescriptors => "pread of 1 byte by two threads, one file, a descriptor each",
            Self::Fault => "page fault on a mapped file in the page cache, which maps 16 pages",
            Self::UringRead => "read of 1 byte by io_uring (tmpfs), submitted and taken by itself",
            Self::Fread => {
                "fread of 1 byte (tmpfs), out of the stream's buffer but for one in 4,096"
            }
            Self::DirectRead => "direct pread of 4 KiB from the disk: one request to its device",
            Self::Wake => {
                "round trip of a byte between two threads on one CPU: two waits and two wake-ups"
            }
        }
    }

    /// The call with this word.
    pub fn find(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().chain(Self::BEYOND);
        all.find(|call| call.word() == word)
    }

    /// Whether iotrace counts it as a read.
    pub fn is_read(self) -> bool {
        !matches!(
            self,
            Self::Getppid | Self::Stat | Self::OpenClose | Self::Fault | Self::Wake
        )
    }

    /// How many threads do it at one time.
    pub fn threads(self) -> usize {
        if matches!(self, Self::TwoThreads | Self::TwoDescriptors) {
            2
        } else {
            1
        }
    }
}
