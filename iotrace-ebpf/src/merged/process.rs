//! Merged time: how long a process was in calls of one phase, with what its threads' calls overlap counted once.
//!
//! Writes `FLIGHTS`.
//!
//! A call that begins while its process has one thread (and no requests of io_uring) cannot overlap another one: its time is its merged time, and
//! nothing is kept. For all others there is one word per process and phase: how many calls are in flight, and up to
//! when the time is accounted for, the mark. The first call sets the mark to its start; each end takes the time from
//! the mark to itself and sets the mark. So the sum is exact at any moment, in one word, by one exchange at each end of
//! a call. The part that a call ends stands in the counters of its file, whose sum over a phase is the merged time.
//!
//! The phase of an open shows only at its end. It is taken for that of the thread's open before, and where that was
//! wrong the time is put right; what then may be wrong, because other threads used either phase meanwhile, is counted
//! (`merged_uncertain_ns`). An exchange that comes some nanoseconds after its clock can lose those.

use core::ptr;

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use iotrace_common::{diag, limits::FLIGHT_SLOTS, phases};

use crate::{
    core::{diagnose, thread::Thread},
    merged::{MOST, NEAR, ONE, TIME, TRIES, account, is_behind},
    platform::{claim, compare_exchange, fetch_add},
};

/// `Thread::flight`: no call of the process can overlap.
pub const ALONE: u32 = 0;
/// `Thread::flight`: others may overlap, and nothing is known of them.
const UNKNOWN: u32 = u32::MAX;

/// Places that a process can have.
const PLACES: u32 = 4;

/// Calls in flight of one process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Flights {
    /// Process id and start key; 0: nobody's.
    owner: u64,
    pad: [u64; 5],
    /// By phase.
    words: [u64; phases::COUNT],
}

const _: () = assert!(size_of::<Flights>() == 128);

/// Calls in flight of the processes that have several threads: a table, because threads keep their process's place.
#[btf_map]
static FLIGHTS: Array<Flights, { FLIGHT_SLOTS as usize }> = Array::new();

checked_once! {
    /// As [`crate::merged::begin`], of a call that others may overlap.
    pub fn iotrace_take_off(thread: &mut Thread) {
        thread.flight = UNKNOWN;
        let phase = thread.key.io.phase;
        let word = word(thread, phase);
        if word.is_null() {
            diagnose::count(diag::UNMERGED);
            return;
        }
        let start = thread.entered;
        for _ in 0..TRIES {
            // SAFETY: an aligned word of a map value.
            let before = unsafe { ptr::read_volatile(word) };
            let mut mark = before & TIME;
            let calls = before >> 52;
            if calls == 0 && (mark.wrapping_sub(start) & TIME) > NEAR {
                mark = start & TIME;
            }
            if calls == MOST {
                break;
            }
            // SAFETY: as above.
            if unsafe { compare_exchange(word, before, (calls + 1) << 52 | mark) } == before {
                thread.flight = 1 + phase;
                return;
            }
        }
        diagnose::count(diag::UNMERGED);
    }
}

checked_once! {
    /// As [`crate::merged::abandon`], of a call that others may overlap.
    pub fn iotrace_drop_out(thread: &mut Thread) {
        let flight = thread.flight;
        if flight != UNKNOWN {
            let word = word(thread, flight - 1);
            if !word.is_null() {
                leave(word, thread.entered);
            }
        }
    }
}

/// Takes a call off a word that it should not have been in since `entered`; whether nobody else was.
#[inline(always)]
fn leave(word: *mut u64, entered: u64) -> bool {
    // SAFETY: an aligned word of a map value.
    let before = unsafe { fetch_add(word, ONE.wrapping_neg()) };
    before >> 52 == 1 && is_behind(before & TIME, entered)
}

checked_once! {
    /// As [`crate::merged::end`], of a call that others may overlap.
    pub fn iotrace_land(thread: &mut Thread) -> u64 {
        let flight = thread.flight;
        if flight == UNKNOWN {
            return thread.ns();
        }
        let expected = flight - 1;
        let phase = thread.key.io.phase;
        let word = word(thread, expected);
        if word.is_null() {
            return thread.ns();
        }
        if expected == phase {
            return account(word, thread.ended, ONE);
        }
        let actual = self::word(thread, phase);
        if actual.is_null() {
            return thread.ns();
        }
        let alone = leave(word, thread.entered);
        // SAFETY: an aligned word of a map value.
        let mark = unsafe { ptr::read_volatile(actual) } & TIME;
        let whole = is_behind(mark, thread.entered);
        if !alone || !whole {
            // Part of it may have been accounted for; which part, nobody knows.
            diagnose::add(diag::UNSURE_NS, thread.ns());
        }
        if whole {
            raise(actual, thread.entered);
        }
        account(actual, thread.ended, 0)
    }
}

/// Sets the mark of a word without calls in flight to a moment.
#[inline(always)]
fn raise(word: *mut u64, moment: u64) {
    // SAFETY: an aligned word of a map value.
    let before = unsafe { ptr::read_volatile(word) };
    if before < ONE {
        // Where it fails a call of that phase has begun, whose mark stands.
        // SAFETY: as above.
        unsafe { compare_exchange(word, before, moment & TIME) };
    }
}

/// The word of the thread's process and `phase`; null where there is no room.
#[inline(always)]
fn word(thread: &mut Thread, phase: u32) -> *mut u64 {
    if thread.place == 0 {
        thread.place = find(owner(thread.key.io.tgid, thread.key.io.start));
    }
    if thread.place == 0 || phase as usize >= phases::COUNT {
        return ptr::null_mut();
    }
    match FLIGHTS.get_ptr_mut(thread.place - 1) {
        // SAFETY: a map value; the phase is below their number.
        Some(flights) => unsafe { &raw mut (*flights).words[phase as usize] },
        None => ptr::null_mut(),
    }
}

#[inline(always)]
fn owner(tgid: u32, start: u32) -> u64 {
    u64::from(tgid) << 32 | u64::from(start)
}

/// The process's place, one more than its index; 0 where all that it can have are taken.
#[inline(never)]
fn find(own: u64) -> u32 {
    for nth in 0..PLACES {
        let index = index(own, nth);
        let Some(flights) = FLIGHTS.get_ptr_mut(index) else {
            return 0;
        };
        // SAFETY: an aligned word of a map value.
        unsafe {
            let owner = &raw mut (*flights).owner;
            let known = ptr::read_volatile(owner);
            if known == own {
                return index + 1;
            }
            if known == 0 {
                match claim(owner, own) {
                    0 => return 0, // next time
                    taken if taken == own => return index + 1,
                    _ => {}
                }
            }
        }
    }
    0
}

/// Gives the place of a process that has ended back.
#[inline(always)]
pub fn release(tgid: u32, start: u32) {
    let own = owner(tgid, start);
    for nth in 0..PLACES {
        let Some(flights) = FLIGHTS.get_ptr_mut(index(own, nth)) else {
            return;
        };
        // SAFETY: a map value; none of its owner's threads is left to write it.
        unsafe {
            if ptr::read_volatile(&raw const (*flights).owner) == own {
                (*flights).words = [0; phases::COUNT];
                ptr::write_volatile(&raw mut (*flights).owner, 0);
            }
        }
    }
}

/// Index of the `nth` place that a process can have.
#[inline(always)]
fn index(own: u64, nth: u32) -> u32 {
    ((own >> 32) as u32)
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add(nth)
        & (FLIGHT_SLOTS - 1)
}
