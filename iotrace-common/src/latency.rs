//! How long operations took: histograms by thread, device, phase and class of operation.
//!
//! Eight buckets for each power of two, equally wide: none is wider than an eighth of its lower bound.

use core::mem::size_of;

use crate::{
    key::{FileId, IoKey},
    op::class,
};

/// Power of two that the second bucket begins with, nanoseconds; shorter operations are in the first.
const FIRST_POWER: u32 = 7;
/// Power of two that the last bucket begins with, nanoseconds: 69 s.
const LAST_POWER: u32 = 36;
/// Buckets of a power of two, and the bits of their number.
const BUCKETS_PER_POWER: usize = 1 << PER_POWER_BITS;
const PER_POWER_BITS: u32 = 3;
/// Number of buckets.
pub const BUCKET_COUNT: usize = (LAST_POWER - FIRST_POWER) as usize * BUCKETS_PER_POWER + 2;

/// Bucket of an operation that took `ns` nanoseconds.
#[inline(always)]
pub const fn bucket(ns: u64) -> usize {
    if ns < 1 << FIRST_POWER {
        return 0;
    }
    if ns >= 1 << LAST_POWER {
        return BUCKET_COUNT - 1;
    }
    // The highest bit, to the top by halves: kernel programs have no instruction that finds it.
    let (mut top, mut power) = (ns << (63 - LAST_POWER), LAST_POWER);
    if top < 1 << 48 {
        (top, power) = (top << 16, power - 16);
    }
    if top < 1 << 56 {
        (top, power) = (top << 8, power - 8);
    }
    if top < 1 << 60 {
        (top, power) = (top << 4, power - 4);
    }
    if top < 1 << 62 {
        (top, power) = (top << 2, power - 2);
    }
    if top < 1 << 63 {
        (top, power) = (top << 1, power - 1);
    }
    // The bits behind it number the part, for which no branch can be guessed wrong.
    let part = (top >> (63 - PER_POWER_BITS)) as usize & (BUCKETS_PER_POWER - 1);
    1 + (power - FIRST_POWER) as usize * BUCKETS_PER_POWER + part
}

/// Nanoseconds that the longest operation of a bucket may take; none for the last one.
pub const fn longest(bucket: usize) -> Option<u64> {
    if bucket + 1 >= BUCKET_COUNT {
        return None;
    }
    let power = FIRST_POWER + (bucket / BUCKETS_PER_POWER) as u32;
    let begin = (BUCKETS_PER_POWER + bucket % BUCKETS_PER_POWER) as u64;
    Some((begin << (power - PER_POWER_BITS)) - 1)
}

/// Operations of one key. All zero at first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Time of the longest operation, nanoseconds.
    pub longest: u64,
    /// Operations by [`bucket`], of an interval of seconds.
    pub calls: [u32; BUCKET_COUNT],
}

/// The key of the operations of a thread on a device: that of its counters with no file, but with the device, and the
/// class ([`class`]) in place of the file's generation.
#[inline(always)]
pub const fn key(io: &IoKey, class: usize) -> IoKey {
    IoKey {
        file: FileId {
            device: io.file.device,
            generation: class as u32,
            inode: LATENCY_INODE,
        },
        tgid: io.tgid,
        tid: io.tid,
        start: io.start,
        phase: io.phase_code(),
    }
}

/// In place of an inode: no cell of counters has it, whose cells are found by the same table.
const LATENCY_INODE: u64 = u64::MAX;

/// Places for the cells that a thread used last, one for each class.
pub const CLASS_PLACES: usize = class::COUNT.next_power_of_two();

/// The place of a key's cell, by the class.
#[inline(always)]
pub const fn place(key: &IoKey) -> usize {
    key.file.generation as usize & (CLASS_PLACES - 1)
}

/// The class of operations of a key; `None` for what [`key`] does not make.
pub const fn class_of(key: &IoKey) -> Option<usize> {
    let class = key.file.generation as usize;
    if class < class::COUNT {
        Some(class)
    } else {
        None
    }
}

const _: () = {
    assert!(size_of::<Latencies>() == 944);
    assert!(BUCKET_COUNT == 234);
};

#[cfg(feature = "user")]
mod pod {
    use crate::value::Cell;

    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::Latencies {}
    // SAFETY: two such values without padding between them.
    unsafe impl aya::Pod for Cell<super::Latencies> {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::PHASE_BITS;

    #[test]
    fn every_duration_is_in_the_bucket_of_its_bounds() {
        let mut before = 0;
        for of in 0..BUCKET_COUNT - 1 {
            let bound = longest(of).unwrap();
            assert_eq!(
                (bucket(before), bucket(bound)),
                (of, of),
                "{before} to {bound}"
            );
            assert_eq!(bucket(bound + 1), of + 1);
            before = bound + 1;
        }
        assert_eq!(before, 1 << LAST_POWER);
        assert_eq!(longest(BUCKET_COUNT - 1), None);
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKET_COUNT - 1));
    }

    #[test]
    fn no_bucket_is_wider_than_an_eighth() {
        for of in 1..BUCKET_COUNT - 1 {
            let (begin, end) = (longest(of - 1).unwrap() + 1, longest(of).unwrap() + 1);
            assert!((end - begin) * 8 <= begin, "{begin} to {end}");
        }
    }

    #[test]
    fn a_key_says_device_phase_and_class() {
        let io = IoKey {
            file: FileId {
                device: 7,
                generation: 9,
                inode: 11,
            },
            tgid: 1,
            tid: 2,
            start: 3,
            phase: 5 << PHASE_BITS | 4,
        };
        let key = key(&io, class::SYNC);
        assert_eq!(
            (key.file.device, key.phase, class_of(&key)),
            (7, 4, Some(class::SYNC))
        );
        assert_eq!(class_of(&io), None);
    }
}
