//! What the object for kernels before 5.15 has of its own: the common code on what Linux 5.10 has, and nothing in place of
//! what cannot be done there (per-syscall tracepoints, io_uring, libaio, the page cache, functions of libraries).
//!
//! - `task`: the running task is a number, and its fields are read by probes
//! - `threads`: the state of threads stands in a hash
//! - `atomic`: a kernel that can only add has locks made of additions
//! - `aio`, `mappings`, `pages`, `uprobe_mark`, `uprobe_open`, `waits`: where the common code calls what is left out

pub mod atomic;
mod left_out;
pub mod task;
pub mod threads;

pub use left_out::{aio, mappings, pages, uprobe_mark, uprobe_open, waits};

use core::ffi::c_void;

/// What [`repeat`] would call.
pub type Callback = unsafe extern "C" fn(u32, *mut c_void) -> i64;

/// Calls nothing: these kernels refuse a program that so much as names a callback. The daemon says so (`HAS_LOOP`), and
/// the common code does without, or not at all.
///
/// # Safety
/// None is needed.
#[inline(always)]
pub unsafe fn repeat(_turns: u32, _callback: Callback, _context: *mut c_void) -> i64 {
    0
}
