//! Counting what is not counted: adds to `DIAGNOSTICS`, which is per CPU.

use crate::{
    core::{config::PREEMPTIBLE, maps::DIAGNOSTICS},
    platform::add as add_atomically,
};

/// Adds one to diagnostic `reason` ([`iotrace_common::diag`]).
#[inline(always)]
pub fn count(reason: u32) {
    add(reason, 1);
}

/// Adds `amount` to diagnostic `reason`.
#[inline(always)]
pub fn add(reason: u32, amount: u64) {
    if let Some(slot) = DIAGNOSTICS.get_ptr_mut(reason) {
        // SAFETY: the slot is this CPU's own.
        unsafe { add_to_own(slot, amount) }
    }
}

/// Adds to a word of a map that is per CPU; atomically where another program may come between.
///
/// # Safety
/// `word` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn add_to_own(word: *mut u64, amount: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if PREEMPTIBLE.is_set() {
            add_atomically(word, amount);
        } else {
            *word += amount;
        }
    }
}
