//! Spans: which calls on a file are one use of it by one process.
//!
//! A span begins with the open of a file, or with the first call after a while without any, and has a number that is part of
//! the key of its counters. So each use of a checkpoint has counters of its own, with the times of its first and last call.
//! Only phases in `SPAN_PHASES` have spans: each costs a cell.
//!
//! Writes `OPEN_FILES` (through `open_files`) and `SPANS`.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use iotrace_common::{key::MAX_SPAN, op};

use crate::{
    core::{config::SPAN_PHASES, open_files, thread::Thread},
    platform::next,
};

/// Spans begun so far ([`crate::features::spans`]).
#[btf_map]
static SPANS: Array<u64, 1> = Array::new();

/// Number of the span that the thread's call belongs to; 0: spans of its phase are not kept, or it has no open file.
#[inline(always)]
pub fn of(thread: &mut Thread) -> u32 {
    if !are_kept(thread) || thread.file == 0 {
        return 0;
    }
    iotrace_span(thread) as u32
}

/// Whether spans of the phase of the thread's call are kept.
#[inline(always)]
pub fn are_kept(thread: &Thread) -> bool {
    SPAN_PHASES.load() >> (thread.key.io.phase & 31) & 1 != 0
}

checked_once! {
    /// As [`of`], of a phase whose spans are kept.
    pub fn iotrace_span(thread: &mut Thread) -> u64 {
        let mut state = open_files::find(thread);
        let mut is_new = thread.op() == op::OPEN;
        if is_new || state.is_null() {
            is_new = true;
            open_files::iotrace_begin(thread);
            state = open_files::find(thread);
        }
        if state.is_null() {
            return 0;
        }
        // SAFETY: a map value. Threads that share the open file may write it at one time: each word is whole.
        let state = unsafe { &mut *state };
        if is_new || open_files::was_idle(state, thread) || state.span == 0 {
            state.span = new_number();
        }
        open_files::touch(state, thread);
        u64::from(state.span)
    }
}

/// The next number, never 0.
#[inline(always)]
fn new_number() -> u32 {
    match SPANS.get_ptr_mut(0) {
        // SAFETY: an aligned word of a map value.
        Some(spans) => (unsafe { next(spans) } % u64::from(MAX_SPAN)) as u32 + 1,
        None => 0,
    }
}
