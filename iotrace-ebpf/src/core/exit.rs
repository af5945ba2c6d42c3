//! End of a system call: what it returned, counted.
//!
//! Reached from the BTF raw tracepoint `sys_exit` and from `syscalls/sys_exit_*`. Writes the thread's state; all counting is
//! in `account`, names in `path`.

use iotrace_common::{diag, op, phases::direction, value::Io};

use crate::{
    core::{
        account,
        config::{PREEMPTIBLE, call},
        diagnose,
        enter::{begin, indirect, maybe_empty, no_file, set_counted},
        full,
        maps::scratch,
        memory::{Address, now},
        thread::{Thread, UNREAD_PATH, call_id, in_scope, state},
    },
    features::{histogram, oplog},
    merged::{self, global::NONE_JOINED},
    platform::{
        aio, cpu, current,
        identity::{self, of_descriptor},
        lines, negative_lookups, pages, path,
        phase::sort,
        running::is_compat,
        threads, uprobe, waits,
    },
};

/// Results from here to -1 are errors.
const MAX_ERRNO: i64 = 4095;

/// Handles the end of call `nr`, which returned `result`.
#[inline(always)]
pub fn exit(registers: Address, nr: u64, result: i64, copy: u32) {
    let call = call(nr);
    if call.shape == 0 {
        return;
    }
    let Some(thread) = threads::of(registers, copy == 0) else {
        return;
    };
    thread.copy = scratch::exit(copy);
    let stale = PREEMPTIBLE.is_set() && is_stale(thread, registers, nr);
    if thread.state == state::IDLE {
        // Where a copy before this one was there, the state is idle and not stale.
        let seen = copy > 0 && !stale;
        if seen || !in_scope(thread) {
            return;
        }
        let began = match late_start(thread, registers, nr) {
            // Here and not in `late_start`: all functions in a chain of calls have 512 bytes of stack.
            state::INDIRECT => indirect(thread, current(), call, thread.copy),
            began => began,
        };
        if began == state::AIO {
            aio::begun(thread.copy);
            aio::ended(result);
        }
        if began != state::RUNNING {
            return;
        }
        diagnose::count(diag::UNTIMED);
    } else if thread.state != state::RUNNING {
        if thread.state == state::AIO {
            aio::ended(result);
        }
        thread.state = state::IDLE;
        return;
    }
    thread.ended = now();
    if thread.state == state::IDLE {
        // Its start was not seen, and neither was its time.
        thread.entered = thread.ended;
    }
    cpu::called(thread);
    thread.state = state::IDLE;
    let began = lines::began(thread);
    finish(thread, result);
    lines::ended(thread, began);
}

/// Whether the state is that of an earlier call, whose end was not seen, and neither was this one's start. Forgets it.
#[inline(always)]
fn is_stale(thread: &mut Thread, registers: Address, nr: u64) -> bool {
    if thread.state == state::IDLE || thread.call == call_id(registers, nr) {
        return false;
    }
    if thread.state == state::RUNNING {
        diagnose::count(diag::EXIT_MISSED);
        merged::abandon(thread);
    }
    thread.state = state::IDLE;
    true
}

/// A call whose start was not seen: it began before the hooks came, or the kernel skipped the program. Finds out now
/// what it is: the state that it had, or [`state::INDIRECT`].
#[inline(never)]
fn late_start(thread: *mut Thread, registers: Address, nr: u64) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return state::IGNORED;
    };
    (thread.flight, thread.joined) = (merged::ALONE, NONE_JOINED);
    let task = current();
    if is_compat(task, registers) {
        return state::IGNORED;
    }
    begin(thread, task, registers, call(nr), thread.copy)
}

/// Counts a call that ended with `result`.
#[inline(always)]
fn finish(thread: &mut Thread, result: i64) {
    if (-MAX_ERRNO..0).contains(&result) {
        thread.key.errno = -result as u32;
        if thread.shape == UNREAD_PATH {
            read_path(thread);
        }
        identity::failed(thread);
        if thread.op() == op::OPEN {
            no_file(thread);
        }
        thread.union_ns = merged::end(thread);
        oplog::operation(thread, result);
        account::failure(thread);
        negative_lookups::looked(thread);
    } else if thread.op() <= op::WRITE {
        thread.union_ns = merged::end(thread);
        data::<true>(thread, result as u64);
    } else {
        // Here and not in `iotrace_other`: all functions in a chain of calls have 512 bytes of stack.
        let unread = thread.op() == op::STAT && thread.shape == UNREAD_PATH;
        if unread && read_path(thread) == state::SKIPPED {
            return merged::abandon(thread);
        }
        iotrace_other(thread, result as u64);
    }
}

/// A read or a write. `NAME`: see [`account::entry`].
#[inline(always)]
pub fn data<const NAME: bool>(thread: &mut Thread, bytes: u64) {
    oplog::access(thread, bytes as i64);
    waits::used(thread, bytes);
    let io = account::entry::<NAME>(thread);
    if io.is_null() {
        account::lost_bytes(bytes);
        return;
    }
    account::add(io, thread);
    account::add_bytes(io, thread.op(), bytes);
    pages::returned(io, thread, bytes);
    histogram::succeeded(thread, bytes);
    if thread.is_full() {
        full::iotrace_full_access(thread, bytes);
    }
    lines::used(thread, bytes);
}

checked_once! {
    /// Everything that is neither a read nor a write. Not inlined: it would make the hot path's frame larger.
    pub fn iotrace_other(thread: &mut Thread, result: u64) {
        if thread.op() == op::OPEN {
            opened(thread, result);
            return lines::opened(thread);
        }
        thread.union_ns = merged::end(thread);
        match thread.op() {
            op::TRANSFER_READ => return transferred(thread, result),
            op::RENAME => path::renamed(thread),
            op::LINK => path::linked(),
            op::UNLINK => path::unlinked(thread),
            op::MMAP => {
                pages::iotrace_mapped(thread);
                waits::used(thread, u64::MAX);
            }
            // The file may be gone by now: it was named when the call began.
            _ => {}
        }
        metadata::<true>(thread, result as i64);
    }
}

/// Counts an operation that moves no data and returned `result`; its entry, which may be null.
#[inline(always)]
pub fn metadata<const NAME: bool>(thread: &mut Thread, result: i64) -> *mut Io {
    oplog::operation(thread, result);
    let io = account::entry::<NAME>(thread);
    if !io.is_null() {
        account::add(io, thread);
        histogram::succeeded(thread, histogram::NO_DATA);
        if thread.is_full() {
            full::iotrace_full_metadata(thread);
        }
    }
    uprobe::mark::mapped(thread);
    lines::mapped(thread);
    lines::used(thread, 0);
    io
}

/// Looks again at a path that could not be read at the call's start.
#[inline(never)]
fn read_path(thread: *mut Thread) -> u32 {
    // SAFETY: the caller's own reference.
    match unsafe { thread.as_mut() } {
        Some(thread) => {
            let copy = thread.copy;
            maybe_empty(thread, current(), copy)
        }
        None => state::RUNNING,
    }
}

/// An open: its file is that of the descriptor it returned.
#[inline(always)]
pub fn opened(thread: &mut Thread, fd: u64) {
    let file = of_descriptor(current(), fd as u32);
    if !set_counted(thread, file, direction::AS_OPENED, thread.copy) {
        diagnose::count(diag::skipped(thread.block));
        merged::abandon(thread);
        return;
    }
    thread.opened_phase = thread.key.io.phase;
    thread.union_ns = merged::end(thread);
    let io = metadata::<true>(thread, i64::from(fd as u32));
    pages::opened(io, thread);
    if thread.is_full() && !io.is_null() {
        full::iotrace_full_opened(thread);
    }
}

/// A sendfile, copy_file_range or splice: bytes on both ends that are files, the time on the source, or on the target
/// where the source is none.
#[inline(always)]
fn transferred(thread: &mut Thread, bytes: u64) {
    if thread.file != 0 {
        end(thread, bytes);
        thread.entered = thread.ended;
        thread.union_ns = 0;
    }
    if !thread.target.is_none() {
        thread.key.op = op::TRANSFER_WRITE as u32;
        thread.key.io.file = thread.target;
        thread.file = thread.target_file;
        sort(thread, thread.target_file, direction::WRITE, thread.copy);
        end(thread, bytes);
    }
}

/// One end of a transfer.
#[inline(always)]
fn end(thread: &mut Thread, bytes: u64) {
    oplog::operation(thread, bytes as i64);
    let io = account::entry::<true>(thread);
    if io.is_null() {
        account::lost_bytes(bytes);
        return;
    }
    account::add(io, thread);
    account::add_bytes(io, thread.op(), bytes);
    pages::returned(io, thread, bytes);
    histogram::succeeded(thread, bytes);
    lines::used(thread, bytes);
}
