//! Which file a library opens: of those that the thread uses until the library's function returns.
//!
//! HDF5 uses no other after it. An MPI opens files of its own before and after, so there it is the one whose name ends as
//! the program's does. Keeps that in the thread's state; writes no map.

use core::ffi::c_void;

use aya_ebpf::helpers::generated;
use iotrace_common::{
    key::FileId,
    library::{Function, subject},
};

use crate::{
    core::{
        config::{DENTRY_PARENT, FILE_PATH},
        memory::{Address, probe, probe_at, probe_user},
        thread::Thread,
    },
    features::uprobe::{Call, argument, stream::length},
    platform::{current, registers_of, threads},
};

/// The end of a name: its last eight bytes, the last one highest; 0 where there are fewer.
type End = u64;
const END_BYTES: u64 = size_of::<End>() as u64;
/// No name, but any file.
const ANY: End = End::MAX;

/// A library is about to open a file; always true.
#[inline(always)]
pub fn begins(call: &Call, function: &Function) -> bool {
    if let Some(thread) = threads::of(registers_of(current()), true) {
        thread.used = FileId::NONE;
        thread.opening = if function.subject == subject::NEW_FILE_AT {
            end_of_path(argument(call, function.argument))
        } else {
            ANY
        };
    }
    true
}

/// The thread uses a file.
#[inline(always)]
pub fn uses(thread: &mut Thread, id: FileId, file: u64) {
    if thread.opening == 0 {
        return;
    }
    if thread.opening == ANY || thread.opening == end_of_file(file) {
        thread.used = id;
    }
}

/// Sets the file that the library opened.
#[inline(always)]
pub fn ended(call: &mut Call) {
    if let Some(thread) = threads::of(registers_of(current()), false) {
        call.file = thread.used;
        thread.opening = 0;
    }
}

/// The end of the last component of a path of the program's.
#[inline(always)]
fn end_of_path(path: u64) -> End {
    let length = length(path);
    let end = if length >= END_BYTES {
        let end = path.wrapping_add(length - END_BYTES);
        probe_user::<End>(end).unwrap_or_default()
    } else {
        let mut start: End = 0;
        // SAFETY: the target has eight bytes. A string of seven fits with its NUL; a shorter one may end where memory does.
        unsafe {
            generated::bpf_probe_read_user_str(
                (&raw mut start).cast(),
                END_BYTES as u32,
                path as *const c_void,
            );
        }
        start.unbounded_shl(8 * (END_BYTES - length) as u32)
    };
    // Without what stands before the component.
    let mut kept = 0;
    for index in 0..END_BYTES as u32 {
        let shift = 64 - 8 * (index + 1);
        if (end >> shift) as u8 == b'/' {
            break;
        }
        kept |= end & 0xff << shift;
    }
    kept
}

/// The end of an open file's name.
#[inline(always)]
fn end_of_file(file: u64) -> End {
    let [_, dentry]: [u64; 2] = probe(file as Address, &FILE_PATH);
    // d_parent, d_name.hash_len (the length is the high half), d_name.name
    let [_, hash_len, name]: [u64; 3] = probe(dentry as Address, &DENTRY_PARENT);
    let length = hash_len >> 32;
    if length >= END_BYTES {
        return probe_at(name.wrapping_add(length - END_BYTES) as Address);
    }
    // What is behind a short name is shifted out.
    let start: End = probe_at(name as Address);
    start.unbounded_shl(8 * (END_BYTES - length) as u32)
}
