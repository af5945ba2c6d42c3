//! Merged time: how long a process, or all of them, was in calls of one phase, with what overlaps counted once.
//!
//! - `process`: of each process, in the counters of its files
//! - `global`: over all processes, if that is asked for (`MERGE_ALL`)
//!
//! Both have words: how many calls of a phase are in flight, and up to when the time is accounted for, the mark. The first
//! call sets the mark to its start; each end takes the time from the mark to itself and sets the mark. So the sum is exact at
//! any moment, in one word, by one exchange at each end of a call.

pub mod global;
pub mod process;

use core::ptr;

use iotrace_common::diag;

use crate::{
    core::{config::MERGE_ALL, diagnose, memory::Address, thread::Thread},
    platform::{compare_exchange, fetch_add, running},
};
pub use process::{ALONE, release};

/// Nanoseconds since boot, up to 52 days of them; above stands the number of calls.
pub const TIME: u64 = (1 << 52) - 1;
pub const ONE: u64 = 1 << 52;
pub const MOST: u64 = 0xfff;
/// A mark that is less than this behind a moment was set by a call that overtook it; more, and it is an old one.
pub const NEAR: u64 = 1 << 30;
/// Attempts to change a word; each that fails means that another call got on.
pub const TRIES: u32 = 16;
/// The thread's call begins.
#[inline(always)]
pub fn begin(thread: &mut Thread, task: Address) {
    let threads = running::threads(task);
    thread.flight = ALONE;
    if threads > 1 || thread.asynchronous != 0 {
        process::iotrace_take_off(thread);
    }
    if MERGE_ALL.is_set() {
        global::begin(thread);
    }
}

/// The thread's call, which is none of a descriptor, is taken for one of the phase that its last open was of.
#[inline(always)]
pub fn expect_open(thread: &mut Thread) {
    thread.key.io.phase = thread.opened_phase;
}

/// As [`begin`], of a request that runs beside the thread's calls.
#[inline(always)]
pub fn begin_beside(thread: &mut Thread) {
    process::iotrace_take_off(thread);
    if MERGE_ALL.is_set() {
        global::begin(thread);
    }
}

/// The thread's call has ended: what its end adds to the merged time of its phase, which is in its key.
#[inline(always)]
pub fn end(thread: &mut Thread) -> u64 {
    if MERGE_ALL.is_set() {
        global::end(thread);
    }
    if thread.flight == ALONE {
        thread.ns()
    } else {
        process::iotrace_land(thread)
    }
}

/// The thread ends, or its call did so unseen: it is no longer in flight.
#[inline(always)]
pub fn abandon(thread: &mut Thread) {
    if MERGE_ALL.is_set() {
        global::abandon(thread);
    }
    if thread.flight != ALONE {
        process::iotrace_drop_out(thread);
    }
}

/// Whether a mark is not behind a moment.
#[inline(always)]
pub fn is_behind(mark: u64, moment: u64) -> bool {
    let ahead = mark.wrapping_sub(moment) & TIME;
    ahead == 0 || ahead > NEAR
}

/// Accounts for the time up to `end` and takes `calls` off the word; what that added.
#[inline(always)]
pub fn account(word: *mut u64, end: u64, calls: u64) -> u64 {
    for _ in 0..TRIES {
        // SAFETY: an aligned word of a map value.
        let before = unsafe { ptr::read_volatile(word) };
        let mark = before & TIME;
        let behind = is_behind(mark, end);
        let after = before.wrapping_sub(calls) & !TIME | if behind { end & TIME } else { mark };
        // SAFETY: as above.
        if unsafe { compare_exchange(word, before, after) } == before {
            return if behind {
                end.wrapping_sub(mark) & TIME
            } else {
                0
            };
        }
    }
    diagnose::count(diag::UNMERGED);
    // A call that stayed in the count would be in flight for ever.
    // SAFETY: as above.
    unsafe { fetch_add(word, calls.wrapping_neg()) };
    0
}
