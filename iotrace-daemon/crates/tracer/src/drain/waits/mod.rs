//! Waits: reads what the programs wrote of threads that were off the CPU, in the order of time, and has it resolved.

mod calls;
mod resolve;
#[cfg(test)]
mod tests;

use std::time::Duration;

use iotrace_common::waits::Wait;

use super::{rings::Rings, threads::Ended};
use iotrace_model::{host, timeline::Segment, waits::Waited};
use resolve::Resolver;

/// How late a record may come behind those of other CPUs: its program may be held up while it writes.
const LATE_NS: u64 = 20_000_000;
/// Time between two looks at the rings.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The rings, and what their records mean.
pub struct Waits {
    rings: Rings<Wait>,
    /// Read, and not yet resolved.
    pending: Vec<Wait>,
    resolver: Resolver,
}

impl Waits {
    pub fn new(rings: Rings<Wait>) -> Self {
        Self {
            rings,
            pending: Vec::new(),
            resolver: Resolver::default(),
        }
    }

    /// Keeps each wait by itself, too.
    pub fn keep_timeline(&mut self) {
        self.resolver.keep_timeline();
    }

    /// Passes by what is there: it is of the self-test.
    pub fn skip(&mut self) {
        self.rings.skip();
    }

    /// Reads what there is.
    pub fn look(&mut self) {
        let until = host::monotonic().saturating_sub(LATE_NS);
        self.take(until);
    }

    /// A thread has ended: it ran since its last wait.
    pub fn ended(&mut self, thread: &Ended) {
        self.pending.push(Wait {
            off: thread.time,
            woken: thread.time,
            on: thread.time,
            tid: thread.tid,
            tgid: thread.process.pid,
            start: thread.process.start,
            ..Wait::default()
        });
    }

    /// Time by what it went to, since the last call.
    pub fn sums(&mut self) -> Vec<Waited> {
        self.resolver.take()
    }

    /// As [`Waits::sums`], when nothing more is written.
    pub fn rest(&mut self) -> Vec<Waited> {
        self.take(u64::MAX);
        self.resolver.take()
    }

    /// Waits one by one that were resolved since the last call, where they are kept.
    pub fn segments(&mut self) -> Vec<Segment> {
        self.resolver.take_segments()
    }

    /// Resolves what has ended until then.
    fn take(&mut self, until: u64) {
        self.rings.read(usize::MAX, &mut self.pending);
        // The self-test made this process a target.
        let own = std::process::id();
        self.pending.retain(|wait| wait.tgid != own);
        self.pending.sort_by_key(|wait| wait.on);
        let count = self.pending.partition_point(|wait| wait.on <= until);
        for wait in self.pending.drain(..count) {
            self.resolver.add(&wait);
        }
    }
}
