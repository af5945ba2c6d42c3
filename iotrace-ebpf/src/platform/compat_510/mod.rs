//! Kernels from 5.10 to 5.14.
//!
//! - `task`: the running task is a number, and its fields are read by probes
//! - `threads`: the state of threads is in a hash
//! - `atomic`: a kernel that can only add has locks made of additions

pub mod atomic;
pub mod task;
pub mod threads;

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
