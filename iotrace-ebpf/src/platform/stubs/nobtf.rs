//! Where the common code calls what this object leaves out: nothing happens.

/// CPU time.
pub mod cpu {
    use crate::core::thread::Thread;

    #[inline(always)]
    pub fn called(_thread: &mut Thread) {}
}

/// Mapped devices.
pub mod devices {
    use crate::core::thread::Thread;

    #[inline(always)]
    pub fn mapped(_thread: &Thread) {}
}

/// Directories of failed look-ups.
pub mod negative_lookups {
    use crate::core::thread::Thread;

    /// Nothing is kept of a look-up.
    #[repr(C)]
    pub struct Look;

    #[inline(always)]
    pub fn looked(_thread: &Thread) {}
}

/// Whose processes may be traced: only root records here.
pub mod owner {
    use crate::core::memory::Address;

    #[inline(always)]
    pub fn may_trace_current() -> bool {
        true
    }

    #[inline(always)]
    pub fn may_trace(_task: Address) -> bool {
        true
    }
}

/// Phases: user space sorts the files.
pub mod phase {
    use crate::core::thread::Thread;

    /// Nothing is kept of a walk.
    #[repr(C)]
    pub struct Walk;

    #[inline(always)]
    pub fn sort(thread: &mut Thread, _file: u64, used: u8, _copy: u32) {
        (thread.key.io.phase, thread.direction) = (0, used);
    }

    pub use self::sort as sort_here;

    /// Names are sent with the descriptors.
    #[inline(always)]
    pub fn is_named(_thread: &Thread) -> bool {
        true
    }

    #[inline(always)]
    pub fn forget(_thread: &mut Thread) {}
}
