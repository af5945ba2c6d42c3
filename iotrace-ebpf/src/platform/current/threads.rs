//! Where the state of threads stands: a table, found by where a thread's registers are, and task storage for those whose
//! place is taken.
//!
//! Writes `THREAD_TABLE` and `THREADS`.

use core::ptr;

use aya_ebpf::btf_maps::Array;
use iotrace_common::limits::THREAD_SLOTS;

use crate::{
    core::{
        memory::{Address, distance},
        thread::{Thread, state},
    },
    merged::{ALONE, global::NONE_JOINED},
    platform::{TaskStorage, compare_exchange, current, registers_of},
};

opaque_map! {
    /// The state of most threads: a table, because a lookup in it is inlined, where task storage is a call (25 ns where the
    /// kernel is built with retpolines, twice per system call). See [`crate::platform::threads::of`].
    static THREAD_TABLE: Array<Thread, { THREAD_SLOTS as usize }> = Array::new();
}

opaque_map! {
    /// The state of the threads whose place in the table is taken by another.
    static THREADS: TaskStorage<Thread> = TaskStorage::new();
}

/// The state of the running thread; with `create` made if it has none.
///
/// It is found by `registers`, the address of those that the thread entered the kernel with: they stand at one place of
/// its stack, for as long as it lives. The task itself would have to be asked for by a helper, which is dear.
///
/// A thread owns its place in the table from its first traced call until it ends, or has its state in task storage, if
/// another owns that place.
#[inline(always)]
pub fn of(registers: Address, create: bool) -> Option<&'static mut Thread> {
    let own = owner(registers)?;
    if let Some(slot) = place(own) {
        // SAFETY: a map value; only its owner uses more of it than the owner's number.
        unsafe {
            let owner = &raw mut (*slot).owner;
            let known = ptr::read_volatile(owner);
            if known == own || create && known == 0 && compare_exchange(owner, 0, own) == 0 {
                return slot.as_mut();
            }
        }
    }
    // SAFETY: a task storage value is its thread's own, and the thread is here.
    unsafe { THREADS.get(current(), create).as_mut() }
}

/// The state of another task's thread, which may be running; null if it has none. The verifier must know the task's type.
#[inline(always)]
pub fn of_other(task: Address) -> *const Thread {
    of_registers(task, registers_of(task))
}

/// As [`of_other`], where the task's registers are known.
#[inline(always)]
pub fn of_registers(task: Address, registers: Address) -> *const Thread {
    let Some(own) = owner(registers) else {
        return ptr::null();
    };
    if let Some(slot) = place(own) {
        // SAFETY: an aligned word of a map value.
        if unsafe { ptr::read_volatile(&raw const (*slot).owner) } == own {
            return slot;
        }
    }
    THREADS.get(task, false)
}

/// A number for the thread with these registers: how far they are from the table. Of an address itself the verifier
/// lets no number be made, but of a difference it does.
#[inline(always)]
fn owner(registers: Address) -> Option<u64> {
    let table = THREAD_TABLE.get_ptr_mut(0)?;
    Some(distance(registers, table.cast_const().cast()))
}

/// Gives the place in the table of the running thread back, which ends. Task storage goes with its task.
#[inline(always)]
pub fn release(registers: Address) {
    let Some(own) = owner(registers) else { return };
    let Some(slot) = place(own) else { return };
    // SAFETY: as in `of`; the owner is the running thread, so nobody else writes the slot.
    unsafe {
        if ptr::read_volatile(&raw const (*slot).owner) == own {
            (*slot).state = state::IDLE;
            (*slot).verdict = 0;
            (*slot).entered = 0;
            (*slot).flight = ALONE;
            (*slot).joined = NONE_JOINED;
            (*slot).called = 0;
            (*slot).asynchronous = 0;
            (*slot).faulted.serial = 0;
            (*slot).faulted.timed.began = 0;
            // The next thread on this stack may have its pthread at the same address, too.
            (*slot).python_state = 0;
            ptr::write_volatile(&raw mut (*slot).owner, 0);
        }
    }
}

/// The place in the table of a thread by its number, whose lowest bits are the same for all of them. The factor spreads
/// neighbouring stacks.
#[inline(always)]
fn place(owner: u64) -> Option<*mut Thread> {
    let mixed = ((owner >> STACK_BITS) as u32).wrapping_mul(0x9e37_79b1);
    THREAD_TABLE.get_ptr_mut(mixed >> (u32::BITS - THREAD_SLOTS.ilog2()))
}

/// Stacks are at least this far from each other: a page, in powers of two.
const STACK_BITS: u32 = 12;
