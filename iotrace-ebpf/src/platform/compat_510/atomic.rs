//! Atomic operations where the kernel knows one alone, the addition that gives nothing back (before Linux 5.12).
//!
//! Writes `LOCKS`.
//!
//! A lock is a word that counts who wants it. Who adds himself and then reads 1 is alone and has it; who reads more takes
//! himself off again. No two can have it: while one's own 1 is in the word, another one reads at least 2. What changes a
//! word does so by an addition even then, so additions without a lock may come between and are not lost.
//!
//! A program of these kernels on a system call cannot be preempted, so whoever has a lock is running, for some ten
//! instructions. A lock that is not free after [`TRIES`] is given up, and what was wanted does not happen: callers try
//! again, or count it. An addition is a full barrier on x86-64 and on no other machine, so that is the only one that this
//! object is for.

use core::{arch::asm, ptr};

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use iotrace_common::diag;

use crate::core::{diagnose, memory::distance};

/// Times that a lock is asked for.
const TRIES: u32 = 32;
/// Times that this is done for what needs it most.
const MORE_TRIES: u32 = 8;
/// Number of locks, a power of two: words share them by their place.
const NUMBER: u32 = 1024;

/// A lock on a cache line of its own.
#[repr(C)]
#[derive(Clone, Copy)]
struct Lock {
    word: u64,
    pad: [u64; 7],
}

#[btf_map]
static LOCKS: Array<Lock, { NUMBER as usize }> = Array::new();

/// Atomically adds `amount`.
///
/// # Safety
/// `word` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn add(word: *mut u64, amount: u64) {
    // SAFETY: the caller's promise; the verifier checks the address.
    unsafe {
        asm!(
            "lock *(u64 *)({word} + 0) += {amount}",
            word = in(reg) word,
            amount = in(reg) amount,
        );
    }
}

/// Adds `amount` and tells what was there before. Where the lock cannot be had, that may be a little old, which is
/// counted as a call that was not merged: merged time alone depends on it.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
pub unsafe fn fetch_add(word: *mut u64, amount: u64) -> u64 {
    let lock = lock(word);
    // SAFETY: the caller's promise.
    let before = unsafe { ptr::read_volatile(word) };
    // SAFETY: as above.
    unsafe { add(word, amount) };
    if lock.is_null() {
        diagnose::count(diag::UNMERGED);
    } else {
        unlock(lock);
    }
    before
}

/// Takes the next number of a counter: what it was before. The largest number where that cannot be had now.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
pub unsafe fn next(word: *mut u64) -> u64 {
    let mut lock = lock(word);
    // What has no number goes without its file: worth some more tries, once for each file of a thread.
    for _ in 0..MORE_TRIES {
        if lock.is_null() {
            lock = self::lock(word);
        }
    }
    if lock.is_null() {
        return u64::MAX;
    }
    // SAFETY: the caller's promise.
    let before = unsafe { ptr::read_volatile(word) };
    // SAFETY: as above.
    unsafe { add(word, 1) };
    unlock(lock);
    before
}

/// Puts `own`, which is not 0, where 0 is; what stands there then. 0 where that cannot be told now.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
pub unsafe fn claim(word: *mut u64, own: u64) -> u64 {
    let lock = lock(word);
    if lock.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let mut before = unsafe { ptr::read_volatile(word) };
    if before == 0 {
        // SAFETY: as above.
        unsafe { add(word, own) };
        before = own;
    }
    unlock(lock);
    before
}

/// Puts `new` where `old` is; what was there before. Where that cannot be told now, something else than `old`.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
pub unsafe fn compare_exchange(word: *mut u64, old: u64, new: u64) -> u64 {
    let lock = lock(word);
    if lock.is_null() {
        return !old;
    }
    // SAFETY: the caller's promise.
    let before = unsafe { ptr::read_volatile(word) };
    if before == old {
        // SAFETY: as above.
        unsafe { add(word, new.wrapping_sub(old)) };
    }
    unlock(lock);
    before
}

/// Takes the lock of a word; null where it could not be had.
#[inline(always)]
fn lock(word: *mut u64) -> *mut u64 {
    let Some(first) = LOCKS.get_ptr_mut(0) else {
        return ptr::null_mut();
    };
    let place = distance(word.cast_const().cast(), first.cast_const().cast());
    let index = ((place >> 3) as u32).wrapping_mul(0x9e37_79b1) >> (u32::BITS - NUMBER.ilog2());
    let Some(lock) = LOCKS.get_ptr_mut(index) else {
        return ptr::null_mut();
    };
    let lock: *mut u64 = lock.cast();
    for _ in 0..TRIES {
        // SAFETY: the first word of a map value.
        unsafe {
            add(lock, 1);
            if ptr::read_volatile(lock) == 1 {
                return lock;
            }
            add(lock, 1_u64.wrapping_neg());
        }
    }
    ptr::null_mut()
}

/// Gives a lock back.
#[inline(always)]
fn unlock(lock: *mut u64) {
    // SAFETY: the lock that the caller has.
    unsafe { add(lock, 1_u64.wrapping_neg()) };
}
