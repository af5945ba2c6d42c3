//! How long operations took, by thread, device, phase and class of operation.
//!
//! Writes `CELLS_LATENCY`, for every operation that found its counters: so their calls are those of the counters. Nothing of
//! it is there unless `COUNT_LATENCIES` is set, and only for threads of which it is kept.

use core::ptr;

use iotrace_common::{
    diag,
    latency::{self, BUCKETS, Latencies},
    op::{class, class_of},
    scope::kept,
    value::Cell,
};

use crate::core::{
    cells::{self, Kept},
    config::COUNT_LATENCIES,
    diagnose,
    thread::Thread,
};

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
        count(thread, class as usize);
    }
}

#[inline(always)]
fn count(thread: &mut Thread, class: usize) {
    let place = class & (latency::PLACES - 1);
    let epoch = thread.epoch;
    let tag = latency::tag(&thread.key.io, epoch);
    let found = if thread.latency_tags[place] == tag {
        cells::at::<Latencies>(epoch, thread.latency_cells[place])
    } else {
        thread.latency_tags[place] = tag;
        thread.latency_key = latency::key(&thread.key.io, class);
        find(thread, epoch)
    };
    if found.is_null() {
        return diagnose::count(diag::LATENCIES_LOST);
    }
    let ns = thread.ns();
    let bucket = latency::bucket(ns);
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        let latencies = &raw mut (*found).value;
        if bucket < BUCKETS {
            (*latencies).calls[bucket] += 1;
        }
        if ns > (*latencies).longest {
            (*latencies).longest = ns;
        }
    }
}

/// The cell of the thread's latencies where it is not the one that it used last; null where none is left.
#[inline(always)]
fn find(thread: &mut Thread, epoch: u64) -> *mut Cell<Latencies> {
    let mut found = cells::find::<Latencies>(thread, epoch);
    if found.is_null() {
        found = cells::take(thread, epoch);
    }
    if found.is_null() {
        thread.latency_tags[latency::place(&thread.latency_key)] = 0;
        return ptr::null_mut();
    }
    cells::at(epoch, *Latencies::used(thread))
}
