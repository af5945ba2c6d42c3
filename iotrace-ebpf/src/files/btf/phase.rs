//! Which phase a file belongs to: the table of rules, walked once over its path, and what each thread remembers of it.
//!
//! Reads `RULES`, `NAMED` and `RENAMES`; writes `SCRATCH` and the thread's state.
//!
//! A file is sorted when it is first seen, before the call that uses it is counted, so every call has its phase. A
//! thread remembers its last two files: as long as it stays with them, their phase costs a comparison. After a rename
//! by any traced process every file is sorted anew at its next use, since the name of a directory above it may be the
//! one that changed. Where the table cannot be walked (no `bpf_loop`, a name that was gone before it was read) the
//! phase is 0, and user space sorts the file by what it knows.

use core::{ffi::c_void, ptr};

use iotrace_common::{
    key::FileId,
    limits::{NAME_BYTES, PATH_BYTES},
    phases::{self, MAX_SAYS, MAX_STARTS, MAX_STATES, MAX_TRANSITIONS, State, Table, direction},
};

use crate::{
    core::{
        config::{FILE_MODE, HAS_LOOP, TRACE_PATHS, TYPE_FILE},
        maps::{RENAMES, RULES, SCRATCH, Scratch},
        memory::field,
        thread::{Known, Thread},
    },
    features::oplog,
    platform::{path, repeat},
};

const FMODE_WRITE: u32 = 2;
const MODE_TYPE: u32 = 0xf000;
const MODE_DIRECTORY: u32 = 0x4000;
/// The table of phases, and that of the trace's filter.
const PHASES: u32 = 0;
const PATHS: u32 = 1;
/// Bytes of a path that one turn of the loop takes, and turns for the longest path. Few: the kernel checks every turn by
/// itself at each load, of all programs that look at paths, and a turn costs less than the rest of a new file.
const STEP: u64 = 8;
const MOST_TURNS: u32 = (PATH_BYTES + NAME_BYTES + 1) as u32 / STEP as u32 + 1;
/// The longest path has less, the scratch has more room.
const PLACES: usize = 0x2000;
/// Set beside what a file was sorted as, where its name was sent.
pub const SENT: u64 = 1 << 32;

/// A stamp ([`iotrace_common::phases::Named`]) of now: what has an older one may be something else by now.
#[inline(always)]
pub fn stamp() -> u32 {
    match RENAMES.get(0) {
        Some(renames) => (*renames as u32) << 1,
        None => 0,
    }
}

/// Sets the phase of the thread's call on the file of its key, of which `file` is the open file. `used`: how the call
/// uses it.
#[inline(always)]
pub fn sort(thread: &mut Thread, file: u64, used: u8, copy: u32) {
    sort_by(thread, file, used, |thread| remember(thread, file, copy));
}

/// As [`sort`], without a frame of its own for a file that the thread does not remember.
#[inline(always)]
pub fn sort_here(thread: &mut Thread, file: u64, used: u8, copy: u32) {
    sort_by(thread, file, used, |thread| {
        remember_here(thread, file, copy)
    });
}

#[inline(always)]
fn sort_by(thread: &mut Thread, file: u64, used: u8, remember: impl FnOnce(&mut Thread) -> u32) {
    let id = thread.key.io.file;
    let now = stamp();
    let [last, other] = &thread.known;
    let sorted = if last.id == id && last.stamp | 1 == now | 1 {
        last.sorted
    } else if other.id == id && other.stamp | 1 == now | 1 {
        other.sorted
    } else {
        remember(thread)
    };
    oplog::mark(thread, sorted);
    thread.direction = match used {
        direction::AS_OPENED => {
            let mode: u32 = field(file, &TYPE_FILE, &FILE_MODE);
            u8::from(mode & FMODE_WRITE != 0)
        }
        used => used,
    };
    thread.key.io.phase = phases::phase(sorted, thread.direction);
}

/// Sorts the thread's file, which is neither of those that it remembers; what it was sorted as.
#[inline(never)]
fn remember(thread: *mut Thread, file: u64, copy: u32) -> u32 {
    // SAFETY: the caller's own reference.
    match unsafe { thread.as_mut() } {
        Some(thread) => remember_here(thread, file, copy),
        None => 0,
    }
}

#[inline(always)]
fn remember_here(thread: &mut Thread, file: u64, copy: u32) -> u32 {
    let now = stamp();
    let found = path::meet(thread, file, copy);
    thread.known[1] = thread.known[0];
    thread.known[0] = Known {
        id: thread.key.io.file,
        sorted: found as u32,
        stamp: now | (found >> 32) as u32,
    };
    found as u32
}

/// Whether the name of the thread's file was sent, for all that the thread remembers.
#[inline(always)]
pub fn is_named(thread: &Thread) -> bool {
    let [last, other] = &thread.known;
    let id = &thread.key.io.file;
    last.stamp & 1 != 0 && last.id == *id || other.stamp & 1 != 0 && other.id == *id
}

/// Where the walk over a path stands.
///
/// What changes by bytes of the path is kept in here and not in registers, by volatile accesses: of memory the verifier
/// knows no ranges, so it sees one state of the program where it would see two for every byte.
#[repr(C)]
pub struct Walk {
    state: u64,
    /// Where what is said of files on its filesystem stands.
    base: u64,
    found: u32,
    /// Which table is walked.
    table: u32,
    /// Place of the component, and how many of its bytes are left. The slash before it comes behind them.
    place: u64,
    left: u64,
    /// Bytes left in all.
    bytes: u64,
}

/// What the file whose name stands in the scratch is; 0 without rules.
#[inline(always)]
pub fn of_name(scratch: &mut Scratch, copy: u32) -> u32 {
    let sorted = by_table(PHASES, scratch, copy);
    if TRACE_PATHS.is_set() {
        return oplog::marked(sorted, by_table(PATHS, scratch, copy));
    }
    sorted
}

/// What one of the tables says of the name.
#[inline(always)]
fn by_table(which: u32, scratch: &mut Scratch, copy: u32) -> u32 {
    let Some(table) = RULES.get(which) else {
        return 0;
    };
    if table.stride == 0 || !HAS_LOOP.is_set() {
        return 0;
    }
    begin(table, which, scratch);
    let mut context = copy;
    // SAFETY: the callback has the signature that the helper calls, and its context lives on this stack.
    unsafe { repeat(MOST_TURNS, walk_callback, (&raw mut context).cast()) };
    let (state, base) = (
        peek(&raw const scratch.walk.state),
        peek(&raw const scratch.walk.base),
    );
    let last = said(table, base, state).last;
    phases::first(peek(&raw const scratch.walk.found), last)
}

/// Puts the walk to the end of the path: behind the slash that a directory has there.
#[inline(always)]
fn begin(table: &Table, which: u32, scratch: &mut Scratch) {
    let base = base(table, scratch.name.magic);
    scratch.walk = Walk {
        state: 0,
        base,
        found: 0,
        table: which,
        place: 0,
        left: u64::from(scratch.bytes[0]),
        bytes: scratch.length,
    };
    let base = peek(&raw const scratch.walk.base);
    poke(&raw mut scratch.walk.found, said(table, base, 0).sure);
    if scratch.name.mode & MODE_TYPE == MODE_DIRECTORY {
        slash(table, &mut scratch.walk);
    }
    // The root is a slash alone, whether it has no name or a slash for one.
    if scratch.length == 0 || scratch.length == 2 && scratch.bytes[1] == b'/' {
        slash(table, &mut scratch.walk);
        scratch.walk.bytes = 0;
    }
}

/// Takes the walk over a slash.
#[inline(always)]
fn slash(table: &Table, walk: &mut Walk) {
    let class = u64::from(table.classes[usize::from(b'/')]);
    let state = peek(&raw const walk.state);
    let entry = table.next[place(state * table.stride + class, MAX_TRANSITIONS)];
    poke(&raw mut walk.state, u64::from(entry >> 1));
    if entry & 1 != 0 {
        find(table, walk, u64::from(entry >> 1));
    }
}

/// Keeps what a state is sure of.
#[inline(always)]
fn find(table: &Table, walk: &mut Walk, state: u64) {
    let sure = said(table, peek(&raw const walk.base), state).sure;
    let found = phases::first(peek(&raw const walk.found), sure);
    poke(&raw mut walk.found, found);
}

/// Where what is said of files of a filesystem type stands. In a frame of its own, with which the verifier forgets by which
/// way it was found.
#[inline(never)]
fn base(table: *const Table, magic: u64) -> u64 {
    // SAFETY: the caller's own reference.
    let Some(table) = (unsafe { table.as_ref() }) else {
        return 0;
    };
    for start in &table.starts[..MAX_STARTS] {
        if start.magic == magic {
            return start.base;
        }
        if start.magic == 0 {
            break;
        }
    }
    0
}

/// What a state says of files on one filesystem.
#[inline(always)]
fn said(table: &Table, base: u64, state: u64) -> &State {
    let label = u64::from(table.labels[place(state, MAX_STATES)]);
    &table.says[place(base + label, MAX_SAYS)]
}

unsafe extern "C" fn walk_callback(_index: u32, copy: *mut c_void) -> i64 {
    // SAFETY: the context is the copy's number on the caller's stack.
    let copy = unsafe { *copy.cast::<u32>() };
    let Some(scratch) = SCRATCH.get_ptr_mut(copy) else {
        return 1;
    };
    // SAFETY: this CPU's and this program's own scratch, which the caller does not use during the loop.
    let Scratch { bytes, walk, .. } = unsafe { &mut *scratch };
    let which = if TRACE_PATHS.is_set() {
        walk.table
    } else {
        PHASES
    };
    let Some(table) = RULES.get(which) else {
        return 1;
    };
    let all = walk.bytes;
    let mut state = walk.state;
    for turn in 0..STEP {
        if turn >= all {
            walk.bytes = 0;
            walk.state = state;
            return 1;
        }
        let (at, left) = (peek(&raw const walk.place), peek(&raw const walk.left));
        let byte = if left > 0 {
            poke(&raw mut walk.left, left - 1);
            bytes[place(at + left, PLACES)]
        } else {
            let next = at + 1 + u64::from(bytes[place(at, PLACES)]);
            poke(&raw mut walk.place, next);
            poke(&raw mut walk.left, u64::from(bytes[place(next, PLACES)]));
            b'/'
        };
        let class = u64::from(table.classes[usize::from(byte)]);
        let entry = table.next[place(state * table.stride + class, MAX_TRANSITIONS)];
        state = u64::from(entry >> 1);
        if entry & 1 != 0 {
            find(table, walk, state);
        }
    }
    walk.bytes = all - STEP;
    walk.state = state;
    0
}

/// An index within a power of two, which the verifier sees.
#[inline(always)]
fn place(index: u64, size: usize) -> usize {
    index as usize & (size - 1)
}

/// Reads a field of a scratch that stays in memory: see [`Walk`].
#[inline(always)]
pub fn peek<T: Copy>(field: *const T) -> T {
    // SAFETY: a field of the running program's own scratch.
    unsafe { ptr::read_volatile(field) }
}

/// As [`peek`], writes it.
#[inline(always)]
pub fn poke<T>(field: *mut T, value: T) {
    // SAFETY: as in `peek`.
    unsafe { ptr::write_volatile(field, value) }
}

/// Forgets which files the thread remembers.
#[inline(always)]
pub fn forget(thread: &mut Thread) {
    thread.known[0].id = FileId::NONE;
    thread.known[1].id = FileId::NONE;
}
