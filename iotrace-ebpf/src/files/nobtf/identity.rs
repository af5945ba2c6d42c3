//! Which file a descriptor is: a handle that it has from its making, or from its first use, until it is closed. Which file
//! that is, user space finds out.
//!
//! Writes `DESCRIPTORS`; sends `OPENED` events. A forked process has the descriptors that its parent had then, so what is
//! not found is looked for with the parent, once. What is forgotten or cannot be told gets another handle, which user space
//! finds to be the same file: nothing here need be complete, but what is there must be true.

use core::{ffi::c_void, ptr};

use aya_ebpf::{btf_maps::PerCpuArray, helpers::generated, macros::btf_map};
use iotrace_common::{
    diag,
    event::{self, Header},
    key::FileId,
    nobtf::{
        DEVICE, Descriptor, FRESH, HANDLE, Key, NAMELESS, Opened, PATH_BYTES, Process, TYPE_SHIFT,
        origin,
    },
};

use crate::{
    core::{
        config::{REGS_ARG0, REGS_ARG1, REGS_ARG2, REGS_ARG4},
        diagnose,
        maps::EVENTS,
        memory::{Address, cpu, now, pid_tgid, probe},
        thread::Thread,
    },
    processes::nobtf as process,
};

maps! {
    DESCRIPTORS;
}

/// An event with its path; larger than the stack.
#[repr(C)]
pub struct Scratch {
    opened: Opened,
    path: [u8; PATH_BYTES],
}

/// One for the program at the start of calls, one for that at their end.
#[btf_map]
static OPENED: PerCpuArray<Scratch, 2> = PerCpuArray::new();

/// What a descriptor turned out to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file or a directory, or not known yet.
    Traced,
    /// Anything else that is open.
    Other,
    /// Nothing is open there.
    Closed,
}

const REGULAR: u64 = 8;
const DIRECTORY: u64 = 4;
const EBADF: u32 = 9;
/// `CLOCK_MONOTONIC` of a handle: 39 hours, then it begins anew.
const TIME: u64 = (1 << 47) - 1;
const CPU_BITS: u32 = 12;

/// An open file: its handle in place of its identity.
#[derive(Clone, Copy)]
pub struct Open {
    pub kind: Kind,
    pub id: FileId,
    pub file: u64,
    /// Of what is not traced, its type; else whether the handle was made for this call.
    pub block: u64,
}

/// Identity of what [`of_descriptor`] found. Block sizes are not known.
#[inline(always)]
pub fn identify(file: u64, _with_block: bool) -> Open {
    let kind = file >> TYPE_SHIFT;
    let (kind, id, block) = match kind {
        _ if file == 0 => (Kind::Closed, FileId::NONE, 0),
        0 | REGULAR | DIRECTORY => (Kind::Traced, id_of(file), file & FRESH),
        NAMELESS => (Kind::Other, FileId::NONE, 0),
        _ => (Kind::Other, FileId::NONE, kind << 12),
    };
    Open {
        kind,
        id,
        file,
        block,
    }
}

#[inline(always)]
fn id_of(file: u64) -> FileId {
    FileId {
        device: DEVICE,
        generation: 0,
        inode: file & HANDLE,
    }
}

/// The handle of descriptor `fd` of the running process, with its type; made if it has none. 0: there is no such descriptor.
#[inline(always)]
pub fn of_descriptor(_task: Address, fd: u32) -> u64 {
    if (fd as i32) < 0 {
        return 0;
    }
    iotrace_handle(fd)
}

/// Global, with a number for an argument: so the verifier looks at it once and not at each of its calls.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_handle(fd: u32) -> u64 {
    let (tgid, _) = pid_tgid();
    let Some(process) = process::of(tgid) else {
        return 0;
    };
    let known = find(process, tgid, fd);
    if known != 0 {
        return known;
    }
    let handle = new_handle();
    put(process, tgid, fd, handle, 0);
    send(process, handle, fd, 0, origin::FOUND, 0, 0);
    handle | FRESH
}

/// The handle of a descriptor, if it has one.
#[inline(always)]
pub fn find(process: &Process, tgid: u32, fd: u32) -> u64 {
    let key = Key {
        tgid,
        fd,
        start: process.start,
    };
    // SAFETY: the value is not kept.
    if let Some(known) = unsafe { DESCRIPTORS.get(key) } {
        return if process.now.closes(known, fd) {
            0
        } else {
            known.handle
        };
    }
    let inherited = process.parents_key(fd);
    // SAFETY: as above.
    let Some(known) = (unsafe { DESCRIPTORS.get(inherited) }) else {
        return 0;
    };
    if known.since >= process.forked || process.before.closes(known, fd) {
        return 0;
    }
    let own = Descriptor {
        since: process.forked,
        ..*known
    };
    if own.handle == 0 || process.now.closes(&own, fd) {
        return 0;
    }
    // An LRU map takes every insert.
    let _ = DESCRIPTORS.insert(key, own, 0);
    own.handle
}

/// A handle that none has had.
#[inline(always)]
pub fn new_handle() -> u64 {
    (now() & TIME) << CPU_BITS | u64::from(cpu()) & ((1 << CPU_BITS) - 1)
}

/// Lets descriptor `fd` be `handle`; 0: it is closed, and another process's is not to be found in its place.
#[inline(always)]
pub fn put(process: &Process, tgid: u32, fd: u32, handle: u64, close_on_exec: u64) {
    let key = Key {
        tgid,
        fd,
        start: process.start,
    };
    let descriptor = Descriptor {
        handle: handle & !FRESH,
        since: now(),
        close_on_exec,
    };
    let _ = DESCRIPTORS.insert(key, descriptor, 0);
}

/// Takes down whether an exec closes a descriptor, if that is followed.
#[inline(always)]
pub fn close_on_exec(process: &Process, tgid: u32, fd: u32, closes: u64) {
    let handle = find(process, tgid, fd);
    if handle != 0 {
        put(process, tgid, fd, handle, closes);
    }
}

/// The thread's call failed: where its descriptor was first seen by it and is none, it has no file.
#[inline(always)]
pub fn failed(thread: &mut Thread) {
    if thread.key.errno == EBADF && thread.block == FRESH {
        let handle = thread.key.io.file.inode;
        thread.key.io.file = FileId::NONE;
        forget(handle, thread.owner as Address);
    }
}

/// Forgets the handle of the descriptor that one of a call's arguments is.
#[inline(never)]
fn forget(handle: u64, registers: Address) -> u32 {
    let (tgid, _) = pid_tgid();
    let Some(process) = process::of(tgid) else {
        return 0;
    };
    for argument in [&REGS_ARG0, &REGS_ARG1, &REGS_ARG2, &REGS_ARG4] {
        let fd = probe::<u64>(registers, argument) as u32;
        if find(process, tgid, fd) == handle {
            put(process, tgid, fd, 0, 0);
        }
    }
    0
}

/// Sends what has become a handle, with the path at `path` in the program's memory; 0: without. `at_end`: 1 for the program
/// at the end of calls.
#[inline(always)]
pub fn send(
    process: &Process,
    handle: u64,
    fd: u32,
    base: u64,
    origin: u32,
    flags: u64,
    path: u64,
) {
    let at_end = u32::from(origin != origin::FOUND);
    let Some(scratch) = OPENED.get_ptr_mut(at_end) else {
        return;
    };
    // SAFETY: this CPU's and this program's own scratch.
    let scratch = unsafe { &mut *scratch };
    let (tgid, tid) = pid_tgid();
    scratch.opened = Opened {
        header: Header {
            kind: event::OPENED,
            payload: 0,
            time: now(),
            tgid,
            tid,
            start: process.start,
        },
        handle: handle & HANDLE,
        base: base & HANDLE,
        fd,
        origin,
        flags,
    };
    let mut length = 0;
    if path != 0 {
        // SAFETY: the buffer has room for PATH_BYTES.
        let read = unsafe {
            generated::bpf_probe_read_user_str(
                scratch.path.as_mut_ptr().cast(),
                PATH_BYTES as u32,
                path as *const c_void,
            )
        };
        if read > 0 {
            length = read as u64;
        } else {
            diagnose::count(diag::UNREADABLE);
        }
    }
    if length > PATH_BYTES as u64 {
        length = PATH_BYTES as u64;
    }
    scratch.opened.header.payload = length as u32;
    // Wakes the daemon: the descriptor may be gone soon.
    // SAFETY: the path stands behind the event.
    let failed = unsafe {
        generated::bpf_ringbuf_output(
            ptr::from_ref(&EVENTS).cast_mut().cast(),
            ptr::from_mut(scratch).cast(),
            size_of::<Opened>() as u64 + length,
            0,
        )
    };
    if failed != 0 {
        diagnose::count(diag::NAMES_DROPPED);
    }
}
