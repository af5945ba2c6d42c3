//! Waits: reads what the programs wrote of threads that were off the CPU, and has it resolved in the order of time.
//!
//! What a recording by itself reads it resolves; a service hands on the [`Records`], and each client resolves its part.

mod calls;
mod resolve;
mod retries;
#[cfg(test)]
mod tests;

use std::{mem, time::Duration};

use iotrace_common::waits::Wait;

use super::{
    Batch,
    rings::{LOOK_INTERVAL, MANY_RECORDS, Rings},
    threads::Ended,
};
use iotrace_model::{host, input::ProcessId, waits::Waited};
use resolve::Resolver;

/// How late a record may come behind those of other CPUs: its program may be held up while it writes.
const LATE_NS: u64 = 20_000_000;

/// What was read of the rings until a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// `CLOCK_MONOTONIC` nanoseconds. What was written before this is among these or those before, unless it is late.
    pub until: u64,
    pub waits: Vec<Wait>,
}

impl Records {
    /// Those of processes that `is_wanted` accepts. Who woke one of their threads is told where `may_know` accepts that
    /// process's pid.
    pub fn part(
        &self,
        mut is_wanted: impl FnMut(ProcessId) -> bool,
        may_know: impl Fn(u32) -> bool,
    ) -> Self {
        let mut waits = Vec::new();
        for wait in &self.waits {
            if !is_wanted(wait.into()) {
                continue;
            }
            let mut wait = *wait;
            if !may_know(wait.by_tgid) {
                (wait.by_tid, wait.by_tgid) = (0, 0);
            }
            waits.push(wait);
        }
        Self {
            until: self.until,
            waits,
        }
    }
}

/// The rings of a recording by itself or of a service.
pub struct Waits {
    rings: Rings<Wait>,
    read: Records,
    /// None: the records are handed on.
    resolution: Option<Resolution>,
    /// Whether somebody wants them.
    are_wanted: bool,
}

impl Waits {
    /// `is_shared`: the records are handed on, and only while they are wanted.
    pub fn new(rings: Rings<Wait>, is_shared: bool) -> Self {
        Self {
            rings,
            read: Records::default(),
            resolution: (!is_shared).then(Resolution::default),
            are_wanted: !is_shared,
        }
    }

    /// Whether what is read is resolved, not handed on.
    pub fn are_resolved(&self) -> bool {
        self.resolution.is_some()
    }

    /// Keeps each wait by itself, too.
    pub fn keep_timeline(&mut self) {
        if let Some(resolution) = &mut self.resolution {
            resolution.keep_timeline();
        }
    }

    /// Passes by what is there: it is of the self-test.
    pub fn skip(&mut self) {
        self.rings.skip();
    }

    /// Whether records are handed on from now on.
    pub fn want(&mut self, are_wanted: bool) {
        if are_wanted && !self.are_wanted {
            self.rings.skip();
        }
        self.are_wanted = are_wanted;
    }

    /// How long nobody need look at the rings; none where nobody wants what they hold.
    pub fn interval(&self) -> Option<Duration> {
        self.are_wanted.then_some(LOOK_INTERVAL)
    }

    /// Reads what there is.
    pub fn look(&mut self) {
        if !self.are_wanted {
            return;
        }
        self.read.until = host::monotonic();
        let first = self.read.waits.len();
        self.rings.read(usize::MAX, &mut self.read.waits);
        // The self-test made this process a target.
        let own = std::process::id();
        let is_own = |wait: &mut Wait| wait.tgid == own;
        self.read.waits.extract_if(first.., is_own).for_each(drop);
        if let Some(resolution) = &mut self.resolution {
            resolution.take(&mut self.read);
        }
    }

    /// A thread has ended: it ran since its last wait.
    pub fn ended(&mut self, thread: &Ended) {
        if !self.are_wanted {
            return;
        }
        self.read.waits.push(Wait {
            off: thread.time,
            woken: thread.time,
            on: thread.time,
            tid: thread.tid,
            tgid: thread.process.pid,
            start: thread.process.start,
            ..Wait::default()
        });
    }

    /// The records that are to be handed on, where they are many.
    pub fn many(&mut self) -> Option<Batch> {
        let are_many = self.resolution.is_none() && self.read.waits.len() >= MANY_RECORDS;
        are_many.then(|| Batch::WaitRecords(mem::take(&mut self.read)))
    }

    /// What came since the last call: resolved, or to be handed on.
    pub fn batches(&mut self) -> Vec<Batch> {
        match &mut self.resolution {
            Some(resolution) => resolution.batches().into(),
            None if self.read.waits.is_empty() => Vec::new(),
            None => vec![Batch::WaitRecords(mem::take(&mut self.read))],
        }
    }

    /// As [`Waits::batches`], when nothing more is written.
    pub fn rest(&mut self) -> Vec<Batch> {
        self.look();
        if let Some(resolution) = &mut self.resolution {
            resolution.end();
        }
        self.batches()
    }
}

/// What records mean.
#[derive(Default)]
pub struct Resolution {
    /// Not yet resolved.
    pending: Vec<Wait>,
    resolver: Resolver,
}

impl Resolution {
    /// Keeps each wait by itself, too.
    pub fn keep_timeline(&mut self) {
        self.resolver.keep_timeline();
    }

    /// Resolves what has ended so long before the records were read that no earlier one comes any more.
    pub fn take(&mut self, read: &mut Records) {
        self.pending.append(&mut read.waits);
        self.resolve(read.until.saturating_sub(LATE_NS));
    }

    /// Resolves all that is left.
    pub fn end(&mut self) {
        self.resolve(u64::MAX);
        self.resolver.end();
    }

    /// What main threads waited for since the last call.
    pub fn sums(&mut self) -> Vec<Waited> {
        self.resolver.take()
    }

    /// The same, and the waits one by one where they are kept.
    pub fn batches(&mut self) -> [Batch; 2] {
        let segments = self.resolver.take_segments();
        [Batch::Waits(self.sums()), Batch::Timeline(segments)]
    }

    fn resolve(&mut self, until: u64) {
        self.pending.sort_by_key(|wait| wait.on);
        let count = self.pending.partition_point(|wait| wait.on <= until);
        for wait in self.pending.drain(..count) {
            self.resolver.add(&wait);
        }
    }
}
