//! How many files a run used and how, and how fast: what Darshan's summary shows.
//!
//! Definitions are those of darshan-util's accumulator (`darshan_derived_metrics`), with processes in the place of ranks: a
//! file is read-only if bytes were read from it and none written, its size is the end of its last access, and the estimated
//! bandwidth is all bytes by the time that the slowest process spent on its files.

use serde::Serialize;

use super::{FileSum, Report};
use iotrace_model::counters::{
    Counters, MERGED_META_NS, MERGED_READ_NS, MERGED_WRITE_NS, META_NS, READ_NS, SYNC_NS, WRITE_NS,
    saturating_add, saturating_sum,
};

/// Upper bounds of the size classes, bytes; the last class has none.
const CLASS_ENDS: [u64; 8] = [
    4 << 10,
    64 << 10,
    1 << 20,
    16 << 20,
    256 << 20,
    1 << 30,
    16 << 30,
    u64::MAX,
];
/// Shared files that are listed: those whose slowest process took longest.
const SHARED_FILES: usize = 10;

/// Files of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Category {
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    pub largest_bytes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

impl Category {
    fn add(&mut self, file: &FileSum) {
        self.files += 1;
        saturating_add(&mut self.bytes, file.size);
        self.largest_bytes = self.largest_bytes.max(file.size);
        saturating_add(&mut self.bytes_read, file.io.bytes_read);
        saturating_add(&mut self.bytes_written, file.io.bytes_written);
    }

    /// Mean size, bytes.
    pub fn mean_bytes(&self) -> u64 {
        self.bytes / self.files.max(1)
    }
}

/// What one process did to a shared file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The process, by index.
    pub process: u32,
    /// Nanoseconds in calls.
    pub ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// A file that several processes used.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    pub file: u32,
    pub processes: u32,
    pub slowest: Share,
    pub fastest: Share,
}

/// Shared files whose slowest process took longest.
#[derive(Debug, Default)]
pub(super) struct SharedFiles(Vec<Shared>);

impl SharedFiles {
    /// Takes what each process did to one file.
    pub fn add(&mut self, file: u32, shares: &[Share]) {
        let slowest = shares.iter().max_by_key(|share| (share.ns, share.process));
        let fastest = shares.iter().min_by_key(|share| (share.ns, share.process));
        let (Some(slowest), Some(fastest)) = (slowest, fastest) else {
            return;
        };
        let is_slower = |other: &Shared| other.slowest.ns >= slowest.ns;
        let at = self.0.partition_point(is_slower);
        if shares.len() < 2 || at >= SHARED_FILES {
            return;
        }
        self.0.insert(
            at,
            Shared {
                file,
                processes: shares.len() as u32,
                slowest: *slowest,
                fastest: *fastest,
            },
        );
        self.0.truncate(SHARED_FILES);
    }

    pub fn all(&self) -> &[Shared] {
        &self.0
    }
}

/// A part of the files by their size.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SizeClass {
    /// Smallest size, bytes.
    pub from: u64,
    /// The next class begins here; `None` for the last.
    pub to: Option<u64>,
    #[serde(flatten)]
    pub sum: Category,
}

/// The slowest process, by its time in calls on files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slowest {
    pub process: u32,
    pub ns: u64,
}

/// The counts of a run.
#[derive(Debug, Default)]
pub struct FileCounts {
    pub all: Category,
    pub read_only: Category,
    pub write_only: Category,
    pub read_write: Category,
    /// Used by one process, and by several.
    pub unique: Category,
    pub shared: Category,
    /// Those with files, by size.
    pub sizes: Vec<SizeClass>,
    pub slowest: Slowest,
    /// Processes that used a file, and their time in reads, in writes and syncs, and in other calls on files, summed.
    pub processes: u64,
    pub read_ns: u64,
    pub write_ns: u64,
    pub meta_ns: u64,
}

impl FileCounts {
    /// Bytes per second, by the time of the slowest process; `None` without such time.
    pub fn bandwidth(&self) -> Option<f64> {
        let bytes = self.all.bytes_read.saturating_add(self.all.bytes_written);
        (self.slowest.ns > 0).then(|| bytes as f64 * 1e9 / self.slowest.ns as f64)
    }
}

/// Time of one process in calls on a file, nanoseconds, as Darshan takes it: reads that overlap count once, and so do writes and
/// other calls. Without those times (detail `basic`) it is summed over calls.
pub(super) fn file_ns(counters: &Counters) -> [u64; 3] {
    let v = &counters.v;
    match [MERGED_READ_NS, MERGED_WRITE_NS, MERGED_META_NS].map(|index| v[index]) {
        [0, 0, 0] => [v[READ_NS], v[WRITE_NS] + v[SYNC_NS], v[META_NS]],
        merged => merged,
    }
}

impl Share {
    pub(super) fn of(process: u32, counters: &Counters) -> Self {
        Self {
            process,
            ns: saturating_sum(file_ns(counters)),
            bytes: counters.bytes(),
        }
    }
}

impl Report<'_> {
    /// Counts the regular files of the run.
    pub(super) fn file_counts(&self) -> FileCounts {
        let mut counts = FileCounts::default();
        let mut sizes = [Category::default(); CLASS_ENDS.len()];
        for file in &self.files {
            counts.all.add(file);
            match (file.io.bytes_read > 0, file.io.bytes_written > 0) {
                (true, true) => counts.read_write.add(file),
                (true, false) => counts.read_only.add(file),
                (false, true) => counts.write_only.add(file),
                (false, false) => {}
            }
            match file.processes {
                0 | 1 => counts.unique.add(file),
                _ => counts.shared.add(file),
            }
            let class = CLASS_ENDS.partition_point(|end| *end <= file.size);
            sizes[class.min(CLASS_ENDS.len() - 1)].add(file);
        }
        let mut from = 0;
        for (end, sum) in CLASS_ENDS.into_iter().zip(sizes) {
            let to = (end < u64::MAX).then_some(end);
            if sum.files > 0 {
                counts.sizes.push(SizeClass { from, to, sum });
            }
            from = end;
        }
        for (process, sum) in (0..).zip(&self.processes) {
            let ns = saturating_sum(sum.file_ns);
            if sum.files > 0 {
                counts.processes += 1;
            }
            let [read, write, meta] = sum.file_ns;
            saturating_add(&mut counts.read_ns, read);
            saturating_add(&mut counts.write_ns, write);
            saturating_add(&mut counts.meta_ns, meta);
            if ns > counts.slowest.ns {
                counts.slowest = Slowest { process, ns };
            }
        }
        counts
    }
}
