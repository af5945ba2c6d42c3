//! The counters: finding an operation's entry and adding to it. The only writer of the counter maps.
//!
//! Writes `IO` or `IO_FULL`, `OVERFLOW` or `OVERFLOW_FULL`, `FAILURES`, `FILL`; sends the fill notice and, for a new
//! entry, the file's name.

use core::ptr;

use iotrace_common::{
    diag, event,
    key::{FileId, IoKey},
    op,
    phases::direction,
    value::{Failures, Io, IoFull, group},
};

use crate::{
    config::{FILL_NOTICE, FULL},
    diagnose, histogram,
    kernel::fetch_add,
    maps::{FAILURES, FILL, IO, IO_FULL, OVERFLOW, OVERFLOW_FULL, ZERO},
    path, process, sort,
    thread::Thread,
};

const BPF_NOEXIST: u64 = 1;

/// The entry of the thread's call, made if it is new; the overflow entry where its generation is full; null where that is
/// full too. At detail full it is an `IoFull`, which starts with its `Io`.
///
/// Pointers that may be null and not `Option`s: a function that is not inlined returns one register, and LLVM may take
/// two for an `Option`.
#[inline(always)]
pub fn entry(thread: &mut Thread) -> *mut Io {
    let io = lookup(&thread.key.io);
    if io.is_null() {
        first_entry(thread)
    } else {
        io
    }
}

#[inline(always)]
fn lookup(key: &IoKey) -> *mut Io {
    let found = if FULL.is_set() {
        IO_FULL
            .get(0)
            .and_then(|map| map.get_ptr_mut(key))
            .map(|full| full.cast())
    } else {
        IO.get(0).and_then(|map| map.get_ptr_mut(key))
    };
    found.unwrap_or(ptr::null_mut())
}

/// Once per thread, file and generation. A new entry's file (0: none) is named if it has not been.
#[inline(never)]
fn first_entry(thread: *mut Thread) -> *mut Io {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return ptr::null_mut();
    };
    if new_entry(&thread.key.io) != 0 {
        return overflow(&thread.key.io);
    }
    if thread.file != 0 && !thread.key.io.file.is_none() && !sort::is_named(thread) {
        path::meet(thread, thread.file, thread.copy);
    }
    let key = &thread.key.io;
    let found = lookup(key);
    if !found.is_null() {
        return found;
    }
    // The generations changed places since the entry was made, which the fill notice itself may have brought
    // about. They do not do so again before this program ends: the daemon waits for it.
    if new_entry(key) != 0 {
        return overflow(key);
    }
    lookup(key)
}

/// Makes an entry; 0 if there is one now. Not inlined: once per thread, file and generation.
#[inline(never)]
fn new_entry(key: &IoKey) -> u32 {
    let Some(zero) = ZERO.get(0) else { return 1 };
    let made = if FULL.is_set() {
        let Some(map) = IO_FULL.get(0) else { return 1 };
        map.insert(key, zero, BPF_NOEXIST).is_ok()
    } else {
        let Some(map) = IO.get(0) else { return 1 };
        map.insert(key, basic(zero), BPF_NOEXIST).is_ok()
    };
    if !made {
        return 1;
    }
    if let Some(fill) = FILL.get_ptr_mut(0) {
        // SAFETY: an aligned word of a map value.
        let before = unsafe { fetch_add(fill, 1) };
        if before + 1 == FILL_NOTICE.load() {
            process::notice(event::FILL);
        }
    }
    0
}

/// The part of a value that detail basic keeps; by reference, since a copy would stand on the stack.
#[inline(always)]
fn basic(full: &IoFull) -> &Io {
    &full.io
}

/// The overflow entry of the key's thread; null where there is no room for it.
#[inline(never)]
fn overflow(key: &IoKey) -> *mut Io {
    let key = IoKey {
        file: FileId::NONE,
        ..*key
    };
    let mut found = lookup_overflow(&key);
    // Twice: the generations may change places between the insert and the look, but not again before the end.
    for _ in 0..2 {
        if !found.is_null() {
            return found;
        }
        // Where the insert fails, the second look says so.
        if let Some(zero) = ZERO.get(0) {
            if FULL.is_set() {
                let _ = OVERFLOW_FULL
                    .get(0)
                    .map(|map| map.insert(key, zero, BPF_NOEXIST));
            } else {
                let _ = OVERFLOW
                    .get(0)
                    .map(|map| map.insert(key, basic(zero), BPF_NOEXIST));
            }
        }
        found = lookup_overflow(&key);
    }
    if found.is_null() {
        diagnose::count(diag::LOST_OPERATIONS);
    }
    found
}

#[inline(always)]
fn lookup_overflow(key: &IoKey) -> *mut Io {
    let found = if FULL.is_set() {
        OVERFLOW_FULL
            .get(0)
            .and_then(|map| map.get_ptr_mut(key))
            .map(|full| full.cast())
    } else {
        OVERFLOW.get(0).and_then(|map| map.get_ptr_mut(key))
    };
    found.unwrap_or(ptr::null_mut())
}

/// Counts bytes of an operation that found no entry.
#[inline(always)]
pub fn lost_bytes(bytes: u64) {
    diagnose::add(diag::LOST_BYTES, bytes);
}

/// Adds one successful call and its time.
#[inline(always)]
pub fn add(io: *mut Io, thread: &Thread) {
    let op = thread.op();
    if op >= op::COUNT {
        return;
    }
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        (*io).calls[op] += 1;
        (*io).ns[group_of(op)] += thread.ns();
        add_union(io, thread);
        span(io, thread);
    }
}

/// Adds bytes moved: out of the file by a read or a transfer, else into it.
#[inline(always)]
pub fn add_bytes(io: *mut Io, op: usize, bytes: u64) {
    // SAFETY: as in `add`.
    unsafe {
        if op == op::READ || op == op::TRANSFER_READ {
            (*io).bytes_read += bytes;
        } else {
            (*io).bytes_written += bytes;
        }
        if op == op::READ && bytes == 0 {
            (*io).zero_reads += 1;
        }
    }
}

/// Counts a failed call: in the entry of its file, where that is known, and by errno.
#[inline(never)]
pub fn failure(thread: *mut Thread) {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return;
    };
    // What failed may have had no file, and a closed one may be gone: nothing is named.
    thread.file = 0;
    let io = entry(thread);
    if !io.is_null() {
        // SAFETY: as in `add`.
        unsafe {
            (*io).failures += 1;
            (*io).failed_ns += thread.ns();
            add_union(io, thread);
            span(io, thread);
        }
        histogram::failed(thread);
    }
    let Some(map) = FAILURES.get(0) else { return };
    let key = &thread.key;
    if let Some(failures) = map.get_ptr_mut(key) {
        // SAFETY: as in `add`.
        unsafe {
            (*failures).calls += 1;
            (*failures).ns += thread.ns();
        }
        return;
    }
    let failures = Failures {
        calls: 1,
        ns: thread.ns(),
    };
    if map.insert(key, failures, BPF_NOEXIST).is_err() {
        diagnose::count(diag::FAILURES_UNSORTED);
    }
}

/// Adds the call's part of the merged time of its phase.
///
/// # Safety
/// `io` is a map value.
#[inline(always)]
unsafe fn add_union(io: *mut Io, thread: &Thread) {
    let direction = usize::from(thread.direction == direction::WRITE);
    // SAFETY: the caller's promise; there are two directions.
    unsafe { (*io).union_ns[direction] += thread.union_ns };
}

/// Extends the entry's span over the call.
///
/// # Safety
/// `io` is a map value.
#[inline(always)]
unsafe fn span(io: *mut Io, thread: &Thread) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*io).first == 0 {
            (*io).first = thread.entered;
        }
        (*io).last = thread.ended;
    }
}

/// The group that an operation's time belongs to.
#[inline(always)]
fn group_of(op: usize) -> usize {
    match op {
        op::READ | op::TRANSFER_READ => group::READ,
        op::WRITE | op::TRANSFER_WRITE => group::WRITE,
        op::FSYNC | op::FDATASYNC | op::SYNC_FILE_RANGE | op::MSYNC => group::SYNC,
        _ => group::META,
    }
}
