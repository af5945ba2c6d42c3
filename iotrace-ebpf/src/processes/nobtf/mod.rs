//! Processes: who comes, what they run, who goes. Follows the children of targets.
//!
//! Hooks: the tracepoint task_newtask, whose record says pid and flags; the raw tracepoint sched_process_exit; execs are seen
//! as the ends of their system calls. Writes `PROCESSES` and `TARGETS`; sends `FORK`, `EXEC` and `EXIT` events.

pub mod running;

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    EbpfContext as _,
    btf_maps::PerCpuArray,
    helpers::generated,
    macros::{btf_map, raw_tracepoint, tracepoint},
    programs::{RawTracePointContext, TracePointContext},
};
use iotrace_common::{
    diag,
    event::{self, Exec, Exit, Fork, Header},
    key::start_key,
    limits::ARGS_BYTES,
    nobtf::{Closed, Process, STATUS_UNKNOWN},
    rights::Rights,
};

use crate::{
    core::{
        config::{NEWTASK_FLAGS, NEWTASK_PID, REGS_STACK},
        diagnose,
        events::send,
        maps::{BPF_NOEXIST, TARGETS},
        memory::{Address, now, pid_tgid, probe, probe_at, probe_user},
        thread::{self, is_followed, process_in_scope, recordings_of_child},
    },
    merged,
    platform::{current, threads},
};

const CLONE_THREAD: u64 = 0x1_0000;

maps! {
    PROCESSES;
}

/// An exec with its command line; larger than the stack.
#[repr(C)]
pub struct ExecScratch {
    exec: Exec,
    args: [u8; ARGS_BYTES],
}

#[btf_map]
static EXEC_SCRATCH: PerCpuArray<ExecScratch, 1> = PerCpuArray::new();

const NOTHING_CLOSED: Closed = Closed {
    executed: 0,
    ranged: 0,
    from: 0,
};

/// The process `tgid`, whose first sight may be now.
#[inline(always)]
pub fn of(tgid: u32) -> Option<&'static mut Process> {
    let mut found = PROCESSES.get_ptr_mut(tgid);
    if found.is_none() {
        let new = Process {
            start: since_boot(),
            forked: 0,
            before: NOTHING_CLOSED,
            now: NOTHING_CLOSED,
            parents_start: 0,
            parent: 0,
            status: STATUS_UNKNOWN,
            left: 0,
        };
        // Another thread of it may be the first.
        let _ = PROCESSES.insert(tgid, new, BPF_NOEXIST);
        found = PROCESSES.get_ptr_mut(tgid);
    }
    // SAFETY: a map value; words that threads of one process write at one time are of calls that have no order.
    found.map(|process| unsafe { &mut *process })
}

/// When the process was made, or first seen.
#[inline(always)]
pub fn start_of(tgid: u32) -> u64 {
    of(tgid).map_or(0, |process| process.start)
}

#[inline(always)]
fn since_boot() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { generated::bpf_ktime_get_boot_ns() }
}

/// The running process makes a task with this id.
#[inline(always)]
pub fn forked(pid: u32, flags: u64) {
    let (parent_tgid, tid) = pid_tgid();
    if flags & CLONE_THREAD != 0 || !is_followed(parent_tgid) || !process_in_scope(parent_tgid) {
        return;
    }
    let recordings = recordings_of_child(parent_tgid);
    let is_target = !thread::all() || recordings != 0;
    if is_target && TARGETS.insert(pid, recordings, 0).is_err() {
        diagnose::count(diag::TARGETS_FULL);
        return;
    }
    let Some(parent) = of(parent_tgid) else {
        return;
    };
    let child = Process {
        start: since_boot(),
        forked: now(),
        before: parent.now,
        now: NOTHING_CLOSED,
        parents_start: parent.start,
        parent: parent_tgid,
        status: STATUS_UNKNOWN,
        left: 0,
    };
    let child_start = child.start;
    let _ = PROCESSES.insert(pid, child, 0);
    let mut fork = Fork {
        header: Header {
            kind: event::FORK,
            payload: 0,
            time: now(),
            tgid: parent_tgid,
            tid,
            start: parent.start,
        },
        rights: rights(),
        child: pid,
        pad: 0,
        child_start,
        comm: [0; 16],
    };
    name(&mut fork.comm);
    send(ptr::from_ref(&fork).cast(), size_of::<Fork>() as u64);
}

/// The running thread begins another program: if it is not the first one, that ends, and this takes its place.
#[inline(always)]
pub fn executes(process: &mut Process) {
    let (tgid, tid) = pid_tgid();
    if tgid != tid {
        process.left = 1;
    }
}

/// That failed.
#[inline(always)]
pub fn stays(process: &mut Process) {
    let (tgid, tid) = pid_tgid();
    if tgid != tid {
        process.left = 0;
    }
}

/// The running process has begun another program, of which these are the registers.
#[inline(always)]
pub fn executed(process: &mut Process, tgid: u32, registers: Address) {
    process.now.executed = now();
    process.left = 0;
    if let Some(thread) = threads::of(registers, false) {
        // It may have become its process's first and taken its id.
        thread.verdict = 0;
    }
    let Some(scratch) = EXEC_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own scratch.
    let scratch = unsafe { &mut *scratch };
    scratch.exec = Exec {
        header: Header {
            kind: event::EXEC,
            payload: 0,
            time: process.now.executed,
            tgid,
            tid: tgid,
            start: process.start,
        },
        rights: rights(),
        parent: process.parent,
        pad: 0,
        comm: [0; 16],
    };
    name(&mut scratch.exec.comm);
    let length = arguments(scratch, probe(registers, &REGS_STACK));
    scratch.exec.header.payload = length as u32;
    send(
        ptr::from_ref(scratch).cast(),
        size_of::<Exec>() as u64 + length,
    );
}

/// Copies the command line from a new program's stack, as the machine's interface lays it out: the number of arguments, their
/// addresses, a null, addresses of variables. The strings stand one behind the other. Its length.
#[inline(always)]
fn arguments(scratch: &mut ExecScratch, stack: u64) -> u64 {
    let Some([number, start]) = probe_user::<[u64; 2]>(stack) else {
        return 0;
    };
    let Some(end) = probe_user::<u64>(stack.wrapping_add(number.wrapping_add(2) << 3)) else {
        return 0;
    };
    if number == 0 || end < start {
        return 0;
    }
    let mut length = end - start;
    if length > ARGS_BYTES as u64 {
        length = ARGS_BYTES as u64;
    }
    // SAFETY: the length is at most the buffer's.
    let failed = unsafe {
        generated::bpf_probe_read_user(
            scratch.args.as_mut_ptr().cast(),
            length as u32,
            start as *const c_void,
        )
    };
    if failed != 0 {
        diagnose::count(diag::UNREADABLE);
        return 0;
    }
    length
}

/// The running process says what its status will be.
#[inline(always)]
pub fn ends_with(process: &mut Process, status: u64) {
    process.status = (status as u32 & 0xff) << 8;
}

/// The running thread ends and says nothing of its process.
#[inline(always)]
pub fn thread_leaves(process: &mut Process) {
    let (tgid, tid) = pid_tgid();
    if tgid == tid {
        process.left = 1;
    }
}

/// Takes down that the running process closes every descriptor from `first` on that it had until now, or some of them.
#[inline(always)]
pub fn closes_from(process: &mut Process, first: u64) {
    let closed = &mut process.now;
    if closed.ranged == 0 || first < closed.from {
        closed.from = first;
    }
    closed.ranged = now();
}

/// The running thread ends: with its process, if it is the first of it. That others go on without it, only `exit` says.
#[inline(always)]
pub fn exited() {
    let task = current();
    if let Some(thread) = threads::of(task, false)
        && thread.state == thread::state::RUNNING
    {
        // Its call ends with it, which no call does that returns.
        diagnose::count(diag::EXIT_MISSED);
        merged::abandon(thread);
    }
    threads::release(task);
    let (tgid, tid) = pid_tgid();
    if tgid != tid || !process_in_scope(tgid) {
        return;
    }
    let Some(process) = of(tgid) else { return };
    if process.left != 0 {
        return;
    }
    let exit = Exit {
        header: Header {
            kind: event::EXIT,
            payload: 0,
            time: now(),
            tgid,
            tid,
            start: process.start,
        },
        status: process.status,
        pad: 0,
    };
    merged::release(tgid, start_key(process.start));
    send(ptr::from_ref(&exit).cast(), size_of::<Exit>() as u64);
    let _ = PROCESSES.remove(tgid);
    // Not there where the process is in scope for another reason.
    let _ = TARGETS.remove(tgid);
}

/// Name of the running thread.
#[inline(always)]
fn name(comm: &mut [u8; 16]) {
    // SAFETY: the helper fills the array.
    unsafe { generated::bpf_get_current_comm(comm.as_mut_ptr().cast(), 16) };
}

/// Of the running process, its user alone: nothing else can be read.
#[inline(always)]
fn rights() -> Rights {
    // SAFETY: the helper has no preconditions.
    let uid = unsafe { generated::bpf_get_current_uid_gid() as u32 };
    Rights {
        uid,
        ..Rights::UNKNOWN
    }
}

/// TRACE_EVENT sched_process_exit: (struct task_struct *p), which is the running one
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn nobtf_process_exit(_ctx: RawTracePointContext) -> i32 {
    exited();
    0
}

/// TRACE_EVENT task_newtask: the new task's pid and the flags of its clone, by the running one.
#[tracepoint]
pub fn nobtf_new_task(ctx: TracePointContext) -> u32 {
    let record: Address = ctx.as_ptr().cast_const();
    let pid = probe_at(record.wrapping_byte_add(NEWTASK_PID.load() as usize));
    let flags = probe_at(record.wrapping_byte_add(NEWTASK_FLAGS.load() as usize));
    forked(pid, flags);
    0
}
