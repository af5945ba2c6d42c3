//! iotrace's kernel programs.
//!
//! Two hook kinds reach one accounting code: the BTF raw tracepoints `sys_enter` and `sys_exit`, and the per-syscall
//! tracepoints `syscalls/sys_enter_*` and `sys_exit_*`. The process hooks are BTF raw tracepoints in both.
//!
//! Two objects are made from this crate, which differ in the module `variant` alone: `recent`, and with the feature
//! `legacy` one for kernels that lack what that needs. A kernel refuses what it does not know even where it never runs,
//! so a setting at load could not choose. The daemon probes the kernel and takes the one or the other. A third one, with the
//! feature `untyped`, is for kernels without type information: `untyped` has in its place all that reads the kernel's structs.
//!
//! - `enter`, `exit`: what happens at the start and the end of a call
//! - `account`, `full`, `histogram`: the counters; `cells`: where they stand; `open_files`: last accesses
//! - `file`, `path`: which file it is, and its name
//! - `sort`, `flight`: its phase, and merged time; `together`: that over all processes, where it is wanted
//! - `cpu`: CPU time of threads, where it is wanted
//! - `missing`: where files were looked for that are not there; `devices`: what is mapped and is no file
//! - `trace`: every operation by itself, where that is wanted
//! - `process`, `thread`, `owner`: who does it, and whether that is in scope
//! - `maps`, `config`, `kernel`, `diagnose`: what all of them stand on
//! - `variant`: what the two objects have of their own
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)] // atomics: see `variant`
#![cfg_attr(
    feature = "legacy",
    expect(dead_code, reason = "the other object uses it")
)]

mod account;
mod cells;
#[cfg(not(feature = "untyped"))]
mod cgroup;
mod config;
#[cfg(not(feature = "untyped"))]
mod cpu;
#[cfg(not(feature = "untyped"))]
mod devices;
mod diagnose;
mod enter;
mod exit;
#[cfg(not(feature = "untyped"))]
mod file;
mod flight;
mod full;
mod histogram;
mod kernel;
mod maps;
#[cfg(not(feature = "untyped"))]
mod missing;
mod open_files;
#[cfg(not(feature = "untyped"))]
mod owner;
#[cfg(not(feature = "untyped"))]
mod path;
#[cfg(not(feature = "untyped"))]
mod process;
#[cfg(not(feature = "untyped"))]
mod sort;
mod thread;
mod together;
mod trace;
#[cfg(feature = "untyped")]
mod untyped;
#[cfg_attr(not(feature = "legacy"), path = "recent/mod.rs")]
#[cfg_attr(feature = "legacy", path = "legacy/mod.rs")]
mod variant;

#[cfg(not(feature = "untyped"))]
use core::ffi::c_void;

#[cfg(not(feature = "untyped"))]
use aya_ebpf::{EbpfContext as _, macros::btf_tracepoint, programs::BtfTracePointContext};
#[cfg(not(feature = "untyped"))]
use aya_log_ebpf::debug;
#[cfg(feature = "untyped")]
use untyped::{cpu, devices, file, missing, owner, path, process, sort};
use variant::*;

#[cfg(not(feature = "untyped"))]
use crate::{
    config::REGS_NR,
    kernel::{Address, load},
};

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// TRACE_EVENT sys_enter: (struct pt_regs *regs, long id)
#[cfg(not(feature = "untyped"))]
macro_rules! raw_pair {
    ($enter:ident, $exit:ident, $copy:literal) => {
        #[btf_tracepoint(function = "sys_enter")]
        pub fn $enter(ctx: BtfTracePointContext) -> i32 {
            enter::enter(ctx.arg::<*const c_void>(0), ctx.arg(1), $copy);
            0
        }

        /// TRACE_EVENT sys_exit: (struct pt_regs *regs, long ret)
        #[btf_tracepoint(function = "sys_exit")]
        pub fn $exit(ctx: BtfTracePointContext) -> i32 {
            let registers: Address = ctx.arg::<*const c_void>(0);
            // SAFETY: the registers are the tracepoint's argument; the field is the system call's number, -1 for none.
            let nr = unsafe { load::<u32>(registers, &REGS_NR) };
            exit::exit(registers, u64::from(nr), ctx.arg(1), $copy);
            0
        }
    };
}

#[cfg(not(feature = "untyped"))]
raw_pair!(sys_enter, sys_exit, 0);
#[cfg(not(feature = "untyped"))]
raw_pair!(sys_enter_again, sys_exit_again, 1);
#[cfg(not(feature = "untyped"))]
raw_pair!(sys_enter_third, sys_exit_third, 2);

/// Iterator `task`: every thread of the system, one after another.
#[cfg(not(feature = "untyped"))]
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub fn thread_times(ctx: *const cpu::Visit) -> i32 {
    cpu::visit(ctx)
}

/// TRACE_EVENT sched_process_fork: (struct task_struct *parent, struct task_struct *child)
#[cfg(not(feature = "untyped"))]
#[btf_tracepoint(function = "sched_process_fork")]
pub fn process_fork(ctx: BtfTracePointContext) -> i32 {
    process::forked(ctx.arg::<*const c_void>(0), ctx.arg::<*const c_void>(1));
    0
}

/// TRACE_EVENT sched_process_exec: (struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
#[cfg(not(feature = "untyped"))]
#[btf_tracepoint(function = "sched_process_exec")]
pub fn process_exec(ctx: BtfTracePointContext) -> i32 {
    debug!(&ctx, "exec by process {}", ctx.tgid());
    process::executed(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT sched_process_exit: (struct task_struct *p)
#[cfg(not(feature = "untyped"))]
#[btf_tracepoint(function = "sched_process_exit")]
pub fn process_exit(ctx: BtfTracePointContext) -> i32 {
    process::exited(ctx.arg::<*const c_void>(0));
    0
}
