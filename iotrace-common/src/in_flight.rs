//! How the state of a thread begins, as the kernel programs keep it: what the daemon reads of calls in flight.

use core::mem::{offset_of, size_of};

use crate::key::FailureKey;

/// [`Head::state`] of a thread whose traced call has not returned.
pub const RUNNING: u32 = 1;

/// The first fields of the kernel programs' `Thread`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Whose state it is; 0: nobody's.
    pub owner: u64,
    /// Start of the call, `CLOCK_MONOTONIC` nanoseconds.
    pub entered: u64,
    /// End of the call before.
    pub ended: u64,
    pub state: u32,
    /// Scope verdict: [`crate::scope::IN_SCOPE`] says whether the thread is traced.
    pub verdict: u32,
    pub shape: u8,
    pub direction: u8,
    pub asynchronous: u8,
    pub wanted: u8,
    pub copy: u32,
    pub call: u64,
    /// Process, thread, file, phase and operation of the call.
    pub key: FailureKey,
}

const _: () = {
    assert!(size_of::<Head>() == 88);
    assert!(offset_of!(Head, key) == 48);
};
