//! Names of renames and unlinks: the path as the program gave it, and the handle of the directory that it starts from.
//!
//! Writes `SCRATCH`; sends `RENAME_FROM`, `RENAME_TO` and `UNLINK` events. User space finds out where a path starts.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated;
use iotrace_common::{
    diag,
    event::{self, Header, Name, name_flags},
    key::FileId,
    limits::PATH_BYTES,
    nobtf::{DEVICE, HANDLE},
    op::shape,
};

use crate::{
    core::{
        diagnose,
        maps::{EVENTS, SCRATCH},
        memory::{now, pid_tgid},
        thread::Thread,
    },
    files::nobtf::identity,
    platform::current,
    processes::nobtf as process,
};

pub const AT_FDCWD: i32 = -100;
const RENAME_EXCHANGE: u64 = 2;

/// Files are named with their descriptors.
#[inline(always)]
pub fn meet(_thread: &mut Thread, _file: u64, _copy: u32) -> u64 {
    0
}

/// A hard link changes no name.
#[inline(always)]
pub fn linked() {}

/// Sends both names of the thread's rename, which succeeded.
#[inline(always)]
pub fn renamed(thread: &Thread) {
    let [first, second, third, fourth, options] = thread.args;
    let (from, to) = if thread.shape == shape::RENAME {
        ([AT_FDCWD as u64, first], [AT_FDCWD as u64, second])
    } else {
        ([first, second], [third, fourth])
    };
    let exchanged = thread.shape == shape::RENAMEAT2 && options & RENAME_EXCHANGE != 0;
    let flags = if exchanged { name_flags::EXCHANGED } else { 0 };
    if iotrace_send_path(event::RENAME_FROM, 0, from[0], from[1], thread.copy) != 0 {
        iotrace_send_path(event::RENAME_TO, flags, to[0], to[1], thread.copy);
    }
}

/// Sends the name of the thread's unlink, which succeeded.
#[inline(always)]
pub fn unlinked(thread: &Thread) {
    let [first, second, ..] = thread.args;
    let (directory, path) = if thread.shape == shape::UNLINKAT {
        (first, second)
    } else {
        (AT_FDCWD as u64, first)
    };
    iotrace_send_path(event::UNLINK, 0, directory, path, thread.copy);
}

/// Sends a path as the program gave it; 1 if it was sent. Global, with numbers for arguments.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_send_path(
    kind: u32,
    flags: u32,
    directory: u64,
    path: u64,
    copy: u32,
) -> u32 {
    let base = if directory as i32 == AT_FDCWD {
        0
    } else {
        identity::of_descriptor(current(), directory as u32) & HANDLE
    };
    let Some(scratch) = SCRATCH.get_ptr_mut(copy) else {
        return 0;
    };
    // SAFETY: this CPU's and this program's own scratch.
    let scratch = unsafe { &mut *scratch };
    let (tgid, tid) = pid_tgid();
    scratch.name = Name {
        header: Header {
            kind,
            payload: 0,
            time: now(),
            tgid,
            tid,
            start: process::start_of(tgid),
        },
        file: FileId {
            device: DEVICE,
            generation: 0,
            inode: base,
        },
        flags,
        ..Name::NONE
    };
    // SAFETY: there is room for PATH_BYTES.
    let read = unsafe {
        generated::bpf_probe_read_user_str(
            scratch.bytes.as_mut_ptr().cast(),
            PATH_BYTES as u32,
            path as *const c_void,
        )
    };
    if read <= 0 {
        diagnose::count(diag::UNREADABLE);
        return 0;
    }
    let mut length = read as u64;
    if length > PATH_BYTES as u64 {
        length = PATH_BYTES as u64;
    }
    scratch.name.header.payload = length as u32;
    // SAFETY: the path stands behind the name.
    let failed = unsafe {
        generated::bpf_ringbuf_output(
            ptr::from_ref(&EVENTS).cast_mut().cast(),
            ptr::from_mut(scratch).cast(),
            size_of::<Name>() as u64 + length,
            0,
        )
    };
    if failed != 0 {
        diagnose::count(diag::EVENTS_DROPPED);
    }
    u32::from(failed == 0)
}
