//! The table of all counters, and what is made from a row.

use super::*;

macro_rules! field_type {
    ([$type:ident] $($konst:ident)*) => { [$type; [$(stringify!($konst)),*].len()] };
    (($type:ty)) => { $type };
    ($type:ident $konst:ident) => { $type };
}

macro_rules! named {
    (key Nanoseconds $name:literal) => {
        concat!($name, "_seconds")
    };
    (key Moment $name:literal) => {
        concat!($name, "_at")
    };
    (column Nanoseconds $name:literal) => {
        concat!($name, "_ns")
    };
    (column Moment $name:literal) => {
        concat!($name, "_unix_ns")
    };
    (constant Nanoseconds $name:literal) => {
        concat!($name, "_ns")
    };
    ($what:ident $unit:ident $name:literal) => {
        $name
    };
}

macro_rules! counters {
    ($(
        $(#[doc = $of_struct:literal])*
        $struct:ident $level:ident {$(
            $(#[doc = $of_field:literal])*
            $field:ident: $type:tt {$(
                $konst:ident $name:literal $unit:ident $merge:ident $part:ident [$($flag:ident)*] $doc:literal;
            )*}
        )*}
    )*) => {
        $(
            $(#[doc = $of_struct])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $struct {$(
                $(#[doc = $of_field])*
                $(#[doc = $doc])*
                pub $field: field_type!($type $($konst)*),
            )*}

            const _: () = {
                // No padding, so that every byte of it is a field's.
                assert!(size_of::<$struct>() == 0 $(+ size_of::<field_type!($type $($konst)*)>())*);
                // One name in the kernel's struct, in code and in what is written.
                $(
                    $(assert!(stringify!($konst).eq_ignore_ascii_case(named!(constant $unit $name)));)*
                    let counters: &[&str] = &[$(stringify!($konst)),*];
                    let field = stringify!($field);
                    assert!(counters.len() != 1 || field.eq_ignore_ascii_case(concat!($(stringify!($konst)),*)));
                )*
            };

            impl $struct {
                /// Nothing counted.
                // SAFETY: a struct of integers, for which all zero is a value.
                pub const ZERO: Self = unsafe { core::mem::zeroed() };
            }

            impl Values for $struct {
                fn each(&self, take: &mut impl FnMut(u64)) {
                    $(self.$field.each(take);)*
                }
            }

            impl $struct {
                /// The values of [`TABLE`]; those of other structs are 0.
                #[inline]
                pub fn values(&self) -> [u64; COUNT] {
                    /// The counters of the struct stand together.
                    const FIRST: usize = [$($(Index::$konst as usize,)*)*][0];
                    let mut values = [0; COUNT];
                    let mut slots = values[FIRST..].iter_mut();
                    self.each(&mut |value| {
                        if let Some(slot) = slots.next() {
                            *slot = value;
                        }
                    });
                    values
                }
            }
        )*
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "numbers the constants below")]
        enum Index { $($($($konst,)*)*)* }
        $($($(#[doc = $doc] pub const $konst: usize = Index::$konst as usize;)*)*)*
        /// The counters, by index.
        pub const TABLE: [Descriptor; COUNT] = [$($($(Descriptor {
            name: $name,
            key: named!(key $unit $name),
            column: named!(column $unit $name),
            unit: Unit::$unit,
            merge: Merge::$merge,
            level: Level::$level,
            part: Part::$part,
            flags: 0 $(| flag::$flag)*,
            doc: $doc,
        },)*)*)*];
        /// Number of counters.
        pub const COUNT: usize = [$($($($name,)*)*)*].len();
    };
}

counters! {
    /// Counters of detail `basic`.
    Io Basic {
        /// Calls that succeeded, by operation class, in the order of [`op`].
        calls: [u32] {
            READS "reads" Calls Sum Reads [ALWAYS SPAN] "Reads that succeeded, those of 0 bytes included (POSIX_READS).";
            WRITES "writes" Calls Sum Rest [ALWAYS SPAN] "Writes that succeeded (POSIX_WRITES).";
            OPENS "opens" Calls Sum Rest [ALWAYS SPAN] "Opens that succeeded (POSIX_OPENS, without the dups that it adds).";
            CLOSES "closes" Calls Sum Rest [ALWAYS SPAN] "Closes.";
            DUPS "dups" Calls Sum Rest [] "Descriptors duplicated (POSIX_DUPS).";
            FSYNCS "fsyncs" Calls Sum Rest [ALWAYS SPAN] "fsync calls (POSIX_FSYNCS).";
            FDATASYNCS "fdatasyncs" Calls Sum Rest [ALWAYS SPAN] "fdatasync calls (POSIX_FDSYNCS).";
            SYNC_FILE_RANGES "sync_file_ranges" Calls Sum Rest [SPAN] "sync_file_range calls.";
            MSYNCS "msyncs" Calls Sum Rest [] "msync calls, counted for the mapped file.";
            SEEKS "seeks" Calls Sum Rest [ALWAYS] "lseek calls (POSIX_SEEKS).";
            STATS "stats" Calls Sum Rest [ALWAYS SPAN] "stat, lstat, fstat and statx calls (POSIX_STATS).";
            ACCESSES "accesses" Calls Sum Rest [] "access and faccessat calls.";
            GETDENTS "getdents" Calls Sum Rest [] "Directory listings: getdents calls.";
            TRUNCATES "truncates" Calls Sum Rest [SPAN] "truncate and ftruncate calls.";
            FALLOCATES "fallocates" Calls Sum Rest [] "fallocate calls.";
            RENAMES "renames" Calls Sum Rest [ALWAYS] "Renames (POSIX_RENAME_SOURCES).";
            LINKS "links" Calls Sum Rest [] "Hard links created.";
            SYMLINKS "symlinks" Calls Sum Rest [] "Symbolic links created.";
            UNLINKS "unlinks" Calls Sum Rest [ALWAYS] "Names removed by unlink.";
            MKDIRS "mkdirs" Calls Sum Rest [] "Directories created.";
            RMDIRS "rmdirs" Calls Sum Rest [] "Directories removed.";
            MMAPS "mmaps" Calls Sum Rest [ALWAYS SPAN] "mmap calls of files (POSIX_MMAPS).";
            TRANSFER_READS "transfer_reads" Calls Sum Reads [SPAN] "sendfile, copy_file_range and splice from the file; bytes in bytes_read.";
            TRANSFER_WRITES "transfer_writes" Calls Sum Rest [SPAN] "sendfile, copy_file_range and splice to the file; bytes in bytes_written.";
            CLOSE_RANGES "close_ranges" Calls Sum Rest [] "close_range calls; counted by process, since they name no single file.";
            READLINKS "readlinks" Calls Sum Rest [] "readlink calls.";
            SYNCFS "syncfs" Calls Sum Rest [SPAN] "syncfs calls, counted for the file of their descriptor.";
            SYNCS "syncs" Calls Sum Rest [] "sync calls; counted by process, since they name no file.";
        }
        zero_reads: u32 { ZERO_READS "zero_reads" Calls Sum Reads [ALWAYS SPAN] "Reads that returned 0 bytes (end of file); also counted in reads."; }
        failures: u32 { FAILURES "failures" Calls Sum Rest [] "Failed calls of any kind; not included in the counters above."; }
        /// Keeps the next field aligned.
        pad: (Pad<{ op::COUNT % 2 }>) {}
        bytes_read: u64 { BYTES_READ "bytes_read" Bytes Sum Reads [ALWAYS SPAN] "Bytes returned by reads and transfers (POSIX_BYTES_READ)."; }
        bytes_written: u64 { BYTES_WRITTEN "bytes_written" Bytes Sum Rest [ALWAYS SPAN] "Bytes taken by writes and transfers (POSIX_BYTES_WRITTEN)."; }
        /// By [`group`].
        ns: [u64] {
            READ_NS "read" Nanoseconds Sum Reads [ALWAYS SPAN] "Time inside reads and transfers from the file, summed over calls.";
            WRITE_NS "write" Nanoseconds Sum Rest [ALWAYS SPAN] "Time inside writes and transfers to the file, summed over calls.";
            META_NS "meta" Nanoseconds Sum Rest [ALWAYS SPAN] "Time inside metadata calls, which neither move nor sync data, summed over calls.";
            SYNC_NS "sync" Nanoseconds Sum Rest [ALWAYS SPAN] "Time inside fsync, fdatasync, sync_file_range, msync, syncfs and sync, summed over calls.";
        }
        failed_ns: u64 { FAILED_NS "failed" Nanoseconds Sum Rest [] "Time inside failed calls; not included in the other times."; }
        /// By direction ([`crate::phases::direction`]).
        union_ns: [u64] {
            UNION_READ_NS "union_read" Nanoseconds Sum Reads [SPAN] "The part of the process's merged time, in the phase of the file's reads, that ended with calls on this file.";
            UNION_WRITE_NS "union_write" Nanoseconds Sum Rest [SPAN] "The part of the process's merged time, in the phase of the file's writes, that ended with calls on this file.";
        }
        first_operation: u64 { FIRST_OPERATION "first_operation" Moment Earliest Both [SPAN] "Start of the first operation."; }
        last_operation: u64 { LAST_OPERATION "last_operation" Moment Max Both [SPAN] "End of the last operation."; }
        bytes_fetched: u64 { BYTES_FETCHED "bytes_fetched" Bytes Sum Reads [ALWAYS SPAN] "Bytes fetched from storage: brought into the page cache on behalf of the process by reads, page faults and readahead, or returned by reads with O_DIRECT."; }
        mapped_bytes_fetched: u64 { MAPPED_BYTES_FETCHED "mapped_bytes_fetched" Bytes Sum Reads [] "The part of bytes_fetched brought in by page faults, and by calls that do not read."; }
        mapped_bytes: u64 { MAPPED_BYTES "mapped_bytes" Bytes Sum Reads [] "Bytes of the file mapped by page faults and fault-around, a lower bound; not in bytes_read."; }
        mapped_bytes_dirtied: u64 { MAPPED_BYTES_DIRTIED "mapped_bytes_dirtied" Bytes Sum Rest [] "Bytes of the file's pages dirtied by stores to mapped memory, to be written back; not in bytes_written."; }
        faults: u32 { FAULTS "faults" Calls Sum Reads [] "Page faults on the mapped file."; }
        major_faults: u32 { MAJOR_FAULTS "major_faults" Calls Sum Reads [] "Page faults whose page was not in the page cache; also counted in faults."; }
        major_fault_ns: u64 { MAJOR_FAULT_NS "major_fault" Nanoseconds Sum Reads [] "Time inside page faults on the mapped file that waited for storage, summed over faults; not included in the other times."; }
        timed_major_faults: u32 { TIMED_MAJOR_FAULTS "timed_major_faults" Calls Sum Reads [] "Page faults whose time was measured: those that the kernel counts as major, which wait for their own fetch or for one in progress; also counted in faults."; }
        direct_opens: u32 { DIRECT_OPENS "direct_opens" Calls Sum Rest [] "Opens with O_DIRECT, which bypasses the page cache; also counted in opens."; }
        last_sync: u64 { LAST_SYNC "last_sync" Moment Max Rest [SPAN] "Start of the last fsync, fdatasync, syncfs or sync (by io_uring: its end), or end of the last write with O_SYNC or O_DSYNC: what was written before it is on storage."; }
    }
    /// Counters that detail `full` adds: those of Darshan's POSIX record, by its definitions.
    IoFull Full {
        /// By bytes returned ([`bucket`]).
        read_sizes: [u32] {
            READ_SIZE_0_100 "read_size_0_100" Calls Sum Reads [] "Reads of at most 100 bytes (POSIX_SIZE_READ_0_100).";
            READ_SIZE_100_1K "read_size_100_1k" Calls Sum Reads [] "Reads of 101 to 1024 bytes (POSIX_SIZE_READ_100_1K).";
            READ_SIZE_1K_10K "read_size_1k_10k" Calls Sum Reads [] "Reads to 10 KiB (POSIX_SIZE_READ_1K_10K).";
            READ_SIZE_10K_100K "read_size_10k_100k" Calls Sum Reads [] "Reads to 100 KiB (POSIX_SIZE_READ_10K_100K).";
            READ_SIZE_100K_1M "read_size_100k_1m" Calls Sum Reads [] "Reads to 1 MiB (POSIX_SIZE_READ_100K_1M).";
            READ_SIZE_1M_4M "read_size_1m_4m" Calls Sum Reads [] "Reads to 4 MiB (POSIX_SIZE_READ_1M_4M).";
            READ_SIZE_4M_10M "read_size_4m_10m" Calls Sum Reads [] "Reads to 10 MiB (POSIX_SIZE_READ_4M_10M).";
            READ_SIZE_10M_100M "read_size_10m_100m" Calls Sum Reads [] "Reads to 100 MiB (POSIX_SIZE_READ_10M_100M).";
            READ_SIZE_100M_1G "read_size_100m_1g" Calls Sum Reads [] "Reads to 1 GiB (POSIX_SIZE_READ_100M_1G).";
            READ_SIZE_1G_PLUS "read_size_1g_plus" Calls Sum Reads [] "Reads of more than 1 GiB (POSIX_SIZE_READ_1G_PLUS).";
        }
        /// By bytes taken ([`bucket`]).
        write_sizes: [u32] {
            WRITE_SIZE_0_100 "write_size_0_100" Calls Sum Rest [] "Writes of at most 100 bytes (POSIX_SIZE_WRITE_0_100).";
            WRITE_SIZE_100_1K "write_size_100_1k" Calls Sum Rest [] "Writes of 101 to 1024 bytes (POSIX_SIZE_WRITE_100_1K).";
            WRITE_SIZE_1K_10K "write_size_1k_10k" Calls Sum Rest [] "Writes to 10 KiB (POSIX_SIZE_WRITE_1K_10K).";
            WRITE_SIZE_10K_100K "write_size_10k_100k" Calls Sum Rest [] "Writes to 100 KiB (POSIX_SIZE_WRITE_10K_100K).";
            WRITE_SIZE_100K_1M "write_size_100k_1m" Calls Sum Rest [] "Writes to 1 MiB (POSIX_SIZE_WRITE_100K_1M).";
            WRITE_SIZE_1M_4M "write_size_1m_4m" Calls Sum Rest [] "Writes to 4 MiB (POSIX_SIZE_WRITE_1M_4M).";
            WRITE_SIZE_4M_10M "write_size_4m_10m" Calls Sum Rest [] "Writes to 10 MiB (POSIX_SIZE_WRITE_4M_10M).";
            WRITE_SIZE_10M_100M "write_size_10m_100m" Calls Sum Rest [] "Writes to 100 MiB (POSIX_SIZE_WRITE_10M_100M).";
            WRITE_SIZE_100M_1G "write_size_100m_1g" Calls Sum Rest [] "Writes to 1 GiB (POSIX_SIZE_WRITE_100M_1G).";
            WRITE_SIZE_1G_PLUS "write_size_1g_plus" Calls Sum Rest [] "Writes of more than 1 GiB (POSIX_SIZE_WRITE_1G_PLUS).";
        }
        /// Access sizes, reads and writes together (`POSIX_ACCESS1_ACCESS`).
        access_sizes: (Slots<u32, SIZE_SLOTS>) {}
        access_sizes_other: u32 { ACCESS_SIZES_OTHER "access_sizes_other" Calls Sum Rest [] "Reads and writes whose size is not in access_sizes; 0 if that list is complete."; }
        strides_other: u32 { STRIDES_OTHER "strides_other" Calls Sum Rest [] "Strides that are not in strides; 0 if that list is complete."; }
        /// Strides (`POSIX_STRIDE1_STRIDE`).
        strides: (Slots<u64, STRIDE_SLOTS>) {}
        consecutive_reads: u32 { CONSECUTIVE_READS "consecutive_reads" Calls Sum Reads [] "Reads that began exactly where the previous read ended (POSIX_CONSEC_READS)."; }
        consecutive_writes: u32 { CONSECUTIVE_WRITES "consecutive_writes" Calls Sum Rest [] "Writes that began exactly where the previous write ended (POSIX_CONSEC_WRITES)."; }
        sequential_reads: u32 { SEQUENTIAL_READS "sequential_reads" Calls Sum Reads [] "Reads that began at or after the end of the previous read (POSIX_SEQ_READS)."; }
        sequential_writes: u32 { SEQUENTIAL_WRITES "sequential_writes" Calls Sum Rest [] "Writes that began at or after the end of the previous write (POSIX_SEQ_WRITES)."; }
        read_write_switches: u32 { READ_WRITE_SWITCHES "read_write_switches" Calls Sum Rest [] "Reads after a write and writes after a read (POSIX_RW_SWITCHES)."; }
        memory_unaligned: u32 { MEMORY_UNALIGNED "memory_unaligned" Calls Sum Rest [] "Accesses from memory not aligned to 8 bytes (POSIX_MEM_NOT_ALIGNED)."; }
        file_unaligned: u32 { FILE_UNALIGNED "file_unaligned" Calls Sum Rest [] "Accesses at an offset that is not a multiple of the block size (POSIX_FILE_NOT_ALIGNED)."; }
        create_mode: u32 { CREATE_MODE "create_mode" Mode Newest Rest [] "Mode of the last open with O_CREAT; 0 if none (POSIX_MODE)."; }
        max_byte_read: u64 { MAX_BYTE_READ "max_byte_read" Bytes Max Reads [SPAN INTERVAL] "Highest offset read (POSIX_MAX_BYTE_READ)."; }
        max_byte_written: u64 { MAX_BYTE_WRITTEN "max_byte_written" Bytes Max Rest [SPAN INTERVAL] "Highest offset written (POSIX_MAX_BYTE_WRITTEN)."; }
        slowest_read_ns: u64 { SLOWEST_READ_NS "slowest_read" Nanoseconds Peak Reads [] "Longest read (POSIX_F_MAX_READ_TIME)."; }
        slowest_read_bytes: u64 { SLOWEST_READ_BYTES "slowest_read_bytes" Bytes OfPeak Reads [] "Bytes of the longest read (POSIX_MAX_READ_TIME_SIZE)."; }
        slowest_write_ns: u64 { SLOWEST_WRITE_NS "slowest_write" Nanoseconds Peak Rest [] "Longest write (POSIX_F_MAX_WRITE_TIME)."; }
        slowest_write_bytes: u64 { SLOWEST_WRITE_BYTES "slowest_write_bytes" Bytes OfPeak Rest [] "Bytes of the longest write (POSIX_MAX_WRITE_TIME_SIZE)."; }
        /// By [`stamp`].
        first_start: [u64] {
            FIRST_OPEN "first_open" Moment Earliest Rest [SPAN INTERVAL] "Start of the first open (POSIX_F_OPEN_START_TIMESTAMP).";
            FIRST_READ "first_read" Moment Earliest Reads [SPAN INTERVAL] "Start of the first read (POSIX_F_READ_START_TIMESTAMP).";
            FIRST_WRITE "first_write" Moment Earliest Rest [SPAN INTERVAL] "Start of the first write (POSIX_F_WRITE_START_TIMESTAMP).";
            FIRST_CLOSE "first_close" Moment Earliest Rest [SPAN INTERVAL] "Start of the first close (POSIX_F_CLOSE_START_TIMESTAMP).";
        }
        /// By [`stamp`].
        last_end: [u64] {
            LAST_OPEN "last_open" Moment Max Rest [SPAN INTERVAL] "End of the last open (POSIX_F_OPEN_END_TIMESTAMP).";
            LAST_READ "last_read" Moment Max Reads [SPAN INTERVAL] "End of the last read (POSIX_F_READ_END_TIMESTAMP).";
            LAST_WRITE "last_write" Moment Max Rest [SPAN INTERVAL] "End of the last write (POSIX_F_WRITE_END_TIMESTAMP).";
            LAST_CLOSE "last_close" Moment Max Rest [SPAN INTERVAL] "End of the last close (POSIX_F_CLOSE_END_TIMESTAMP).";
        }
        /// By [`merged`].
        merged_ns: [u64] {
            MERGED_READ_NS "merged_read" Nanoseconds Sum Reads [INTERVAL] "Time in reads, overlap within one process and file counted once (POSIX_F_READ_TIME).";
            MERGED_WRITE_NS "merged_write" Nanoseconds Sum Rest [INTERVAL] "Time in writes and syncs, overlap counted once (POSIX_F_WRITE_TIME).";
            MERGED_META_NS "merged_meta" Nanoseconds Sum Rest [INTERVAL] "Time in metadata calls, overlap counted once (POSIX_F_META_TIME).";
        }
    }
}

const _: () = {
    // Costs: a cell is read and written at every call.
    assert!(size_of::<Io>() == 4 * op::COUNT.next_multiple_of(2) + 160);
    assert!(size_of::<IoFull>() == 80 + 64 + 8 + 32 + 16 + 32 + 48 + 64 + 24);
};
