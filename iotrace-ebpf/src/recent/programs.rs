//! Programs that only the object for recent kernels has: on per-syscall tracepoints, on io_uring, on the page cache, on
//! block devices, on functions of libraries.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext as _,
    macros::{btf_tracepoint, perf_event, tracepoint, uprobe, uretprobe},
    programs::{
        BtfTracePointContext, PerfEventContext, ProbeContext, RetProbeContext, TracePointContext,
    },
};

use super::{block, faults, pages, uprobe, uring, waits};
use crate::{
    config::{COMPLETE_HAS_CQE, CQE_FLAGS, CQE_RESULT},
    enter, exit,
    kernel::{Address, current, load, registers_of},
};

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

/// The software event `PERF_COUNT_SW_PAGE_FAULTS_MAJ`: the running thread has completed a major page fault.
#[perf_event]
pub fn fault_ended(_ctx: PerfEventContext) -> u32 {
    faults::ended();
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

/// TRACE_EVENT block_rq_issue: (struct request *rq)
#[btf_tracepoint(function = "block_rq_issue")]
pub fn request_issued(ctx: BtfTracePointContext) -> i32 {
    block::issued(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT block_rq_complete: (struct request *rq, blk_status_t error, unsigned int nr_bytes)
#[btf_tracepoint(function = "block_rq_complete")]
pub fn request_completed(ctx: BtfTracePointContext) -> i32 {
    let request: Address = ctx.arg::<*const c_void>(0);
    let failed = ctx.arg::<u64>(1) as u8 != 0;
    block::completed(request, failed, ctx.arg::<u64>(2) as u32);
    0
}

/// TRACE_EVENT block_bio_queue: (struct bio *bio)
#[btf_tracepoint(function = "block_bio_queue")]
pub fn bio_queued(ctx: BtfTracePointContext) -> i32 {
    block::queued(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT sched_switch: (bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
#[btf_tracepoint(function = "sched_switch")]
pub fn task_switched(ctx: BtfTracePointContext) -> i32 {
    waits::switched(
        ctx.arg::<u64>(0) as u8 != 0,
        ctx.arg::<*const c_void>(1),
        ctx.arg::<*const c_void>(2),
        || ctx.arg::<u64>(3) as u32,
    );
    0
}

/// TRACE_EVENT sched_waking: (struct task_struct *p)
#[btf_tracepoint(function = "sched_waking")]
pub fn task_waking(ctx: BtfTracePointContext) -> i32 {
    waits::waking(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT hrtimer_expire_entry: (struct hrtimer *hrtimer, ktime_t *now)
#[btf_tracepoint(function = "hrtimer_expire_entry")]
pub fn timer_begins(_ctx: BtfTracePointContext) -> i32 {
    waits::in_timer(true);
    0
}

/// TRACE_EVENT hrtimer_expire_exit: (struct hrtimer *hrtimer)
#[btf_tracepoint(function = "hrtimer_expire_exit")]
pub fn timer_ended(_ctx: BtfTracePointContext) -> i32 {
    waits::in_timer(false);
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
