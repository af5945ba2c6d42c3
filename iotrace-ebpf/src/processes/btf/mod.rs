//! Processes: who comes, what they run, who goes. Follows the children of targets.
//!
//! Hooks: BTF raw tracepoints sched_process_fork (parent, child), sched_process_exec (task, old pid, binprm),
//! sched_process_exit (task). Writes `TARGETS`; sends `FORK`, `EXEC`, `EXE`, `ENVIRONMENT` and `EXIT` events.

pub mod owner;
pub mod running;

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    EbpfContext as _,
    btf_maps::PerCpuArray,
    helpers::generated,
    macros::{btf_map, btf_tracepoint},
    programs::BtfTracePointContext,
};
use aya_log_ebpf::debug;
use iotrace_common::{
    diag,
    event::{self, Environment, Exec, Exit, Fork, Header},
    key::start_key,
    limits::{ARGS_BYTES, ENVIRONMENT_PIECE_BYTES, ENVIRONMENT_PIECES},
};

use crate::{
    core::{
        config::{
            CGROUP, ENVIRONMENT, MM_ARG_END, MM_ARG_START, MM_ENV_END, MM_ENV_START, MM_EXE_FILE,
            SIGNAL_EXIT_CODE, SIGNAL_LIVE, TASK_COMM, TASK_EXIT_CODE, TASK_MM, TASK_PID,
            TASK_REAL_PARENT, TASK_SIGNAL, TASK_START, TASK_TGID,
        },
        diagnose,
        events::send,
        maps::TARGETS,
        memory::{Address, now, probe},
        thread::{self, is_followed, kept_of, process_in_scope, recordings_of_child, verdict_of},
    },
    features::cgroup,
    merged,
    platform::{aio, cpu, lines, pages, path, registers_of, threads, waits},
};
use running::start_of;

/// An exec with its command line; larger than the stack.
#[repr(C)]
pub struct ExecScratch {
    exec: Exec,
    args: [u8; ARGS_BYTES],
}

/// A piece of an environment; larger than the stack.
#[repr(C)]
pub struct EnvironmentScratch {
    piece: Environment,
    variables: [u8; ENVIRONMENT_PIECE_BYTES],
}

#[btf_map]
static ENVIRONMENT_SCRATCH: PerCpuArray<EnvironmentScratch, 1> = PerCpuArray::new();

#[btf_map]
static EXEC_SCRATCH: PerCpuArray<ExecScratch, 1> = PerCpuArray::new();

/// A new task: a process if it leads its own thread group.
#[inline(always)]
pub fn forked(parent: Address, child: Address) {
    let parent_tgid: u32 = probe(parent, &TASK_TGID);
    let child_tgid: u32 = probe(child, &TASK_TGID);
    let thread = child_tgid != probe::<u32>(child, &TASK_PID);
    if !process_in_scope(parent_tgid) || !owner::may_trace(parent) {
        return;
    }
    if thread {
        return waits::born(parent, child, verdict_of(parent_tgid));
    }
    if !is_followed(parent_tgid) {
        return;
    }
    let recordings = recordings_of_child(parent_tgid);
    let kept = kept_of(recordings);
    waits::born(parent, child, kept);
    let is_target = !thread::all() || recordings != 0;
    if is_target && TARGETS.insert(child_tgid, recordings, 0).is_err() {
        diagnose::count(diag::TARGETS_FULL);
        return;
    }
    lines::forked(parent_tgid, child_tgid, kept);
    let fork = Fork {
        header: header(event::FORK, parent, parent_tgid),
        rights: owner::rights(child),
        child: child_tgid,
        pad: 0,
        child_start: probe(child, &TASK_START),
        comm: probe(child, &TASK_COMM),
    };
    send(ptr::from_ref(&fork).cast(), size_of::<Fork>() as u64);
}

/// A new program.
#[inline(always)]
pub fn executed(task: Address) {
    let tgid: u32 = probe(task, &TASK_TGID);
    // The thread may have become its process's first and taken its id.
    if let Some(thread) = threads::of(registers_of(task), false) {
        thread.verdict = 0;
    }
    lines::forget(tgid);
    if !process_in_scope(tgid) {
        return;
    }
    if !owner::may_trace(task) {
        // From here on it is not its user's alone.
        if TARGETS.remove(tgid).is_ok() {
            diagnose::count(diag::PRIVILEGED);
        }
        return;
    }
    let Some(scratch) = EXEC_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own scratch.
    let scratch = unsafe { &mut *scratch };
    let mm: u64 = probe(task, &TASK_MM);
    let mm = mm as Address;
    let parent: u64 = probe(task, &TASK_REAL_PARENT);
    scratch.exec = Exec {
        header: header(event::EXEC, task, tgid),
        rights: owner::rights(task),
        parent: probe(parent as Address, &TASK_TGID),
        pad: 0,
        comm: probe(task, &TASK_COMM),
    };
    let length = arguments(scratch, mm);
    scratch.exec.header.payload = length as u32;
    send(
        ptr::from_ref(scratch).cast(),
        size_of::<Exec>() as u64 + length,
    );
    if CGROUP.is_set() {
        cgroup::told(task, tgid);
    }
    if ENVIRONMENT.is_set() {
        send_environment(task, tgid, mm);
    }
    let executable: u64 = probe(mm, &MM_EXE_FILE);
    if executable != 0 {
        path::name_executable(executable);
        pages::executed(executable);
    }
}

/// Sends the environment that a program starts with: a process that lives for milliseconds cannot be asked for it.
#[inline(always)]
fn send_environment(task: Address, tgid: u32, mm: Address) {
    let Some(scratch) = ENVIRONMENT_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own scratch.
    let scratch = unsafe { &mut *scratch };
    let start: u64 = probe(mm, &MM_ENV_START);
    let end: u64 = probe(mm, &MM_ENV_END);
    let total = end.saturating_sub(start);
    scratch.piece.header = header(event::ENVIRONMENT, task, tgid);
    scratch.piece.total = total as u32;
    for piece in 0..ENVIRONMENT_PIECES {
        let offset = (piece * ENVIRONMENT_PIECE_BYTES) as u64;
        // An empty one is sent, too: it takes the place of the one before the exec.
        if piece > 0 && offset >= total {
            return;
        }
        let mut length = total - offset;
        if length > ENVIRONMENT_PIECE_BYTES as u64 {
            length = ENVIRONMENT_PIECE_BYTES as u64;
        }
        // SAFETY: the length is at most the buffer's.
        let failed = unsafe {
            generated::bpf_probe_read_user(
                scratch.variables.as_mut_ptr().cast(),
                length as u32,
                (start + offset) as *const c_void,
            )
        };
        if failed != 0 {
            diagnose::count(diag::UNREADABLE);
            return;
        }
        scratch.piece.offset = offset as u32;
        scratch.piece.header.payload = length as u32;
        send(
            ptr::from_ref(scratch).cast(),
            size_of::<Environment>() as u64 + length,
        );
    }
}

/// Copies the command line from the new program's stack; its length.
#[inline(always)]
fn arguments(scratch: &mut ExecScratch, mm: Address) -> u64 {
    let start: u64 = probe(mm, &MM_ARG_START);
    let end: u64 = probe(mm, &MM_ARG_END);
    let mut length = end.saturating_sub(start);
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

/// The end of a task: of its process, if no thread is left.
#[inline(always)]
pub fn exited(task: Address) {
    let registers = registers_of(task);
    cpu::thread_ended(task);
    if let Some(thread) = threads::of(registers, false)
        && thread.state == thread::state::RUNNING
    {
        // Its call ends with it, which no call does that returns.
        diagnose::count(diag::EXIT_MISSED);
        merged::abandon(thread);
    }
    threads::release(registers);
    let tgid: u32 = probe(task, &TASK_TGID);
    let signal = probe::<u64>(task, &TASK_SIGNAL) as Address;
    if probe::<u32>(signal, &SIGNAL_LIVE) != 0 || !process_in_scope(tgid) {
        return;
    }
    // Set by exit_group(2) and by fatal signals; the last thread of others has the code itself.
    let mut status: u32 = probe(signal, &SIGNAL_EXIT_CODE);
    if status == 0 {
        status = probe(task, &TASK_EXIT_CODE);
    }
    let exit = Exit {
        header: header(event::EXIT, task, tgid),
        status,
        pad: 0,
    };
    merged::release(tgid, start_key(exit.header.start));
    aio::exited(tgid, start_key(exit.header.start));
    lines::forget(tgid);
    if owner::is_owned(task) {
        send(ptr::from_ref(&exit).cast(), size_of::<Exit>() as u64);
    }
    // Not there where the process is in scope for another reason.
    let _ = TARGETS.remove(tgid);
}

#[inline(always)]
pub fn header(kind: u32, task: Address, tgid: u32) -> Header {
    Header {
        kind,
        payload: 0,
        time: now(),
        tgid,
        tid: probe(task, &TASK_PID),
        start: start_of(task),
    }
}

/// TRACE_EVENT sched_process_fork: (struct task_struct *parent, struct task_struct *child)
#[btf_tracepoint(function = "sched_process_fork")]
pub fn process_fork(ctx: BtfTracePointContext) -> i32 {
    forked(ctx.arg::<*const c_void>(0), ctx.arg::<*const c_void>(1));
    0
}

/// TRACE_EVENT sched_process_exec: (struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
#[btf_tracepoint(function = "sched_process_exec")]
pub fn process_exec(ctx: BtfTracePointContext) -> i32 {
    debug!(&ctx, "exec by process {}", ctx.tgid());
    executed(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT sched_process_exit: (struct task_struct *p)
#[btf_tracepoint(function = "sched_process_exit")]
pub fn process_exit(ctx: BtfTracePointContext) -> i32 {
    exited(ctx.arg::<*const c_void>(0));
    0
}
