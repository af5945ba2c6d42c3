//! The table of all counters.
//!
//! It says of each counter its name, its unit, how two values of it merge, from which level of detail it
//! exists, and what it means. Everything that leaves the model (Parquet columns, JSON keys, text) is driven by it.

use iotrace_common::{
    bucket, op,
    value::{group, stamp},
};

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
    MSYNCS "msyncs" Calls Sum Basic "msync calls, counted for the mapped file.";
    SEEKS "seeks" Calls Sum Basic "lseek calls (POSIX_SEEKS).";
    STATS "stats" Calls Sum Basic "stat, lstat, fstat and statx calls (POSIX_STATS).";
    ACCESSES "accesses" Calls Sum Basic "access and faccessat calls.";
    GETDENTS "getdents" Calls Sum Basic "Directory listings: getdents calls.";
    TRUNCATES "truncates" Calls Sum Basic "truncate and ftruncate calls.";
    FALLOCATES "fallocates" Calls Sum Basic "fallocate calls.";
    RENAMES "renames" Calls Sum Basic "Renames (POSIX_RENAME_SOURCES).";
    LINKS "links" Calls Sum Basic "Hard links created.";
    SYMLINKS "symlinks" Calls Sum Basic "Symbolic links created.";
    UNLINKS "unlinks" Calls Sum Basic "Names removed by unlink.";
    MKDIRS "mkdirs" Calls Sum Basic "Directories created.";
    RMDIRS "rmdirs" Calls Sum Basic "Directories removed.";
    MMAPS "mmaps" Calls Sum Basic "mmap calls of files (POSIX_MMAPS).";
    TRANSFER_READS "transfer_reads" Calls Sum Basic "sendfile, copy_file_range and splice from the file; bytes in bytes_read.";
    TRANSFER_WRITES "transfer_writes" Calls Sum Basic "sendfile, copy_file_range and splice to the file; bytes in bytes_written.";
    CLOSE_RANGES "close_ranges" Calls Sum Basic "close_range calls; counted by process, since they name no single file.";
    READLINKS "readlinks" Calls Sum Basic "readlink calls.";
    ZERO_READS "zero_reads" Calls Sum Basic "Reads that returned 0 bytes (end of file); also counted in reads.";
    FAILURES "failures" Calls Sum Basic "Failed calls of any kind; not included in the counters above.";
    BYTES_READ "bytes_read" Bytes Sum Basic "Bytes returned by reads and transfers (POSIX_BYTES_READ).";
    BYTES_WRITTEN "bytes_written" Bytes Sum Basic "Bytes taken by writes and transfers (POSIX_BYTES_WRITTEN).";
    READ_NS "read" Nanoseconds Sum Basic "Time inside reads and transfers from the file, summed over calls.";
    WRITE_NS "write" Nanoseconds Sum Basic "Time inside writes and transfers to the file, summed over calls.";
    META_NS "meta" Nanoseconds Sum Basic "Time inside metadata calls, which neither move nor sync data, summed over calls.";
    SYNC_NS "sync" Nanoseconds Sum Basic "Time inside fsync, fdatasync, sync_file_range and msync, summed over calls.";
    FAILED_NS "failed" Nanoseconds Sum Basic "Time inside failed calls; not included in the other times.";
    UNION_READ_NS "union_read" Nanoseconds Sum Basic "The part of the process's merged time, in the phase of the file's reads, that ended with calls on this file.";
    UNION_WRITE_NS "union_write" Nanoseconds Sum Basic "The part of the process's merged time, in the phase of the file's writes, that ended with calls on this file.";
    FIRST "first_operation" Moment Earliest Basic "Start of the first operation.";
    LAST "last_operation" Moment Max Basic "End of the last operation.";
    BYTES_FETCHED "bytes_fetched" Bytes Sum Basic "Bytes fetched from storage: brought into the page cache on behalf of the process by reads, page faults and readahead, or returned by reads with O_DIRECT.";
    MAPPED_BYTES_FETCHED "mapped_bytes_fetched" Bytes Sum Basic "The part of bytes_fetched brought in by page faults, and by calls that do not read.";
    MAPPED_BYTES "mapped_bytes" Bytes Sum Basic "Bytes of the file mapped by page faults and fault-around, a lower bound; not in bytes_read.";
    MAPPED_BYTES_DIRTIED "mapped_bytes_dirtied" Bytes Sum Basic "Bytes of the file's pages dirtied by stores to mapped memory, to be written back; not in bytes_written.";
    FAULTS "faults" Calls Sum Basic "Page faults on the mapped file.";
    MAJOR_FAULTS "major_faults" Calls Sum Basic "Page faults whose page was not in the page cache; also counted in faults.";
    MAJOR_FAULT_NS "major_fault" Nanoseconds Sum Basic "Time inside page faults on the mapped file that waited for storage, summed over faults; not included in the other times.";
    TIMED_MAJOR_FAULTS "timed_major_faults" Calls Sum Basic "Page faults whose time was measured: those that the kernel counts as major, which wait for their own fetch or for one in progress; also counted in faults.";
    DIRECT_OPENS "direct_opens" Calls Sum Basic "Opens with O_DIRECT, which bypasses the page cache; also counted in opens.";
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
    ACCESS_SIZES_OTHER "access_sizes_other" Calls Sum Full "Reads and writes whose size is not in access_sizes; 0 if that list is complete.";
    STRIDES_OTHER "strides_other" Calls Sum Full "Strides that are not in strides; 0 if that list is complete.";
    CONSECUTIVE_READS "consecutive_reads" Calls Sum Full "Reads that began exactly where the previous read ended (POSIX_CONSEC_READS).";
    CONSECUTIVE_WRITES "consecutive_writes" Calls Sum Full "Writes that began exactly where the previous write ended (POSIX_CONSEC_WRITES).";
    SEQUENTIAL_READS "sequential_reads" Calls Sum Full "Reads that began at or after the end of the previous read (POSIX_SEQ_READS).";
    SEQUENTIAL_WRITES "sequential_writes" Calls Sum Full "Writes that began at or after the end of the previous write (POSIX_SEQ_WRITES).";
    READ_WRITE_SWITCHES "read_write_switches" Calls Sum Full "Reads after a write and writes after a read (POSIX_RW_SWITCHES).";
    MEMORY_UNALIGNED "memory_unaligned" Calls Sum Full "Accesses from memory not aligned to 8 bytes (POSIX_MEM_NOT_ALIGNED).";
    FILE_UNALIGNED "file_unaligned" Calls Sum Full "Accesses at an offset that is not a multiple of the block size (POSIX_FILE_NOT_ALIGNED).";
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
    // The counter of an operation has its name, mostly in the plural.
    let mut op = 0;
    while op < op::COUNT {
        let (counter, name) = (TABLE[op].name.as_bytes(), op::NAMES[op].as_bytes());
        let mut at = 0;
        while at < name.len() {
            assert!(counter[at] == name[at]);
            at += 1;
        }
        op += 1;
    }
    assert!(ZERO_READS == op::COUNT);
    assert!(READ_SIZE_1G_PLUS - READ_SIZE_0_100 + 1 == bucket::SIZES);
    assert!(WRITE_SIZE_1G_PLUS - WRITE_SIZE_0_100 + 1 == bucket::SIZES);
    assert!(SYNC_NS - READ_NS + 1 == group::COUNT);
    assert!(
        FIRST_CLOSE - FIRST_OPEN + 1 == stamp::COUNT && LAST_CLOSE - LAST_OPEN + 1 == stamp::COUNT
    );
};
