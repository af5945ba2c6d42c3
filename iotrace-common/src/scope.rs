//! The scope as it is now: the one thing that the daemon changes under running programs.

use crate::rights::Rights;

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
    pub pad: u32,
    pub client: Rights,
}

const _: () = assert!(size_of::<Scope>() == 48);

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::Scope {}
}
