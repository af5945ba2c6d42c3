//! The running task, as a pointer whose type the verifier knows.

use aya_ebpf::helpers::generated;
use iotrace_common::abi::Offset;

use crate::core::{
    config::Const,
    memory::{Address, load},
};

/// The running task.
#[inline(always)]
pub fn current() -> Address {
    // SAFETY: the helper has no preconditions.
    unsafe { generated::bpf_get_current_task_btf() as Address }
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
