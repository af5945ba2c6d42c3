//! The programs on the BTF raw tracepoints of system calls.

use core::ffi::c_void;

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

use crate::core::{
    config::REGS_NR,
    enter, exit,
    memory::{Address, load},
};

/// TRACE_EVENT sys_enter: (struct pt_regs *regs, long id)
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

raw_pair!(sys_enter, sys_exit, 0);
raw_pair!(sys_enter_again, sys_exit_again, 1);
raw_pair!(sys_enter_third, sys_exit_third, 2);
