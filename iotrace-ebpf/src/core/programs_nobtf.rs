//! The programs on the raw tracepoints of system calls, which any kernel since 4.17 lets programs attach to by name.

use core::ffi::c_void;

use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

use crate::{
    core::{
        config::REGS_NR,
        enter, exit,
        memory::{Address, probe},
    },
    files::nobtf::fd_table,
};

/// TRACE_EVENT sys_enter: (struct pt_regs *regs, long id)
#[raw_tracepoint(tracepoint = "sys_enter")]
pub fn nobtf_enter(ctx: RawTracePointContext) -> i32 {
    let registers: Address = ctx.arg::<*const c_void>(0);
    let nr = ctx.arg(1);
    enter::enter(registers, nr, 0);
    fd_table::begun(registers, nr);
    0
}

/// TRACE_EVENT sys_exit: (struct pt_regs *regs, long ret)
#[raw_tracepoint(tracepoint = "sys_exit")]
pub fn nobtf_exit(ctx: RawTracePointContext) -> i32 {
    let registers: Address = ctx.arg::<*const c_void>(0);
    let nr = u64::from(probe::<u32>(registers, &REGS_NR));
    let result = ctx.arg(1);
    fd_table::ended(registers, nr, result);
    exit::exit(registers, nr, result, 0);
    0
}
