//! Where files were looked for that are not there: of each open, stat, access and readlink that failed with ENOENT, the
//! directory that the path is of, counted by process.
//!
//! Reads the path out of the program's memory, where the kernel has just read it; writes `MISSING` and `SCRATCH`; sends a
//! `MISSING` event for each new entry, which names its directory. Calls that succeed never come here.
//!
//! A directory is known by the identity of the one that the path starts from and a hash of the path up to its last
//! slash: a path as it was given, since what it names may not be there either. User space makes one of those that mean
//! the same.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated;
use iotrace_common::{
    diag, event,
    key::LookKey,
    limits::{NAME_BYTES, PATH_BYTES},
    op::{self, shape},
    scope::kept,
    value::Failures,
};

use crate::{
    core::{
        cells,
        config::{COUNT_MISSING, DENTRY_INODE},
        diagnose,
        maps::{BPF_NOEXIST, MISSING, SCRATCH, Scratch},
        memory::{Address, probe},
        thread::Thread,
    },
    platform::{
        add, current,
        identity::id_of,
        path::{AT_FDCWD, MODE_DIRECTORY, header, send, start_of_path, walk},
        repeat,
    },
};

use event::Name;

const ENOENT: u32 = 2;
/// Bytes of a path that one turn of the loop takes, and turns for the longest path.
const STEP: u32 = 32;
const TURNS: u32 = PATH_BYTES as u32 / STEP;
/// FNV-1a.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_FACTOR: u64 = 0x0100_0000_01b3;

/// How far a path has been hashed.
#[repr(C)]
pub struct Look {
    hash: u64,
    at: u64,
    /// Bytes of the path.
    length: u64,
    /// The hash as it was behind the last slash, and the bytes until there.
    directory: u64,
    until: u64,
}

/// Counts the thread's call, which failed, where it looked for a file in vain.
#[inline(always)]
pub fn looked(thread: &Thread) {
    let is_kept = COUNT_MISSING.is_set() && thread.verdict & kept::NEGATIVE_LOOKUPS != 0;
    if !is_kept || thread.key.errno != ENOENT {
        return;
    }
    if !op::looks_up(thread.op()) {
        return;
    }
    let [first, second, ..] = thread.args;
    let (directory, path) = match thread.shape {
        shape::OPEN | shape::CREAT | shape::STAT_PATH | shape::ACCESS | shape::READLINK => {
            (AT_FDCWD as u64, first)
        }
        _ => (first, second),
    };
    let key = &thread.key.io;
    let process = u64::from(key.tgid) << 32 | u64::from(key.start);
    iotrace_missing(process, directory, path, thread.ns(), thread.copy);
}

/// Counts one look-up of `process` (its id, and its start key) for `path`, which starts from `directory` and took `ns`.
///
/// Global, with numbers for arguments: so the verifier looks at it once and not at each of its calls.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_missing(
    process: u64,
    directory: u64,
    path: u64,
    ns: u64,
    copy: u32,
) -> u32 {
    let Some(scratch) = SCRATCH.get_ptr_mut(copy) else {
        return 0;
    };
    // SAFETY: this CPU's and this program's own scratch.
    let scratch = unsafe { &mut *scratch };
    // SAFETY: the buffer has room for PATH_BYTES.
    let length = unsafe {
        let target = scratch.bytes.as_mut_ptr().cast();
        generated::bpf_probe_read_user_str(target, PATH_BYTES as u32, path as *const c_void)
    };
    if length <= 1 {
        // An empty path is of no directory.
        if length < 0 {
            diagnose::count(diag::UNREADABLE);
        }
        return 0;
    }
    hash(scratch, length as u64 - 1, copy);
    let start = start_of_path(current(), directory, scratch.bytes[0] == b'/');
    let key = LookKey {
        tgid: (process >> 32) as u32,
        start: process as u32,
        base: id_of(probe(start[1] as Address, &DENTRY_INODE)),
        directory: peek(&raw const scratch.look.directory),
    };
    let half = cells::current_half();
    if count(&key, half, ns) {
        return 1;
    }
    let Some(map) = MISSING.get(half) else {
        return 0;
    };
    let first = Failures { calls: 1, ns };
    if map.insert(key, first, BPF_NOEXIST).is_err() {
        // Another thread was first, or there is no room.
        if !count(&key, half, ns) {
            diagnose::count(diag::UNLISTED_LOOKS);
        }
        return 1;
    }
    name(scratch, &key, start, path, copy);
    1
}

/// Adds to an entry that is there; whether it is.
#[inline(always)]
fn count(key: &LookKey, half: u32, ns: u64) -> bool {
    let found = MISSING.get(half).and_then(|map| map.get_ptr_mut(key));
    let Some(found) = found else { return false };
    // SAFETY: aligned words of a map value, which the threads of a process share.
    unsafe {
        add(&raw mut (*found).calls, 1);
        add(&raw mut (*found).ns, ns);
    }
    true
}

/// Sends the directory of a new entry: the one that the path starts from, and the path up to its last slash.
#[inline(always)]
fn name(scratch: &mut Scratch, key: &LookKey, start: [u64; 2], path: u64, copy: u32) {
    let until = peek(&raw const scratch.look.until);
    scratch.name = Name {
        header: header(event::MISSING),
        file: key.base,
        size: key.directory,
        mode: MODE_DIRECTORY,
        ..Name::NONE
    };
    walk(scratch, start, copy);
    let position = scratch.length;
    if position > (PATH_BYTES + NAME_BYTES) as u64 || until >= PATH_BYTES as u64 {
        return;
    }
    // SAFETY: the position leaves room for PATH_BYTES, and no more is read: with the NUL behind it.
    let length = unsafe {
        let target = scratch.bytes.as_mut_ptr().add(position as usize);
        generated::bpf_probe_read_user_str(target.cast(), until as u32 + 1, path as *const c_void)
    };
    if length <= 0 {
        diagnose::count(diag::UNREADABLE);
        return;
    }
    scratch.length = position + length as u64;
    // Where there is no room the entry stays without a name, which the report says.
    send(scratch);
}

/// Hashes the path of `length` bytes that the scratch begins with.
#[inline(always)]
fn hash(scratch: &mut Scratch, length: u64, copy: u32) {
    scratch.look = Look {
        hash: HASH_START,
        at: 0,
        length,
        directory: HASH_START,
        until: 0,
    };
    let mut context = copy;
    // SAFETY: the callback has the signature that the helper calls, and its context lives on this stack.
    unsafe { repeat(TURNS, hash_callback, (&raw mut context).cast()) };
}

unsafe extern "C" fn hash_callback(_index: u32, copy: *mut c_void) -> i64 {
    // SAFETY: the context is the copy's number on the caller's stack.
    let copy = unsafe { *copy.cast::<u32>() };
    let Some(scratch) = SCRATCH.get_ptr_mut(copy) else {
        return 1;
    };
    // SAFETY: this CPU's and this program's own scratch, which the caller does not use during the loop.
    let Scratch { bytes, look, .. } = unsafe { &mut *scratch };
    for _ in 0..STEP {
        let at = peek(&raw const look.at);
        if at >= look.length {
            return 1;
        }
        let byte = bytes[at as usize & (PATH_BYTES - 1)];
        let hash = (peek(&raw const look.hash) ^ u64::from(byte)).wrapping_mul(HASH_FACTOR);
        poke(&raw mut look.hash, hash);
        poke(&raw mut look.at, at + 1);
        if byte == b'/' {
            poke(&raw mut look.directory, hash);
            poke(&raw mut look.until, at + 1);
        }
    }
    0
}

/// What the loop has written, which the compiler cannot know.
#[inline(always)]
fn peek(field: *const u64) -> u64 {
    // SAFETY: a field of the running program's own scratch.
    unsafe { ptr::read_volatile(field) }
}

#[inline(always)]
fn poke(field: *mut u64, value: u64) {
    // SAFETY: as in `peek`.
    unsafe { ptr::write_volatile(field, value) }
}
