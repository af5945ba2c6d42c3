//! Records of Darshan's POSIX module, version 4: 69 integers and 17 floats.

use iotrace_analysis::sum::Sum;
use iotrace_common::bucket;
use iotrace_model::{counters::*, top::commonest};

/// Bytes of one record.
pub const SIZE: usize = 16 + 8 * (INTEGERS + FLOATS);
const INTEGERS: usize = 69;
const FLOATS: usize = 17;
/// What Darshan writes where nothing was measured.
const UNKNOWN: i64 = -1;
/// The alignment of memory that `MEMORY_UNALIGNED` is told by, bytes.
const MEMORY_ALIGNMENT: i64 = 8;
/// Values of the tables of common sizes and strides.
const COMMON: usize = 4;

/// What one process did with one file, or with the files of one directory.
#[derive(Default)]
pub struct Record {
    pub sum: Sum,
    /// Mode of the last open with O_CREAT; 0 if none.
    pub mode: u64,
    /// Block size of its filesystem, bytes; 0 if unknown.
    pub block_size: u32,
}

impl Record {
    /// Adds a file.
    pub fn add(&mut self, counters: &Counters, block_size: u32) {
        self.sum.add(counters);
        if counters.v[CREATE_MODE] != 0 {
            self.mode = counters.v[CREATE_MODE];
        }
        if block_size != 0 {
            self.block_size = block_size;
        }
    }

    /// Appends the record. `moment` turns the kernel's clock into nanoseconds since the start of the run.
    pub fn put(&self, id: u64, rank: usize, moment: impl Fn(u64) -> i64, out: &mut Vec<u8>) {
        let end = out.len() + SIZE;
        out.extend(id.to_le_bytes());
        out.extend((rank as i64).to_le_bytes());
        self.integers()
            .into_iter()
            .for_each(|value| out.extend(value.to_le_bytes()));
        self.floats(moment)
            .into_iter()
            .for_each(|value| out.extend(value.to_le_bytes()));
        debug_assert_eq!(out.len(), end);
    }

    /// The integers, in Darshan's order.
    fn integers(&self) -> Vec<i64> {
        let v = |index: usize| integer(self.sum.counters.v[index]);
        let mut values = Vec::with_capacity(INTEGERS);
        values.extend([
            v(OPENS).saturating_add(v(DUPS)),
            0, // FILENOS: streams are not seen
            v(DUPS),
            v(READS),
            v(WRITES),
            v(SEEKS),
            v(STATS),
            v(MMAPS),
            v(FSYNCS),
            v(FDATASYNCS),
            v(RENAMES),
            UNKNOWN, // RENAME_TARGETS
            0,       // RENAMED_FROM: none known
            integer(self.mode),
            v(BYTES_READ),
            v(BYTES_WRITTEN),
            v(MAX_BYTE_READ),
            v(MAX_BYTE_WRITTEN),
            v(CONSECUTIVE_READS),
            v(CONSECUTIVE_WRITES),
            v(SEQUENTIAL_READS),
            v(SEQUENTIAL_WRITES),
            v(READ_WRITE_SWITCHES),
            v(MEMORY_UNALIGNED),
            MEMORY_ALIGNMENT,
            v(FILE_UNALIGNED),
            match self.block_size {
                0 => UNKNOWN,
                size => size.into(),
            },
            v(SLOWEST_READ_BYTES),
            v(SLOWEST_WRITE_BYTES),
        ]);
        values.extend((READ_SIZE_0_100..READ_SIZE_0_100 + bucket::SIZES).map(v));
        values.extend((WRITE_SIZE_0_100..WRITE_SIZE_0_100 + bucket::SIZES).map(v));
        for table in [&self.sum.strides, &self.sum.sizes] {
            let mut common = commonest(table.iter().map(|(value, calls)| (*value, *calls)), COMMON);
            common.resize(COMMON, (0, 0));
            values.extend(common.iter().map(|(value, _)| integer(*value)));
            values.extend(common.iter().map(|(_, calls)| integer(*calls)));
        }
        values.resize(INTEGERS, 0); // the fastest and the slowest rank, of shared records only
        values
    }

    /// The floats, in Darshan's order.
    fn floats(&self, moment: impl Fn(u64) -> i64) -> Vec<f64> {
        let v = &self.sum.counters.v;
        let mut values = Vec::with_capacity(FLOATS);
        let moments = [
            FIRST_OPEN,
            FIRST_READ,
            FIRST_WRITE,
            FIRST_CLOSE,
            LAST_OPEN,
            LAST_READ,
            LAST_WRITE,
            LAST_CLOSE,
        ];
        values.extend(moments.map(|index| match v[index] {
            0 => 0.0,
            // 0 means never.
            at => match moment(at) {
                0 => 1e-9,
                at => at as f64 / 1e9,
            },
        }));
        let times = [
            MERGED_READ_NS,
            MERGED_WRITE_NS,
            MERGED_META_NS,
            SLOWEST_READ_NS,
            SLOWEST_WRITE_NS,
        ];
        values.extend(times.map(|index| v[index] as f64 / 1e9));
        values.resize(FLOATS, 0.0); // of shared records only
        values
    }
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_where_darshan_has_them() {
        let mut counters = Counters::ZERO;
        for (index, value) in counters.v.iter_mut().enumerate() {
            *value = 1000 + index as u64;
        }
        counters.sizes.add(4096, 7);
        counters.strides.add(512, 9);
        let mut record = Record::default();
        record.add(&counters, 4096);
        let mut out = Vec::new();
        record.put(5, 3, |at| at as i64 * 1_000_000_000, &mut out);
        assert_eq!(out.len(), 704);
        let integer =
            |offset: usize| i64::from_le_bytes(out[offset..offset + 8].try_into().unwrap());
        let float = |offset: usize| f64::from_le_bytes(out[offset..offset + 8].try_into().unwrap());
        assert_eq!((integer(0), integer(8)), (5, 3));
        let at = |index: usize| 1000 + index as i64;
        for (offset, index) in [
            (40, READS),
            (80, FSYNCS),
            (120, CREATE_MODE),
            (144, MAX_BYTE_READ),
            (216, FILE_UNALIGNED),
            (248, READ_SIZE_0_100),
            (328, WRITE_SIZE_0_100),
            (400, WRITE_SIZE_1G_PLUS),
        ] {
            assert_eq!(integer(offset), at(index), "at {offset}");
        }
        assert_eq!([408, 440, 472, 504].map(integer), [512, 9, 4096, 7]);
        assert_eq!(float(568), at(FIRST_OPEN) as f64);
        assert_eq!(float(624), at(LAST_CLOSE) as f64);
        assert_eq!(float(656), at(SLOWEST_READ_NS) as f64 / 1e9);
    }
}
