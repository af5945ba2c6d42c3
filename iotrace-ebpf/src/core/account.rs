//! The counters: finding an operation's entry and adding to it. The only writer of the counter maps.
//!
//! Writes the cells (see `cells`), `OVERFLOW`, `OVERFLOW_FULL` and `FAILURES`; sends, for a new entry, the file's name.

use iotrace_common::{
    diag,
    key::{FileId, IoKey, PHASE_BITS},
    op,
    phases::direction,
    value::{Failures, Io, group},
};

use crate::{
    core::{
        cells::{self, Overflowing},
        config::{FILE_FLAGS, TYPE_FILE},
        diagnose,
        maps::{BPF_NOEXIST, FAILURES},
        memory::field,
        thread::{NO_THREAD, Thread},
    },
    features::{histogram, latencies, spans},
    platform::{path, phase, uprobe},
};

/// Of an open file: each write is synced, by O_SYNC as well.
const O_DSYNC: u32 = 0o10_000;

/// The entry of the thread's call, made if it is new; the overflow entry where its generation is full; null where that is
/// full too. Leaves what finds the one that detail full adds.
///
/// Pointers that may be null and not `Option`s: a function that is not inlined returns one register, and LLVM may take
/// two for an `Option`.
///
/// `NAME`: whether the file is to be named; where it was before, what names it need not be in the chain of calls.
#[inline(always)]
pub fn entry<const NAME: bool>(thread: &mut Thread) -> *mut Io {
    entry_in::<NAME>(thread, cells::epoch())
}

/// The same in a generation.
#[inline(always)]
fn entry_in<const NAME: bool>(thread: &mut Thread, epoch: u64) -> *mut Io {
    let phase = thread.key.io.phase;
    thread.key.io.phase = phase | spans::of(thread) << PHASE_BITS;
    if thread.is_full() {
        (thread.generation, thread.counted) = (epoch as u32, thread.key.io.phase);
    }
    let mut io = cells::last::<Io>(thread, epoch);
    if io.is_null() {
        io = match iotrace_find(thread, epoch) {
            NO_CELL => overflow(&thread.key.io, cells::half(epoch)),
            found => {
                // A file that was closed may be gone by now: it was named when the call began.
                let may_name = NAME && thread.file != 0 && thread.op() != op::CLOSE;
                if found == NEW_CELL
                    && may_name
                    && !thread.key.io.file.is_none()
                    && !phase::is_named(thread)
                {
                    path::meet(thread, thread.file, thread.copy);
                }
                cells::last::<Io>(thread, epoch)
            }
        };
    }
    thread.key.io.phase = phase;
    io
}

/// Bit of [`Thread::generation`]: the entry is an overflow entry.
pub const OVERFLOWN: u32 = 1 << 31;

/// What [`iotrace_find`] found.
const NO_CELL: u64 = 0;
const KNOWN_CELL: u64 = 1;
const NEW_CELL: u64 = 2;

checked_once! {
    /// Finds the cell of the thread's call where it is not the one that the thread used last, which it then is, or takes a
    /// new one.
    pub fn iotrace_find(thread: &mut Thread, epoch: u64) -> u64 {
        if !cells::find::<Io>(thread, epoch).is_null() {
            return KNOWN_CELL;
        }
        if cells::take::<Io>(thread, epoch).is_null() {
            // What detail full adds goes the same way.
            thread.generation |= OVERFLOWN;
            return NO_CELL;
        }
        NEW_CELL
    }
}

/// The overflow entry of the key's thread; null where there is no room for it.
#[inline(never)]
pub fn overflow<V: Overflowing>(key: &IoKey, half: u32) -> *mut V {
    let key = IoKey {
        file: FileId::NONE,
        phase: key.phase_code(),
        ..*key
    };
    let mut found = V::overflow(&key, half);
    if found.is_null() {
        // Where the insert fails, the second look says so.
        V::add_overflow(&key, half);
        found = V::overflow(&key, half);
    }
    if found.is_null() {
        diagnose::count(V::NO_ROOM);
    }
    found
}

/// Counts bytes of an operation that found no entry.
#[inline(always)]
pub fn lost_bytes(bytes: u64) {
    diagnose::add(diag::LOST_BYTES, bytes);
}

/// Adds one successful call and its time.
#[inline(always)]
pub fn add(io: *mut Io, thread: &mut Thread) {
    let op = thread.op();
    if op >= op::COUNT {
        return;
    }
    uprobe::mark::progress(thread);
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        (*io).calls[op] += 1;
        (*io).ns[group::of(op)] += thread.ns();
        add_union(io, thread);
        span(io, thread);
        let synced = synced_at(thread);
        if synced > (*io).last_sync {
            (*io).last_sync = synced;
        }
    }
    latencies::succeeded(thread);
}

/// Up to when all that was written to the file is on storage by the thread's call; 0: it syncs nothing.
#[inline(always)]
fn synced_at(thread: &Thread) -> u64 {
    let op = thread.op();
    if op::makes_durable(op) {
        // A request of io_uring may have waited for the writes that it is linked to.
        let is_request = thread.key.io.tid & NO_THREAD != 0;
        return if is_request {
            thread.ended
        } else {
            thread.entered
        };
    }
    let is_write = op == op::WRITE || op == op::TRANSFER_WRITE;
    if is_write && spans::are_kept(thread) && is_synchronous(thread) {
        return thread.ended;
    }
    0
}

/// Whether each write to the thread's file is synced. Not known where files are not typed.
#[inline(always)]
fn is_synchronous(thread: &Thread) -> bool {
    if cfg!(feature = "nobtf") || thread.file == 0 {
        return false;
    }
    field::<u32>(thread.file, &TYPE_FILE, &FILE_FLAGS) & O_DSYNC != 0
}

/// Adds bytes moved: out of the file by a read or a transfer, else into it.
#[inline(always)]
pub fn add_bytes(io: *mut Io, op: usize, bytes: u64) {
    uprobe::mark::progress_bytes(op, bytes);
    // SAFETY: as in `add`.
    unsafe {
        if op::is_read(op) {
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
    if let Some(thread) = unsafe { thread.as_mut() } {
        failure_here(thread);
    }
}

/// As [`failure`], without a frame of its own: the kernel allows eight.
#[inline(always)]
pub fn failure_here(thread: &mut Thread) {
    // What failed may have had no file, and a closed one may be gone: nothing is named.
    thread.file = 0;
    let epoch = cells::epoch();
    let io = entry_in::<false>(thread, epoch);
    if !io.is_null() {
        // SAFETY: as in `add`.
        unsafe {
            (*io).failures += 1;
            (*io).failed_ns += thread.ns();
            add_union(io, thread);
            span(io, thread);
        }
        histogram::failed(thread);
        latencies::failed(thread);
    }
    let Some(map) = FAILURES.get(cells::half(epoch)) else {
        return;
    };
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
        if (*io).first_operation == 0 {
            (*io).first_operation = thread.entered;
        }
        (*io).last_operation = thread.ended;
    }
}
