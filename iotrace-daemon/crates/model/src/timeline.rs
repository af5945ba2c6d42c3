//! The timeline of threads: when each was off the CPU, why, and who woke it. Between two segments a thread runs.

use iotrace_common::key::FileId;

use super::input::ProcessId;

/// Segments that wait for a flush, at most: about 100 MB.
const MAX_PENDING: usize = 1 << 20;
/// Segments of a recording, at most: about 200 MB on disk, and 1.5 GB in memory to replay them.
pub const MAX_SEGMENTS: u64 = 1 << 24;

/// Why a thread left the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// It is new: `off` is its birth, and the waker its parent. Without a waker, it ran before and was met then.
    Born,
    /// Another thread took the CPU. Without any length: it ended.
    Preempted,
    /// A thread that is traced woke it.
    Thread,
    /// An operation on a file.
    Storage,
    /// A page fault on a file or on memory.
    PageFault,
    /// A sleep, or a wait that ended by its timeout.
    Sleep,
    /// The network, or another descriptor that an interrupt made ready.
    Network,
    /// A thread that is not traced, a lock in the kernel, a device.
    Other,
    /// Its wake-up was not seen.
    Unresolved,
}

impl Cause {
    /// All, in order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Born,
        Self::Preempted,
        Self::Thread,
        Self::Storage,
        Self::PageFault,
        Self::Sleep,
        Self::Network,
        Self::Other,
        Self::Unresolved,
    ];

    /// Its name in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Born => "born",
            Self::Preempted => "preempted",
            Self::Thread => "thread",
            Self::Storage => "storage",
            Self::PageFault => "page_fault",
            Self::Sleep => "sleep",
            Self::Network => "network",
            Self::Other => "other",
            Self::Unresolved => "unresolved",
        }
    }

    /// Undoes [`Cause::name`].
    pub fn of_name(name: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|cause| cause.name().as_bytes() == name)
    }
}

/// One time that a thread was off the CPU. Times are `CLOCK_MONOTONIC` nanoseconds, `off <= woken <= on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub process: ProcessId,
    pub tid: u32,
    /// When it left the CPU.
    pub off: u64,
    /// When it was ready to run again.
    pub woken: u64,
    /// When it ran again.
    pub on: u64,
    pub cause: Cause,
    /// The thread that woke it, or made it.
    pub by: Option<u32>,
    /// For storage: the file, if the operation has one.
    pub file: Option<FileId>,
    /// Its phase (`Phase::code`); 0: none.
    pub phase: u16,
}

/// Sorts segments and divides them by thread, each thread's in order of time. One that is born begins anew: its number may
/// have been that of another thread of its process.
pub fn by_thread(segments: &mut [Segment]) -> impl Iterator<Item = &[Segment]> {
    segments.sort_by_key(|one| (one.process, one.tid, one.off, one.on));
    segments.chunk_by(|one, next| {
        (one.process, one.tid) == (next.process, next.tid) && next.cause != Cause::Born
    })
}

/// Segments since the last flush.
#[derive(Debug, Default)]
pub struct Timeline {
    pending: Vec<Segment>,
    segments: u64,
    dropped: u64,
}

impl Timeline {
    /// Adds segments, as far as there is room for them.
    pub fn add(&mut self, segments: Vec<Segment>) {
        let pending = MAX_PENDING.saturating_sub(self.pending.len());
        let left = usize::try_from(MAX_SEGMENTS - self.segments).unwrap_or(usize::MAX);
        let room = pending.min(left).min(segments.len());
        self.segments += room as u64;
        self.dropped += (segments.len() - room) as u64;
        self.pending.extend(segments.into_iter().take(room));
    }

    /// Segments that were added since the last [`Timeline::settle`].
    pub fn interval(&self) -> &[Segment] {
        &self.pending
    }

    /// Segments that were kept in all, and those for which there was no room.
    pub fn counts(&self) -> (u64, u64) {
        (self.segments, self.dropped)
    }

    /// Forgets what was flushed.
    pub(super) fn settle(&mut self) {
        self.pending = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            let found = Cause::of_name(cause.name().as_bytes());
            assert_eq!((cause as usize, found), (number, Some(cause)));
        }
        assert_eq!(Cause::of_name(b"gpu"), None);
    }

    const SEGMENT: Segment = Segment {
        process: ProcessId { pid: 1, start: 2 },
        tid: 1,
        off: 0,
        woken: 0,
        on: 0,
        cause: Cause::Preempted,
        by: None,
        file: None,
        phase: 0,
    };

    #[test]
    fn a_number_that_is_used_again_is_another_thread() {
        let at = |tid, time, cause| Segment {
            tid,
            off: time,
            woken: time,
            on: time,
            cause,
            ..SEGMENT
        };
        let mut segments = [
            at(7, 50, Cause::Sleep),
            at(7, 40, Cause::Born),
            at(8, 1, Cause::Sleep),
            at(7, 20, Cause::Preempted),
            at(7, 10, Cause::Born),
        ];
        let threads = by_thread(&mut segments);
        let times = threads.map(|thread| thread.iter().map(|one| one.off).collect::<Vec<_>>());
        assert_eq!(
            times.collect::<Vec<_>>(),
            [vec![10, 20], vec![40, 50], vec![1]]
        );
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let segment = SEGMENT;
        let mut timeline = Timeline::default();
        timeline.add(vec![segment; MAX_PENDING - 1]);
        timeline.add(vec![segment; 3]);
        assert_eq!(timeline.counts(), (MAX_PENDING as u64, 2));
        timeline.settle();
        timeline.add(vec![segment; 3]);
        assert_eq!(timeline.interval().len(), 3);
        assert_eq!(timeline.counts(), (MAX_PENDING as u64 + 3, 2));
    }
}
