//! What is read of a task: of the one that calls, in most places.

use crate::{
    core::{
        config::{
            SIGNAL_THREADS, TASK_COMPAT_MASK, TASK_GROUP_LEADER, TASK_SIGNAL, TASK_START,
            TASK_STATUS,
        },
        memory::{Address, probe},
    },
    platform::{load_of, untrusted},
};

/// Whether the running call came by the 32-bit interface, whose numbers and arguments are others.
#[inline(always)]
pub fn is_compat(task: Address, _registers: Address) -> bool {
    let mask = TASK_COMPAT_MASK.load();
    // SAFETY: the running task; the field is 32 bits of status or flags.
    mask != 0 && u64::from(unsafe { load_of::<u32>(task, &TASK_STATUS) }) & mask != 0
}

/// Threads of the running task's process.
#[inline(always)]
pub fn threads(task: Address) -> u32 {
    // SAFETY: the running task; `signal` is a pointer to a `signal_struct`, whose field is 32 bits.
    unsafe {
        let signal: Address = load_of(untrusted(task), &TASK_SIGNAL);
        load_of::<u32>(signal, &SIGNAL_THREADS)
    }
}

/// `start_boottime` of a task's process, nanoseconds.
#[inline(always)]
pub fn start_of(task: Address) -> u64 {
    let leader: u64 = probe(task, &TASK_GROUP_LEADER);
    probe(leader as Address, &TASK_START)
}
