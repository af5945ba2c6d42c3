//! Keys of the kernel maps.

use core::mem::{offset_of, size_of};

/// A file's identity: the open file itself, not its name.
///
/// All zero where an operation names no file: a call by path that opens nothing, or one that failed before a
/// file was found. The generation tells apart files that reuse one inode number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FileId {
    /// `super_block.s_dev`, the kernel's encoding: major << 20 | minor.
    pub device: u32,
    /// `inode.i_generation`.
    pub generation: u32,
    /// `inode.i_ino`.
    pub inode: u64,
}

impl FileId {
    /// The identity of "no file".
    pub const NONE: Self = Self {
        device: 0,
        generation: 0,
        inode: 0,
    };

    /// Major number of the device.
    pub const fn major(&self) -> u32 {
        self.device >> 20
    }

    /// Minor number of the device.
    pub const fn minor(&self) -> u32 {
        self.device & 0xf_ffff
    }

    /// Whether this names no file.
    pub const fn is_none(&self) -> bool {
        self.device == 0 && self.generation == 0 && self.inode == 0
    }
}

/// Key of the counters: one thread on one file, so that an entry has one writer at a time and needs no atomics.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IoKey {
    pub file: FileId,
    /// Process id (`task_struct.tgid`), in the initial pid namespace.
    pub tgid: u32,
    /// Thread id (`task_struct.pid`), in the initial pid namespace.
    pub tid: u32,
    /// [`start_key`] of the process, which tells a reused pid apart.
    pub start: u32,
    /// Phase of the file as the call used it ([`crate::phases`]); 0 for calls that name no open file, and for files that
    /// the kernel side could not sort. In the key of a cell, the number of the span is above its lowest
    /// [`PHASE_BITS`] bits.
    pub phase: u32,
}

/// Bits of [`IoKey::phase`] that hold the phase.
pub const PHASE_BITS: u32 = 4;
/// Number of the last span; the next one is 1 again.
pub const MAX_SPAN: u32 = u32::MAX >> PHASE_BITS;

impl IoKey {
    /// The phase, without the number of the span.
    #[inline(always)]
    pub const fn phase_code(&self) -> u32 {
        self.phase & ((1 << PHASE_BITS) - 1)
    }

    /// The number of the span: one use of a file by one process, from its open, or from its first call after
    /// [`crate::limits::SPAN_GAP_NS`] without any. 0: spans of this phase are not kept.
    #[inline(always)]
    pub const fn span(&self) -> u32 {
        self.phase >> PHASE_BITS
    }
}

/// Key of the failure counters.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FailureKey {
    pub io: IoKey,
    /// Operation class, an index into [`crate::op::NAMES`].
    pub op: u32,
    /// The error, positive. 512 to 516 are the kernel's restart codes: the call was interrupted by a signal and
    /// the program saw EINTR or the call was made again.
    pub errno: u32,
}

/// Key of the counters of negative look-ups.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LookKey {
    pub tgid: u32,
    /// [`start_key`] of the process.
    pub start: u32,
    /// The directory that the path starts from.
    pub base: FileId,
    /// A hash of the path up to its last slash.
    pub directory: u64,
}

/// The part of a process's start time that keys hold: about milliseconds (2^20 ns), wrapping after 52 days.
///
/// `start_boottime` is `task_struct.start_boottime` of the thread group leader, nanoseconds since boot.
#[inline(always)]
pub const fn start_key(start_boottime: u64) -> u32 {
    (start_boottime >> 20) as u32
}

const _: () = {
    assert!(size_of::<FileId>() == 16);
    assert!(offset_of!(FileId, inode) == 8);
    assert!(size_of::<IoKey>() == 32);
    assert!(offset_of!(IoKey, tgid) == 16);
    assert!(crate::phases::COUNT <= 1 << PHASE_BITS);
    assert!(size_of::<FailureKey>() == 40);
    assert!(size_of::<LookKey>() == 32);
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::IoKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::FileId {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::FailureKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::LookKey {}
}
