//! The operation trace: every operation by itself, of threads of which that is wanted ([`Thread::is_traced`]). Where it never
//! is, none of this is in the programs that the verifier keeps.
//!
//! Writes `TRACE_OPERATIONS`, `TRACE_RINGS` and `TRACE_MISSING`.
//!
//! A program writes into the ring of its CPU: there nobody else does until it ends, since it cannot be preempted, or,
//! where it can (Linux 7.2), since the kernel runs each copy of it once on a CPU, and each copy has a ring. So has the
//! program that sees the ends of io_uring's requests. The daemon reads behind it. What finds its ring full is counted by
//! process, as is what comes when the daemon has closed the rings.

use core::ptr;

use iotrace_common::{
    diag,
    limits::COPIES,
    op::{self, shape},
    phases,
    trace::{FILTER_NAMES, FILTER_PIDS, MissingByGeneration, NONE, Operation, Owner},
};

use crate::{
    core::{
        cells,
        config::{
            FILE_POS, PREEMPTIBLE, REGS_ARG5, TASK_COMM, TASK_GROUP_LEADER, TRACE_NAMES,
            TRACE_PATHS, TRACE_PHASES, TRACE_PIDS, TRACE_RECORDS, TRACE_SHORTEST, TRACE_WHO,
            TYPE_FILE,
        },
        diagnose, full,
        maps::{BPF_NOEXIST, scratch},
        memory::{Address, cpu, field, probe, probe_user},
        ring::{self, Put},
        thread::Thread,
    },
    platform::{add, current, load_of, registers_of},
};

maps! {
    TRACE_OPERATIONS;
    TRACE_RINGS;
    TRACE_MISSING;
}

/// Bits of `Thread::wanted`: the filter names the process, or it does not, and it has the path of the call's file.
const WANTED: u8 = 1;
const UNWANTED: u8 = 2;
const WHO: u8 = WANTED | UNWANTED;
const MARKED: u8 = 4;
/// Bits of [`TRACE_WHO`].
const BY_PID: u64 = 1;
const BY_NAME: u64 = 2;
/// Bit of what a file was sorted as ([`phases::State`]) that says whether the filter has its path. Of the rule, which
/// stands there, the kernel side makes no use once a path is walked.
const MARK: u32 = 1 << 4;
/// Phases alone, of what a file was sorted as.
const PHASES: u32 = 0x000f_000f;
/// The phase that the filter's table gives to the paths it has ([`phases::State`]).
const HAS_PATH: u32 = 2;
/// Vectors of a vectored call whose lengths are added up; a longer one has no length.
const VECTORS: u64 = 8;

/// Keeps a read or a write that returned `result`.
#[inline(always)]
pub fn access(thread: &mut Thread, result: i64) {
    if thread.is_traced() && is_wanted(thread) {
        let vectored = matches!(
            thread.shape,
            shape::READV | shape::WRITEV | shape::PREADV | shape::PWRITEV
        );
        let length = if vectored {
            vectors(thread.args[1], thread.args[2])
        } else {
            thread.args[2]
        };
        let offset = full::offset(thread, result as u64);
        keep(thread, offset, length, result);
    }
}

/// Keeps an operation of any kind that returned `result`, negative where it failed.
#[inline(always)]
pub fn operation(thread: &mut Thread, result: i64) {
    if thread.is_traced() {
        any(thread, result);
    }
}

/// Not inlined: it is called from many places, and not as often as the other one.
#[inline(never)]
fn any(thread: *mut Thread, result: i64) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    if !is_wanted(thread) {
        return 0;
    }
    let moved = if result > 0 { result as u64 } else { 0 };
    let [_, second, third, fourth, fifth] = thread.args;
    let (offset, length) = match thread.shape {
        shape::READ | shape::WRITE | shape::PREAD | shape::PWRITE => (place(thread), third),
        shape::READV | shape::WRITEV | shape::PREADV | shape::PWRITEV => {
            (place(thread), vectors(second, third))
        }
        shape::GETDENTS => (NONE, third),
        shape::SEEK if result >= 0 => (result as u64, NONE),
        shape::TRUNCATE_PATH | shape::FTRUNCATE | shape::MSYNC => (NONE, second),
        shape::FALLOCATE => (third, fourth),
        shape::SYNC_FILE_RANGE => (second, third),
        shape::MMAP => (mapped_from(), second),
        shape::SENDFILE if thread.op() == op::TRANSFER_READ => {
            (transferred(thread.file, third, moved), fourth)
        }
        shape::SENDFILE => (transferred(thread.file, 0, moved), fourth),
        shape::COPY_FILE_RANGE if thread.op() == op::TRANSFER_READ => {
            (transferred(thread.file, second, moved), fifth)
        }
        shape::COPY_FILE_RANGE => (transferred(thread.file, fourth, moved), fifth),
        _ => (NONE, NONE),
    };
    keep(thread, offset, length, result);
    0
}

/// Where a read or a write that failed would have begun.
#[inline(always)]
fn place(thread: &Thread) -> u64 {
    if thread.file == 0 {
        return NONE;
    }
    full::offset(thread, 0)
}

/// Where one end of a transfer began: from where a pointer of the program's says, or at the open file's position; both
/// were moved on by the bytes that were.
#[inline(always)]
fn transferred(file: u64, pointer: u64, moved: u64) -> u64 {
    if file == 0 {
        return NONE;
    }
    let end = if pointer == 0 {
        field::<u64>(file, &TYPE_FILE, &FILE_POS)
    } else {
        match probe_user::<u64>(pointer) {
            Some(end) => end,
            None => return NONE,
        }
    };
    end.wrapping_sub(moved)
}

/// The sixth argument of the running call.
#[inline(always)]
fn mapped_from() -> u64 {
    // SAFETY: the running task's registers.
    unsafe { load_of(registers_of(current()), &REGS_ARG5) }
}

/// The sum of the lengths of the vectors; [`NONE`] where there are many.
#[inline(never)]
pub fn vectors(address: u64, count: u64) -> u64 {
    if count > VECTORS {
        return NONE;
    }
    let mut sum = 0;
    for index in 0..VECTORS {
        if index >= count {
            break;
        }
        match probe_user::<[u64; 2]>(address + index * 16) {
            Some([_, length]) => sum += length,
            None => return NONE,
        }
    }
    sum
}

/// Whether the filter lets the thread's call through.
#[inline(always)]
fn is_wanted(thread: &mut Thread) -> bool {
    if TRACE_SHORTEST.is_set() && thread.ns() < TRACE_SHORTEST.load() {
        return false;
    }
    if TRACE_PHASES.is_set() && TRACE_PHASES.load() >> (thread.key.io.phase & 31) & 1 == 0 {
        return false;
    }
    if TRACE_PATHS.is_set() && (thread.key.io.file.is_none() || thread.wanted & MARKED == 0) {
        return false;
    }
    if TRACE_WHO.is_set() {
        if thread.wanted & WHO == 0 {
            who(thread);
        }
        return thread.wanted & WANTED != 0;
    }
    true
}

/// Finds out whether the filter names the thread's process: once, and again after an exec.
#[inline(never)]
fn who(thread: *mut Thread) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let by_pid = TRACE_WHO.load() & BY_PID == 0 || has_pid(thread.key.io.tgid);
    let by_name = TRACE_WHO.load() & BY_NAME == 0 || has_name();
    thread.wanted |= if by_pid && by_name { WANTED } else { UNWANTED };
    0
}

#[inline(always)]
fn has_pid(pid: u32) -> bool {
    for index in 0..FILTER_PIDS {
        // SAFETY: an element of the array; volatile because the daemon sets it before load.
        if unsafe { ptr::read_volatile(TRACE_PIDS.as_ptr().add(index)) } == pid {
            return true;
        }
    }
    false
}

#[inline(always)]
fn has_name() -> bool {
    let leader: u64 = probe(current(), &TASK_GROUP_LEADER);
    let name: [u64; 2] = probe(leader as Address, &TASK_COMM);
    for index in 0..FILTER_NAMES {
        // SAFETY: as in `has_pid`.
        let pattern = unsafe { ptr::read_volatile(TRACE_NAMES.as_ptr().add(index)) };
        if pattern.matches(name) {
            return true;
        }
    }
    false
}

/// What a file was sorted as, with the mark of the filter, whose table found `of_filter`.
#[inline(always)]
pub fn marked(sorted: u32, of_filter: u32) -> u32 {
    let is_in = phases::phase(of_filter, phases::direction::READ) == HAS_PATH;
    sorted & PHASES | if is_in { MARK } else { 0 }
}

/// Keeps with the thread whether the filter has the path of its file.
#[inline(always)]
pub fn mark(thread: &mut Thread, sorted: u32) {
    if TRACE_PATHS.is_set() {
        let mark = if sorted & MARK != 0 { MARKED } else { 0 };
        thread.wanted = thread.wanted & WHO | mark;
    }
}

/// Writes a record into the ring of this CPU. Not inlined: all functions in a chain of calls have 512 bytes of stack.
#[inline(never)]
fn keep(thread: *const Thread, offset: u64, length: u64, result: i64) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_ref() }) else {
        return 0;
    };
    let number = if PREEMPTIBLE.is_set() {
        // `scratch::exit` of a copy, or that of io_uring's requests.
        let copy = match thread.copy {
            scratch::COMPLETE => COPIES as u32,
            // At the start of a call only libaio's requests can be seen to have ended; there is no ring for that.
            copy if copy & 1 == 0 => {
                missed(thread, 0);
                return 0;
            }
            copy => copy >> 1,
        };
        cpu() * (COPIES as u32 + 1) + copy
    } else {
        cpu()
    };
    let put = ring::put(
        &TRACE_RINGS,
        &TRACE_OPERATIONS,
        number,
        TRACE_RECORDS.load(),
        || Operation {
            key: thread.key.io,
            start: thread.entered,
            end: thread.ended,
            offset,
            length,
            result,
            op: thread.key.op,
            epoch: cells::epoch() as u32,
        },
    );
    match put {
        Put::Kept => {}
        Put::Lost => missed(thread, 0),
        Put::LeftOut => missed(thread, 1),
    }
    0
}

/// Counts an operation that the trace has not: `closed` because it had reached its size, else because it was lost.
#[inline(always)]
fn missed(thread: &Thread, closed: u32) {
    count_missing(thread.key.io.tgid, thread.key.io.start, closed);
}

#[inline(never)]
fn count_missing(tgid: u32, start: u32, closed: u32) -> u32 {
    let owner = Owner { tgid, start };
    let mut found = TRACE_MISSING.get_ptr_mut(owner);
    if found.is_none() {
        // Another thread of the process may be first.
        let _ = TRACE_MISSING.insert(owner, MissingByGeneration::default(), BPF_NOEXIST);
        found = TRACE_MISSING.get_ptr_mut(owner);
    }
    let Some(missing) = found else {
        diagnose::count(diag::TRACE_UNOWNED);
        return 0;
    };
    // SAFETY: aligned words of a map value, which all threads of the process add to.
    unsafe {
        let missing = &raw mut (*missing)[(cells::epoch() & 1) as usize];
        if closed != 0 {
            add(&raw mut (*missing).left_out, 1);
        } else {
            add(&raw mut (*missing).lost, 1);
        }
    }
    0
}
