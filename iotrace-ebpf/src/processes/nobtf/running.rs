//! What can be said of the task that calls.

use crate::{
    core::{
        config::REGS_SEGMENT,
        memory::{Address, load, pid_tgid},
    },
    processes::nobtf as process,
};

/// `__USER32_CS`.
const CODE_OF_32_BITS: u64 = 0x23;

/// Whether the running call is one of 32-bit code: that of the 32-bit interface by 64-bit code is not told.
#[inline(always)]
pub fn is_compat(_task: Address, registers: Address) -> bool {
    // SAFETY: the tracepoint's argument.
    unsafe { load::<u64>(registers, &REGS_SEGMENT) == CODE_OF_32_BITS }
}

/// It is not known how many threads the process has: there may always be others.
#[inline(always)]
pub fn threads(_task: Address) -> u32 {
    u32::MAX
}

/// When the running process was first seen, nanoseconds since boot.
#[inline(always)]
pub fn start_of(_task: Address) -> u64 {
    let (tgid, _) = pid_tgid();
    process::start_of(tgid)
}
