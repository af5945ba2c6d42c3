//! Where the counters of a thread and file stand: a cell of the current generation, and the table that finds it.
//!
//! Writes `CELLS`, `CELLS_FULL`, `CELLS_LATENCY`, `SETS` and `FILL`; sends the fill notice.
//!
//! Cells are given out one after another, so that a drain reads what is used and nothing else. A thread remembers the
//! cell that it used last, and a cell says whose it is: as long as a thread stays with one file, finding its counters is
//! one comparison. All others are found through `SETS`, by the hash of their key. A place of it holds a generation, some
//! bits of the hash and a cell; one of an earlier generation is free. A place can be lost, to a thread that took it at the
//! same time or because its set is full: then the next call takes another cell for the same key, and the daemon, which
//! adds up what it drains, sees no difference.
//!
//! There are three kinds of cells, of different sizes: the counters, what detail full adds to them, and latencies. Only the
//! threads that are recorded so have cells of the last two. A place does not say of which kind its cell is. So the key in the
//! cell is compared, and each kind mixes its own number into the hash.

use core::ptr;

use iotrace_common::{
    diag, event,
    key::IoKey,
    latency::{self, Latencies},
    limits::SET_WAYS,
    value::{Cell, Io, IoFull, fill_of, kind},
};

use crate::{
    core::{
        config::{CELLS_EACH, FULL_CELLS_EACH, LATENCY_CELLS_EACH, SET_MASK},
        events,
        maps::{
            BPF_NOEXIST, CELLS, CELLS_FULL, CELLS_LATENCY, EPOCH, FILL, OVERFLOW, OVERFLOW_FULL,
            SETS, ZERO,
        },
        thread::Thread,
    },
    platform::{compare_exchange, next},
};

/// A kind of counters, and where it is kept.
pub trait Kept: Sized {
    /// One of [`kind`].
    const KIND: u32;

    /// Cells of a generation.
    fn each() -> u64;
    /// A cell by its number, both generations counted; null where there is none.
    fn cell(index: u32) -> *mut Cell<Self>;
    /// The key of the thread's call.
    fn key(thread: &Thread) -> &IoKey;
    /// The cell that the thread used last.
    fn used(thread: &mut Thread) -> &mut u32;
}

/// A kind of counters that go elsewhere where there is no cell.
pub trait Overflowing: Kept {
    /// What is counted where there is no room at all.
    const NO_ROOM: u32;

    /// The overflow entry of a key; null where there is none.
    fn overflow(key: &IoKey, half: u32) -> *mut Self;
    /// Makes it.
    fn add_overflow(key: &IoKey, half: u32);
}

macro_rules! kept {
    ($type:ident: $kind:ident, $each:ident, $cells:ident, $key:ident => $key_of:expr, $thread:ident => $used:expr) => {
        impl Kept for $type {
            const KIND: u32 = kind::$kind;

            #[inline(always)]
            fn each() -> u64 {
                $each.load()
            }

            #[inline(always)]
            fn cell(index: u32) -> *mut Cell<Self> {
                $cells.get_ptr_mut(index).unwrap_or(ptr::null_mut())
            }

            #[inline(always)]
            fn key($key: &Thread) -> &IoKey {
                &$key_of
            }

            #[inline(always)]
            fn used($thread: &mut Thread) -> &mut u32 {
                &mut $used
            }
        }
    };
}

macro_rules! overflowing {
    ($type:ident: $no_room:ident, $overflow:ident, $zero:ident) => {
        impl Overflowing for $type {
            const NO_ROOM: u32 = diag::$no_room;

            #[inline(always)]
            fn overflow(key: &IoKey, half: u32) -> *mut Self {
                let found = $overflow.get(half).and_then(|map| map.get_ptr_mut(key));
                found.unwrap_or(ptr::null_mut())
            }

            #[inline(always)]
            fn add_overflow(key: &IoKey, half: u32) {
                if let (Some(map), Some(zero)) = ($overflow.get(half), ZERO.get(0)) {
                    let _ = map.insert(key, &zero.$zero, BPF_NOEXIST);
                }
            }
        }
    };
}

kept!(Io: BASIC, CELLS_EACH, CELLS, thread => thread.key.io, thread => thread.cell);
kept!(IoFull: FULL, FULL_CELLS_EACH, CELLS_FULL, thread => thread.key.io, thread => thread.full_cell);
kept!(Latencies: LATENCY, LATENCY_CELLS_EACH, CELLS_LATENCY, thread => thread.latency_key,
    thread => thread.latency_cells[latency::place(&thread.latency_key)]);
overflowing!(Io: LOST_OPERATIONS, OVERFLOW, io);
overflowing!(IoFull: LOST_DETAILS, OVERFLOW_FULL, full);

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

/// Place of a generation in an array of maps.
#[inline(always)]
pub fn half(epoch: u64) -> u32 {
    epoch as u32 & 1
}

/// Place of the current generation. As for [`epoch`], a program asks once for what belongs together.
#[inline(always)]
pub fn current_half() -> u32 {
    half(epoch())
}

/// The counters of the thread's key, if they are the ones that it used last; null if not.
#[inline(always)]
pub fn last<V: Kept>(thread: &mut Thread, epoch: u64) -> *mut V {
    owned(at(epoch, *V::used(thread)), V::key(thread))
}

/// The counters of the thread's key, by the table; null where there are none, or where their place was lost.
#[inline(always)]
pub fn find<V: Kept>(thread: &mut Thread, epoch: u64) -> *mut V {
    let hash = hash::<V>(V::key(thread));
    let Some(set) = SETS.get_ptr(set(hash)) else {
        return ptr::null_mut();
    };
    let wanted = place(epoch, hash, 0) >> 32;
    for way in 0..SET_WAYS {
        // SAFETY: an aligned word of a map value, below their number.
        let place = unsafe { ptr::read_volatile((*set).as_ptr().add(way)) };
        if place >> 32 == wanted {
            let found = owned(at::<V>(epoch, place as u32), V::key(thread));
            if !found.is_null() {
                *V::used(thread) = place as u32;
                return found;
            }
        }
    }
    ptr::null_mut()
}

/// Takes a cell for the thread's key, all zero; null where none is left.
#[inline(always)]
pub fn take<V: Kept>(thread: &mut Thread, epoch: u64) -> *mut V {
    let Some(fill) = FILL.get_ptr_mut(fill_of(epoch as u32, V::KIND)) else {
        return ptr::null_mut();
    };
    // SAFETY: an aligned word of a map value.
    let before = unsafe {
        let cells = &raw mut (*fill).cells;
        if ptr::read_volatile(cells) >= V::each() {
            return ptr::null_mut();
        }
        next(cells)
    };
    if before >= V::each() {
        return ptr::null_mut();
    }
    let cell = at::<V>(epoch, before as u32);
    if cell.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: a map value, which was just given to this thread.
    unsafe { (*cell).key = *V::key(thread) };
    *V::used(thread) = before as u32;
    publish(hash::<V>(V::key(thread)), epoch, before as u32);
    // The daemon is told to drain early.
    if before + 1 == V::each().div_ceil(2) {
        events::notice(event::FILL);
    }
    // SAFETY: as above.
    unsafe { &raw mut (*cell).value }
}

/// Puts a cell into the table.
#[inline(always)]
fn publish(hash: u64, epoch: u64, cell: u32) {
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

/// Another one for each kind of cells.
#[inline(always)]
fn hash<V: Kept>(key: &IoKey) -> u64 {
    let words = words(key);
    let mut hash = 0;
    for (word, factor) in FACTORS.iter().enumerate() {
        // SAFETY: a key is that many aligned words.
        hash ^= unsafe { ptr::read(words.add(word)) }.wrapping_mul(*factor);
    }
    hash = (hash ^ hash >> 32).wrapping_mul(FACTORS[0]);
    hash ^ u64::from(V::KIND).wrapping_mul(FACTORS[1])
}

/// A cell of a generation; null where there is no such cell.
#[inline(always)]
fn at<V: Kept>(epoch: u64, cell: u32) -> *mut Cell<V> {
    let index = (epoch as u32 & 1)
        .wrapping_mul(V::each() as u32)
        .wrapping_add(cell);
    V::cell(index)
}

/// The counters of a cell, if it is that of `key`; null if not.
#[inline(always)]
fn owned<V>(cell: *mut Cell<V>, key: &IoKey) -> *mut V {
    if cell.is_null() {
        return ptr::null_mut();
    }
    let (theirs, ours) = (words(cell.cast()), words(key));
    for word in 0..WORDS {
        // SAFETY: both are that many aligned words, which a cell begins with; the cell's may be written by its owner at this
        // moment, whose thread id is another.
        if unsafe { ptr::read_volatile(theirs.add(word)) != ptr::read(ours.add(word)) } {
            return ptr::null_mut();
        }
    }
    // SAFETY: the counters stand behind the key.
    unsafe { &raw mut (*cell).value }
}

#[inline(always)]
fn words(key: *const IoKey) -> *const u64 {
    key.cast()
}
