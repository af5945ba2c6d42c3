//! The programs: raw tracepoints, which any kernel since 4.17 lets programs attach to by name alone, and one classic
//! tracepoint, whose record tracefs describes.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext as _,
    macros::{raw_tracepoint, tracepoint},
    programs::{RawTracePointContext, TracePointContext},
};

use super::{book, process};
use crate::{
    config::{NEWTASK_FLAGS, NEWTASK_PID, REGS_NR},
    enter, exit,
    kernel::{Address, probe, probe_at},
};

/// TRACE_EVENT sys_enter: (struct pt_regs *regs, long id)
#[raw_tracepoint(tracepoint = "sys_enter")]
pub fn untyped_enter(ctx: RawTracePointContext) -> i32 {
    let registers: Address = ctx.arg::<*const c_void>(0);
    let nr = ctx.arg(1);
    enter::enter(registers, nr, 0);
    book::begun(registers, nr);
    0
}

/// TRACE_EVENT sys_exit: (struct pt_regs *regs, long ret)
#[raw_tracepoint(tracepoint = "sys_exit")]
pub fn untyped_exit(ctx: RawTracePointContext) -> i32 {
    let registers: Address = ctx.arg::<*const c_void>(0);
    let nr = u64::from(probe::<u32>(registers, &REGS_NR));
    let result = ctx.arg(1);
    book::ended(registers, nr, result);
    exit::exit(registers, nr, result, 0);
    0
}

/// TRACE_EVENT sched_process_exit: (struct task_struct *p), which is the running one
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn untyped_process_exit(_ctx: RawTracePointContext) -> i32 {
    process::exited();
    0
}

/// TRACE_EVENT task_newtask: the new task's pid and the flags of its clone, by the running one.
#[tracepoint]
pub fn untyped_new_task(ctx: TracePointContext) -> u32 {
    let record: Address = ctx.as_ptr().cast_const();
    let pid = probe_at(record.wrapping_byte_add(NEWTASK_PID.load() as usize));
    let flags = probe_at(record.wrapping_byte_add(NEWTASK_FLAGS.load() as usize));
    process::forked(pid, flags);
    0
}
