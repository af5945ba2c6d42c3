//! The counters of one process on one file: a flat block of integers, described by one [`TABLE`].

mod table;

use iotrace_common::{
    op,
    phases::direction,
    value::{Io, IoFull, group},
};

use super::top::Top;
pub use table::*;

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

    /// Calls that succeeded, of the operations that `is` holds for ([`op::is_read`] and its like).
    pub fn calls(&self, is: impl Fn(usize) -> bool) -> u64 {
        calls(&self.v, is)
    }

    /// Nanoseconds inside calls of all kinds, failed ones included.
    pub fn nanoseconds(&self) -> u64 {
        self.v[READ_NS] + self.v[WRITE_NS] + self.v[META_NS] + self.v[SYNC_NS] + self.v[FAILED_NS]
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.v[BYTES_READ] + self.v[BYTES_WRITTEN]
    }

    /// Bytes fetched from storage by reads, and ahead of them.
    pub fn fetched_by_reads(&self) -> u64 {
        self.v[BYTES_FETCHED].saturating_sub(self.v[MAPPED_BYTES_FETCHED])
    }

    /// Bytes read that were in the page cache already: an estimate, too low by what readahead fetched and nobody read.
    pub fn cached(&self) -> u64 {
        self.v[BYTES_READ].saturating_sub(self.fetched_by_reads())
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

/// As [`Counters::calls`], of the values alone.
pub fn calls(v: &[u64; COUNT], is: impl Fn(usize) -> bool) -> u64 {
    (0..op::COUNT).filter(|op| is(*op)).map(|op| v[op]).sum()
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
        v[UNION_READ_NS] = io.union_ns[usize::from(direction::READ)];
        v[UNION_WRITE_NS] = io.union_ns[usize::from(direction::WRITE)];
        v[READ_NS + group::READ] = io.ns[group::READ];
        v[READ_NS + group::WRITE] = io.ns[group::WRITE];
        v[READ_NS + group::META] = io.ns[group::META];
        v[READ_NS + group::SYNC] = io.ns[group::SYNC];
        v[FAILED_NS] = io.failed_ns;
        v[FIRST] = io.first;
        v[LAST] = io.last;
        v[BYTES_FETCHED] = io.fetched;
        v[MAPPED_BYTES_FETCHED] = io.mapped_fetched;
        v[MAPPED_BYTES] = io.mapped;
        v[MAPPED_BYTES_DIRTIED] = io.mapped_dirtied;
        v[FAULTS] = io.faults.into();
        v[MAJOR_FAULTS] = io.major_faults.into();
        v[MAJOR_FAULT_NS] = io.major_fault_ns;
        v[TIMED_MAJOR_FAULTS] = io.timed_major_faults.into();
        v[DIRECT_OPENS] = io.direct_opens.into();
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
    use iotrace_common::bucket;

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
        full.io.union_ns = [1; 2];
        (full.io.failed_ns, full.io.first, full.io.last) = (1, 1, 1);
        (full.io.fetched, full.io.mapped_fetched) = (1, 1);
        (full.io.mapped, full.io.mapped_dirtied) = (1, 1);
        (full.io.faults, full.io.major_faults) = (1, 1);
        (full.io.major_fault_ns, full.io.timed_major_faults) = (1, 1);
        full.io.direct_opens = 1;
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
