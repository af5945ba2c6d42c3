//! The counters of one thread on one file: one table, from which the kernel's structs, the indices and all names are made.
//!
//! A row has the constant of its index, its name without a unit, what it measures ([`Unit`]), how two values of it become
//! one ([`Merge`]), with which part of a file's use it goes ([`Part`]), where else it is kept ([`flag`]) and its meaning. The
//! row's place says its field in the kernel's struct. What people see elsewhere than in Parquet, JSON and CSV is declared in
//! `iotrace_model::counters::shown`.
//!
//! Call counters are 32 bits wide: a thread makes far fewer than 2^32 calls between two drains.

mod table;

use core::mem::size_of;

pub use table::*;

use crate::{bucket, op};

/// Groups of operations whose time is summed together (`Io::ns`).
pub mod group {
    /// Reads.
    pub const READ: usize = 0;
    /// Writes.
    pub const WRITE: usize = 1;
    /// Everything that moves no data and syncs none.
    pub const META: usize = 2;
    /// fsync, fdatasync, sync_file_range, msync, syncfs, sync.
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

/// Kinds of operations with a first start and a last end (`IoFull::first_start`).
pub mod stamp {
    pub const OPEN: usize = 0;
    pub const READ: usize = 1;
    pub const WRITE: usize = 2;
    pub const CLOSE: usize = 3;
    /// Number of kinds.
    pub const COUNT: usize = 4;
}

/// Kinds of time that is merged per process and file (`IoFull::merged_ns`): reads, writes and syncs, metadata.
pub const MERGED_KINDS: usize = 3;

/// Distinct access sizes kept per entry, first come; the calls of all others are counted together.
pub const SIZE_SLOTS: usize = 8;
/// Distinct strides kept per entry, first come; the calls of all others are counted together.
pub const STRIDE_SLOTS: usize = 4;

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

/// With which part of a file's use a counter goes, if its reads are of another phase than the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Reads,
    Rest,
    Both,
}

/// Where else than in the usual places a counter is kept or written.
pub mod flag {
    /// In every object of the JSON report, even if it is 0.
    pub const ALWAYS: u8 = 1 << 0;
    /// In each span of a file's use: the columns of `spans.parquet`.
    pub const SPAN: u8 = 1 << 1;
    /// In each interval of a run, as all counters of [`super::Level::Basic`] are.
    pub const INTERVAL: u8 = 1 << 2;
}

/// One counter, described.
#[derive(Debug)]
pub struct Descriptor {
    /// Name without its unit.
    pub name: &'static str,
    /// Key in JSON, column in CSV: durations are `NAME_seconds`, moments `NAME_at`.
    pub key: &'static str,
    /// Column in Parquet: durations are `NAME_ns`, moments `NAME_unix_ns`.
    pub column: &'static str,
    pub unit: Unit,
    pub merge: Merge,
    pub level: Level,
    pub part: Part,
    flags: u8,
    /// Meaning, with Darshan's name where it has one.
    pub doc: &'static str,
}

impl Descriptor {
    /// Whether a [`flag`] is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Numbers of calls by value, of the first `N` values that come. A value of 0 is an empty slot.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slots<T, const N: usize> {
    pub value: [T; N],
    pub calls: [u32; N],
}

/// Room that is always zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pad<const N: usize>([u32; N]);

/// Number of counters with a [`flag`].
pub const fn count_of(flag: u8) -> usize {
    let (mut index, mut count) = (0, 0);
    while index < COUNT {
        count += TABLE[index].has(flag) as usize;
        index += 1;
    }
    count
}

/// The counters with a [`flag`], of which there are `N`.
pub const fn indices_of<const N: usize>(flag: u8) -> [usize; N] {
    let mut indices = [0; N];
    let (mut index, mut at) = (0, 0);
    while index < COUNT {
        if TABLE[index].has(flag) {
            indices[at] = index;
            at += 1;
        }
        index += 1;
    }
    indices
}

/// Hands out the counters of a field, in the order of [`TABLE`].
trait Values {
    fn each(&self, take: &mut impl FnMut(u64));
}

mod values {
    use super::{Pad, Slots, Values};

    impl Values for u32 {
        fn each(&self, take: &mut impl FnMut(u64)) {
            take((*self).into());
        }
    }

    impl Values for u64 {
        fn each(&self, take: &mut impl FnMut(u64)) {
            take(*self);
        }
    }

    impl<T: Values, const N: usize> Values for [T; N] {
        fn each(&self, take: &mut impl FnMut(u64)) {
            self.iter().for_each(|value| value.each(take));
        }
    }

    impl<const N: usize> Values for Pad<N> {
        fn each(&self, _: &mut impl FnMut(u64)) {}
    }

    impl<T, const N: usize> Values for Slots<T, N> {
        fn each(&self, _: &mut impl FnMut(u64)) {}
    }

    impl<T: Copy + Into<u64>, const N: usize> Slots<T, N> {
        /// The values that came, with the calls of each.
        pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
            let entries = self.value.iter().zip(&self.calls);
            let entries = entries.map(|(value, calls)| ((*value).into(), (*calls).into()));
            entries.filter(|(value, _)| *value != 0)
        }
    }
}

const _: () = {
    // The classes of operations come first, in their order; the counter of a class has its name, mostly in the plural.
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
    assert!(FIRST_CLOSE - FIRST_OPEN + 1 == stamp::COUNT);
    assert!(LAST_CLOSE - LAST_OPEN + 1 == stamp::COUNT);
    assert!(MERGED_META_NS - MERGED_READ_NS + 1 == MERGED_KINDS);
};
