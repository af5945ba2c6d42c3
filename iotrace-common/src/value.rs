//! Values of the kernel maps: what is kept per (thread, file) in one generation, an interval of seconds.
//!
//! Call counters are 32 bits wide: a thread makes far fewer than 2^32 calls between two drains.

use core::mem::{offset_of, size_of};

use crate::{bucket, key::IoKey, op};

/// Groups of operations whose time is summed together (`Io::ns`).
pub mod group {
    /// Reads.
    pub const READ: usize = 0;
    /// Writes.
    pub const WRITE: usize = 1;
    /// Everything that moves no data and syncs none.
    pub const META: usize = 2;
    /// fsync, fdatasync, sync_file_range, msync.
    pub const SYNC: usize = 3;
    /// Number of groups.
    pub const COUNT: usize = 4;

    /// The group that an operation's time belongs to.
    #[inline(always)]
    pub const fn of(op: usize) -> usize {
        use crate::op::{class, class_of};
        match class_of(op) {
            class::READ => READ,
            class::WRITE => WRITE,
            class::SYNC => SYNC,
            _ => META,
        }
    }
}

/// Counters of detail `basic`. Successful operations only, but for the two failure fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Calls by operation class ([`op`]).
    pub calls: [u32; op::COUNT],
    /// Reads that returned 0 bytes (end of file); they stand in `calls` as well.
    pub zero_reads: u32,
    /// Calls that failed; by errno they stand in the failure map.
    pub failures: u32,
    pub pad: [u32; op::COUNT % 2],
    /// Bytes returned by reads and taken from the file by transfers.
    pub bytes_read: u64,
    /// Bytes taken by writes and given to the file by transfers.
    pub bytes_written: u64,
    /// Nanoseconds inside calls, by [`group`], summed over calls.
    pub ns: [u64; group::COUNT],
    /// Nanoseconds inside failed calls.
    pub failed_ns: u64,
    /// Of the time that the process spent in calls of this phase, what overlaps counted once, the part that ended with
    /// these calls, nanoseconds; by direction ([`crate::phases::direction`]).
    pub union_ns: [u64; 2],
    /// Start of the first operation, `CLOCK_MONOTONIC` nanoseconds.
    pub first: u64,
    /// End of the last operation.
    pub last: u64,
    /// Bytes fetched from storage: brought into the page cache on behalf of the thread, or returned by reads that go
    /// around it.
    pub fetched: u64,
    /// Of those, the bytes that were fetched to be mapped, and not by a read.
    pub mapped_fetched: u64,
    /// Bytes of the pages that page faults mapped, as far as the kernel tells.
    pub mapped: u64,
    /// Bytes of the pages that stores to mapped memory made dirty.
    pub mapped_dirtied: u64,
    /// Page faults on the mapped file.
    pub faults: u32,
    /// Those that found their page neither mapped nor in the page cache.
    pub major_faults: u32,
    /// Nanoseconds inside page faults that waited: those that the kernel counted as major ones, from their start to
    /// their end.
    pub major_fault_ns: u64,
    /// Number of those.
    pub timed_major_faults: u32,
    /// Opens that go around the page cache.
    pub direct_opens: u32,
}

/// Distinct access sizes kept per entry, first come; the calls of all others are counted together.
pub const SIZE_SLOTS: usize = 8;
/// Distinct strides kept per entry, first come; the calls of all others are counted together.
pub const STRIDE_SLOTS: usize = 4;

/// Kinds of operations with a first start and a last end (`IoFull::first_start`).
pub mod stamp {
    pub const OPEN: usize = 0;
    pub const READ: usize = 1;
    pub const WRITE: usize = 2;
    pub const CLOSE: usize = 3;
    /// Number of kinds.
    pub const COUNT: usize = 4;
}

/// Counters of detail `full`: those of Darshan's POSIX record, by its definitions. Names follow Darshan's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoFull {
    pub io: Io,
    /// Calls by bytes returned ([`bucket`]): `POSIX_SIZE_READ_*`.
    pub read_sizes: [u32; bucket::SIZES],
    /// `POSIX_SIZE_WRITE_*`.
    pub write_sizes: [u32; bucket::SIZES],
    /// Access sizes, first come, reads and writes together; 0 is an empty slot (`POSIX_ACCESS1_ACCESS`).
    pub size: [u32; SIZE_SLOTS],
    /// Calls of each size in `size`.
    pub size_calls: [u32; SIZE_SLOTS],
    /// Calls of a size that found no slot.
    pub size_other: u32,
    /// Calls of a stride that found no slot.
    pub stride_other: u32,
    /// Strides, first come; 0 is an empty slot (`POSIX_STRIDE1_STRIDE`).
    pub stride: [u64; STRIDE_SLOTS],
    /// Calls of each stride.
    pub stride_calls: [u32; STRIDE_SLOTS],
    /// Reads that began exactly behind the last byte of the read before (`POSIX_CONSEC_READS`).
    pub consecutive_reads: u32,
    pub consecutive_writes: u32,
    /// Reads that began anywhere behind the read before (`POSIX_SEQ_READS`); consecutive ones included.
    pub sequential_reads: u32,
    pub sequential_writes: u32,
    /// Reads after a write and writes after a read (`POSIX_RW_SWITCHES`).
    pub switches: u32,
    /// Accesses whose memory is not a multiple of 8 (`POSIX_MEM_NOT_ALIGNED`).
    pub memory_unaligned: u32,
    /// Accesses whose offset is not a multiple of the filesystem's block size (`POSIX_FILE_NOT_ALIGNED`).
    pub file_unaligned: u32,
    /// Creation mode of the last open with O_CREAT; 0 if none (`POSIX_MODE`).
    pub mode: u32,
    /// Highest byte read (`POSIX_MAX_BYTE_READ`): offset + length - 1.
    pub max_byte_read: u64,
    pub max_byte_written: u64,
    /// Longest read, nanoseconds, and the bytes it returned.
    pub slowest_read_ns: u64,
    pub slowest_read_bytes: u64,
    pub slowest_write_ns: u64,
    pub slowest_write_bytes: u64,
    /// Start of the first operation of each [`stamp`], nanoseconds; 0 if none.
    pub first_start: [u64; stamp::COUNT],
    /// End of the last one.
    pub last_end: [u64; stamp::COUNT],
    /// Nanoseconds in reads, in writes and syncs, and in metadata with what overlaps in one process and file
    /// counted once (`POSIX_F_READ_TIME`, `_WRITE_TIME`, `_META_TIME`).
    pub merged_ns: [u64; MERGED],
}

/// Where the counters of one key stand: a place that was given out to it, until it is drained. `V` is [`Io`] or [`IoFull`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Cell<V> {
    pub key: IoKey,
    pub value: V,
}

/// Cells given out of one generation: a cache line.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fill {
    pub cells: u64,
    pad: [u64; 7],
}

/// Kinds of merged time (`IoFull::merged_ns`).
pub const MERGED: usize = 3;

/// What one call left behind in a failure counter.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Failures {
    pub calls: u64,
    /// Nanoseconds inside those calls.
    pub ns: u64,
}

/// Mappings of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceMappings {
    pub mappings: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
}

/// In the key of a device's mappings, above its number (`inode.i_rdev`): it is a block device.
pub const BLOCK_DEVICE: u64 = 1 << 32;

impl Io {
    /// All zero.
    pub const ZERO: Self = Self {
        calls: [0; op::COUNT],
        zero_reads: 0,
        failures: 0,
        pad: [0; op::COUNT % 2],
        bytes_read: 0,
        bytes_written: 0,
        ns: [0; group::COUNT],
        failed_ns: 0,
        union_ns: [0; 2],
        first: 0,
        last: 0,
        fetched: 0,
        mapped_fetched: 0,
        mapped: 0,
        mapped_dirtied: 0,
        faults: 0,
        major_faults: 0,
        major_fault_ns: 0,
        timed_major_faults: 0,
        direct_opens: 0,
    };
}

const _: () = {
    assert!(size_of::<Io>() == 4 * op::COUNT.next_multiple_of(2) + 152);
    assert!(offset_of!(IoFull, io) == 0);
    assert!(size_of::<IoFull>() == size_of::<Io>() + 80 + 64 + 8 + 32 + 16 + 32 + 48 + 64 + 24);
    assert!(size_of::<Failures>() == 16);
    assert!(size_of::<DeviceMappings>() == 16);
    assert!(size_of::<Fill>() == 64);
    assert!(offset_of!(Cell<Io>, value) == size_of::<IoKey>());
    assert!(offset_of!(Cell<IoFull>, value) == size_of::<IoKey>());
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (the size asserted above is the sum of the fields).
    unsafe impl aya::Pod for super::Io {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::IoFull {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Failures {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::DeviceMappings {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Fill {}
    // SAFETY: two such values, one directly behind the other (asserted above).
    unsafe impl aya::Pod for super::Cell<super::Io> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Cell<super::IoFull> {}
}
