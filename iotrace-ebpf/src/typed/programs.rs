//! The programs of both kinds of objects for kernels with type information: on the BTF raw tracepoints of system calls and
//! processes, and the iterator over threads.

use core::ffi::c_void;

use aya_ebpf::{EbpfContext as _, macros::btf_tracepoint, programs::BtfTracePointContext};
use aya_log_ebpf::debug;

use super::{cpu, process};
use crate::{
    config::REGS_NR,
    enter, exit,
    kernel::{Address, load},
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

/// Iterator `task`: every thread of the system, one after another.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub fn thread_times(ctx: *const cpu::Visit) -> i32 {
    cpu::visit(ctx)
}

/// TRACE_EVENT sched_process_fork: (struct task_struct *parent, struct task_struct *child)
#[btf_tracepoint(function = "sched_process_fork")]
pub fn process_fork(ctx: BtfTracePointContext) -> i32 {
    process::forked(ctx.arg::<*const c_void>(0), ctx.arg::<*const c_void>(1));
    0
}

/// TRACE_EVENT sched_process_exec: (struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
#[btf_tracepoint(function = "sched_process_exec")]
pub fn process_exec(ctx: BtfTracePointContext) -> i32 {
    debug!(&ctx, "exec by process {}", ctx.tgid());
    process::executed(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT sched_process_exit: (struct task_struct *p)
#[btf_tracepoint(function = "sched_process_exit")]
pub fn process_exit(ctx: BtfTracePointContext) -> i32 {
    process::exited(ctx.arg::<*const c_void>(0));
    0
}
