//! The operation trace: one record per operation, in rings that the daemon maps into its memory.
//!
//! There is one ring per CPU (and copy of the programs, where those can be preempted), so each has one writer and one
//! reader at a time: no lock, no system call and no wake-up per operation. A ring is a [`Ring`] and a power of two of
//! [`Operation`]s.

use core::mem::{offset_of, size_of};

use crate::key::IoKey;

/// In place of an offset or a length: the operation has none, or it is not known.
pub const NONE: u64 = u64::MAX;

/// One operation, as its end left it. Every record says all of itself, so that a lost one takes no other with it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Thread, file and phase.
    pub key: IoKey,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub start: u64,
    pub end: u64,
    /// Where in the file; [`NONE`].
    pub offset: u64,
    /// Bytes asked for; [`NONE`].
    pub length: u64,
    /// What the call returned; a negative error number where it failed.
    pub result: i64,
    /// Operation class ([`crate::op`]).
    pub op: u32,
    /// The generation that counted it, its lowest bits, as of just before.
    pub epoch: u32,
}

/// Where writer and reader of a ring stand: they count records from 0 on, and each writes its own cache line.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Ring {
    /// Records written.
    pub head: u64,
    pub pad_head: [u64; 7],
    /// Records read.
    pub tail: u64,
    /// 1: operations are counted as left out and no longer recorded.
    pub is_closed: u64,
    pub pad_tail: [u64; 6],
}

/// Key of what is missing in the trace: a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    pub tgid: u32,
    /// [`crate::key::start_key`].
    pub start: u32,
}

/// What is missing of a process in the generations with an even and in those with an odd number, so that it begins and
/// ends with the counters.
pub type MissingByGeneration = [Missing; 2];

/// Operations of a process that are missing in the trace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// They found their ring full.
    pub lost: u64,
    /// They came when the trace had reached its size.
    pub left_out: u64,
}

impl Missing {
    /// Adds those of another count.
    pub fn add(&mut self, more: Self) {
        self.lost = self.lost.saturating_add(more.lost);
        self.left_out = self.left_out.saturating_add(more.left_out);
    }
}

/// Most pids and most names that a filter has.
pub const FILTER_PIDS: usize = 16;
pub const FILTER_NAMES: usize = 8;

/// A name of processes, as two words, and which of their bits count. One that matches nothing has no such bits, and a
/// word.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamePattern {
    pub word: [u64; 2],
    pub mask: [u64; 2],
}

impl NamePattern {
    /// What no name matches.
    pub const NOTHING: Self = Self {
        word: [u64::MAX; 2],
        mask: [0; 2],
    };

    /// Whether the name, `task_struct.comm`, matches.
    #[inline(always)]
    pub const fn matches(&self, name: [u64; 2]) -> bool {
        name[0] & self.mask[0] == self.word[0] && name[1] & self.mask[1] == self.word[1]
    }
}

const _: () = {
    assert!(size_of::<Operation>() == 80);
    assert!(offset_of!(Operation, start) == 32);
    assert!(size_of::<Ring>() == 128);
    assert!(offset_of!(Ring, tail) == 64);
    assert!(size_of::<Owner>() == 8);
    assert!(size_of::<Missing>() == 16);
    assert!(size_of::<NamePattern>() == 32);
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (the sizes asserted above are the sums of the fields).
    unsafe impl aya::Pod for super::Owner {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Operation {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Ring {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Missing {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::NamePattern {}
}
