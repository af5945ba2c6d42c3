//! Counters at rest: most are zero for most files, so a row keeps only those that are not.
//!
//! Layout: a bitmap with one bit per counter and one for each table; then the values that are not zero, in order,
//! as LEB128; moments as their distance to the first or the last operation; then the tables, each as its
//! length and its pairs. A row of a small file (open, two reads, close, at detail `full`) takes about 70 bytes.
//!
//! Many rows together are smaller: each bitmap is kept once, and the first operation counts from a moment of them all.

use super::{
    counters::{COUNT, Counters, FIRST_OPERATION, LAST_OPERATION, Merge, TABLE, Unit},
    top::SLOTS,
};

const SIZES_BIT: usize = COUNT;
const STRIDES_BIT: usize = COUNT + 1;
const BITMAP: usize = (COUNT + 2).div_ceil(8);

/// Which counters are not zero, and which tables there are.
pub(super) type Bitmap = [u8; BITMAP];

/// [`Counters`], sparsely encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed(Box<[u8]>);

impl Packed {
    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a counter is not 0.
    pub fn has(&self, index: usize) -> bool {
        !self.is_empty() && has(&self.0, index)
    }

    /// The counters, whole again.
    pub fn unpack(&self) -> Counters {
        let mut counters = Counters::ZERO;
        if let Some((bitmap, values)) = self.0.split_first_chunk() {
            unpack(bitmap, values, 0, &mut counters);
        }
        counters
    }

    /// The encoded form.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds these counters to newer ones.
    pub fn add_to(&self, newer: &mut Counters) {
        let Some((bitmap, packed)) = self.0.split_first_chunk() else {
            return;
        };
        let mut peak = None;
        let tables = values(bitmap, packed, 0, |index, value| {
            newer.absorb_value(index, value, &mut peak);
        });
        newer.absorb_tables(tables);
    }
}

/// Appends values that are not zero, and returns which those are. The first operation is as its distance to `origin`.
pub(super) fn pack(counters: &Counters, origin: u64, values: &mut Vec<u8>) -> Bitmap {
    let mut bitmap = [0; BITMAP];
    let (first, last) = (counters.v[FIRST_OPERATION], counters.v[LAST_OPERATION]);
    for (index, value) in counters.v.iter().copied().enumerate() {
        if value == 0 {
            continue;
        }
        bitmap[index / 8] |= 1 << (index % 8);
        let stored = match ORIGINS[index] {
            Origin::Zero => value,
            Origin::Given => zigzag(value.wrapping_sub(origin)),
            Origin::First => value.wrapping_sub(first),
            Origin::Last => last.wrapping_sub(value),
        };
        put_varint(values, stored);
    }
    for (bit, table) in [
        (SIZES_BIT, &counters.sizes),
        (STRIDES_BIT, &counters.strides),
    ] {
        let entries = table.entries();
        if entries.is_empty() {
            continue;
        }
        bitmap[bit / 8] |= 1 << (bit % 8);
        put_varint(values, entries.len() as u64);
        for (value, count) in entries {
            put_varint(values, *value);
            put_varint(values, *count);
        }
    }
    bitmap
}

/// Puts back what [`pack`] took, given `counters` that are all zero.
pub(super) fn unpack(bitmap: &Bitmap, packed: &[u8], origin: u64, counters: &mut Counters) {
    let tables = values(bitmap, packed, origin, |index, value| {
        counters.v[index] = value
    });
    counters.absorb_tables(tables);
}

/// Takes the values that [`pack`] appended; the tables, which are behind them.
fn values<'a>(
    bitmap: &Bitmap,
    values: &'a [u8],
    origin: u64,
    mut take: impl FnMut(usize, u64),
) -> Tables<'a> {
    let mut values = Values(values);
    let (mut first, mut last) = (0_u64, 0_u64);
    for (byte, mut bits) in bitmap.iter().copied().enumerate() {
        while bits != 0 {
            let index = byte * 8 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if index >= COUNT {
                break;
            }
            let stored = values.next();
            let value = match ORIGINS[index] {
                Origin::Zero => stored,
                Origin::Given => origin.wrapping_add(unzigzag(stored)),
                Origin::First => first.wrapping_add(stored),
                Origin::Last => last.wrapping_sub(stored),
            };
            match index {
                FIRST_OPERATION => first = value,
                LAST_OPERATION => last = value,
                _ => {}
            }
            take(index, value);
        }
    }
    Tables {
        sizes: has(bitmap, SIZES_BIT),
        strides: has(bitmap, STRIDES_BIT),
        values,
    }
}

/// The encoded tables: which of them there are.
#[derive(Default)]
struct Tables<'a> {
    sizes: bool,
    strides: bool,
    values: Values<'a>,
}

impl Counters {
    fn absorb_tables(&mut self, mut older: Tables<'_>) {
        if older.sizes {
            older.values.with_table(|sizes| self.absorb_sizes(sizes));
        }
        if older.strides {
            older
                .values
                .with_table(|strides| self.absorb_strides(strides));
        }
    }
}

fn has(bitmap: &[u8], bit: usize) -> bool {
    bitmap[bit / 8] & (1 << (bit % 8)) != 0
}

impl From<&Counters> for Packed {
    fn from(counters: &Counters) -> Self {
        // Room for the usual row; a full one with both tables grows it.
        let mut bytes = Vec::with_capacity(256);
        bytes.resize(BITMAP, 0);
        let bitmap = pack(counters, 0, &mut bytes);
        bytes[..BITMAP].copy_from_slice(&bitmap);
        if bytes.len() == BITMAP {
            return Self::default();
        }
        Self(bytes.as_slice().into()) // exactly as long as it is: `into_boxed_slice` would reallocate in place
    }
}

/// Where a value is counted from. Moments are stored as their distance to an end of the time that they lie in: they
/// are small then, and right at that end they take one byte.
#[derive(Clone, Copy)]
enum Origin {
    Zero,
    /// What [`pack`] is given.
    Given,
    /// After the first operation.
    First,
    /// Before the last operation.
    Last,
}

/// By counter.
static ORIGINS: [Origin; COUNT] = {
    let mut origins = [Origin::Zero; COUNT];
    let mut index = 0;
    while index < COUNT {
        origins[index] = match (TABLE[index].unit, TABLE[index].merge) {
            (Unit::Moment, Merge::Max) if index != LAST_OPERATION => Origin::Last,
            (Unit::Moment, _) if index == FIRST_OPERATION => Origin::Given,
            (Unit::Moment, _) => Origin::First,
            _ => Origin::Zero,
        };
        index += 1;
    }
    origins
};

/// A difference as a number that is small where the difference is, whatever its sign.
pub(super) fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

/// The difference that [`zigzag`] was given.
pub(super) fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Appends a number as LEB128.
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads what [`put_varint`] wrote; 0 after the end.
#[derive(Default)]
struct Values<'a>(&'a [u8]);

impl Values<'_> {
    fn with_table(&mut self, take: impl FnOnce(&[(u64, u64)])) {
        let mut entries = [(0, 0); SLOTS];
        let len = SLOTS.min(self.next() as usize);
        entries[..len].fill_with(|| (self.next(), self.next()));
        take(&entries[..len]);
    }

    fn next(&mut self) -> u64 {
        take_varint(&mut self.0)
    }
}

/// Takes a number off the front that [`put_varint`] appended; 0 after the end.
pub(super) fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::*;

    fn assert_same(a: &Counters, b: &Counters) {
        assert_eq!(a.v, b.v);
        assert_eq!(a.sizes.entries(), b.sizes.entries());
        assert_eq!(a.strides.entries(), b.strides.entries());
    }

    #[test]
    fn comes_back_whole() {
        let mut counters = Counters::ZERO;
        assert!(Packed::from(&counters).is_empty());
        assert_same(&Packed::default().unpack(), &counters);
        for (index, value) in counters.v.iter_mut().enumerate() {
            *value = u64::MAX >> (index % 64);
        }
        for slot in 1..=SLOTS as u64 {
            counters.sizes.add(u64::MAX - slot, slot);
            counters.strides.add(slot, u64::MAX);
        }
        assert_same(&Packed::from(&counters).unpack(), &counters);
        counters.v[FIRST_OPERATION] = 0; // a moment without a first one
        assert_same(&Packed::from(&counters).unpack(), &counters);
    }

    #[test]
    fn adds_to_newer_counters() {
        let mut older = Counters::ZERO;
        older.v[SLOWEST_WRITE_NS] = 10;
        older.v[SLOWEST_WRITE_BYTES] = 100;
        older.v[FIRST_OPERATION] = 1_000;
        older.v[LAST_OPERATION] = 2_000;
        older.sizes.add(4096, 1);
        let mut newer = Counters::ZERO;
        newer.v[SLOWEST_WRITE_NS] = 7;
        newer.v[SLOWEST_WRITE_BYTES] = 70;
        newer.v[FIRST_OPERATION] = 1_500;
        newer.v[LAST_OPERATION] = 1_600;
        newer.sizes.add(512, 3);
        Packed::from(&older).add_to(&mut newer);
        assert_eq!(
            (newer.v[SLOWEST_WRITE_NS], newer.v[SLOWEST_WRITE_BYTES]),
            (10, 100)
        );
        assert_eq!(
            (newer.v[FIRST_OPERATION], newer.v[LAST_OPERATION]),
            (1_000, 2_000)
        );
        assert_eq!(newer.sizes.entries(), [(4096, 1), (512, 3)]);
    }

    #[test]
    fn a_small_file_takes_few_bytes() {
        let t = 13 * 86_400 * 1_000_000_000u64; // two weeks after boot
        let mut counters = Counters::ZERO;
        for (index, value) in [
            (OPENS, 1),
            (READS, 2),
            (CLOSES, 1),
            (ZERO_READS, 1),
            (BYTES_READ, 110_000),
            (READ_NS, 60_000),
            (META_NS, 9_000),
            (FIRST_OPERATION, t),
            (LAST_OPERATION, t + 80_000),
            (READ_SIZE_0_100, 1),
            (READ_SIZE_100K_1M, 1),
            (CONSECUTIVE_READS, 1),
            (SEQUENTIAL_READS, 1),
            (MAX_BYTE_READ, 109_999),
            (SLOWEST_READ_NS, 50_000),
            (SLOWEST_READ_BYTES, 110_000),
            (FIRST_OPEN, t),
            (FIRST_READ, t + 5_000),
            (FIRST_CLOSE, t + 75_000),
            (LAST_OPEN, t + 4_000),
            (LAST_READ, t + 70_000),
            (LAST_CLOSE, t + 80_000),
            (MERGED_READ_NS, 60_000),
            (MERGED_META_NS, 9_000),
        ] {
            counters.v[index] = value;
        }
        counters.sizes.add(110_000, 1);
        let bytes = Packed::from(&counters).0.len();
        assert!(bytes <= 72, "{bytes} bytes");
    }
}
