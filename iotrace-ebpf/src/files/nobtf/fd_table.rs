//! What system calls do to descriptors, and to processes, beside what is counted of them.
//!
//! Writes what `file` and `process` write. What makes a descriptor is seen at its end, before the call is counted; what closes
//! one at its start, after its file was looked up: from there on nobody may use it, and user space takes nothing for it that
//! comes to its place.

use iotrace_common::nobtf::{NAMELESS as NO_TYPE, Process, TYPE_SHIFT, action, origin};

use crate::{
    core::{
        config::{REGS_ARG0, REGS_ARG1, REGS_ARG2, REGS_ARG3, action},
        memory::{Address, pid_tgid, probe, probe_user},
        thread::process_in_scope,
    },
    files::nobtf::{
        identity::{self, find, new_handle, put},
        path::AT_FDCWD,
    },
    processes::nobtf as process,
};

const O_CLOEXEC: u64 = 0o2_000_000;
const MFD_CLOEXEC: u64 = 1;
const F_DUPFD: u64 = 0;
const F_SETFD: u64 = 2;
const F_DUPFD_CLOEXEC: u64 = 1030;
const FIOCLEX: u64 = 0x5451;
const FIONCLEX: u64 = 0x5450;
const SOCKET: u64 = 0xc << TYPE_SHIFT;
const PIPE: u64 = 1 << TYPE_SHIFT;
const NAMELESS: u64 = NO_TYPE << TYPE_SHIFT;

/// The start of system call `nr`, after it has been looked at.
#[inline(always)]
pub fn begun(registers: Address, nr: u64) {
    let action = action(nr);
    if !matches!(
        action,
        action::CLOSE
            | action::CLOSE_RANGE
            | action::DUP2
            | action::DUP3
            | action::EXIT_GROUP
            | action::EXIT
            | action::EXEC
    ) {
        return;
    }
    let (tgid, _) = pid_tgid();
    if !process_in_scope(tgid) {
        return;
    }
    let Some(process) = process::of(tgid) else {
        return;
    };
    let first: u64 = probe(registers, &REGS_ARG0);
    match action {
        action::CLOSE => put(process, tgid, first as u32, 0, 0),
        action::CLOSE_RANGE => process::closes_from(process, first & 0xffff_ffff),
        action::DUP2 | action::DUP3 => {
            let second = probe::<u64>(registers, &REGS_ARG1) as u32;
            // Where the call fails, what is there is found anew.
            if first as u32 != second {
                put(process, tgid, second, 0, 0);
            }
        }
        action::EXIT_GROUP => process::ends_with(process, first),
        action::EXEC => process::executes(process),
        _ => process::thread_leaves(process),
    }
}

/// The end of system call `nr`, which returned `result`, before it is counted.
#[inline(always)]
pub fn ended(registers: Address, nr: u64, result: i64) {
    let action = action(nr);
    if action != 0 && (result >= 0 || action == action::EXEC) {
        done(registers, nr, result as u64);
    }
}

#[inline(never)]
fn done(registers: Address, nr: u64, result: u64) {
    let (tgid, _) = pid_tgid();
    if !process_in_scope(tgid) {
        return;
    }
    let Some(process) = process::of(tgid) else {
        return;
    };
    let fd = result as u32;
    let [first, second, third, fourth]: [u64; 4] = [
        probe(registers, &REGS_ARG0),
        probe(registers, &REGS_ARG1),
        probe(registers, &REGS_ARG2),
        probe(registers, &REGS_ARG3),
    ];
    let (mut base, mut path, mut flags, mut origin) = (AT_FDCWD as u64, first, 0, origin::PATH);
    match action(nr) {
        action::OPEN => flags = second,
        action::CREAT => {}
        action::OPENAT => (base, path, flags) = (first, second, third),
        action::OPENAT2 => {
            // struct open_how begins with the flags.
            (base, path, flags) = (first, second, probe_user(third).unwrap_or(0));
        }
        action::MEMFD => {
            origin = origin::MEMORY;
            if second & MFD_CLOEXEC != 0 {
                flags = O_CLOEXEC;
            }
        }
        action::CHDIR => origin = origin::DIRECTORY,
        action::FCHDIR => (base, path, origin) = (first, 0, origin::DIRECTORY),
        action::DUP | action::DUP2 => return copy(process, tgid, first, fd, 0),
        action::DUP3 => return copy(process, tgid, first, fd, third & O_CLOEXEC),
        action::FCNTL => {
            return match second & 0xffff_ffff {
                F_DUPFD => copy(process, tgid, first, fd, 0),
                F_DUPFD_CLOEXEC => copy(process, tgid, first, fd, 1),
                F_SETFD => identity::close_on_exec(process, tgid, first as u32, third & 1),
                _ => {}
            };
        }
        action::IOCTL => {
            return match second & 0xffff_ffff {
                FIOCLEX => identity::close_on_exec(process, tgid, first as u32, 1),
                FIONCLEX => identity::close_on_exec(process, tgid, first as u32, 0),
                _ => {}
            };
        }
        // Once more: threads may have made some meanwhile, and these are closed, too.
        action::CLOSE_RANGE => return process::closes_from(process, first & 0xffff_ffff),
        action::PIPE => return pair(process, tgid, first, PIPE),
        action::SOCKETPAIR => return pair(process, tgid, fourth, SOCKET),
        action::SOCKET => return put(process, tgid, fd, new_handle() | SOCKET, 1),
        action::NAMELESS => return put(process, tgid, fd, new_handle() | NAMELESS, 1),
        action::EXEC if (result as i64) < 0 => return process::stays(process),
        action::EXEC => return process::executed(process, tgid, registers),
        _ => return,
    }
    let base = if base as i32 == AT_FDCWD {
        0
    } else {
        identity::iotrace_handle(base as u32)
    };
    let handle = if origin == origin::DIRECTORY {
        0
    } else {
        let handle = new_handle();
        put(process, tgid, fd, handle, flags & O_CLOEXEC);
        handle
    };
    identity::send(process, handle, fd, base, origin, flags, path);
}

/// A descriptor that is a copy of another.
#[inline(always)]
fn copy(process: &Process, tgid: u32, of: u64, fd: u32, close_on_exec: u64) {
    // Where nothing is known of it, nothing is known of the copy.
    if of as u32 != fd {
        put(
            process,
            tgid,
            fd,
            find(process, tgid, of as u32),
            close_on_exec,
        );
    }
}

/// Two descriptors that the kernel has written into the program's memory. Whether an exec closes them is not looked at: behind
/// one they are found anew.
#[inline(always)]
fn pair(process: &Process, tgid: u32, at: u64, kind: u64) {
    if let Some([first, second]) = probe_user::<[u32; 2]>(at) {
        let handle = new_handle() | kind;
        put(process, tgid, first, handle, 1);
        put(process, tgid, second, handle, 1);
    }
}
