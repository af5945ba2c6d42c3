//! Histograms of durations and sizes, for metrics: by phase over all threads.
//!
//! Writes `HISTOGRAMS`, which is per CPU, for every operation that found its counters; so their sums are those of the
//! counters. Nothing of it is there unless `COUNT_HISTOGRAMS` is set.

use iotrace_common::{
    bucket::size_bucket,
    histogram::duration_bucket,
    op::{self, class, class_of},
};

use crate::core::{config::COUNT_HISTOGRAMS, diagnose::add_to_own, thread::Thread};

maps! {
    HISTOGRAMS;
}

/// In place of bytes: the operation moves none.
pub const NO_DATA: u64 = u64::MAX;

/// Counts the thread's call, which succeeded and moved `bytes`.
#[inline(always)]
pub fn succeeded(thread: &Thread, bytes: u64) {
    if COUNT_HISTOGRAMS.is_set() {
        count(thread, class_of(thread.op()), bytes);
    }
}

/// Counts the thread's call, which failed.
#[inline(always)]
pub fn failed(thread: &Thread) {
    if COUNT_HISTOGRAMS.is_set() {
        count(thread, class::FAILED, NO_DATA);
    }
}

/// Not inlined: it would make the hot path's frame larger.
#[inline(never)]
fn count(thread: *const Thread, class: usize, bytes: u64) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_ref() }) else {
        return 0;
    };
    let Some(all) = HISTOGRAMS.get_ptr_mut(thread.key.io.phase) else {
        return 0;
    };
    if class >= class::COUNT {
        return 0;
    }
    let ns = thread.ns();
    // SAFETY: a map value of this CPU; class and buckets are below their numbers.
    unsafe {
        let durations = &raw mut (*all).durations[class];
        add_to_own(&raw mut (*durations).calls[duration_bucket(ns)], 1);
        add_to_own(&raw mut (*durations).ns, ns);
        let is_read = class == class::READ;
        if bytes == NO_DATA || thread.op() == op::READ && bytes == 0 {
            return 0;
        }
        let sizes = &raw mut (*all).sizes[usize::from(!is_read)];
        add_to_own(&raw mut (*sizes).calls[size_bucket(bytes)], 1);
        add_to_own(&raw mut (*sizes).bytes, bytes);
    }
    0
}
