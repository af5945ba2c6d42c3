//! Merged time over all processes: how long at least one traced process was in a call of a phase.
//!
//! Writes `TOGETHER` and, per CPU, `TOGETHER_NS`; only where that is asked for (`MERGE_ALL`). There is a word for each
//! group of phases ([`iotrace_common::global_merged`]), as [`crate::merged`] has them by process: every call of every process
//! changes that of its phase at both of its ends, so all CPUs share these lines.
//!
//! What may be wrong is added up beside: an exchange that came after that of a call which ended later than this one began,
//! an open that turned out to be of another phase than was taken for it, a call that ended with its thread.

use core::ptr;

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use iotrace_common::global_merged::{GROUPS, GROUPS_PER_CALL, NONE, Time, group};

use crate::{
    core::{diagnose::add_to_own, memory::now, thread::Thread},
    merged::{MOST, NEAR, ONE, TIME, TRIES, account, is_behind},
    platform::{compare_exchange, fetch_add},
};

/// The words that a call is in: for each of its groups one more than the group's number, or one of these.
pub type Joined = [u8; GROUPS_PER_CALL as usize];
/// In no word.
const NOT: u8 = 0;
/// It should be in one, but there was no room.
const LEFT_OUT: u8 = u8::MAX;
/// Of a call that is in no word.
pub const NONE_JOINED: Joined = [NOT; GROUPS_PER_CALL as usize];

/// A word on a cache line of its own.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Line {
    word: u64,
    pad: [u64; 7],
}

/// Calls in flight of all processes, by group of phases ([`crate::merged::global`]). All CPUs write them, so each has a line of
/// its own.
#[btf_map]
static TOGETHER: Array<Line, { GROUPS }> = Array::new();

maps! {
    TOGETHER_NS;
}

/// The thread's call begins.
#[inline(never)]
pub fn begin(thread: *mut Thread) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let (phase, start) = (thread.key.io.phase, thread.entered);
    thread.joined = [join(group(phase, 0), start), join(group(phase, 1), start)];
    0
}

/// The thread's call has ended; its phase is in its key.
#[inline(never)]
pub fn end(thread: *mut Thread) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let (phase, from, to) = (thread.key.io.phase, thread.entered, thread.ended);
    let [first, second] = thread.joined;
    thread.joined = NONE_JOINED;
    // Where its start was not seen, it was in no word, and has no time.
    if first != NOT {
        settle(first, group(phase, 0), from, to);
        settle(second, group(phase, 1), from, to);
    }
    0
}

/// The thread ends, or its call did so unseen, or turned out to be none that is counted.
#[inline(never)]
pub fn abandon(thread: *mut Thread) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let joined = thread.joined;
    thread.joined = NONE_JOINED;
    forget(joined, thread.entered);
    0
}

/// A call that began at `from` will not be seen to end.
#[inline(always)]
pub fn forget([first, second]: Joined, from: u64) {
    let to = now();
    leave(first, from, to);
    leave(second, from, to);
}

/// Takes a call off the word that it is in, which is that of `group` unless it was taken for another.
#[inline(always)]
fn settle(joined: u8, group: u32, from: u64, to: u64) {
    if u32::from(joined) == group.wrapping_add(1) && joined != NOT {
        let word = word(group);
        if !word.is_null() {
            add(group, account(word, to, ONE), 0);
        }
        return;
    }
    leave(joined, from, to);
    if group == NONE {
        return;
    }
    if joined == LEFT_OUT {
        add(group, 0, to - from);
    } else {
        join_late(group, from, to);
    }
}

/// Counts a call into the word of a group; which it is in now.
#[inline(always)]
fn join(group: u32, start: u64) -> u8 {
    if group == NONE {
        return NOT;
    }
    let word = word(group);
    if word.is_null() {
        return LEFT_OUT;
    }
    for _ in 0..TRIES {
        // SAFETY: an aligned word of a map value.
        let before = unsafe { ptr::read_volatile(word) };
        let mut mark = before & TIME;
        let calls = before >> 52;
        let mut ahead = mark.wrapping_sub(start) & TIME;
        if ahead > NEAR {
            ahead = 0;
            if calls == 0 {
                mark = start & TIME;
            }
        }
        if calls == MOST {
            break;
        }
        // SAFETY: as above.
        if unsafe { compare_exchange(word, before, (calls + 1) << 52 | mark) } == before {
            if ahead != 0 {
                // A call ended between this one's clock and now: what lies before that end may be missing.
                add(group, 0, ahead);
            }
            return group as u8 + 1;
        }
    }
    LEFT_OUT
}

/// Takes a call off a word that it should not have been in.
#[inline(always)]
fn leave(joined: u8, from: u64, to: u64) {
    if joined == NOT || joined == LEFT_OUT {
        return;
    }
    let group = u32::from(joined) - 1;
    let word = word(group);
    if word.is_null() {
        return;
    }
    // SAFETY: an aligned word of a map value.
    let before = unsafe { fetch_add(word, ONE.wrapping_neg()) };
    let mark = before & TIME;
    if before >> 52 != 1 {
        // What began beside it may be accounted for from this one's start on.
        add(group, 0, to - from);
    } else if !is_behind(mark, from) {
        add(group, 0, until(mark, from, to));
    }
}

/// Accounts for a call that was not in the word of its group, and has ended.
#[inline(always)]
fn join_late(group: u32, from: u64, to: u64) {
    let word = word(group);
    if word.is_null() {
        return;
    }
    // SAFETY: an aligned word of a map value.
    let before = unsafe { ptr::read_volatile(word) };
    let mark = before & TIME;
    let overtaken = !is_behind(mark, from);
    if overtaken {
        // Others were in calls meanwhile; whether from its start on, nobody knows.
        add(group, 0, until(mark, from, to));
    }
    if before >= ONE {
        // The time since the mark is that of those that are in flight.
        return;
    }
    let start = if overtaken { mark } else { from & TIME };
    let missing = to.wrapping_sub(start) & TIME;
    if missing > NEAR && overtaken {
        return;
    }
    // SAFETY: as above.
    if unsafe { compare_exchange(word, before, to & TIME) } == before {
        add(group, missing, 0);
    } else {
        add(group, 0, to - from);
    }
}

/// Nanoseconds from `from` to a mark, and no more than to `to`.
#[inline(always)]
fn until(mark: u64, from: u64, to: u64) -> u64 {
    let (marked, whole) = (mark.wrapping_sub(from) & TIME, to - from);
    if marked < whole { marked } else { whole }
}

#[inline(always)]
fn word(group: u32) -> *mut u64 {
    match TOGETHER.get_ptr_mut(group) {
        // SAFETY: a map value.
        Some(line) => unsafe { &raw mut (*line).word },
        None => ptr::null_mut(),
    }
}

/// Adds to what is measured of a group.
#[inline(always)]
fn add(group: u32, ns: u64, uncertain_ns: u64) {
    const { assert!(GROUPS < LEFT_OUT as usize) };
    if let Some(time) = TOGETHER_NS.get_ptr_mut(group) {
        let time: *mut Time = time;
        // SAFETY: the value is this CPU's own.
        unsafe {
            add_to_own(&raw mut (*time).ns, ns);
            add_to_own(&raw mut (*time).uncertain_ns, uncertain_ns);
        }
    }
}
