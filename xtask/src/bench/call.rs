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
        }
    }

    /// The call with this word.
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|call| call.word() == word)
    }

    /// Whether iotrace counts it as a read.
    pub fn is_read(self) -> bool {
        !matches!(self, Self::Getppid | Self::Stat | Self::OpenClose)
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
