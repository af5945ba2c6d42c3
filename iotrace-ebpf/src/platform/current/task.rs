//! The running task, as a pointer whose type the verifier knows.

use aya_ebpf::helpers::generated;
use iotrace_common::abi::Offset;

use crate::core::{
    config::{Const, HAS_CAST, TYPE_TASK},
    memory::{Address, cast, load},
};

/// The running task.
#[inline(always)]
pub fn current() -> Address {
    // SAFETY: the helper has no preconditions.
    unsafe { generated::bpf_get_current_task_btf() as Address }
}

/// The running task to load pointers from. From a task that it trusts the verifier lets none be loaded before it has looked
/// four times through the names of all kernel types: that was a tenth of the time to load the programs.
#[inline(always)]
pub fn untrusted(task: Address) -> Address {
    match HAS_CAST.is_set() {
        true => cast(task as u64, &TYPE_TASK),
        false => task,
    }
}

/// The registers that a task entered the kernel with. The verifier must know the task's type.
#[inline(always)]
pub fn registers_of(task: Address) -> Address {
    // SAFETY: the caller passes a program's argument or the running task.
    unsafe { generated::bpf_task_pt_regs(task.cast_mut().cast()) as Address }
}

/// Loads a `T` at `offset` behind the running task, or behind a pointer that such a load gave.
///
/// # Safety
/// As for [`load`].
#[inline(always)]
pub unsafe fn load_of<T: Copy>(base: Address, offset: &Const<Offset>) -> T {
    // SAFETY: the caller's promise.
    unsafe { load(base, offset) }
}
