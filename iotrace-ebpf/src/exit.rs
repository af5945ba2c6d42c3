//! End of a system call: what it returned, counted.
//!
//! Reached from the BTF raw tracepoint `sys_exit` and from `syscalls/sys_exit_*`. Writes the thread's state; all counting is
//! in `account`, names in `path`.

use iotrace_common::{
    diag,
    key::{FileId, IoKey},
    op::{self, shape},
};

use crate::{
    account::{self, Outcome},
    config::{FULL, call},
    diagnose,
    enter::{begin, is_compat},
    file::{Kind, identify, of_descriptor},
    full,
    kernel::{Address, current, now},
    path,
    thread::{self, Thread, in_scope, state},
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
    let task = current();
    let Some(thread) = thread::of(task, copy == 0) else {
        return;
    };
    match thread.state {
        state::RUNNING => {
            thread.state = state::IDLE;
            finish(thread, task, result, now(), copy);
        }
        state::IDLE if copy == 0 => {
            if in_scope(thread, task) {
                unseen_start(thread, task, registers, nr, result);
            }
        }
        _ => thread.state = state::IDLE,
    }
}

/// A call whose start was not seen: it began before the hooks came, or the kernel skipped the program. Counted,
/// without its time.
#[inline(never)]
fn unseen_start(thread: *mut Thread, task: Address, registers: Address, nr: u64, result: i64) {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return;
    };
    if is_compat(task) {
        return;
    }
    let ended = now();
    thread.entered = ended;
    if begin(thread, task, registers, call(nr), 0) == state::RUNNING {
        diagnose::count(diag::UNTIMED);
        finish(thread, task, result, ended, 0);
    }
}

/// Counts a call that ended with `result` at `ended`.
#[inline(always)]
fn finish(thread: &mut Thread, task: Address, result: i64, ended: u64, copy: u32) {
    let outcome = Outcome {
        started: thread.entered,
        ended,
        op: thread.op as usize,
        copy,
        task,
    };
    let key = key(thread, thread.place);
    if (-MAX_ERRNO..0).contains(&result) {
        account::failure(&key, &outcome, -result as u32);
        return;
    }
    let result = result as u64;
    match outcome.op {
        op::READ | op::WRITE => data(thread, &key, &outcome, result),
        op::OPEN => opened(thread, task, &outcome, result),
        op::TRANSFER_READ => transferred(thread, &outcome, result),
        _ => {
            if outcome.op == op::RENAME {
                path::renamed(task, thread.shape, &thread.args, copy);
            } else if outcome.op == op::UNLINK {
                path::unlinked(task, thread.shape == shape::UNLINKAT, &thread.args, copy);
            }
            // A closed file may be gone by now: it was named when the call began.
            let file = if outcome.op == op::CLOSE {
                0
            } else {
                thread.file
            };
            if let Some(io) = account::entry(&key, file, &outcome) {
                account::add(io, &outcome);
                if FULL.is_set() {
                    full::metadata(io, &key, &outcome);
                }
            }
        }
    }
}

#[inline(always)]
fn key(thread: &Thread, file: FileId) -> IoKey {
    IoKey {
        file,
        tgid: thread.tgid,
        tid: thread.tid,
        start: thread.start,
        phase: 0,
    }
}

/// A read or a write.
#[inline(always)]
fn data(thread: &Thread, key: &IoKey, outcome: &Outcome, bytes: u64) {
    let Some(io) = account::entry(key, thread.file, outcome) else {
        account::lost_bytes(bytes);
        return;
    };
    account::add(io, outcome);
    account::add_bytes(io, outcome.op, bytes);
    if FULL.is_set() {
        full::access(io, key, outcome, thread, bytes);
    }
}

/// An open: its file is that of the descriptor it returned.
#[inline(always)]
fn opened(thread: &mut Thread, task: Address, outcome: &Outcome, fd: u64) {
    let open = identify(of_descriptor(task, fd as u32));
    if open.kind == Kind::Other {
        diagnose::count(diag::SKIPPED);
        return;
    }
    let key = key(thread, open.id);
    let Some(io) = account::entry(&key, open.file, outcome) else {
        return;
    };
    account::add(io, outcome);
    if FULL.is_set() {
        full::metadata(io, &key, outcome);
        full::opened(io, &key, thread, open.file);
    }
}

/// A sendfile, copy_file_range or splice: bytes on both ends that are files, the time on the source, or on the target
/// where the source is none.
#[inline(always)]
fn transferred(thread: &Thread, outcome: &Outcome, bytes: u64) {
    let mut started = outcome.started;
    if thread.file != 0 {
        end(&key(thread, thread.place), thread.file, outcome, bytes);
        started = outcome.ended;
    }
    if !thread.target.is_none() {
        let outcome = Outcome {
            op: op::TRANSFER_WRITE,
            started,
            ..*outcome
        };
        end(
            &key(thread, thread.target),
            thread.target_file,
            &outcome,
            bytes,
        );
    }
}

/// One end of a transfer.
#[inline(always)]
fn end(key: &IoKey, file: u64, outcome: &Outcome, bytes: u64) {
    let Some(io) = account::entry(key, file, outcome) else {
        account::lost_bytes(bytes);
        return;
    };
    account::add(io, outcome);
    account::add_bytes(io, outcome.op, bytes);
}
