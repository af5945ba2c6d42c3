//! Start of a system call: the gate, the scope, the file, the clock.
//!
//! Reached from the BTF raw tracepoint `sys_enter` and from `syscalls/sys_enter_*`. Writes the thread's state, and the name
//! of a file about to be closed; nothing else leaves this file.

use iotrace_common::{
    diag,
    key::FileId,
    op::{self, Call, shape, source},
};

use crate::{
    config::{
        FULL, REGS_ARG0, REGS_ARG1, REGS_ARG2, REGS_ARG3, REGS_ARG4, TASK_COMPAT_MASK, TASK_STATUS,
        call, compat_traced,
    },
    diagnose,
    file::{Kind, identify, of_descriptor},
    kernel::{Address, current, load, now, probe_user},
    path,
    thread::{self, Thread, UNREAD_PATH, in_scope, state},
};

const AT_EMPTY_PATH: u64 = 0x1000;
const AT_REMOVEDIR: u64 = 0x200;
const F_DUPFD: u32 = 0;
const F_DUPFD_CLOEXEC: u32 = 1030;
const MAP_ANONYMOUS: u64 = 0x20;

/// Handles the start of call `nr`. `copy` is the copy of the program that runs: a later one acts only where the
/// earlier ones were skipped by the kernel's recursion guard.
#[inline(always)]
pub fn enter(registers: Address, nr: u64, copy: u32) {
    let call = call(nr);
    let compat_traced = compat_traced(nr);
    if call.shape == 0 && !compat_traced {
        return;
    }
    let task = current();
    let compat = is_compat(task);
    if call.shape == 0 && !compat {
        return;
    }
    let Some(thread) = thread::of(task, true) else {
        diagnose::count(diag::NO_STATE);
        return;
    };
    if !in_scope(thread, task) {
        return;
    }
    if compat {
        if compat_traced && copy == 0 {
            diagnose::count(diag::COMPAT);
        }
        return;
    }
    if thread.state != state::IDLE {
        if copy > 0 {
            return;
        }
        if thread.state == state::RUNNING {
            diagnose::count(diag::EXIT_MISSED);
        }
    }
    thread.state = begin(thread, task, registers, call, copy);
    thread.entered = now();
}

/// Whether the running call came by the 32-bit interface, whose numbers and arguments are others.
#[inline(always)]
pub fn is_compat(task: Address) -> bool {
    let mask = TASK_COMPAT_MASK.load();
    // SAFETY: the running task; the field is 32 bits of status or flags.
    mask != 0 && u64::from(unsafe { load::<u32>(task, &TASK_STATUS) }) & mask != 0
}

/// Finds the call's file and keeps what its end needs; returns the thread's new state.
#[inline(always)]
pub fn begin(thread: &mut Thread, task: Address, registers: Address, call: Call, copy: u32) -> u32 {
    thread.shape = call.shape;
    thread.key.op = u32::from(call.op);
    // SAFETY: the registers come from the tracepoint or from `bpf_task_pt_regs`.
    let first: u64 = unsafe { load(registers, &REGS_ARG0) };
    if FULL.is_set() || call.op as usize > op::WRITE {
        // SAFETY: as above.
        thread.args = unsafe {
            [
                first,
                load(registers, &REGS_ARG1),
                load(registers, &REGS_ARG2),
                load(registers, &REGS_ARG3),
                load(registers, &REGS_ARG4),
            ]
        };
    }
    if call.source == source::DESCRIPTOR {
        let known = descriptor(thread, task, first as u32);
        if call.op as usize == op::CLOSE && known == state::RUNNING && thread.file != 0 {
            // Its last chance to be named: the file may be gone when the call ends.
            path::name_file(thread.file, &thread.key.io.file, copy);
        }
        return known;
    }
    indirect(thread, task, call.source)
}

/// Files that are not the first argument's descriptor. Kept apart: these calls are rarer.
#[inline(always)]
fn indirect(thread: &mut Thread, task: Address, from: u8) -> u32 {
    let [first, second, third, fourth, fifth] = thread.args;
    thread.key.io.file = FileId::NONE;
    thread.file = 0;
    match from {
        source::FCNTL => {
            let command = second as u32;
            if command != F_DUPFD && command != F_DUPFD_CLOEXEC {
                return state::IGNORED;
            }
            descriptor(thread, task, first as u32)
        }
        source::MAPPED => {
            if fourth & MAP_ANONYMOUS != 0 {
                return state::IGNORED;
            }
            descriptor(thread, task, fifth as u32)
        }
        source::TARGET_SOURCE => transfer(thread, task, second as u32, first as u32),
        source::SOURCE_TARGET => transfer(thread, task, first as u32, third as u32),
        source::MAYBE_EMPTY_PATH => {
            let flags = if thread.shape == shape::STATX {
                third
            } else {
                fourth
            };
            if flags & AT_EMPTY_PATH != 0 {
                maybe_empty(thread, task)
            } else {
                state::RUNNING
            }
        }
        _ => {
            if thread.shape == shape::UNLINKAT && third & AT_REMOVEDIR != 0 {
                thread.key.op = op::RMDIR as u32;
            }
            state::RUNNING
        }
    }
}

/// A stat whose path may be empty: then it is of the descriptor that its first argument is.
#[inline(always)]
pub fn maybe_empty(thread: &mut Thread, task: Address) -> u32 {
    let [first, path, ..] = thread.args;
    // glibc calls fstat with an empty path; from Linux 6.11 on a null pointer is one, too.
    let begins_with = if path == 0 { Some(0) } else { probe_user(path) };
    match begins_with {
        Some(0u8) => return descriptor(thread, task, first as u32),
        Some(_) => {}
        // A page that the program has not touched yet, such as a constant's: the call itself will bring it in.
        None => thread.shape = UNREAD_PATH,
    }
    state::RUNNING
}

/// Sets the thread's file from descriptor `fd`.
#[inline(always)]
fn descriptor(thread: &mut Thread, task: Address, fd: u32) -> u32 {
    if set_file(thread, of_descriptor(task, fd)) == Kind::Other {
        diagnose::count(diag::SKIPPED);
        return state::SKIPPED;
    }
    state::RUNNING
}

/// Sets the thread's file to the open file at `file` (0: none).
#[inline(always)]
pub fn set_file(thread: &mut Thread, file: u64) -> Kind {
    let open = identify(file);
    thread.key.io.file = open.id;
    thread.file = open.file;
    thread.block = open.block;
    open.kind
}

/// Sets both ends of a transfer; the end that is not a file stays without one.
#[inline(always)]
fn transfer(thread: &mut Thread, task: Address, from: u32, to: u32) -> u32 {
    let target = identify(of_descriptor(task, to));
    let known = descriptor(thread, task, from);
    thread.target = target.id;
    thread.target_file = target.file;
    if known == state::SKIPPED {
        thread.file = 0;
        if target.kind != Kind::Traced {
            return state::SKIPPED;
        }
    }
    state::RUNNING
}
