//! Where the state of threads stands: a hash by the address of the task. A thread's entry is made at its first traced call
//! and removed when it ends, before its address can become another's.
//!
//! Writes `THREADS`.

use core::ptr;

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    btf_maps::{Array, HashMap},
    macros::btf_map,
};
use iotrace_common::limits;

use super::task::number_of;
use crate::{
    core::{maps::BPF_NOEXIST, memory::Address, thread::Thread},
    platform::current,
};

opaque_map! {
    /// Not preallocated: a host has some hundreds of threads that do I/O, and may have 100,000.
    static THREADS: HashMap<
        u64,
        Thread,
        { limits::COMPAT_THREADS as usize },
        { BPF_F_NO_PREALLOC as usize },
    > = HashMap::new();
}

/// What new entries start from; too large for the stack.
#[btf_map]
static NEW_THREAD: Array<Thread, 1> = Array::new();

/// The state of the running thread; with `create` made if it has none, and told its registers.
#[inline(always)]
pub fn of(registers: Address, create: bool) -> Option<&'static mut Thread> {
    let own = current() as u64;
    let mut found = THREADS.get_ptr_mut(own);
    if found.is_none() && create {
        let new = NEW_THREAD.get(0)?;
        // Nobody else inserts this key. Where there is no room, the second look says so.
        let _ = THREADS.insert(own, new, BPF_NOEXIST);
        found = THREADS.get_ptr_mut(own);
    }
    // SAFETY: a map value, which its own thread alone writes.
    let thread = unsafe { &mut *found? };
    if create {
        // The number of a place's owner has no use here.
        thread.owner = registers as u64;
    }
    Some(thread)
}

/// The registers of the running thread's call; null outside of one that is traced.
#[inline(always)]
pub fn registers() -> Address {
    match THREADS.get_ptr(current() as u64) {
        // SAFETY: a map value, which the running thread alone writes.
        Some(thread) => unsafe { ptr::read_volatile(&raw const (*thread).owner) as Address },
        None => ptr::null(),
    }
}

/// The state of another task's thread, which may be running; null if it has none.
#[inline(always)]
pub fn of_other(task: Address) -> *const Thread {
    THREADS.get_ptr(number_of(task)).unwrap_or(ptr::null())
}

/// Forgets the running thread, which ends.
#[inline(always)]
pub fn release(_registers: Address) {
    // Not there where it did nothing that is traced.
    let _ = THREADS.remove(current() as u64);
}
