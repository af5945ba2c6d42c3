//! The counters of one process on one file: a flat block of integers, described by one table.
//!
//! The table says of each counter its name, its unit, how two values of it merge, from which level of detail it
//! exists, and what it means. Everything that leaves the model (Parquet columns, JSON keys, text) is driven by it.

use iotrace_common::{
    bucket, op,
    value::{Io, IoFull, group, stamp},
};

use super::top::Top;

/// What a counter measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Calls.
    Calls,
    /// Bytes.
    Bytes,
    /// A duration, nanoseconds.
    Nanoseconds,
    /// A moment, `CLOCK_MONOTONIC` nanoseconds; 0 means never.
    Moment,
    /// Permission bits.
    Mode,
}

/// How two values of one counter become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    Sum,
    Max,
    /// The smaller of those that are not 0.
    Earliest,
    /// The newer one, unless it is 0.
    Newest,
    /// The larger one, and the next counter comes with it.
    Peak,
    /// Comes with the counter before it, a [`Merge::Peak`].
    OfPeak,
}

/// The least detail at which a counter is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Basic,
    Full,
}

/// One counter, described.
#[derive(Debug)]
pub struct Descriptor {
    /// Name without its unit: durations are `NAME_seconds` in JSON and `NAME_ns` in Parquet.
    pub name: &'static str,
    pub unit: Unit,
    pub merge: Merge,
    pub level: Level,
    /// Meaning, with Darshan's name where it has one.
    pub doc: &'static str,
}

macro_rules! descriptors {
    ($($konst:ident $name:literal $unit:ident $merge:ident $level:ident $doc:literal;)*) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "numbers the constants below")]
        enum Index { $($konst),* }
        $(#[doc = $doc] pub const $konst: usize = Index::$konst as usize;)*
        /// Number of counters.
        pub const COUNT: usize = [$($name),*].len();
        /// The counters, by index.
        pub const TABLE: [Descriptor; COUNT] = [$(Descriptor {
            name: $name, unit: Unit::$unit, merge: Merge::$merge, level: Level::$level, doc: $doc,
        }),*];
    };
}

descriptors! {
    // The operation classes, in the order of `iotrace_common::op`.
    READS "reads" Calls Sum Basic "Reads that succeeded, those of 0 bytes included (POSIX_READS).";
    WRITES "writes" Calls Sum Basic "Writes that succeeded (POSIX_WRITES).";
    OPENS "opens" Calls Sum Basic "Opens that succeeded (POSIX_OPENS, without the dups that it adds).";
    CLOSES "closes" Calls Sum Basic "Closes.";
    DUPS "dups" Calls Sum Basic "Descriptors duplicated (POSIX_DUPS).";
    FSYNCS "fsyncs" Calls Sum Basic "fsync calls (POSIX_FSYNCS).";
    FDATASYNCS "fdatasyncs" Calls Sum Basic "fdatasync calls (POSIX_FDSYNCS).";
    SYNC_FILE_RANGES "sync_file_ranges" Calls Sum Basic "sync_file_range calls.";
    MSYNCS "msyncs" Calls Sum Basic "msync calls; by process, since they name memory.";
    SEEKS "seeks" Calls Sum Basic "lseek calls (POSIX_SEEKS).";
    STATS "stats" Calls Sum Basic "stat, lstat, fstat and statx calls (POSIX_STATS).";
    ACCESSES "accesses" Calls Sum Basic "access and faccessat calls.";
    GETDENTS "getdents" Calls Sum Basic "Directory listings: getdents calls.";
    TRUNCATES "truncates" Calls Sum Basic "truncate and ftruncate calls.";
    FALLOCATES "fallocates" Calls Sum Basic "fallocate calls.";
    RENAMES "renames" Calls Sum Basic "Renames (POSIX_RENAME_SOURCES).";
    LINKS "links" Calls Sum Basic "Hard links made.";
    SYMLINKS "symlinks" Calls Sum Basic "Symbolic links made.";
    UNLINKS "unlinks" Calls Sum Basic "Names removed.";
    MKDIRS "mkdirs" Calls Sum Basic "Directories made.";
    RMDIRS "rmdirs" Calls Sum Basic "Directories removed.";
    MMAPS "mmaps" Calls Sum Basic "mmap calls of files (POSIX_MMAPS).";
    TRANSFER_READS "transfer_reads" Calls Sum Basic "sendfile, copy_file_range and splice from the file; bytes in bytes_read.";
    TRANSFER_WRITES "transfer_writes" Calls Sum Basic "sendfile, copy_file_range and splice to the file; bytes in bytes_written.";
    CLOSE_RANGES "close_ranges" Calls Sum Basic "close_range calls; by process, since they name no single file.";
    READLINKS "readlinks" Calls Sum Basic "readlink calls.";
    ZERO_READS "zero_reads" Calls Sum Basic "Reads of 0 bytes (end of file); in reads as well.";
    FAILURES "failures" Calls Sum Basic "Calls of any kind that failed; in none of the counters above.";
    BYTES_READ "bytes_read" Bytes Sum Basic "Bytes returned by reads and transfers (POSIX_BYTES_READ).";
    BYTES_WRITTEN "bytes_written" Bytes Sum Basic "Bytes taken by writes and transfers (POSIX_BYTES_WRITTEN).";
    READ_NS "read" Nanoseconds Sum Basic "Time inside reads and transfers from the file, summed over calls.";
    WRITE_NS "write" Nanoseconds Sum Basic "Time inside writes and transfers to the file, summed over calls.";
    META_NS "meta" Nanoseconds Sum Basic "Time inside calls that move no data and sync none, summed over calls.";
    SYNC_NS "sync" Nanoseconds Sum Basic "Time inside fsync, fdatasync, sync_file_range and msync, summed over calls.";
    FAILED_NS "failed" Nanoseconds Sum Basic "Time inside failed calls; in none of the other times.";
    FIRST "first_operation" Moment Earliest Basic "Start of the first operation.";
    LAST "last_operation" Moment Max Basic "End of the last operation.";
    READ_SIZE_0_100 "read_size_0_100" Calls Sum Full "Reads of at most 100 bytes (POSIX_SIZE_READ_0_100).";
    READ_SIZE_100_1K "read_size_100_1k" Calls Sum Full "Reads of 101 to 1024 bytes (POSIX_SIZE_READ_100_1K).";
    READ_SIZE_1K_10K "read_size_1k_10k" Calls Sum Full "Reads to 10 KiB (POSIX_SIZE_READ_1K_10K).";
    READ_SIZE_10K_100K "read_size_10k_100k" Calls Sum Full "Reads to 100 KiB (POSIX_SIZE_READ_10K_100K).";
    READ_SIZE_100K_1M "read_size_100k_1m" Calls Sum Full "Reads to 1 MiB (POSIX_SIZE_READ_100K_1M).";
    READ_SIZE_1M_4M "read_size_1m_4m" Calls Sum Full "Reads to 4 MiB (POSIX_SIZE_READ_1M_4M).";
    READ_SIZE_4M_10M "read_size_4m_10m" Calls Sum Full "Reads to 10 MiB (POSIX_SIZE_READ_4M_10M).";
    READ_SIZE_10M_100M "read_size_10m_100m" Calls Sum Full "Reads to 100 MiB (POSIX_SIZE_READ_10M_100M).";
    READ_SIZE_100M_1G "read_size_100m_1g" Calls Sum Full "Reads to 1 GiB (POSIX_SIZE_READ_100M_1G).";
    READ_SIZE_1G_PLUS "read_size_1g_plus" Calls Sum Full "Reads of more than 1 GiB (POSIX_SIZE_READ_1G_PLUS).";
    WRITE_SIZE_0_100 "write_size_0_100" Calls Sum Full "Writes of at most 100 bytes (POSIX_SIZE_WRITE_0_100).";
    WRITE_SIZE_100_1K "write_size_100_1k" Calls Sum Full "Writes of 101 to 1024 bytes (POSIX_SIZE_WRITE_100_1K).";
    WRITE_SIZE_1K_10K "write_size_1k_10k" Calls Sum Full "Writes to 10 KiB (POSIX_SIZE_WRITE_1K_10K).";
    WRITE_SIZE_10K_100K "write_size_10k_100k" Calls Sum Full "Writes to 100 KiB (POSIX_SIZE_WRITE_10K_100K).";
    WRITE_SIZE_100K_1M "write_size_100k_1m" Calls Sum Full "Writes to 1 MiB (POSIX_SIZE_WRITE_100K_1M).";
    WRITE_SIZE_1M_4M "write_size_1m_4m" Calls Sum Full "Writes to 4 MiB (POSIX_SIZE_WRITE_1M_4M).";
    WRITE_SIZE_4M_10M "write_size_4m_10m" Calls Sum Full "Writes to 10 MiB (POSIX_SIZE_WRITE_4M_10M).";
    WRITE_SIZE_10M_100M "write_size_10m_100m" Calls Sum Full "Writes to 100 MiB (POSIX_SIZE_WRITE_10M_100M).";
    WRITE_SIZE_100M_1G "write_size_100m_1g" Calls Sum Full "Writes to 1 GiB (POSIX_SIZE_WRITE_100M_1G).";
    WRITE_SIZE_1G_PLUS "write_size_1g_plus" Calls Sum Full "Writes of more than 1 GiB (POSIX_SIZE_WRITE_1G_PLUS).";
    ACCESS_SIZES_OTHER "access_sizes_other" Calls Sum Full "Reads and writes whose size is not in the table of sizes; 0 when the table is exact.";
    STRIDES_OTHER "strides_other" Calls Sum Full "Strides that are not in the table of strides; 0 when the table is exact.";
    CONSECUTIVE_READS "consecutive_reads" Calls Sum Full "Reads that began right behind the read before (POSIX_CONSEC_READS).";
    CONSECUTIVE_WRITES "consecutive_writes" Calls Sum Full "Writes that began right behind the write before (POSIX_CONSEC_WRITES).";
    SEQUENTIAL_READS "sequential_reads" Calls Sum Full "Reads that began anywhere behind the read before (POSIX_SEQ_READS).";
    SEQUENTIAL_WRITES "sequential_writes" Calls Sum Full "Writes that began anywhere behind the write before (POSIX_SEQ_WRITES).";
    READ_WRITE_SWITCHES "read_write_switches" Calls Sum Full "Reads after a write and writes after a read (POSIX_RW_SWITCHES).";
    MEMORY_UNALIGNED "memory_unaligned" Calls Sum Full "Accesses from memory that is no multiple of 8 (POSIX_MEM_NOT_ALIGNED).";
    FILE_UNALIGNED "file_unaligned" Calls Sum Full "Accesses at an offset that is no multiple of the block size (POSIX_FILE_NOT_ALIGNED).";
    CREATE_MODE "create_mode" Mode Newest Full "Mode of the last open with O_CREAT; 0 if none (POSIX_MODE).";
    MAX_BYTE_READ "max_byte_read" Bytes Max Full "Highest offset read (POSIX_MAX_BYTE_READ).";
    MAX_BYTE_WRITTEN "max_byte_written" Bytes Max Full "Highest offset written (POSIX_MAX_BYTE_WRITTEN).";
    SLOWEST_READ_NS "slowest_read" Nanoseconds Peak Full "Longest read (POSIX_F_MAX_READ_TIME).";
    SLOWEST_READ_BYTES "slowest_read_bytes" Bytes OfPeak Full "Bytes of the longest read (POSIX_MAX_READ_TIME_SIZE).";
    SLOWEST_WRITE_NS "slowest_write" Nanoseconds Peak Full "Longest write (POSIX_F_MAX_WRITE_TIME).";
    SLOWEST_WRITE_BYTES "slowest_write_bytes" Bytes OfPeak Full "Bytes of the longest write (POSIX_MAX_WRITE_TIME_SIZE).";
    FIRST_OPEN "first_open" Moment Earliest Full "Start of the first open (POSIX_F_OPEN_START_TIMESTAMP).";
    FIRST_READ "first_read" Moment Earliest Full "Start of the first read (POSIX_F_READ_START_TIMESTAMP).";
    FIRST_WRITE "first_write" Moment Earliest Full "Start of the first write (POSIX_F_WRITE_START_TIMESTAMP).";
    FIRST_CLOSE "first_close" Moment Earliest Full "Start of the first close (POSIX_F_CLOSE_START_TIMESTAMP).";
    LAST_OPEN "last_open" Moment Max Full "End of the last open (POSIX_F_OPEN_END_TIMESTAMP).";
    LAST_READ "last_read" Moment Max Full "End of the last read (POSIX_F_READ_END_TIMESTAMP).";
    LAST_WRITE "last_write" Moment Max Full "End of the last write (POSIX_F_WRITE_END_TIMESTAMP).";
    LAST_CLOSE "last_close" Moment Max Full "End of the last close (POSIX_F_CLOSE_END_TIMESTAMP).";
    MERGED_READ_NS "merged_read" Nanoseconds Sum Full "Time in reads, overlap within one process and file counted once (POSIX_F_READ_TIME).";
    MERGED_WRITE_NS "merged_write" Nanoseconds Sum Full "Time in writes and syncs, overlap counted once (POSIX_F_WRITE_TIME).";
    MERGED_META_NS "merged_meta" Nanoseconds Sum Full "Time in metadata calls, overlap counted once (POSIX_F_META_TIME).";
}

const _: () = {
    assert!(READS == op::READ && WRITES == op::WRITE && OPENS == op::OPEN && CLOSES == op::CLOSE);
    assert!(DUPS == op::DUP && FSYNCS == op::FSYNC && FDATASYNCS == op::FDATASYNC);
    assert!(SYNC_FILE_RANGES == op::SYNC_FILE_RANGE && MSYNCS == op::MSYNC && SEEKS == op::SEEK);
    assert!(STATS == op::STAT && ACCESSES == op::ACCESS && GETDENTS == op::GETDENTS);
    assert!(TRUNCATES == op::TRUNCATE && FALLOCATES == op::FALLOCATE && RENAMES == op::RENAME);
    assert!(LINKS == op::LINK && SYMLINKS == op::SYMLINK && UNLINKS == op::UNLINK);
    assert!(MKDIRS == op::MKDIR && RMDIRS == op::RMDIR && MMAPS == op::MMAP);
    assert!(TRANSFER_READS == op::TRANSFER_READ && TRANSFER_WRITES == op::TRANSFER_WRITE);
    assert!(
        CLOSE_RANGES == op::CLOSE_RANGE && READLINKS == op::READLINK && op::COUNT == READLINKS + 1
    );
    assert!(READ_SIZE_1G_PLUS - READ_SIZE_0_100 + 1 == bucket::SIZES);
    assert!(WRITE_SIZE_1G_PLUS - WRITE_SIZE_0_100 + 1 == bucket::SIZES);
    assert!(SYNC_NS - READ_NS + 1 == group::COUNT);
    assert!(
        FIRST_CLOSE - FIRST_OPEN + 1 == stamp::COUNT && LAST_CLOSE - LAST_OPEN + 1 == stamp::COUNT
    );
};

/// The counters of one process on one file, over one sample, one interval or the whole run.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Values, by the constants of this module.
    pub v: [u64; COUNT],
    /// Access sizes, bytes; reads and writes together (`POSIX_ACCESS1_ACCESS`).
    pub sizes: Top,
    /// Strides, bytes between the end of one access and the start of the next (`POSIX_STRIDE1_STRIDE`).
    pub strides: Top,
}

impl Counters {
    /// Nothing counted.
    pub const ZERO: Self = Self {
        v: [0; COUNT],
        sizes: Top::EMPTY,
        strides: Top::EMPTY,
    };

    /// Whether nothing is counted.
    pub fn is_zero(&self) -> bool {
        self.v.iter().all(|value| *value == 0)
    }

    /// Calls of all kinds: those that succeeded and those that failed.
    pub fn operations(&self) -> u64 {
        self.v[..op::COUNT].iter().sum::<u64>() + self.v[FAILURES]
    }

    /// Nanoseconds inside calls of all kinds, failed ones included.
    pub fn nanoseconds(&self) -> u64 {
        self.v[READ_NS] + self.v[WRITE_NS] + self.v[META_NS] + self.v[SYNC_NS] + self.v[FAILED_NS]
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.v[BYTES_READ] + self.v[BYTES_WRITTEN]
    }

    /// Adds what was counted before this block.
    pub fn absorb(&mut self, older: &Self) {
        let mut peak = None;
        for (index, value) in older.v.iter().enumerate().filter(|(_, value)| **value != 0) {
            self.absorb_value(index, *value, &mut peak);
        }
        self.absorb_sizes(older.sizes.entries());
        self.absorb_strides(older.strides.entries());
    }

    /// Adds one older value. `peak` carries from a [`Merge::Peak`] to its [`Merge::OfPeak`]; values come in order.
    pub(super) fn absorb_value(&mut self, index: usize, older: u64, peak: &mut Option<usize>) {
        let value = &mut self.v[index];
        match TABLE[index].merge {
            Merge::Sum => *value = value.saturating_add(older),
            Merge::Max => *value = (*value).max(older),
            Merge::Earliest if *value == 0 || older < *value => *value = older,
            Merge::Newest if *value == 0 => *value = older,
            Merge::Peak if older > *value => {
                *value = older;
                self.v[index + 1] = 0;
                *peak = Some(index);
            }
            Merge::OfPeak if *peak == Some(index - 1) => *value = older,
            Merge::Earliest | Merge::Newest | Merge::Peak | Merge::OfPeak => {}
        }
    }

    /// Adds an older table of sizes: first come, so its values are kept before this block's.
    pub(super) fn absorb_sizes(&mut self, older: &[(u64, u64)]) {
        self.v[ACCESS_SIZES_OTHER] += prepend(&mut self.sizes, older);
    }

    /// Adds an older table of strides.
    pub(super) fn absorb_strides(&mut self, older: &[(u64, u64)]) {
        self.v[STRIDES_OTHER] += prepend(&mut self.strides, older);
    }
}

/// Puts `older` before the values of `top`, and returns the calls that found no slot.
fn prepend(top: &mut Top, older: &[(u64, u64)]) -> u64 {
    if older.is_empty() {
        return 0;
    }
    let newer = std::mem::replace(top, Top::EMPTY);
    older
        .iter()
        .chain(newer.entries())
        .map(|(value, count)| top.add(*value, *count))
        .sum()
}

impl From<&Io> for Counters {
    fn from(io: &Io) -> Self {
        let mut counters = Self::ZERO;
        let v = &mut counters.v;
        widen(&mut v[..op::COUNT], &io.calls);
        v[ZERO_READS] = io.zero_reads.into();
        v[FAILURES] = io.failures.into();
        v[BYTES_READ] = io.bytes_read;
        v[BYTES_WRITTEN] = io.bytes_written;
        v[READ_NS + group::READ] = io.ns[group::READ];
        v[READ_NS + group::WRITE] = io.ns[group::WRITE];
        v[READ_NS + group::META] = io.ns[group::META];
        v[READ_NS + group::SYNC] = io.ns[group::SYNC];
        v[FAILED_NS] = io.failed_ns;
        v[FIRST] = io.first;
        v[LAST] = io.last;
        counters
    }
}

impl From<&IoFull> for Counters {
    fn from(full: &IoFull) -> Self {
        let mut counters = Self::from(&full.io);
        let v = &mut counters.v;
        widen(&mut v[READ_SIZE_0_100..], &full.read_sizes);
        widen(&mut v[WRITE_SIZE_0_100..], &full.write_sizes);
        v[ACCESS_SIZES_OTHER] = full.size_other.into();
        v[STRIDES_OTHER] = full.stride_other.into();
        v[CONSECUTIVE_READS] = full.consecutive_reads.into();
        v[CONSECUTIVE_WRITES] = full.consecutive_writes.into();
        v[SEQUENTIAL_READS] = full.sequential_reads.into();
        v[SEQUENTIAL_WRITES] = full.sequential_writes.into();
        v[READ_WRITE_SWITCHES] = full.switches.into();
        v[MEMORY_UNALIGNED] = full.memory_unaligned.into();
        v[FILE_UNALIGNED] = full.file_unaligned.into();
        v[CREATE_MODE] = full.mode.into();
        v[MAX_BYTE_READ] = full.max_byte_read;
        v[MAX_BYTE_WRITTEN] = full.max_byte_written;
        v[SLOWEST_READ_NS] = full.slowest_read_ns;
        v[SLOWEST_READ_BYTES] = full.slowest_read_bytes;
        v[SLOWEST_WRITE_NS] = full.slowest_write_ns;
        v[SLOWEST_WRITE_BYTES] = full.slowest_write_bytes;
        v[FIRST_OPEN..=FIRST_CLOSE].copy_from_slice(&full.first_start);
        v[LAST_OPEN..=LAST_CLOSE].copy_from_slice(&full.last_end);
        v[MERGED_READ_NS..=MERGED_META_NS].copy_from_slice(&full.merged_ns);
        for (size, calls) in full
            .size
            .iter()
            .zip(&full.size_calls)
            .filter(|(size, _)| **size != 0)
        {
            counters.v[ACCESS_SIZES_OTHER] += counters.sizes.add((*size).into(), (*calls).into());
        }
        for (stride, calls) in full
            .stride
            .iter()
            .zip(&full.stride_calls)
            .filter(|(stride, _)| **stride != 0)
        {
            counters.v[STRIDES_OTHER] += counters.strides.add(*stride, (*calls).into());
        }
        counters
    }
}

fn widen(into: &mut [u64], from: &[u32]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into = (*from).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_buckets_are_named_as_shared() {
        let mut names: Vec<_> = TABLE.iter().map(|descriptor| descriptor.name).collect();
        for (index, bucket) in bucket::SIZE_NAMES.iter().enumerate() {
            let bucket = bucket.to_lowercase();
            assert_eq!(
                names[READ_SIZE_0_100 + index],
                format!("read_size_{bucket}")
            );
            assert_eq!(
                names[WRITE_SIZE_0_100 + index],
                format!("write_size_{bucket}")
            );
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNT);
    }

    #[test]
    fn merges_by_rule() {
        let block = |values: &[(usize, u64)]| {
            let mut counters = Counters::ZERO;
            values
                .iter()
                .for_each(|(index, value)| counters.v[*index] = *value);
            counters
        };
        let older = block(&[
            (READS, 2),
            (FIRST, 50),
            (LAST, 60),
            (CREATE_MODE, 0o600),
            (SLOWEST_READ_NS, 9),
        ]);
        let mut newer = block(&[(READS, 3), (LAST, 90), (CREATE_MODE, 0o644)]);
        newer.v[SLOWEST_READ_NS] = 5;
        newer.v[SLOWEST_READ_BYTES] = 4096;
        newer.absorb(&older);
        assert_eq!(newer.v[READS], 5);
        assert_eq!((newer.v[FIRST], newer.v[LAST]), (50, 90));
        assert_eq!(newer.v[CREATE_MODE], 0o644);
        assert_eq!(
            (newer.v[SLOWEST_READ_NS], newer.v[SLOWEST_READ_BYTES]),
            (9, 0),
            "the older read was of 0 bytes"
        );
        newer.absorb(&block(&[(SLOWEST_READ_NS, 8), (SLOWEST_READ_BYTES, 1)]));
        assert_eq!(
            (newer.v[SLOWEST_READ_NS], newer.v[SLOWEST_READ_BYTES]),
            (9, 0)
        );
    }

    #[test]
    fn sizes_beyond_the_table_are_counted_as_other() {
        let mut total = Counters::ZERO;
        for size in 1..=40 {
            let mut sample = Counters::ZERO;
            sample.sizes.add(size, 2);
            sample.absorb(&total);
            total = sample;
        }
        assert_eq!(total.sizes.entries()[0], (1, 2), "first come");
        assert_eq!(total.v[ACCESS_SIZES_OTHER], 16);
    }

    #[test]
    fn takes_everything_from_the_kernel_block() {
        let mut full = IoFull {
            io: Io::ZERO,
            read_sizes: [1; bucket::SIZES],
            write_sizes: [2; bucket::SIZES],
            size: [0; 8],
            size_calls: [0; 8],
            size_other: 3,
            stride_other: 4,
            stride: [0; 4],
            stride_calls: [0; 4],
            consecutive_reads: 5,
            consecutive_writes: 6,
            sequential_reads: 7,
            sequential_writes: 8,
            switches: 9,
            memory_unaligned: 10,
            file_unaligned: 11,
            mode: 12,
            max_byte_read: 13,
            max_byte_written: 14,
            slowest_read_ns: 15,
            slowest_read_bytes: 16,
            slowest_write_ns: 17,
            slowest_write_bytes: 18,
            first_start: [19; 4],
            last_end: [20; 4],
            merged_ns: [21; 3],
        };
        full.io.calls = [1; op::COUNT];
        full.io.zero_reads = 1;
        full.io.failures = 2;
        (full.io.bytes_read, full.io.bytes_written) = (1, 1);
        full.io.ns = [1; group::COUNT];
        (full.io.failed_ns, full.io.first, full.io.last) = (1, 1, 1);
        (full.size[1], full.size_calls[1]) = (4096, 2);
        (full.stride[3], full.stride_calls[3]) = (512, 1);
        let counters = Counters::from(&full);
        assert!(
            counters.v.iter().all(|value| *value != 0),
            "a counter was forgotten"
        );
        assert_eq!(counters.sizes.entries(), [(4096, 2)]);
        assert_eq!(counters.strides.entries(), [(512, 1)]);
        assert_eq!(counters.operations(), op::COUNT as u64 + 2);
    }
}
