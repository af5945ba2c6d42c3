//! Reading the kernel's memory: typed loads through verified pointers, probes through all others.
//!
//! A probe is a helper call (27 ns where the kernel is built with retpolines), a typed load next to nothing. Where the
//! kernel has `bpf_rdonly_cast` (6.2 and newer), it turns any address into a typed pointer at no cost: [`field`].

use core::{arch::asm, ffi::c_void, mem::MaybeUninit, ptr};

use aya_ebpf::helpers::generated;
use iotrace_common::abi::{Offset, TypeId};

use crate::{
    core::config::{Const, HAS_CAST, TYPE_LIST_HEAD, WEAKLY_ORDERED},
    platform::fetch_add,
};

/// An address in the kernel.
pub type Address = *const c_void;

/// Loads a `T` at `offset` behind a pointer that the verifier knows by its BTF type; a fault reads as 0.
///
/// # Safety
/// `base` comes from a helper, a program argument or such a load, and `offset` is that of a field of type `T`.
#[inline(always)]
pub unsafe fn load<T: Copy>(base: Address, offset: &Const<Offset>) -> T {
    #[cfg(feature = "nobtf")]
    return probe(base, offset);
    #[cfg(not(feature = "nobtf"))]
    // SAFETY: the verifier turns this into a load that survives a bad address.
    unsafe {
        ptr::read_volatile(base.cast::<u8>().add(offset.load() as usize).cast::<T>())
    }
}

/// Stands for the call of the kernel function `bpf_rdonly_cast`, which no BPF linker can name: the daemon finds calls
/// of this helper number in the object and puts the function's BTF id there.
const CAST_MARKER: i32 = iotrace_common::CAST_MARKER;

/// A field of the struct of BTF type `type_id` at any kernel address; a fault reads as 0.
#[inline(always)]
pub fn field<T: Copy>(address: u64, type_id: &Const<TypeId>, offset: &Const<Offset>) -> T {
    if HAS_CAST.is_set() {
        // SAFETY: the pointer is one of the type that the verifier checks the field against.
        unsafe { load(cast(address, type_id), offset) }
    } else {
        probe(address as Address, offset)
    }
}

/// The pointer at a kernel address; 0 where it cannot be read.
#[inline(always)]
pub fn pointer(address: u64) -> u64 {
    if HAS_CAST.is_set() {
        // A `struct list_head` begins with a pointer.
        // SAFETY: as in `field`.
        unsafe { ptr::read_volatile(cast(address, &TYPE_LIST_HEAD).cast::<u64>()) }
    } else {
        probe_at(address as Address)
    }
}

/// Any address as a pointer to the struct of BTF type `type_id`; only where [`HAS_CAST`] is set.
#[inline(always)]
pub fn cast(address: u64, type_id: &Const<TypeId>) -> Address {
    let typed: u64;
    // SAFETY: a call by the kernel's convention; the verifier replaces it by a move of the first argument.
    unsafe {
        asm!(
            "call {marker}",
            marker = const CAST_MARKER,
            inlateout("r1") address => _,
            inlateout("r2") type_id.load() => _,
            lateout("r0") typed,
            lateout("r3") _,
            lateout("r4") _,
            lateout("r5") _,
        );
    }
    typed as Address
}

/// Reads a `T` at `offset` behind any kernel address; unreadable memory reads as 0.
#[inline(always)]
pub fn probe<T: Copy>(base: Address, offset: &Const<Offset>) -> T {
    probe_at(base.wrapping_byte_add(offset.load() as usize))
}

/// Reads a `T` at any kernel address; unreadable memory reads as 0 (the helper clears the target).
#[inline(always)]
pub fn probe_at<T: Copy>(address: Address) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the target is `size_of::<T>()` bytes of stack, which the helper fills or clears whole; `T` is used
    // with plain integers and arrays of them only, for which every bit pattern is valid.
    unsafe {
        generated::bpf_probe_read_kernel(value.as_mut_ptr().cast(), size_of::<T>() as u32, address);
        value.assume_init()
    }
}

/// Reads a `T` from the current process's memory; `None` where it cannot be read.
#[inline(always)]
pub fn probe_user<T: Copy>(address: u64) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: as in `probe_at`; the source is checked by the helper.
    unsafe {
        let failed = generated::bpf_probe_read_user(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address as *const c_void,
        );
        if failed == 0 {
            Some(value.assume_init())
        } else {
            None
        }
    }
}

/// How far `pointer` is from `base`.
#[inline(always)]
pub fn distance(pointer: Address, base: Address) -> u64 {
    let mut distance = pointer as u64;
    // SAFETY: a subtraction, which the verifier allows of two pointers.
    unsafe { asm!("{0} -= {1}", inout(reg) distance, in(reg) base) };
    distance
}

/// 1 if `value` is not 0. By arithmetic: behind a branch the verifier looks at twice as many states.
#[inline(always)]
pub fn is_not_zero(value: u64) -> u32 {
    let mut bit = value;
    // SAFETY: arithmetic on two registers. The highest bit of a number or of its negative is set if it is not 0.
    unsafe {
        asm!(
            "{negative} = {bit}",
            "{negative} = -{negative}",
            "{bit} |= {negative}",
            "{bit} >>= 63",
            bit = inout(reg) bit,
            negative = out(reg) _,
            options(pure, nomem, nostack),
        );
    }
    bit as u32
}

/// `CLOCK_MONOTONIC`, nanoseconds.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { generated::bpf_ktime_get_ns() }
}

/// Process id (high half) and thread id of the running task.
#[inline(always)]
pub fn pid_tgid() -> (u32, u32) {
    // SAFETY: the helper has no preconditions.
    let both = unsafe { generated::bpf_get_current_pid_tgid() };
    ((both >> 32) as u32, both as u32)
}

/// Number of the CPU that this runs on.
#[inline(always)]
pub fn cpu() -> u32 {
    // SAFETY: the helper has no preconditions.
    unsafe { generated::bpf_get_smp_processor_id() }
}

/// Writes one more than `value`, which stands there, so that another CPU sees it after all that was written before.
///
/// # Safety
/// As for [`fetch_add`].
#[inline(always)]
pub unsafe fn publish_next(word: *mut u64, value: u64) {
    if WEAKLY_ORDERED.is_set() {
        // SAFETY: the caller's promise. An addition that gives back what was there is a full barrier.
        unsafe { fetch_add(word, 1) };
        return;
    }
    // SAFETY: as above. The compiler moves no access to memory across it.
    unsafe {
        asm!(
            "*(u64 *)({word} + 0) = {value}",
            word = in(reg) word,
            value = in(reg) value + 1,
        );
    }
}
