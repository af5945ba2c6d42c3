//! The table that sorts files into phases, as the kernel programs have it. `iotrace_phases::dfa` makes it and
//! describes the walk; both sides walk it alike.

use core::mem::size_of;

/// Most states of a table.
pub const MAX_STATES: usize = 1 << 15;
/// Most transitions of a table.
pub const MAX_TRANSITIONS: usize = 1 << 20;
/// Most labels of states, times the kinds of filesystems that rules tell apart.
pub const MAX_SAYS: usize = 1 << 14;
/// Most filesystem types, by magic number, of whose files something else may be said than of all others.
pub const MAX_STARTS: usize = 48;
/// Phases, by the numbers that keys and the table have: 0 is "not sorted" and stands for calls that name no open file.
pub const COUNT: usize = 10;

/// Numbers of phases that the kernel programs tell from others.
pub mod code {
    pub const STARTUP: u32 = 1;
    pub const TRAINING: u32 = 2;
    pub const CHECKPOINT: u32 = 3;
    /// Phase `other` without a class: files that no rule names. Its classes follow.
    pub const UNMATCHED: u32 = 5;
}

/// Directions: whether a file is read or written.
pub mod direction {
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    /// Of calls that do neither: as the file was opened.
    pub const AS_OPENED: u8 = 2;
}

/// What a state says of files on filesystems of one kind: for each direction, the phase in 4 bits and the rule in 12, reads in the lower half.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Of every path that comes through it.
    pub sure: u32,
    /// Of a path that ends in it.
    pub last: u32,
}

/// Where what is said of files of a filesystem type stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// `super_block.s_magic`; 0 ends the list.
    pub magic: u64,
    /// Place in [`Table::says`] of the first label.
    pub base: u64,
}

/// The table. A stride of 0 means that there are no rules.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    /// Number of classes of bytes: the length of a row of `next`.
    pub stride: u64,
    pub starts: [Start; MAX_STARTS],
    /// Class of each byte.
    pub classes: [u8; 256],
    /// Label of each state.
    pub labels: [u16; MAX_STATES],
    /// What states say, by kind of filesystem and label.
    pub says: [State; MAX_SAYS],
    /// By state and class: the next state, and in bit 0 whether it is sure of something.
    pub next: [u16; MAX_TRANSITIONS],
}

/// What is known of a file by its name.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Phases and rules of it, read and written ([`State`]).
    pub sorted: u32,
    /// Renames before it was sorted, in the upper 31 bits; in the lowest, whether its name was sent.
    pub stamp: u32,
}

/// For each direction, that of the two whose rule comes first.
#[inline(always)]
pub const fn first(a: u32, b: u32) -> u32 {
    let read = if a & 0xffff < b & 0xffff { a } else { b };
    let write = if a >> 16 < b >> 16 { a } else { b };
    read & 0xffff | write & 0xffff_0000
}

/// The phase of a file that was found to be `sorted`, used in `direction` ([`direction::READ`] or `WRITE`).
#[inline(always)]
pub const fn phase(sorted: u32, direction: u8) -> u32 {
    let half = if direction == direction::WRITE {
        sorted >> 16
    } else {
        sorted
    };
    half & 0xf
}

const _: () = {
    assert!(
        size_of::<Table>()
            == 8 + 16 * MAX_STARTS + 256 + 2 * MAX_STATES + 8 * MAX_SAYS + 2 * MAX_TRANSITIONS
    );
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::Table {}
    // SAFETY: as above: two words of 32 bits.
    unsafe impl aya::Pod for super::Named {}
}
