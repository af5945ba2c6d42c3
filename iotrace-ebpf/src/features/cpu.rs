//! CPU time of threads, and how much of their time they were in calls: what tells whether a job computed while it did I/O.
//!
//! Hook: the iterator over tasks (`bpf_iter__task`), which the daemon runs at each flush; sends `THREAD_END` events, and
//! keeps a sum with the thread. Only of processes whose recording asks for it.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated;
use iotrace_common::{
    cpu::{ThreadTime, flag},
    event::{self, ThreadEnd},
    key::start_key,
    scope::kept,
};

use crate::{
    core::{
        config::{COUNT_CPU, TASK_FLAGS, TASK_ON_CPU, TASK_PID, TASK_RUNTIME, TASK_TGID},
        events,
        memory::{Address, now, probe},
        thread::{Thread, state, verdict_of},
    },
    platform::{owner, running::start_of, threads},
    processes::btf::header,
};

/// `PF_EXITING`: its end is told by an event.
const EXITING: u32 = 4;
/// `PF_IO_WORKER`: a thread of the kernel's that does a process's requests of io_uring.
const IO_WORKER: u32 = 0x10;

/// `struct bpf_iter__task`.
#[repr(C)]
pub struct Visit {
    meta: *const Meta,
    task: Address,
}

/// `struct bpf_iter_meta`, its beginning.
#[repr(C)]
pub struct Meta {
    seq: *mut c_void,
}

/// The thread's call has ended. Before it is idle, so that whoever looks finds it in the one or the other.
#[inline(always)]
pub fn called(thread: &mut Thread) {
    if COUNT_CPU.is_set() && thread.verdict & kept::CPU != 0 {
        thread.called += thread.ns();
    }
}

/// One task of the iterator.
#[inline(always)]
pub fn visit(ctx: *const Visit) -> i32 {
    // SAFETY: the iterator's context, whose fields the verifier knows.
    let (seq, task) = unsafe { ((*(*ctx).meta).seq, (*ctx).task) };
    if task.is_null() {
        return 0;
    }
    let tgid: u32 = probe(task, &TASK_TGID);
    if verdict_of(tgid) & kept::CPU == 0 || !owner::is_owned(task) {
        return 0;
    }
    if probe::<u32>(task, &TASK_FLAGS) & (EXITING | IO_WORKER) != 0 {
        return 0;
    }
    let mut time = ThreadTime {
        tgid,
        tid: probe(task, &TASK_PID),
        start: start_key(start_of(task)),
        flags: u32::from(probe::<u32>(task, &TASK_ON_CPU) != 0) * flag::RUNNING,
        now: now(),
        runtime: probe(task, &TASK_RUNTIME),
        called: 0,
        entered: 0,
    };
    calls(threads::of_other(task), &mut time);
    // SAFETY: a record on the stack, for the sequence that the iterator writes to.
    unsafe {
        generated::bpf_seq_write(
            seq.cast(),
            (&raw mut time).cast(),
            size_of::<ThreadTime>() as u32,
        );
    }
    0
}

/// Takes the time in calls from a thread's state, which it may be changing.
#[inline(always)]
fn calls(thread: *const Thread, time: &mut ThreadTime) {
    if thread.is_null() {
        return;
    }
    // SAFETY: a map value; each of these is an aligned word.
    unsafe {
        let before = ptr::read_volatile(&raw const (*thread).called);
        let running = ptr::read_volatile(&raw const (*thread).state) == state::RUNNING;
        let entered = ptr::read_volatile(&raw const (*thread).entered);
        time.called = ptr::read_volatile(&raw const (*thread).called);
        // Else a call has ended meanwhile: it is among those.
        if running && time.called == before {
            time.entered = entered;
        }
        if ptr::read_volatile(&raw const (*thread).asynchronous) != 0 {
            time.flags |= flag::ASYNCHRONOUS;
        }
    }
}

/// The running thread ends.
#[inline(always)]
pub fn thread_ended(task: Address) {
    if COUNT_CPU.is_set() {
        tell_end(task);
    }
}

#[inline(always)]
fn tell_end(task: Address) {
    let tgid: u32 = probe(task, &TASK_TGID);
    if verdict_of(tgid) & kept::CPU == 0 || !owner::is_owned(task) {
        return;
    }
    if probe::<u32>(task, &TASK_FLAGS) & IO_WORKER != 0 {
        return;
    }
    let mut end = ThreadEnd {
        header: header(event::THREAD_END, task, tgid),
        runtime: probe(task, &TASK_RUNTIME),
        called: 0,
    };
    let thread = threads::of_other(task);
    if !thread.is_null() {
        // SAFETY: the running thread's own state.
        unsafe {
            end.called = (*thread).called;
            if (*thread).state == state::RUNNING {
                end.called += end.header.time - (*thread).entered;
            }
        }
    }
    events::send(ptr::from_ref(&end).cast(), size_of::<ThreadEnd>() as u64);
}

/// Iterator `task`: every thread of the system, one after another.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub fn thread_times(ctx: *const Visit) -> i32 {
    visit(ctx)
}
