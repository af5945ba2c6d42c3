//! What the object for recent kernels has of its own: all that iotrace can do. It needs task storage, atomic operations
//! that give back what was there, callbacks and the registers of a task: Linux 5.15.
//!
//! - `task`, `threads`, `atomic`: on which both objects' common code stands; `maps`
//! - `uring`: requests of io_uring; `aio`: those of libaio; `pages`: the page cache, and mapped files; `faults`: the time
//!   of page faults; `mappings`: what msync is of
//! - `waits`: what threads wait for, where that is wanted
//! - `block`: requests to block devices, and whose bytes they move, where that is wanted
//! - `uprobe` and the files beside it: functions of libraries, where they are wanted
//! - `programs`: those that only this object has

pub mod aio;
pub mod atomic;
mod block;
mod faults;
pub mod mappings;
pub mod maps;
pub mod pages;
mod programs;
pub mod task;
pub mod threads;
pub mod uprobe;
pub mod uprobe_datatype;
pub mod uprobe_handle;
pub mod uprobe_mark;
pub mod uprobe_open;
pub mod uprobe_stream;
pub mod uring;
pub mod waits;

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
