//! iotrace's kernel programs.
//!
//! Two hook kinds reach one accounting code: the BTF raw tracepoints `sys_enter` and `sys_exit`, and the per-syscall
//! tracepoints `syscalls/sys_enter_*` and `sys_exit_*`. The process hooks are BTF raw tracepoints in both.
//!
//! Three objects are made from this crate, along two axes: kernels from 5.15 on, or with the feature `compat_510` those
//! before; and, of the latter, kernels with type information (BTF), or with the feature `nobtf` those without. A kernel
//! refuses what it does not know even in code that never runs, so a setting at load could not choose. The daemon probes the
//! kernel and takes one of them.
//!
//! - `core`: the start and the end of a call, the thread's state in between, the counters and their cells
//! - `merged`: merged time, of a process and of all
//! - `files`: which file it is, its name and its phase; `processes`: who does it, and whether that is in scope
//! - `features`: what can be turned off or missing, each with its programs, maps and types
//! - `platform`: what differs between the objects, by one name each
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)] // atomics: see `platform`
#![cfg_attr(
    feature = "compat_510",
    expect(dead_code, reason = "the other object uses it")
)]

#[macro_use]
mod declare;

mod core;
mod features;
mod files;
mod merged;
mod platform;
mod processes;

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &::core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
