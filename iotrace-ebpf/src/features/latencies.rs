//! How long operations took, by thread, device, phase and class of operation.
//!
//! Writes `CELLS_LATENCY`, for every operation that found its counters: so their calls are those of the counters. Nothing of
//! it is there unless `COUNT_LATENCIES` is set, and only for threads of which it is kept.

use iotrace_common::{
    diag,
    latency::{self, BUCKET_COUNT, Latencies},
    op::{class, class_of},
    scope::kept,
};

use crate::core::{cells, config::COUNT_LATENCIES, diagnose, thread::Thread};

/// Counts the thread's call, which succeeded.
#[inline(always)]
pub fn succeeded(thread: &mut Thread) {
    if is_kept(thread) {
        iotrace_latency(thread, class_of(thread.op()) as u64);
    }
}

/// Counts the thread's call, which failed.
#[inline(always)]
pub fn failed(thread: &mut Thread) {
    if is_kept(thread) {
        iotrace_latency(thread, class::FAILED as u64);
    }
}

#[inline(always)]
fn is_kept(thread: &Thread) -> bool {
    COUNT_LATENCIES.is_set() && thread.verdict & kept::LATENCIES != 0
}

checked_once! {
    /// Counts the thread's call as one of `class`.
    pub fn iotrace_latency(thread: &mut Thread, class: u64) {
        thread.latency_key = latency::key(&thread.key.io, class as usize);
        let found = cell(thread);
        if found.is_null() {
            return diagnose::count(diag::LATENCIES_LOST);
        }
        let ns = thread.ns();
        let bucket = latency::bucket(ns);
        // SAFETY: a map value, whose one writer is this thread.
        unsafe {
            if bucket < BUCKET_COUNT {
                (*found).calls[bucket] += 1;
            }
            if ns > (*found).longest {
                (*found).longest = ns;
            }
        }
    }
}

/// The cell of the thread's latencies; null where none is left.
#[inline(always)]
fn cell(thread: &mut Thread) -> *mut Latencies {
    let epoch = cells::epoch();
    let mut found: *mut Latencies = cells::last(thread, epoch);
    if found.is_null() {
        found = cells::find(thread, epoch);
    }
    if found.is_null() {
        found = cells::take(thread, epoch);
    }
    found
}
