//! The scope as it is now: the one thing that the daemon changes under running programs.

use crate::rights::Rights;

/// A set of recordings, a bit for each: the value of the map of targets, and what [`Scope`] has of them.
pub type Recordings = u64;

/// Stands for a recording of all processes in scope: it has every process.
pub const ALL_PROCESSES: Recordings = 1 << 63;

/// What is kept of a thread beyond what is kept of all: bits of its verdict.
pub mod kept {
    /// [`crate::value::IoFull`].
    pub const FULL: u32 = 1 << 1;
    /// Look-ups that found nothing, by directory.
    pub const NEGATIVE_LOOKUPS: u32 = 1 << 2;
    /// CPU time.
    pub const CPU: u32 = 1 << 3;
    /// [`crate::latency::Latencies`].
    pub const LATENCIES: u32 = 1 << 4;
    /// [`crate::waits::Wait`].
    pub const WAITS: u32 = 1 << 5;
    /// [`crate::trace::Operation`].
    pub const TRACE: u32 = 1 << 6;
    /// [`crate::lines::LineCounts`] by the lines of Python programs.
    pub const LINES: u32 = 1 << 7;
    /// The same by the stacks of native programs.
    pub const STACKS: u32 = 1 << 8;
}

/// In a thread's verdict: it is in scope.
pub const IN_SCOPE: u32 = 1;
/// Bits of a verdict below the epoch that it was taken in.
pub const VERDICT_BITS: u32 = 9;

/// Value of the scope map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Raised with every change of the scope.
    pub epoch: u32,
    /// 1: every process is traced but the daemon itself; 0: the targets alone.
    pub all: u32,
    /// 1: of those, the threads alone that `client` may look into.
    pub owned: u32,
    /// Raised each time that the programs of waits are attached. What is known of a thread's wait is of one such time.
    pub waits_round: u32,
    /// Raised each time that somebody else is to have the stacks. Each is sent once in such a round.
    pub stacks_round: u64,
    pub client: Rights,
    /// Recordings whose processes are kept at detail full, with look-ups that found nothing, with CPU time, with latencies,
    /// with waits, with each operation by itself, with the line of a Python program or the stack of a native one that opened each
    /// file.
    pub full: Recordings,
    pub negative_lookups: Recordings,
    pub cpu: Recordings,
    pub latencies: Recordings,
    pub waits: Recordings,
    pub trace: Recordings,
    pub lines: Recordings,
    pub stacks: Recordings,
    /// Recordings that have the children of their processes, too.
    pub follow: Recordings,
}

impl Scope {
    /// What is kept of the threads of a process that these recordings have: [`kept`]. `is_not_zero` gives 1 or 0.
    #[inline(always)]
    pub fn kept(&self, recordings: Recordings, is_not_zero: impl Fn(Recordings) -> u32) -> u32 {
        let bit = |set: Recordings, bit: u32| is_not_zero(set & recordings) * bit;
        bit(self.full, kept::FULL)
            | bit(self.negative_lookups, kept::NEGATIVE_LOOKUPS)
            | bit(self.cpu, kept::CPU)
            | bit(self.latencies, kept::LATENCIES)
            | bit(self.waits, kept::WAITS)
            | bit(self.trace, kept::TRACE)
            | bit(self.lines, kept::LINES)
            | bit(self.stacks, kept::STACKS)
    }
}

const _: () = assert!(size_of::<Scope>() == 128);

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::Scope {}
}
