//! CPU time of threads, as the kernel side reads it.

/// What a thread had done at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    pub tgid: u32,
    pub tid: u32,
    /// [`crate::key::start_key`] of the process's start.
    pub start: u32,
    /// See [`flag`].
    pub flags: u32,
    /// The moment, `CLOCK_MONOTONIC` nanoseconds.
    pub now: u64,
    /// CPU time, nanoseconds (`sum_exec_runtime`); of a thread that runs, as of its last scheduler tick or switch.
    pub runtime: u64,
    /// Nanoseconds in traced calls that have ended.
    pub called: u64,
    /// Start of the traced call that it is in; 0: none.
    pub entered: u64,
}

/// Flags of a [`ThreadTime`].
pub mod flag {
    /// It is on a CPU.
    pub const RUNNING: u32 = 1;
    /// It has submitted requests that run beside its calls.
    pub const ASYNCHRONOUS: u32 = 2;
}
