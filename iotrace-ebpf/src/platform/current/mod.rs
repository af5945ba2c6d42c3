//! Kernels from 5.15 on: task storage, atomic operations that return what was there, callbacks, and the registers of a task.

pub mod atomic;
pub mod task;
pub mod task_storage;
pub mod threads;

use core::ffi::c_void;

use aya_ebpf::helpers::generated;

/// What [`repeat`] calls, with the number of the turn and a context; not 0: that was the last turn.
pub type Callback = unsafe extern "C" fn(u32, *mut c_void) -> i64;

/// Has `callback` called `turns` times at most; how often it was, or a negative error.
///
/// # Safety
/// The context is what the callback takes it for, and lives on the caller's stack.
#[inline(always)]
pub unsafe fn repeat(turns: u32, callback: Callback, context: *mut c_void) -> i64 {
    // SAFETY: the caller's promise; the callback has the signature that the helper calls.
    unsafe { generated::bpf_loop(turns, callback as *mut c_void, context, 0) }
}
