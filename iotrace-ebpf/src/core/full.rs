//! Detail `full`: what Darshan's POSIX record holds, by Darshan's definitions, but by open file and not by file, so
//! that two descriptors of one file do not disturb each other.
//!
//! Writes the `IoFull` beside an entry, `OPEN_FILES` (through `open_files`) and `LAST_ENDS`.

use core::ptr;

use iotrace_common::{
    bucket::size_bucket,
    diag,
    key::IoKey,
    limits::ALIGN_VECTORS,
    op::{self, shape},
    value::{IoFull, MERGED_KINDS, SIZE_SLOTS, STRIDE_SLOTS, stamp},
};

use crate::{
    core::{
        account::{OVERFLOWN, overflow},
        cells,
        config::{FILE_POS, TYPE_FILE},
        diagnose,
        memory::{field, probe_user},
        open_files::{self, OpenFile},
        thread::Thread,
    },
    merged::ALONE,
    platform::compare_exchange,
};

const O_CREAT: u64 = 0x40;
/// Darshan's default `POSIX_MEM_ALIGNMENT`, bytes.
const MEMORY_ALIGNMENT: u64 = 8;
/// Kinds of merged time.
const MERGED_READ: usize = 0;
const MERGED_WRITE: usize = 1;
const MERGED_META: usize = 2;
const READ: u64 = 1;
const WRITE: u64 = 2;

maps! {
    LAST_ENDS;
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Vector {
    base: u64,
    length: u64,
}

/// What detail full adds to the entry of the thread's call, which was found just now; null where there is no room.
#[inline(never)]
fn entry(thread: *mut Thread) -> *mut IoFull {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return ptr::null_mut();
    };
    let epoch = u64::from(thread.generation & !OVERFLOWN);
    let half = cells::half(epoch);
    if thread.generation & OVERFLOWN != 0 {
        return overflow(&thread.key.io, half);
    }
    let phase = thread.key.io.phase;
    thread.key.io.phase = thread.counted;
    let mut found = cells::last::<IoFull>(thread, epoch);
    if found.is_null() {
        found = cells::find(thread, epoch);
    }
    if found.is_null() {
        found = cells::take(thread, epoch);
    }
    if found.is_null() {
        found = overflow(&thread.key.io, half);
    }
    thread.key.io.phase = phase;
    found
}

checked_once! {
    /// Adds what a successful call that moves no data leaves: stamps and merged time.
    pub fn iotrace_full_metadata(thread: &mut Thread) {
        let full = entry(thread);
        if full.is_null() {
            return;
        }
        match thread.op() {
            op::OPEN => stamped(full, stamp::OPEN, thread),
            op::CLOSE => stamped(full, stamp::CLOSE, thread),
            _ => {}
        }
        let kind = if op::is_sync(thread.op()) {
            MERGED_WRITE
        } else {
            MERGED_META
        };
        merge(full, thread, kind);
    }
}

checked_once! {
    /// Forgets what was known of the open file's address, and keeps the creation mode.
    pub fn iotrace_full_opened(thread: &mut Thread) {
        open_files::iotrace_begin(thread);
        let mode = creation_mode(thread);
        if mode == 0 {
            return;
        }
        let full = entry(thread);
        if !full.is_null() {
            // SAFETY: a map value, whose one writer is this thread.
            unsafe { (*full).create_mode = mode };
        }
    }
}

/// The mode argument of an open with O_CREAT; 0 without.
#[inline(always)]
fn creation_mode(thread: &Thread) -> u32 {
    let [_, second, third, fourth, _] = thread.args;
    let (flags, mode) = match thread.shape {
        shape::OPEN => (second, third),
        shape::OPENAT => (third, fourth),
        shape::CREAT => (O_CREAT, second),
        // struct open_how begins with flags and mode.
        _ => match probe_user::<[u64; 2]>(third) {
            Some([flags, mode]) => (flags, mode),
            None => return 0,
        },
    };
    if flags & O_CREAT != 0 { mode as u32 } else { 0 }
}

checked_once! {
    /// Adds what a read or a write leaves.
    pub fn iotrace_full_access(thread: &mut Thread, bytes: u64) {
        let full = entry(thread);
        if !full.is_null() {
            iotrace_full_add(thread, full, bytes);
        }
    }
}

checked_once! {
    /// Adds it to its entry, which may be of two maps.
    pub fn iotrace_full_add(thread: &mut Thread, full: *mut IoFull, bytes: u64) {
        if full.is_null() {
            return;
        }
        let read = thread.op() == op::READ;
        let bucket = size_bucket(bytes);
        // SAFETY: a map value, whose one writer is this thread; the bucket is below their number.
        unsafe {
            if read {
                (*full).read_sizes[bucket] += 1;
                slowest(
                    &raw mut (*full).slowest_read_ns,
                    &raw mut (*full).slowest_read_bytes,
                    thread,
                    bytes,
                );
                stamped(full, stamp::READ, thread);
            } else {
                (*full).write_sizes[bucket] += 1;
                slowest(
                    &raw mut (*full).slowest_write_ns,
                    &raw mut (*full).slowest_write_bytes,
                    thread,
                    bytes,
                );
                stamped(full, stamp::WRITE, thread);
            }
        }
        common_size(full, bytes);
        let bytes = thread.forgotten(bytes);
        alignment(full, thread);
        place(full, thread, read, bytes);
        merge(full, thread, if read { MERGED_READ } else { MERGED_WRITE });
    }
}

#[inline(always)]
unsafe fn slowest(ns: *mut u64, of: *mut u64, thread: &Thread, bytes: u64) {
    // SAFETY: two fields of one map value.
    unsafe {
        if thread.ns() > *ns {
            *ns = thread.ns();
            *of = bytes;
        }
    }
}

#[inline(always)]
fn stamped(full: *mut IoFull, kind: usize, thread: &Thread) {
    // SAFETY: a map value; `kind` is a constant below their number.
    unsafe {
        if (*full).first_start[kind] == 0 {
            (*full).first_start[kind] = thread.entered;
        }
        (*full).last_end[kind] = thread.ended;
    }
}

/// Counts the access size among the commonest. Zero is never listed.
#[inline(always)]
fn common_size(full: *mut IoFull, bytes: u64) {
    if bytes == 0 {
        return;
    }
    // A call moves less than 2^31 bytes.
    let bytes = bytes as u32;
    for slot in 0..SIZE_SLOTS {
        // SAFETY: a map value; the slot is below their number.
        unsafe {
            let size = &raw mut (*full).access_sizes.value[slot];
            if *size == 0 {
                *size = bytes;
            }
            if *size == bytes {
                (*full).access_sizes.calls[slot] += 1;
                return;
            }
        }
    }
    // SAFETY: as above.
    unsafe { (*full).access_sizes_other += 1 };
}

/// Counts the stride among the commonest. Zero is never listed.
#[inline(always)]
fn common_stride(full: *mut IoFull, stride: u64) {
    for slot in 0..STRIDE_SLOTS {
        // SAFETY: as in `common_size`.
        unsafe {
            let known = &raw mut (*full).strides.value[slot];
            if *known == 0 {
                *known = stride;
            }
            if *known == stride {
                (*full).strides.calls[slot] += 1;
                return;
            }
        }
    }
    // SAFETY: as in `common_size`.
    unsafe { (*full).strides_other += 1 };
}

/// Counts an access from or to memory that is not aligned; of a vectored call, any of its first vectors.
#[inline(always)]
fn alignment(full: *mut IoFull, thread: &Thread) {
    let [_, buffer, count, ..] = thread.args;
    let vectored = matches!(
        thread.shape,
        shape::READV | shape::WRITEV | shape::PREADV | shape::PWRITEV
    );
    let unaligned = if vectored {
        any_unaligned(buffer, count) != 0
    } else {
        buffer % MEMORY_ALIGNMENT != 0
    };
    if unaligned {
        // SAFETY: a map value, whose one writer is this thread.
        unsafe { (*full).memory_unaligned += 1 };
    }
}

#[inline(never)]
fn any_unaligned(vectors: u64, count: u64) -> u32 {
    for index in 0..ALIGN_VECTORS as u64 {
        if index >= count {
            return 0;
        }
        match probe_user::<Vector>(vectors + index * size_of::<Vector>() as u64) {
            Some(vector) if vector.base % MEMORY_ALIGNMENT != 0 => return 1,
            Some(_) => {}
            None => {
                diagnose::count(diag::UNREADABLE);
                return 0;
            }
        }
    }
    0
}

/// Counts where in the file an access lies: its highest byte, alignment, and how it follows the one before.
#[inline(always)]
fn place(full: *mut IoFull, thread: &mut Thread, read: bool, bytes: u64) {
    let offset = offset(thread, bytes);
    let last = (offset + bytes).wrapping_sub(1);
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        // Block sizes are powers of two; an unreadable one (0) gives a mask of all ones for offset 0 alone.
        if offset & thread.block.wrapping_sub(1) != 0 {
            (*full).file_unaligned += 1;
        }
        let highest = if read {
            &raw mut (*full).max_byte_read
        } else {
            &raw mut (*full).max_byte_written
        };
        if offset + bytes != 0 && last > *highest {
            *highest = last;
        }
    }
    let direction = if read { READ } else { WRITE };
    let found = open_files::find(thread);
    // SAFETY: a map value.
    if !found.is_null() && unsafe { (*found).unknown == 0 } {
        // SAFETY: a map value. Threads that share the open file may write it at one time: then their accesses have no
        // order to tell.
        return follow(
            full,
            unsafe { &mut *found },
            thread,
            direction,
            offset,
            bytes,
        );
    }
    diagnose::count(diag::STATE_MISSING);
    open_files::iotrace_begin(thread);
    let state = open_files::find(thread);
    if !state.is_null() {
        // SAFETY: as above.
        unsafe { leave(&mut *state, thread, direction, last) };
    }
}

/// Darshan's rule: with L the last byte of the same direction, an access at offset o is sequential if o > L and
/// consecutive if o = L + 1; its stride is o - L - 1 if o > L and neither is 0.
#[inline(always)]
fn follow(
    full: *mut IoFull,
    state: &mut OpenFile,
    thread: &Thread,
    direction: u64,
    offset: u64,
    bytes: u64,
) {
    let read = direction == READ;
    let before = if read {
        state.last_read
    } else {
        state.last_write
    };
    // Signed: the last byte of an empty read at offset 0 is -1.
    let (place, last) = (offset as i64, before as i64);
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        if place > last {
            if read {
                (*full).sequential_reads += 1
            } else {
                (*full).sequential_writes += 1
            }
            if place == last + 1 {
                if read {
                    (*full).consecutive_reads += 1
                } else {
                    (*full).consecutive_writes += 1
                }
            } else if last != 0 && place > 0 {
                common_stride(full, (place - last - 1) as u64);
            }
        }
        let before = open_files::direction(state);
        if before != 0 && before != direction {
            (*full).read_write_switches += 1;
        }
    }
    leave(state, thread, direction, (offset + bytes).wrapping_sub(1));
}

/// Leaves what the next access of the open file is compared with.
#[inline(always)]
fn leave(state: &mut OpenFile, thread: &Thread, direction: u64, last: u64) {
    if direction == READ {
        state.last_read = last;
    } else {
        state.last_write = last;
    }
    open_files::use_now(state, thread, direction);
}

/// Where the access began: its argument, or the open file's position less what the call has moved it.
#[inline(always)]
pub fn offset(thread: &Thread, bytes: u64) -> u64 {
    let explicit = thread.args[3];
    let positional = match thread.shape {
        shape::PREAD | shape::PWRITE => true,
        shape::PREADV | shape::PWRITEV => explicit as i64 != -1,
        _ => false,
    };
    if positional {
        return explicit;
    }
    field::<u64>(thread.file, &TYPE_FILE, &FILE_POS).saturating_sub(bytes)
}

/// Adds the call's time, less what of it another call of the same process on the same file already covered.
#[inline(always)]
fn merge(full: *mut IoFull, thread: &Thread, kind: usize) {
    let fresh = if thread.flight != ALONE {
        uncovered(&thread.key.io, kind, thread.entered, thread.ended)
    } else {
        thread.ns()
    };
    // SAFETY: a map value, whose one writer is this thread; `kind` is a constant below their number.
    unsafe { (*full).merged_ns[kind] += fresh };
}

/// Nanoseconds of [`started`, `ended`] behind the end of the last such call, which becomes the later of the two.
#[inline(never)]
fn uncovered(key: &IoKey, kind: usize, started: u64, ended: u64) -> u64 {
    let key = IoKey { tid: 0, ..*key };
    let Some(ends) = LAST_ENDS.get_ptr_mut(key) else {
        let mut ends = [0; MERGED_KINDS];
        if kind < MERGED_KINDS {
            ends[kind] = ended;
        }
        // An LRU map takes every insert.
        let _ = LAST_ENDS.insert(key, ends, 0);
        return ended - started;
    };
    if kind >= MERGED_KINDS {
        return 0;
    }
    // SAFETY: a map value; `kind` is below their number.
    let last = unsafe { &raw mut (*ends)[kind] };
    // Other threads of the process write it as well, hence the exchange; each turn means that another one got on.
    for _ in 0..8 {
        // SAFETY: an aligned word of a map value.
        let before = unsafe { ptr::read_volatile(last) };
        if ended <= before {
            return 0;
        }
        // SAFETY: as above.
        if unsafe { compare_exchange(last, before, ended) } == before {
            return ended - if started > before { started } else { before };
        }
    }
    0
}
