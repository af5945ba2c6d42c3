//! Handles that libraries give out for what was opened: cuFile's of registered descriptors, HDF5's of files, groups and
//! data sets; MPI's of files.
//!
//! Writes `HANDLES` (what each handle is, an LRU by process) and `NEXT_OBJECT`; sends `OBJECT` events with the names. Reads the
//! structs of cuFile's documented interface (cufile.h).

use core::ffi::c_void;

use aya_ebpf::{
    btf_maps::{Array, LruHashMap},
    helpers::generated,
    macros::btf_map,
};
use iotrace_common::{
    diag,
    event::{self, Header, Object},
    key::{FileId, start_key},
    library::{BATCH_READ, BATCH_WRITE, CUFILE, Function, OBJECT_BYTES, subject},
    limits::{BATCH_ENTRIES, HANDLE_ENTRIES},
};

use crate::{
    core::{
        maps::EVENTS,
        memory::{now, pid_tgid, probe_user},
    },
    features::uprobe::{Call, Done, argument, count, diagnose, open, stream::set_descriptor},
    platform::{current, fetch_add, running::start_of},
};

/// `CUfileDescr_t`: the descriptor, behind the type and its padding.
const DESCRIPTOR: u64 = 8;
/// `CUfileIOParams_t`: its words, and where they stand.
type Entry = [u64; 8];
const ENTRY_SIZE: usize = 4;
const ENTRY_HANDLE: usize = 5;
const ENTRY_OPCODE: usize = 6;
/// `CUFILE_WRITE`.
const OPCODE_WRITE: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HandleKey {
    tgid: u32,
    start: u32,
    library: u64,
    handle: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Handle {
    file: FileId,
    object: u64,
}

opaque_map! {
    static HANDLES: LruHashMap<HandleKey, Handle, { HANDLE_ENTRIES as usize }> = LruHashMap::new();
}

/// Number of the newest object. One word that all add to, as seldom as they open.
#[btf_map]
static NEXT_OBJECT: Array<u64, 1> = Array::new();

#[inline(always)]
fn key(library: u8, handle: u64) -> HandleKey {
    HandleKey {
        tgid: pid_tgid().0,
        start: start_key(start_of(current())),
        library: u64::from(library),
        handle,
    }
}

/// Sets what a handle is of; always true, since a call by an unknown one counts without its file.
#[inline(always)]
pub fn set(call: &mut Call, library: u8, handle: u64) -> bool {
    // SAFETY: the value is not kept.
    if let Some(known) = unsafe { HANDLES.get(key(library, handle)) } {
        call.file = known.file;
        call.object = known.object;
    }
    true
}

/// cuFileHandleRegister has returned: the handle is one of the descriptor's file.
#[inline(always)]
pub fn registered(call: &mut Call) -> bool {
    let [place, description, ..] = call.args;
    let (Some(handle), Some(descriptor)) = (
        probe_user::<u64>(place),
        probe_user::<u32>(description.wrapping_add(DESCRIPTOR)),
    ) else {
        diagnose(diag::UNREADABLE);
        return true;
    };
    set_descriptor(call, descriptor);
    remember(call, CUFILE, handle);
    true
}

/// A file or an object in one was opened as `handle`, by its name.
#[inline(always)]
pub fn opened(call: &mut Call, function: &Function, handle: u64) -> bool {
    let mut parent = 0;
    if matches!(function.subject, subject::NEW_FILE | subject::NEW_FILE_AT) {
        open::ended(call);
    } else {
        set(call, function.library, call.args[0]);
        parent = call.object;
    }
    let Some(next) = NEXT_OBJECT.get_ptr_mut(0) else {
        return true;
    };
    // SAFETY: an aligned word of a map value.
    call.object = unsafe { fetch_add(next, 1) } + 1;
    remember(call, function.library, handle);
    send_name(call.object, parent, argument(call, function.argument));
    true
}

#[inline(always)]
fn remember(call: &Call, library: u8, handle: u64) {
    let what = Handle {
        file: call.file,
        object: call.object,
    };
    // An LRU map takes every insert.
    let _ = HANDLES.insert(key(library, handle), what, 0);
}

/// Sends the name of an object.
#[inline(always)]
fn send_name(object: u64, parent: u64, name: u64) {
    #[repr(C)]
    struct Record {
        object: Object,
        name: [u8; OBJECT_BYTES],
    }
    let (tgid, tid) = pid_tgid();
    // SAFETY: the reservation is submitted below whatever happens; the name's room is as long as said.
    unsafe {
        let ring = (&raw const EVENTS).cast_mut().cast();
        let record: *mut Record =
            generated::bpf_ringbuf_reserve(ring, size_of::<Record>() as u64, 0).cast();
        if record.is_null() {
            return diagnose(diag::LIBRARY_NAMES_DROPPED);
        }
        let length = generated::bpf_probe_read_user_str(
            (&raw mut (*record).name).cast(),
            OBJECT_BYTES as u32,
            name as *const c_void,
        );
        (*record).object = Object {
            header: Header {
                kind: event::OBJECT,
                payload: if length > 0 { length as u32 } else { 0 },
                time: now(),
                tgid,
                tid,
                start: start_of(current()),
            },
            object,
            parent,
        };
        generated::bpf_ringbuf_submit(record.cast(), 0);
    }
}

/// The word that an argument points to: a handle, or the bytes that an asynchronous call was asked for.
#[inline(always)]
pub fn behind(pointer: u64) -> u64 {
    probe_user::<u64>(pointer).unwrap_or_else(|| {
        diagnose(diag::UNREADABLE);
        0
    })
}

/// Counts the entries of a batch that was submitted: each as a read or a write of what it asks for. The time stands with
/// the first.
#[inline(always)]
pub fn batch(call: &mut Call, ended: u64) {
    let [_, entries, parameters, ..] = call.args;
    for index in 0..BATCH_ENTRIES {
        if u64::from(index) >= entries & 0xffff_ffff {
            break;
        }
        let at = parameters.wrapping_add(u64::from(index) * size_of::<Entry>() as u64);
        let Some(entry) = probe_user::<Entry>(at) else {
            diagnose(diag::UNREADABLE);
            break;
        };
        call.file = FileId::NONE;
        set(call, CUFILE, entry[ENTRY_HANDLE]);
        let function = if entry[ENTRY_OPCODE] as u32 == OPCODE_WRITE {
            BATCH_WRITE
        } else {
            BATCH_READ
        };
        count(
            call,
            &Done {
                function: u32::from(function),
                has_failed: false,
                moved: entry[ENTRY_SIZE],
                max_byte: 0,
                ended,
            },
        );
        call.entered = ended;
    }
}
