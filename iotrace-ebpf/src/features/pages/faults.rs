//! The time of page faults on mapped files that waited for the storage: from their start to their end.
//!
//! The start is that of `pages::fault`, or, on a kernel that has no tracepoint there, of what is fetched first. The end is
//! the software event `PERF_COUNT_SW_PAGE_FAULTS_MAJ`, which the kernel raises on the thread that has completed a fault that
//! it counts as a major one: one that started a read, or was tried again after it had waited. It raises none for what it
//! faults in by itself. Writes the thread's state, and through `account` the counters.

use aya_ebpf::{macros::perf_event, programs::PerfEventContext};
use iotrace_common::{diag, key::FileId};

use crate::{
    core::{
        config::TASK_MAJOR_FAULTS,
        diagnose,
        maps::scratch,
        memory::{Address, load, now},
        thread::Thread,
    },
    features::pages::{Subject, counters, running, serial},
    platform::current,
};

/// A page fault that has begun.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timed {
    /// `CLOCK_MONOTONIC` nanoseconds; 0: none, or it has ended.
    pub began: u64,
    /// [`serial`] of the fault.
    serial: u64,
    /// Major faults that the thread had completed.
    majors: u64,
    /// Whose it is.
    id: FileId,
    phase: u32,
    reserved: u32,
}

/// Major page faults that the thread has completed.
#[inline(always)]
fn majors(task: Address) -> u64 {
    // SAFETY: the running task; the field is of 64 bits.
    unsafe { load(task, &TASK_MAJOR_FAULTS) }
}

/// A page fault on a file began at `now`.
#[inline(always)]
pub fn began(thread: &mut Thread, task: Address, subject: &Subject, now: u64) {
    let majors = majors(task);
    let before = &thread.faulted.timed;
    if before.began != 0 && before.majors != majors {
        diagnose::count(diag::FAULTS_UNTIMED);
    }
    thread.faulted.timed = Timed {
        began: now,
        serial: serial(task),
        majors,
        id: subject.id,
        phase: subject.phase,
        reserved: 0,
    };
}

/// A folio came into the page cache in a page fault, whose start did not show.
#[inline(always)]
pub fn fetched(thread: &mut Thread, task: Address, subject: &Subject) {
    let timed = &thread.faulted.timed;
    if !subject.id.is_none() && (timed.began == 0 || timed.serial != serial(task)) {
        began(thread, task, subject, now());
    }
}

/// The running thread has completed a major page fault.
#[inline(always)]
pub fn ended() {
    let task = current();
    let Some(thread) = running(task) else { return };
    let Timed {
        began,
        serial: started,
        id,
        phase,
        ..
    } = thread.faulted.timed;
    // It may have been on memory that is no file.
    if began == 0 || started + 1 != serial(task) {
        return;
    }
    thread.faulted.timed.began = 0;
    let ns = now() - began;
    let subject = Subject {
        id,
        phase,
        in_call: false,
    };
    let io = counters(thread, &subject, scratch::FAULTED);
    if io.is_null() {
        return diagnose::count(diag::FAULTS_UNTIMED);
    }
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        (*io).major_fault_ns += ns;
        (*io).timed_major_faults += 1;
    }
}

/// The software event `PERF_COUNT_SW_PAGE_FAULTS_MAJ`: the running thread has completed a major page fault.
#[perf_event]
pub fn fault_ended(_ctx: PerfEventContext) -> u32 {
    ended();
    0
}
