//! The counters of one process on one file: a flat block of integers, described by one [`TABLE`].

pub mod shown;

pub use iotrace_common::counters::*;
use iotrace_common::op;

use super::top::Top;

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
        saturating_sum(
            self.v[..op::COUNT]
                .iter()
                .copied()
                .chain([self.v[FAILURES]]),
        )
    }

    /// Calls that succeeded, of the operations that `is` holds for ([`op::is_read`] and its like).
    pub fn calls(&self, is: impl Fn(usize) -> bool) -> u64 {
        calls(&self.v, is)
    }

    /// Nanoseconds inside calls of all kinds, failed ones included.
    pub fn nanoseconds(&self) -> u64 {
        saturating_sum([READ_NS, WRITE_NS, META_NS, SYNC_NS, FAILED_NS].map(|index| self.v[index]))
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.v[BYTES_READ].saturating_add(self.v[BYTES_WRITTEN])
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
        let other = prepend(&mut self.sizes, older);
        saturating_add(&mut self.v[ACCESS_SIZES_OTHER], other);
    }

    /// Adds an older table of strides.
    pub(super) fn absorb_strides(&mut self, older: &[(u64, u64)]) {
        let other = prepend(&mut self.strides, older);
        saturating_add(&mut self.v[STRIDES_OTHER], other);
    }
}

/// As [`Counters::calls`], of the values alone.
pub fn calls(v: &[u64; COUNT], is: impl Fn(usize) -> bool) -> u64 {
    saturating_sum((0..op::COUNT).filter(|op| is(*op)).map(|op| v[op]))
}

/// Adds to a sum of counters. It ends at the largest number, which only damaged counters reach.
pub fn saturating_add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

/// The sum of counters, as [`saturating_add`].
pub fn saturating_sum(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, u64::saturating_add)
}

/// The share of a value that `part` is of `whole`, rounded down; 0 of nothing.
pub fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        _ => (u128::from(value) * u128::from(part) / u128::from(whole)) as u64,
    }
}

/// Puts `older` before the values of `top`, and returns the calls that found no slot.
fn prepend(top: &mut Top, older: &[(u64, u64)]) -> u64 {
    if older.is_empty() {
        return 0;
    }
    let newer = std::mem::replace(top, Top::EMPTY);
    let entries = older.iter().chain(newer.entries());
    saturating_sum(entries.map(|(value, count)| top.add(*value, *count)))
}

impl From<&Io> for Counters {
    fn from(io: &Io) -> Self {
        Self {
            v: io.values(),
            ..Self::ZERO
        }
    }
}

impl From<&IoFull> for Counters {
    fn from(full: &IoFull) -> Self {
        let mut counters = Self {
            v: full.values(),
            ..Self::ZERO
        };
        for (size, calls) in full.access_sizes.entries() {
            let other = counters.sizes.add(size, calls);
            saturating_add(&mut counters.v[ACCESS_SIZES_OTHER], other);
        }
        for (stride, calls) in full.strides.entries() {
            let other = counters.strides.add(stride, calls);
            saturating_add(&mut counters.v[STRIDES_OTHER], other);
        }
        counters
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
            (FIRST_OPERATION, 50),
            (LAST_OPERATION, 60),
            (CREATE_MODE, 0o600),
            (SLOWEST_READ_NS, 9),
        ]);
        let mut newer = block(&[(READS, 3), (LAST_OPERATION, 90), (CREATE_MODE, 0o644)]);
        newer.v[SLOWEST_READ_NS] = 5;
        newer.v[SLOWEST_READ_BYTES] = 4096;
        newer.absorb(&older);
        assert_eq!(newer.v[READS], 5);
        assert_eq!(
            (newer.v[FIRST_OPERATION], newer.v[LAST_OPERATION]),
            (50, 90)
        );
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
    fn sums_of_hostile_counters_end_at_the_largest_number() {
        let mut counters = Counters::ZERO;
        counters.v.fill(u64::MAX);
        for value in 0..2 * crate::top::SLOTS as u64 {
            let other = counters.sizes.add(value, u64::MAX);
            saturating_add(&mut counters.v[ACCESS_SIZES_OTHER], other);
        }
        let older = counters.clone();
        counters.absorb(&older);
        assert_eq!(counters.v, [u64::MAX; COUNT]);
        let sums = [
            counters.operations(),
            counters.nanoseconds(),
            counters.bytes(),
        ];
        assert_eq!(sums, [u64::MAX; 3]);
        let mut totals = crate::IoTotals::of(&counters);
        totals.add(&crate::IoTotals::of(&older));
        assert_eq!((totals.merged_ns, totals.bytes()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn takes_each_value_from_its_field() {
        let (mut io, mut full) = (Io::ZERO, IoFull::ZERO);
        io.calls = std::array::from_fn(|op| 100 + op as u32);
        (io.zero_reads, io.failures) = (1, 2);
        (io.bytes_read, io.bytes_written) = (3, 4);
        io.ns = [5, 6, 7, 8];
        io.union_ns = [9, 10];
        (io.direct_opens, io.last_sync) = (11, 12);
        full.read_sizes = std::array::from_fn(|bucket| 200 + bucket as u32);
        full.write_sizes = std::array::from_fn(|bucket| 300 + bucket as u32);
        (full.access_sizes_other, full.strides_other) = (13, 14);
        (full.create_mode, full.slowest_write_bytes) = (15, 16);
        full.merged_ns = [17, 18, 19];
        full.access_sizes.value[1] = 4096;
        full.access_sizes.calls[1] = 2;
        full.strides.value[3] = 512;
        full.strides.calls[3] = 1;
        let mut counters = Counters::from(&full);
        counters.absorb(&Counters::from(&io));
        let arrays = (0..op::COUNT)
            .zip(100..)
            .chain((READ_SIZE_0_100..).zip(200..210))
            .chain((WRITE_SIZE_0_100..).zip(300..310))
            .chain((READ_NS..).zip(5..9))
            .chain((UNION_READ_NS..).zip(9..11))
            .chain((MERGED_READ_NS..).zip(17..20));
        let single = [
            (ZERO_READS, 1),
            (FAILURES, 2),
            (BYTES_READ, 3),
            (BYTES_WRITTEN, 4),
            (DIRECT_OPENS, 11),
            (LAST_SYNC, 12),
            (ACCESS_SIZES_OTHER, 13),
            (STRIDES_OTHER, 14),
            (CREATE_MODE, 15),
            (SLOWEST_WRITE_BYTES, 16),
        ];
        let mut expected = [0; COUNT];
        for (counter, value) in arrays.chain(single) {
            expected[counter] = value;
        }
        assert_eq!(counters.v, expected);
        assert_eq!(counters.sizes.entries(), [(4096, 2)]);
        assert_eq!(counters.strides.entries(), [(512, 1)]);
    }
}
