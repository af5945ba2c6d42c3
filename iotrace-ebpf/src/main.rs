//! iotrace's kernel programs.
//!
//! Two hook kinds reach one accounting code: the BTF raw tracepoints `sys_enter` and `sys_exit`, and the per-syscall
//! tracepoints `syscalls/sys_enter_*` and `sys_exit_*`. The process hooks are BTF raw tracepoints in both.
//!
//! Three objects are made from this crate. `recent`, and with the feature `legacy` one for kernels that lack what that
//! needs, differ in the module `variant` alone; the third, `untyped`, is that one with another module `types`, for kernels
//! without type information. A kernel refuses what it does not know even where it never runs, so a setting at load could
//! not choose. The daemon probes the kernel and takes one of them.
//!
//! - `enter`, `exit`: what happens at the start and the end of a call
//! - `account`, `full`, `histogram`: the counters; `cells`: where they stand; `open_files`: last accesses; `spans`:
//!   which calls are one use of a file
//! - `flight`: merged time; `together`: that over all processes, where it is wanted
//! - `trace`: every operation by itself, where that is wanted; `ring`: where its records stand
//! - `thread`: whose call it is, and what its start leaves for its end
//! - `maps`, `config`, `kernel`, `events`, `diagnose`: what all of them stand on
//! - `types`: which file it is, who does it, and what else is read from the kernel's structs; and the programs
//! - `variant`: what differs with the kernel's release
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)] // atomics: see `variant`
#![cfg_attr(
    feature = "legacy",
    expect(dead_code, reason = "the other object uses it")
)]

#[macro_use]
mod maps;

mod account;
mod cells;
mod config;
mod diagnose;
mod enter;
mod events;
mod exit;
mod flight;
mod full;
mod histogram;
mod kernel;
mod open_files;
mod ring;
mod spans;
mod thread;
mod together;
mod trace;
#[cfg_attr(not(feature = "untyped"), path = "typed/mod.rs")]
#[cfg_attr(feature = "untyped", path = "untyped/mod.rs")]
mod types;
#[cfg_attr(not(feature = "legacy"), path = "recent/mod.rs")]
#[cfg_attr(feature = "legacy", path = "legacy/mod.rs")]
mod variant;

use types::{cpu, devices, file, missing, owner, path, running, sort};
use variant::*;

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
