//! Start of a system call: the gate, the scope, the file, the clock.
//!
//! Reached from the BTF raw tracepoint `sys_enter` and from `syscalls/sys_enter_*`. Writes the thread's state, and the name
//! of a file about to be closed; nothing else leaves this file.

use iotrace_common::{
    diag,
    key::FileId,
    op::{self, Call, shape, source},
    phases::direction,
};

use crate::{
    core::{
        config::{
            PREEMPTIBLE, REGS_ARG0, REGS_ARG1, REGS_ARG2, REGS_ARG3, REGS_ARG4, UPROBES, call,
            compat_traced,
        },
        diagnose,
        maps::scratch,
        memory::{Address, load, now, probe_user},
        thread::{Thread, UNREAD_PATH, call_id, in_scope, state},
    },
    merged,
    platform::{
        aio, current, devices,
        identity::{Kind, identify, of_descriptor},
        mappings, path,
        phase::{self, sort, sort_here},
        running::is_compat,
        threads, uprobe,
    },
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
    let compat = is_compat(task, registers);
    if call.shape == 0 && !compat {
        return;
    }
    let Some(thread) = threads::of(registers, true) else {
        diagnose::count(diag::NO_STATE);
        return;
    };
    if !in_scope(thread) {
        return;
    }
    if compat {
        if compat_traced && copy == 0 {
            diagnose::count(diag::COMPAT);
        }
        return;
    }
    let id = if PREEMPTIBLE.is_set() {
        call_id(registers, nr)
    } else {
        0
    };
    if thread.state != state::IDLE {
        // The copy before this one was there, or else an end was missed.
        if copy > 0 && thread.call == id {
            return;
        }
        if thread.state == state::RUNNING {
            diagnose::count(diag::EXIT_MISSED);
            merged::abandon(thread);
        }
    }
    thread.call = id;
    thread.state = begin(thread, task, registers, call, scratch::enter(copy));
    if thread.state == state::INDIRECT {
        thread.state = indirect(thread, task, call, scratch::enter(copy));
    }
    thread.entered = now();
    if thread.state == state::RUNNING {
        merged::begin(thread, task);
    } else if thread.state == state::AIO {
        aio::begun(scratch::enter(copy));
    }
}

/// Finds the call's file and keeps what its end needs; returns the thread's new state, or [`state::INDIRECT`]: then it is up
/// to [`indirect`]. `copy`: whose scratch to use.
#[inline(always)]
pub fn begin(thread: &mut Thread, task: Address, registers: Address, call: Call, copy: u32) -> u32 {
    thread.shape = call.shape;
    thread.key.op = u32::from(call.op);
    let first: u64 = if thread.is_full() || thread.is_traced() || call.op as usize > op::WRITE {
        let args = arguments(registers);
        thread.args = args;
        args[0]
    } else {
        // SAFETY: the registers come from the tracepoint or from `bpf_task_pt_regs`.
        unsafe { load(registers, &REGS_ARG0) }
    };
    if call.source == source::DESCRIPTOR {
        let known = descriptor(thread, task, first as u32, call.direction, copy);
        let named = known != state::RUNNING || thread.file == 0 || phase::is_named(thread);
        if call.op as usize == op::CLOSE && !named {
            // Its last chance to be named: the file may be gone when the call ends.
            path::meet(thread, thread.file, copy);
        }
        return known;
    }
    state::INDIRECT
}

/// The first arguments of the running call.
#[inline(always)]
pub fn arguments(registers: Address) -> [u64; 5] {
    // SAFETY: as in `begin`.
    unsafe {
        [
            load(registers, &REGS_ARG0),
            load(registers, &REGS_ARG1),
            load(registers, &REGS_ARG2),
            load(registers, &REGS_ARG3),
            load(registers, &REGS_ARG4),
        ]
    }
}

/// Files that are not the first argument's descriptor. Kept apart: these calls are rarer, and what they need of the stack is
/// not part of every other call's.
#[inline(never)]
pub fn indirect(thread: &mut Thread, task: Address, call: Call, copy: u32) -> u32 {
    let [first, second, third, fourth, fifth] = thread.args;
    no_file(thread);
    let fd = match call.source {
        source::FCNTL => {
            let command = second as u32;
            if command != F_DUPFD && command != F_DUPFD_CLOEXEC {
                return state::IGNORED;
            }
            first
        }
        source::MAPPED => {
            if fourth & MAP_ANONYMOUS != 0 {
                return state::IGNORED;
            }
            fifth
        }
        source::TARGET_SOURCE => {
            return transfer(thread, task, second as u32, first as u32, copy);
        }
        source::SOURCE_TARGET => {
            return transfer(thread, task, first as u32, third as u32, copy);
        }
        source::MAYBE_EMPTY_PATH => {
            let flags = if thread.shape == shape::STATX {
                third
            } else {
                fourth
            };
            return if flags & AT_EMPTY_PATH != 0 {
                maybe_empty(thread, task, copy)
            } else {
                state::RUNNING
            };
        }
        source::MEMORY => first,
        source::REQUESTS => return aio::in_call(thread),
        source::RETURNED => {
            merged::expect_open(thread);
            return state::RUNNING;
        }
        _ => {
            if thread.shape == shape::UNLINKAT && third & AT_REMOVEDIR != 0 {
                thread.key.op = op::RMDIR as u32;
            }
            return state::RUNNING;
        }
    };
    let file = if call.source == source::MEMORY {
        mappings::file_at(task, fd)
    } else {
        of_descriptor(task, fd as u32)
    };
    open_file(thread, file, call, copy)
}

/// Sets the thread's file to the open file at `file`; 0: there is none.
#[inline(always)]
fn open_file(thread: &mut Thread, file: u64, call: Call, copy: u32) -> u32 {
    if set_counted(thread, file, call.direction, copy) {
        if call.source == source::MEMORY {
            mappings::through_overlay(thread);
        }
        return state::RUNNING;
    }
    if call.source == source::MEMORY {
        // Of a device: it stays without a file.
        thread.file = 0;
        return state::RUNNING;
    }
    diagnose::count(diag::skipped(thread.block));
    if call.source == source::MAPPED {
        devices::mapped(thread);
    }
    state::SKIPPED
}

/// A stat whose path may be empty: then it is of the descriptor that its first argument is.
#[inline(always)]
pub fn maybe_empty(thread: &mut Thread, task: Address, copy: u32) -> u32 {
    let [first, path, ..] = thread.args;
    // glibc calls fstat with an empty path; from Linux 6.11 on a null pointer is one, too.
    let begins_with = if path == 0 { Some(0) } else { probe_user(path) };
    match begins_with {
        Some(0u8) => {
            let file = of_descriptor(task, first as u32);
            let is_counted = set_counted(thread, file, direction::AS_OPENED, copy);
            return state_on(thread, is_counted);
        }
        Some(_) => {}
        // A page that the program has not touched yet, such as a constant's: the call itself will bring it in.
        None => thread.shape = UNREAD_PATH,
    }
    state::RUNNING
}

/// The call has no file.
#[inline(always)]
pub fn no_file(thread: &mut Thread) {
    thread.key.io.file = FileId::NONE;
    thread.key.io.phase = 0;
    thread.direction = direction::READ;
    thread.file = 0;
}

/// Sets the thread's file from descriptor `fd`, and the phase of a call that uses it as `used`.
#[inline(always)]
fn descriptor(thread: &mut Thread, task: Address, fd: u32, used: u8, copy: u32) -> u32 {
    let kind = set_file(thread, of_descriptor(task, fd), used, copy);
    state_on(thread, kind != Kind::Other)
}

/// State of a call on a descriptor.
#[inline(always)]
fn state_on(thread: &Thread, is_counted: bool) -> u32 {
    if is_counted {
        return state::RUNNING;
    }
    diagnose::count(diag::skipped(thread.block));
    state::SKIPPED
}

/// As [`set_file`], for calls that are rarer than reads and writes; false if calls on it do not count ([`Kind::Other`]).
#[inline(always)]
pub fn set_counted(thread: &mut Thread, file: u64, used: u8, copy: u32) -> bool {
    // An argument has to be a number.
    let file = thread.forgotten(file);
    iotrace_set_file(thread, file, u32::from(used), copy) != 0
}

checked_once! {
    /// See [`set_counted`].
    pub fn iotrace_set_file(thread: &mut Thread, file: u64, used: u32, copy: u32) -> u64 {
        let used = used as u8;
        let kind = set_file_by(thread, file, |thread| sort_here(thread, file, used, copy));
        u64::from(kind != Kind::Other)
    }
}

/// Sets the thread's file to the open file at `file` (0: none), and the phase of a call that uses it as `used`.
#[inline(always)]
pub fn set_file(thread: &mut Thread, file: u64, used: u8, copy: u32) -> Kind {
    set_file_by(thread, file, |thread| sort(thread, file, used, copy))
}

#[inline(always)]
fn set_file_by(thread: &mut Thread, file: u64, sort: impl FnOnce(&mut Thread)) -> Kind {
    let kind = set_unsorted(thread, file);
    if kind == Kind::Traced {
        sort(thread);
    } else {
        (thread.key.io.phase, thread.direction) = (0, direction::READ);
    }
    kind
}

/// Sets the thread's file alone.
#[inline(always)]
pub fn set_unsorted(thread: &mut Thread, file: u64) -> Kind {
    let open = identify(file, thread.is_full());
    thread.key.io.file = open.id;
    thread.file = open.file;
    thread.block = open.block;
    if open.kind == Kind::Traced && UPROBES.is_set() {
        uprobe::open::uses(thread, open.id, open.file);
    }
    open.kind
}

/// Sets both ends of a transfer; the end that is not a file stays without one.
#[inline(always)]
fn transfer(thread: &mut Thread, task: Address, from: u32, to: u32, copy: u32) -> u32 {
    let target = identify(of_descriptor(task, to), false);
    thread.target = target.id;
    thread.target_file = target.file;
    let is_traced = target.kind == Kind::Traced;
    if !set_counted(thread, of_descriptor(task, from), direction::READ, copy) {
        diagnose::count(diag::skipped(thread.block));
        if !is_traced {
            return state::SKIPPED;
        }
        thread.key.io.file = thread.target;
        sort(thread, thread.target_file, direction::WRITE, copy);
        thread.key.io.file = FileId::NONE;
        thread.file = 0;
    }
    state::RUNNING
}
