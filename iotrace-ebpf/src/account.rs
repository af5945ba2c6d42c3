//! The counters: finding an operation's entry and adding to it. The only writer of the counter maps.
//!
//! Writes `IO` or `IO_FULL`, `OVERFLOW` or `OVERFLOW_FULL`, `FAILURES`, `FILL`; sends the fill notice and, for a new
//! entry, the file's name.

use iotrace_common::{
    diag, event,
    key::{FailureKey, FileId, IoKey},
    op,
    value::{Failures, Io, group},
};

use crate::{
    config::{FILL_NOTICE, FULL},
    diagnose,
    kernel::{Address, fetch_add},
    maps::{FAILURES, FILL, IO, IO_FULL, OVERFLOW, OVERFLOW_FULL, ZERO},
    path, process,
};

const BPF_NOEXIST: u64 = 1;

/// What is known of a call at its end, whatever it was.
#[derive(Clone, Copy)]
pub struct Outcome {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub started: u64,
    pub ended: u64,
    /// Operation class.
    pub op: usize,
    /// Copy of the program that runs.
    pub copy: u32,
    /// The running task.
    pub task: Address,
}

impl Outcome {
    /// Nanoseconds inside the call.
    #[inline(always)]
    pub fn ns(&self) -> u64 {
        self.ended - self.started
    }
}

/// The entry of `key`, made if it is new; the overflow entry where its generation is full; none where that is full too.
/// At detail full it is an `IoFull`, which starts with its `Io`. `file` (0: none) is named if it has not been.
#[inline(always)]
pub fn entry(key: &IoKey, file: u64, outcome: &Outcome) -> Option<*mut Io> {
    lookup(key).or_else(|| {
        if new_entry(key, file, outcome.copy) == 0 {
            return lookup(key);
        }
        overflow(key)
    })
}

#[inline(always)]
fn lookup(key: &IoKey) -> Option<*mut Io> {
    if FULL.is_set() {
        IO_FULL.get(0)?.get_ptr_mut(key).map(|full| full.cast())
    } else {
        IO.get(0)?.get_ptr_mut(key)
    }
}

/// Makes an entry; 0 if there is one now. Not inlined: once per thread, file and generation.
#[inline(never)]
fn new_entry(key: &IoKey, file: u64, copy: u32) -> u32 {
    if !key.file.is_none() && file != 0 {
        path::name_file(file, &key.file, copy);
    }
    let Some(zero) = ZERO.get(0) else { return 1 };
    let made = if FULL.is_set() {
        let Some(map) = IO_FULL.get(0) else { return 1 };
        map.insert(key, zero, BPF_NOEXIST).is_ok()
    } else {
        let Some(map) = IO.get(0) else { return 1 };
        map.insert(key, &zero.io, BPF_NOEXIST).is_ok()
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

/// The overflow entry of the key's thread.
#[inline(never)]
fn overflow(key: &IoKey) -> Option<*mut Io> {
    let key = IoKey {
        file: FileId::NONE,
        ..*key
    };
    let zero = ZERO.get(0)?;
    let found = if FULL.is_set() {
        let map = OVERFLOW_FULL.get(0)?;
        map.get_ptr_mut(key)
            .or_else(|| {
                // Where it fails, the second look says so.
                let _ = map.insert(key, zero, BPF_NOEXIST);
                map.get_ptr_mut(key)
            })
            .map(|full| full.cast())
    } else {
        let map = OVERFLOW.get(0)?;
        map.get_ptr_mut(key).or_else(|| {
            let _ = map.insert(key, &zero.io, BPF_NOEXIST);
            map.get_ptr_mut(key)
        })
    };
    if found.is_none() {
        diagnose::count(diag::LOST_OPERATIONS);
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
pub fn add(io: *mut Io, outcome: &Outcome) {
    if outcome.op >= op::COUNT {
        return;
    }
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        (*io).calls[outcome.op] += 1;
        (*io).ns[group_of(outcome.op)] += outcome.ns();
        span(io, outcome);
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
pub fn failure(key: &IoKey, outcome: &Outcome, errno: u32) {
    if let Some(io) = entry(key, 0, outcome) {
        // SAFETY: as in `add`.
        unsafe {
            (*io).failures += 1;
            (*io).failed_ns += outcome.ns();
            span(io, outcome);
        }
    }
    let key = FailureKey {
        io: *key,
        op: outcome.op as u32,
        errno,
    };
    let Some(map) = FAILURES.get(0) else { return };
    if let Some(failures) = map.get_ptr_mut(key) {
        // SAFETY: as in `add`.
        unsafe {
            (*failures).calls += 1;
            (*failures).ns += outcome.ns();
        }
    } else if map
        .insert(
            key,
            Failures {
                calls: 1,
                ns: outcome.ns(),
            },
            BPF_NOEXIST,
        )
        .is_err()
    {
        diagnose::count(diag::FAILURES_UNSORTED);
    }
}

/// Extends the entry's span over the call.
///
/// # Safety
/// `io` is a map value.
#[inline(always)]
unsafe fn span(io: *mut Io, outcome: &Outcome) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*io).first == 0 {
            (*io).first = outcome.started;
        }
        (*io).last = outcome.ended;
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
