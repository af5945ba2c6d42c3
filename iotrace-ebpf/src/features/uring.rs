//! io_uring: reads, writes and their relatives that no system call shows, from the submission of a request to its end.
//!
//! Reached from the BTF raw tracepoints `io_uring_submit_req` and `io_uring_complete`. Writes `REQUESTS`, and through
//! `account` the counters.
//!
//! A request ends on whatever thread the kernel finds: its submitter, a worker, the thread that polls. So it is counted to
//! its process, and for a thread there stands the CPU that it ended on, which makes every entry have one writer here as
//! well. Its file is the one that it holds when it ends; its time is all from its submission, the wait for requests that
//! it is linked to included.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    btf_maps::{HashMap, PerCpuArray},
    macros::{btf_map, btf_tracepoint},
    programs::BtfTracePointContext,
};
use iotrace_common::{
    diag,
    key::{FileId, start_key},
    limits,
    op::{self, Call, shape, source},
    trace::NONE,
    uring::is_vectored,
};

use crate::{
    core::{
        account,
        config::{
            CLOSE_FD, CLOSE_SLOT, COMPLETE_HAS_CQE, CQE_FLAGS, CQE_RESULT, OPEN_SLOT, REQUEST_FD,
            REQUEST_FILE, REQUEST_FLAGS, REQUEST_OPCODE, REQUEST_TASK, RW_BUFFER, RW_LENGTH,
            RW_POSITION, SYNC_FLAGS, SYNC_LENGTH, SYNC_OFFSET, TASK_GROUP_LEADER, TASK_IS_BEHIND,
            TASK_START, TASK_TGID, TRUNCATE_LENGTH, TYPE_REQUEST, TYPE_TASK, TYPE_URING_TASK,
            UNLINK_FLAGS, URING_TASK_TASK, request,
        },
        diagnose,
        enter::{no_file, set_file},
        exit,
        maps::scratch,
        memory::{Address, cpu, field, load, now, probe},
        thread::{NO_THREAD, Thread, verdict_of},
    },
    features::oplog,
    merged::{
        self,
        global::{Joined, NONE_JOINED},
    },
    platform::{
        current,
        identity::{Kind, of_descriptor},
        owner, path, phase, registers_of, threads,
    },
};

/// A request in flight.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Request {
    /// Its submission, `CLOCK_MONOTONIC` nanoseconds.
    entered: u64,
    /// Where in the file it begins, and its buffer. For detail full and the operation trace only.
    offset: u64,
    buffer: u64,
    /// Bytes that it asks for, where that is known. For the operation trace only.
    length: u64,
    /// Of a close, the file, and its phase.
    file: FileId,
    phase: u32,
    /// See [`Thread::flight`].
    flight: u32,
    op: u32,
    /// Not 0: its file has no descriptor, but a place in the ring's own table.
    direct: u32,
    /// See [`Thread::joined`].
    joined: Joined,
    pad: [u8; 6],
}

/// io_uring's requests in flight, by their address. Not preallocated: mostly empty.
#[btf_map]
static REQUESTS: HashMap<
    u64,
    Request,
    { limits::REQUEST_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// In place of a thread's state, that of the programs that see io_uring's requests, which end on any thread.
#[btf_map]
static URING_STATE: PerCpuArray<Thread, 2> = PerCpuArray::new();

impl Request {
    /// A request of which no more is known than what it does.
    #[inline(always)]
    fn new(entered: u64, call: Call) -> Self {
        Self {
            entered,
            offset: 0,
            buffer: 0,
            length: NONE,
            file: FileId::NONE,
            phase: 0,
            flight: merged::ALONE,
            op: u32::from(call.op),
            direct: 0,
            joined: NONE_JOINED,
            pad: [0; 6],
        }
    }
}

/// `REQ_F_FIXED_FILE`.
const FIXED_FILE: u32 = 1;
/// `REQ_F_BUFFER_SELECT`: the kernel chooses the buffer when the request is done.
const BUFFER_SELECT: u32 = 1 << 5;
/// `IORING_FSYNC_DATASYNC`.
const DATASYNC: u32 = 1;
const AT_REMOVEDIR: u32 = 0x200;
/// `IORING_CQE_F_MORE`: the request goes on.
const MORE: u32 = 2;

const SUBMIT: u32 = 0;
const COMPLETE: u32 = 1;

/// A request was submitted.
#[inline(always)]
pub fn submitted(req: u64) {
    let call = request(field(req, &TYPE_REQUEST, &REQUEST_OPCODE));
    if call.shape == 0 {
        return;
    }
    let Some(thread) = URING_STATE.get_ptr_mut(SUBMIT) else {
        return;
    };
    // SAFETY: this CPU's own, and this program's.
    let thread = unsafe { &mut *thread };
    let process = thread.key.io.tgid;
    if !set_process(thread, req) {
        return;
    }
    thread.entered = now();
    thread.key.op = u32::from(call.op);
    thread.copy = scratch::SUBMIT;
    if thread.key.io.tgid != process {
        thread.key.io.phase = 0;
    }
    let mut known = details(thread, req, call);
    (thread.flight, thread.joined) = (merged::ALONE, NONE_JOINED);
    // Of a descriptor that is no file nothing will be counted.
    if call.source != source::DESCRIPTOR || thread.file != 0 || known.direct != 0 {
        merged::begin_beside(thread);
        mark_thread();
    }
    (known.flight, known.joined) = (thread.flight, thread.joined);
    if REQUESTS.insert(req, known, 0).is_err() {
        merged::abandon(thread);
    }
}

/// Sets the file that the request is likely to be of; what its end needs.
#[inline(always)]
fn details(thread: &mut Thread, req: u64, call: Call) -> Request {
    let mut known = Request::new(thread.entered, call);
    let at = req as Address;
    let flags: u32 = field(req, &TYPE_REQUEST, &REQUEST_FLAGS);
    let mut fd: u32 = field(req, &TYPE_REQUEST, &REQUEST_FD);
    match usize::from(call.op) {
        op::READ | op::WRITE if thread.is_full() || thread.is_traced() => {
            known.offset = probe(at, &RW_POSITION);
            known.buffer = probe(at, &RW_BUFFER);
            if thread.is_traced() {
                known.length = asked(req, flags, known.buffer);
            }
        }
        op::SYNC_FILE_RANGE | op::FALLOCATE if thread.is_traced() => {
            known.offset = probe(at, &SYNC_OFFSET);
            known.length = probe(at, &SYNC_LENGTH);
        }
        op::TRUNCATE if thread.is_traced() => known.length = probe(at, &TRUNCATE_LENGTH),
        op::FSYNC if probe::<u32>(at, &SYNC_FLAGS) & DATASYNC != 0 => {
            known.op = op::FDATASYNC as u32;
        }
        op::UNLINK if probe::<u32>(at, &UNLINK_FLAGS) & AT_REMOVEDIR != 0 => {
            known.op = op::RMDIR as u32;
        }
        op::OPEN => known.direct = probe(at, &OPEN_SLOT),
        op::CLOSE => {
            known.direct = probe(at, &CLOSE_SLOT);
            fd = probe(at, &CLOSE_FD);
        }
        _ => {}
    }
    if call.source != source::DESCRIPTOR {
        no_file(thread);
        merged::expect_open(thread);
    } else if flags & FIXED_FILE != 0 {
        // Which file that is shows at the end: the phase is taken for that of the request before.
        known.direct = 1;
    } else if known.direct == 0 {
        set_file(
            thread,
            of_descriptor(current(), fd),
            call.direction,
            scratch::SUBMIT,
        );
        if known.op == op::CLOSE as u32 && thread.file != 0 {
            if !phase::is_named(thread) {
                path::meet(thread, thread.file, scratch::SUBMIT);
            }
            known.file = thread.key.io.file;
            known.phase = thread.key.io.phase;
        }
    }
    known
}

/// Bytes that a read or a write asks for.
#[inline(always)]
fn asked(req: u64, flags: u32, buffer: u64) -> u64 {
    let length = u64::from(probe::<u32>(req as Address, &RW_LENGTH));
    if is_vectored(field(req, &TYPE_REQUEST, &REQUEST_OPCODE)) {
        // One that the kernel chooses is all the vectors there are.
        return if flags & BUFFER_SELECT == 0 {
            oplog::vectors(buffer, length)
        } else {
            NONE
        };
    }
    // As many as the buffer holds that the kernel chooses.
    if length == 0 && flags & BUFFER_SELECT != 0 {
        return NONE;
    }
    length
}

/// The running thread has requests beside its calls, so that those may overlap.
#[inline(always)]
fn mark_thread() {
    if let Some(thread) = threads::of(registers_of(current()), false) {
        thread.asynchronous = 1;
    }
}

/// A request has ended, or goes on after one of several results.
#[inline(always)]
pub fn completed(req: u64, result: i32, flags: u32) {
    let call = request(field(req, &TYPE_REQUEST, &REQUEST_OPCODE));
    if call.shape == 0 {
        return;
    }
    let Some(thread) = URING_STATE.get_ptr_mut(COMPLETE) else {
        return;
    };
    // SAFETY: this CPU's own, and this program's.
    let thread = unsafe { &mut *thread };
    if !set_process(thread, req) {
        return;
    }
    thread.ended = now();
    thread.copy = scratch::COMPLETE;
    let more = flags & MORE != 0;
    let mut known = Request::new(thread.ended, call);
    if let Some(found) = REQUESTS.get_ptr_mut(req) {
        // SAFETY: a map value, of a request whose end is being told here.
        unsafe {
            known = *found;
            // What comes next begins here.
            (*found).entered = thread.ended;
        }
        if !more {
            let _ = REQUESTS.remove(req);
        }
    } else {
        diagnose::count(diag::UNTIMED);
    }
    thread.entered = known.entered;
    (thread.flight, thread.joined) = (known.flight, known.joined);
    thread.key.op = known.op;
    thread.shape = shape_of(call, known.offset);
    thread.args = match thread.shape {
        shape::SYNC_FILE_RANGE => [0, known.offset, known.length, 0, 0],
        shape::FALLOCATE => [0, 0, known.offset, known.length, 0],
        shape::FTRUNCATE => [0, known.length, 0, 0, 0],
        _ => [0, known.buffer, known.length, known.offset, 0],
    };
    if set_its_file(thread, req, call, &known) == Kind::Other {
        diagnose::count(diag::skipped(thread.block));
        return merged::abandon(thread);
    }
    finish(thread, result, &known, more);
}

/// A read or write at the file's own position is one as if it had no offset.
#[inline(always)]
fn shape_of(call: Call, offset: u64) -> u8 {
    match call.shape {
        shape::PREAD if offset == u64::MAX => shape::READ,
        shape::PWRITE if offset == u64::MAX => shape::WRITE,
        other => other,
    }
}

/// Sets the file of the request, which ends.
#[inline(always)]
fn set_its_file(thread: &mut Thread, req: u64, call: Call, known: &Request) -> Kind {
    if usize::from(call.op) == op::CLOSE {
        no_file(thread);
        thread.key.io.file = known.file;
        thread.key.io.phase = known.phase;
    } else if call.source == source::DESCRIPTOR {
        let file = field(req, &TYPE_REQUEST, &REQUEST_FILE);
        return set_file(thread, file, call.direction, scratch::COMPLETE);
    } else {
        no_file(thread);
    }
    Kind::Closed
}

/// Counts the request.
#[inline(always)]
fn finish(thread: &mut Thread, result: i32, known: &Request, more: bool) {
    if result < 0 {
        thread.key.errno = -result as u32;
        thread.union_ns = merged::end(thread);
        oplog::operation(thread, i64::from(result));
        return account::failure(thread);
    }
    if thread.op() == op::OPEN && known.direct == 0 {
        return exit::opened(thread, result as u64);
    }
    // Of several results the last one takes it off; what was merged meanwhile comes with it.
    thread.union_ns = if more { 0 } else { merged::end(thread) };
    if thread.op() <= op::WRITE {
        return exit::data::<true>(thread, result as u64);
    }
    if thread.op() == op::RENAME || thread.op() == op::LINK {
        path::linked();
    }
    exit::metadata::<true>(thread, i64::from(result));
}

/// Sets the process whose request it is, and what stands for its thread; false: it is not in scope.
#[inline(always)]
fn set_process(thread: &mut Thread, req: u64) -> bool {
    let mut task: u64 = field(req, &TYPE_REQUEST, &REQUEST_TASK);
    if TASK_IS_BEHIND.is_set() {
        task = field(task, &TYPE_URING_TASK, &URING_TASK_TASK);
    }
    let tgid: u32 = field(task, &TYPE_TASK, &TASK_TGID);
    thread.verdict = verdict_of(tgid);
    if thread.verdict == 0 || !owner::may_trace(task as Address) {
        return false;
    }
    let leader: u64 = field(task, &TYPE_TASK, &TASK_GROUP_LEADER);
    let key = &mut thread.key.io;
    key.start = start_key(field(leader, &TYPE_TASK, &TASK_START));
    (key.tgid, key.tid) = (tgid, NO_THREAD | cpu());
    (thread.place, thread.wanted) = (0, 0);
    true
}

/// TRACE_EVENT io_uring_submit_req (io_uring_submit_sqe before Linux 6.3): (struct io_kiocb *req, ...)
#[btf_tracepoint(function = "io_uring_submit_req")]
pub fn uring_submit(ctx: BtfTracePointContext) -> i32 {
    submitted(ctx.arg::<u64>(0));
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
    completed(ctx.arg::<u64>(1), result as i32, flags);
    0
}
