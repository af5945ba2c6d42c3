//! iotrace's kernel programs.
//!
//! Two hook kinds reach one accounting code: the BTF raw tracepoints `sys_enter` and `sys_exit`, and the per-syscall
//! tracepoints `syscalls/sys_enter_*` and `sys_exit_*`. The process hooks are BTF raw tracepoints in both.
//!
//! - `enter`, `exit`: what happens at the start and the end of a call
//! - `account`, `full`, `histogram`: the counters; `cells`: where they stand; `open_files`: last accesses
//! - `file`, `path`: which file it is, and its name
//! - `sort`, `flight`: its phase, and merged time; `together`: that over all processes, where it is wanted
//! - `cpu`: CPU time of threads, where it is wanted
//! - `missing`: where files were looked for that are not there
//! - `uring`: requests of io_uring; `aio`: those of libaio; `pages`: the page cache, and mapped files
//! - `trace`: every operation by itself, where that is wanted
//! - `uprobe` and the files beside it: functions of libraries, where they are wanted
//! - `process`, `thread`, `owner`: who does it, and whether that is in scope
//! - `maps`, `config`, `kernel`, `diagnose`: what all of them stand on
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)] // atomics: see `kernel`

mod account;
mod aio;
mod cells;
mod cgroup;
mod config;
mod cpu;
mod diagnose;
mod enter;
mod exit;
mod file;
mod flight;
mod full;
mod histogram;
mod kernel;
mod maps;
mod missing;
mod open_files;
mod owner;
mod pages;
mod path;
mod process;
mod sort;
mod thread;
mod together;
mod trace;
mod uprobe;
mod uprobe_datatype;
mod uprobe_handle;
mod uprobe_mark;
mod uprobe_open;
mod uprobe_stream;
mod uring;

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext as _,
    macros::{btf_tracepoint, tracepoint, uprobe, uretprobe},
    programs::{BtfTracePointContext, ProbeContext, RetProbeContext, TracePointContext},
};
use aya_log_ebpf::debug;

use crate::{
    config::{COMPLETE_HAS_CQE, CQE_FLAGS, CQE_RESULT, REGS_NR},
    kernel::{Address, current, load, registers_of},
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

/// `struct syscall_trace_enter`: the number at offset 8; the arguments are taken from the task's registers, since a
/// program that reads past a record's end cannot be attached to it.
#[tracepoint]
pub fn call_enter(ctx: TracePointContext) -> u32 {
    enter::enter(registers(), number(&ctx), 0);
    0
}

/// `struct syscall_trace_exit`: the number at offset 8, the result at offset 16.
#[tracepoint]
pub fn call_exit(ctx: TracePointContext) -> u32 {
    // SAFETY: the record is at least 24 bytes long.
    let result = unsafe { *ctx.as_ptr().byte_add(16).cast::<i64>() };
    exit::exit(registers(), number(&ctx), result, 0);
    0
}

#[inline(always)]
fn registers() -> Address {
    registers_of(current())
}

#[inline(always)]
fn number(ctx: &TracePointContext) -> u64 {
    // SAFETY: the record is at least 16 bytes long.
    u64::from(unsafe { *ctx.as_ptr().byte_add(8).cast::<u32>() })
}

/// TRACE_EVENT io_uring_submit_req (io_uring_submit_sqe before Linux 6.3): (struct io_kiocb *req, ...)
#[btf_tracepoint(function = "io_uring_submit_req")]
pub fn uring_submit(ctx: BtfTracePointContext) -> i32 {
    uring::submitted(ctx.arg::<u64>(0));
    0
}

/// TRACE_EVENT io_uring_complete: (struct io_ring_ctx *ctx, void *req, struct io_uring_cqe *cqe), and in older kernels
/// (ctx, req, u64 user_data, int res, unsigned cflags, ...)
#[btf_tracepoint(function = "io_uring_complete")]
pub fn uring_complete(ctx: BtfTracePointContext) -> i32 {
    let (result, flags) = if COMPLETE_HAS_CQE.is_set() {
        let cqe: Address = ctx.arg::<*const c_void>(2);
        // SAFETY: the tracepoint's argument; both fields are 32 bits.
        unsafe { (load::<u32>(cqe, &CQE_RESULT), load::<u32>(cqe, &CQE_FLAGS)) }
    } else {
        (ctx.arg::<u64>(3) as u32, ctx.arg::<u64>(4) as u32)
    };
    uring::completed(ctx.arg::<u64>(1), result as i32, flags);
    0
}

/// TRACE_EVENT mm_filemap_add_to_page_cache: (struct folio *folio)
#[btf_tracepoint(function = "mm_filemap_add_to_page_cache")]
pub fn page_added(ctx: BtfTracePointContext) -> i32 {
    pages::added(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT mm_filemap_fault: (struct address_space *mapping, pgoff_t index)
#[btf_tracepoint(function = "mm_filemap_fault")]
pub fn page_fault(ctx: BtfTracePointContext) -> i32 {
    pages::fault(ctx.arg::<*const c_void>(0), ctx.arg(1));
    0
}

/// TRACE_EVENT mm_filemap_map_pages: (struct address_space *mapping, pgoff_t start, pgoff_t end)
#[btf_tracepoint(function = "mm_filemap_map_pages")]
pub fn pages_mapped(ctx: BtfTracePointContext) -> i32 {
    pages::around(ctx.arg::<*const c_void>(0), ctx.arg(1), ctx.arg(2));
    0
}

/// TRACE_EVENT writeback_dirty_folio: (struct folio *folio, struct address_space *mapping)
#[btf_tracepoint(function = "writeback_dirty_folio")]
pub fn page_dirtied(ctx: BtfTracePointContext) -> i32 {
    pages::dirtied(ctx.arg::<*const c_void>(0));
    0
}

/// The start of a function of a library.
#[uprobe]
pub fn library_enter(ctx: ProbeContext) -> u32 {
    uprobe::entered(uprobe::cookie(ctx.as_ptr()));
    0
}

/// The return of one.
#[uretprobe]
pub fn library_return(ctx: RetProbeContext) -> u32 {
    uprobe::returned(uprobe::cookie(ctx.as_ptr()));
    0
}

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
