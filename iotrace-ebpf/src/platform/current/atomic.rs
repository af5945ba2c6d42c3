//! Atomic operations: the BPF target of rustc has none that give back what was there; the kernel has them from 5.12 on.

use core::arch::asm;

/// Atomically adds `amount`.
///
/// # Safety
/// As for [`fetch_add`].
#[inline(always)]
pub unsafe fn add(word: *mut u64, amount: u64) {
    // SAFETY: the caller's promise.
    unsafe { fetch_add(word, amount) };
}

/// Takes the next number of a counter: what it was before. The largest number where that cannot be had now.
///
/// # Safety
/// As for [`fetch_add`].
#[inline(always)]
pub unsafe fn next(word: *mut u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { fetch_add(word, 1) }
}

/// Atomically puts `own`, which is not 0, where 0 is; what stands there then. 0 where that cannot be told now.
///
/// # Safety
/// As for [`fetch_add`].
#[inline(always)]
pub unsafe fn claim(word: *mut u64, own: u64) -> u64 {
    // SAFETY: the caller's promise.
    let before = unsafe { compare_exchange(word, 0, own) };
    if before == 0 { own } else { before }
}

/// Atomically adds `amount`; what was there before.
///
/// # Safety
/// `word` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn fetch_add(word: *mut u64, amount: u64) -> u64 {
    let mut value = amount;
    // SAFETY: the caller's promise; the verifier checks the address.
    unsafe {
        asm!(
            "{value} = atomic_fetch_add((u64 *)({word} + 0), {value})",
            word = in(reg) word,
            value = inout(reg) value,
        );
    }
    value
}

/// Atomically puts `new` where `old` is; what was there before.
///
/// # Safety
/// As for [`fetch_add`].
#[inline(always)]
pub unsafe fn compare_exchange(word: *mut u64, old: u64, new: u64) -> u64 {
    let before: u64;
    // SAFETY: the caller's promise; the verifier checks the address.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({word} + 0, r0, {new})",
            word = in(reg) word,
            new = in(reg) new,
            inout("r0") old => before,
        );
    }
    before
}
