//! Waits of threads: one record for each time that a traced thread was off the CPU, written when it runs again.
//!
//! The records stand in rings like those of the operation trace ([`crate::trace`]), one per CPU.

use core::mem::{offset_of, size_of};

use crate::key::FileId;

/// Bits of [`Wait::flags`].
pub mod flag {
    /// The thread is new: `off` is its birth, and the waker its parent. Without a waker (0), it was met then, when it ran.
    pub const BORN: u32 = 1;
    /// The thread was in a file operation ([`super::Wait::op`]).
    pub const IN_OPERATION: u32 = 2;
    /// A timer woke it.
    pub const BY_TIMER: u32 = 4;
    /// The waker is a thread of the kernel, or the CPU was idle: an interrupt.
    pub const BY_KERNEL: u32 = 8;
    /// No wake-up was seen.
    pub const WAKER_UNSEEN: u32 = 16;
    /// The thread has read training data, files that no rule names included.
    pub const READS_DATA: u32 = 32;
    /// The waker has.
    pub const WAKER_READS_DATA: u32 = 64;
}

/// So many bytes of files that may be anything are data, bytes: compilers read what they wrote for the GPU.
pub const DATA_BYTES: u32 = 16 << 20;

/// In place of a system call's number: none. The thread was in a page fault, or it was interrupted.
pub const NO_CALL: i32 = -1;

/// One time that a thread was off the CPU. Times are `CLOCK_MONOTONIC` nanoseconds, `off <= woken <= on`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// When it left the CPU.
    pub off: u64,
    /// When it was woken; `off` where it was ready to run all the time.
    pub woken: u64,
    /// When it ran again.
    pub on: u64,
    pub tid: u32,
    pub tgid: u32,
    /// [`crate::key::start_key`] of its process.
    pub start: u32,
    /// The thread that was running where it was woken.
    pub by_tid: u32,
    pub by_tgid: u32,
    /// Its state (`task_struct.__state`) when it left the CPU; 0: ready to run.
    pub state: u32,
    /// System call that it was in; [`NO_CALL`].
    pub nr: i32,
    /// System call that the waker was in; [`NO_CALL`].
    pub by_nr: i32,
    /// File of the operation, where it has one.
    pub file: FileId,
    /// Class of the operation ([`crate::op`]), and phase of its file.
    pub op: u16,
    pub phase: u16,
    /// Bits of [`flag`].
    pub flags: u32,
}

impl Wait {
    /// Whether this is the first record of a thread.
    pub fn is_born(&self) -> bool {
        self.flags & flag::BORN != 0
    }

    /// Thread id of who made the thread, in its first record, where that was seen.
    pub fn parent(&self) -> Option<u32> {
        (self.is_born() && self.by_tid != 0).then_some(self.by_tid)
    }
}

const _: () = {
    assert!(size_of::<Wait>() == 80);
    assert!(offset_of!(Wait, file) == 56);
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (the size asserted above is the sum of the fields).
    unsafe impl aya::Pod for super::Wait {}
}
