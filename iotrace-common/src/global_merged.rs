//! Merged time over all processes: which calls are merged with which, and what is measured of them.

use crate::phases::{self, code};

/// Groups of calls whose times are merged: each phase by itself, and the two below.
pub const GROUPS: usize = phases::COUNT + 2;
/// Phase `other` with all of its classes.
pub const OTHER: u32 = phases::COUNT as u32;
/// Phases `training` and `checkpoint` together: what is neither is the rest of a run.
pub const TRAINING_OR_CHECKPOINT: u32 = OTHER + 1;
/// No group.
pub const NONE: u32 = u32::MAX;

/// Groups that a call can be of.
pub const GROUPS_PER_CALL: u32 = 2;

/// The `nth` group of a call of `phase`; [`NONE`] where it is of fewer.
#[inline(always)]
pub const fn group(phase: u32, nth: u32) -> u32 {
    if phase >= phases::COUNT as u32 {
        NONE
    } else if nth == 0 {
        phase
    } else if phase == code::TRAINING || phase == code::CHECKPOINT {
        TRAINING_OR_CHECKPOINT
    } else if phase >= code::UNMATCHED {
        OTHER
    } else {
        NONE
    }
}

/// What is measured of one group, on one CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Merged time, nanoseconds.
    pub ns: u64,
    /// Nanoseconds that it may be off.
    pub uncertain_ns: u64,
}

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding, every bit pattern valid.
    unsafe impl aya::Pod for super::Time {}
}
