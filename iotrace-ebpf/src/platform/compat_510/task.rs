//! The running task, as a number: these kernels have no helper that gives it with its type, so what stands behind it is
//! read by probes. What a program gets as an argument has its type here as well.

use aya_ebpf::helpers::generated;
use iotrace_common::abi::Offset;

use crate::{
    core::{
        config::Const,
        memory::{Address, probe, probe_at},
    },
    platform::threads,
};

/// The running task.
#[inline(always)]
pub fn current() -> Address {
    // SAFETY: the helper has no preconditions.
    unsafe { generated::bpf_get_current_task() as Address }
}

/// The running task to load pointers from.
#[cfg(not(feature = "nobtf"))]
#[inline(always)]
pub fn untrusted(task: Address) -> Address {
    task
}

/// Reads a `T` at `offset` behind the running task, or behind an address that such a read gave.
///
/// # Safety
/// None is needed: what cannot be read reads as 0.
#[inline(always)]
pub unsafe fn load_of<T: Copy>(base: Address, offset: &Const<Offset>) -> T {
    probe(base, offset)
}

/// The registers that the running task entered the kernel with for the call that it is in, whichever task is given.
#[inline(always)]
pub fn registers_of(_task: Address) -> Address {
    threads::registers()
}

/// An address as a number. Of a pointer with a type the verifier lets no key be made; read from memory it is a number.
#[inline(always)]
pub fn number_of(pointer: Address) -> u64 {
    let held = pointer as u64;
    probe_at((&raw const held).cast())
}
