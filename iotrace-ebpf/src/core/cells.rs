//! Where the counters of a thread and file stand: a cell of the current generation, and the table that finds it.
//!
//! Writes `CELLS` or `CELLS_FULL`, `SETS` and `FILL`; sends the fill notice.
//!
//! Cells are given out one after another, so that a drain reads what is used and nothing else. A thread remembers the
//! cell that it used last, and a cell says whose it is: as long as a thread stays with one file, finding its counters is
//! one comparison. All others are found through `SETS`, by the hash of their key. A place of it holds a generation, some
//! bits of the hash and a cell; one of an earlier generation is free. A place can be lost, to a thread that took it at the
//! same time or because its set is full: then the next call takes another cell for the same key, and the daemon, which
//! adds up what it drains, sees no difference.

use core::ptr;

use iotrace_common::{event, key::IoKey, limits::SET_WAYS, value::Io};

use crate::{
    core::{
        config::{CELLS_EACH, FILL_NOTICE, FULL, SET_MASK},
        events,
        maps::{CELLS, CELLS_FULL, EPOCH, FILL, SETS},
        thread::Thread,
    },
    platform::{compare_exchange, next},
};

/// Words of a key.
const WORDS: usize = size_of::<IoKey>() / 8;
/// Odd numbers with their bits well mixed, from the digits of the golden ratio and its likes (splitmix64, Murmur3).
const FACTORS: [u64; WORDS] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xff51_afd7_ed55_8ccd,
];

/// The current generation. A program reads it once for an entry: until the program ends, nobody drains it.
#[inline(always)]
pub fn epoch() -> u64 {
    match EPOCH.get_ptr(0) {
        // SAFETY: an aligned word of a map value, which the daemon writes.
        Some(epoch) => unsafe { ptr::read_volatile(epoch) },
        None => 0,
    }
}

/// The counters of the thread's key, if they are the ones that it used last; null if not.
#[inline(always)]
pub fn last(thread: &Thread, epoch: u64) -> *mut Io {
    owned(at(epoch, thread.cell), &thread.key.io)
}

/// The counters of the thread's key, by the table; null where there are none, or where their place was lost.
#[inline(always)]
pub fn find(thread: &mut Thread, epoch: u64) -> *mut Io {
    let hash = hash(&thread.key.io);
    let Some(set) = SETS.get_ptr(set(hash)) else {
        return ptr::null_mut();
    };
    let wanted = place(epoch, hash, 0) >> 32;
    for way in 0..SET_WAYS {
        // SAFETY: an aligned word of a map value, below their number.
        let place = unsafe { ptr::read_volatile((*set).as_ptr().add(way)) };
        if place >> 32 == wanted {
            let io = owned(at(epoch, place as u32), &thread.key.io);
            if !io.is_null() {
                thread.cell = place as u32;
                return io;
            }
        }
    }
    ptr::null_mut()
}

/// Takes a cell for the thread's key, all zero; null where none is left.
#[inline(always)]
pub fn take(thread: &mut Thread, epoch: u64) -> *mut Io {
    let Some(fill) = FILL.get_ptr_mut(epoch as u32 & 1) else {
        return ptr::null_mut();
    };
    // SAFETY: an aligned word of a map value.
    let before = unsafe {
        let cells = &raw mut (*fill).cells;
        if ptr::read_volatile(cells) >= CELLS_EACH.load() {
            return ptr::null_mut();
        }
        next(cells)
    };
    if before >= CELLS_EACH.load() {
        return ptr::null_mut();
    }
    let cell = at(epoch, before as u32);
    if cell.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: a map value, which was just given to this thread.
    unsafe { *cell = thread.key.io };
    thread.cell = before as u32;
    publish(&thread.key.io, epoch, before as u32);
    if before + 1 == FILL_NOTICE.load() {
        events::notice(event::FILL);
    }
    // SAFETY: the counters stand behind the key.
    unsafe { cell.add(1).cast() }
}

/// Puts a cell into the table.
#[inline(always)]
fn publish(key: &IoKey, epoch: u64, cell: u32) {
    let hash = hash(key);
    let Some(set) = SETS.get_ptr_mut(set(hash)) else {
        return;
    };
    let new = place(epoch, hash, cell);
    for way in 0..SET_WAYS {
        // SAFETY: an aligned word of a map value, below their number.
        unsafe {
            let word = (*set).as_mut_ptr().add(way);
            let known = ptr::read_volatile(word);
            if known >> 48 != new >> 48 && compare_exchange(word, known, new) == known {
                return;
            }
        }
    }
    // SAFETY: as above. Whose place it was takes another cell.
    unsafe { ptr::write_volatile((*set).as_mut_ptr(), new) };
}

/// What stands in the table for a cell: 16 bits of the generation, 16 of the hash, the cell.
#[inline(always)]
fn place(epoch: u64, hash: u64, cell: u32) -> u64 {
    // Generation 0 is no generation: the daemon begins with 1, and an empty place is of none.
    epoch << 48 | (hash & 0xffff) << 32 | u64::from(cell)
}

#[inline(always)]
fn set(hash: u64) -> u32 {
    (hash >> 32) as u32 & SET_MASK.load() as u32
}

#[inline(always)]
fn hash(key: &IoKey) -> u64 {
    let words = words(key);
    let mut hash = 0;
    for (word, factor) in FACTORS.iter().enumerate() {
        // SAFETY: a key is that many aligned words.
        hash ^= unsafe { ptr::read(words.add(word)) }.wrapping_mul(*factor);
    }
    (hash ^ hash >> 32).wrapping_mul(FACTORS[0])
}

/// The key of a cell of a generation; null where there is no such cell.
#[inline(always)]
fn at(epoch: u64, cell: u32) -> *mut IoKey {
    let index = (epoch as u32 & 1)
        .wrapping_mul(CELLS_EACH.load() as u32)
        .wrapping_add(cell);
    let found = if FULL.is_set() {
        CELLS_FULL.get_ptr_mut(index).map(|cell| cell.cast())
    } else {
        CELLS.get_ptr_mut(index).map(|cell| cell.cast())
    };
    found.unwrap_or(ptr::null_mut())
}

/// The counters of a cell, if it is that of `key`; null if not.
#[inline(always)]
fn owned(cell: *mut IoKey, key: &IoKey) -> *mut Io {
    if cell.is_null() {
        return ptr::null_mut();
    }
    let (theirs, ours) = (words(cell), words(key));
    for word in 0..WORDS {
        // SAFETY: both are that many aligned words; the cell's may be written by its owner at this moment, whose
        // thread id is another.
        if unsafe { ptr::read_volatile(theirs.add(word)) != ptr::read(ours.add(word)) } {
            return ptr::null_mut();
        }
    }
    // SAFETY: the counters stand behind the key.
    unsafe { cell.add(1).cast() }
}

#[inline(always)]
fn words(key: *const IoKey) -> *const u64 {
    key.cast()
}
