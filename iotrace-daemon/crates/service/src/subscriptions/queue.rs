//! What a subscriber has not taken yet. The queue is bounded: a slow subscriber only loses its own counts.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::{
    event::{EventfdFlags, eventfd},
    io::{read, write},
};

use iotrace_tracer::drain::{Batch, Traced};

use crate::socket::protocol::{Numbered, Refusal, Sums};

/// Bytes that may wait for a subscriber.
const MAX_BYTES: usize = 8 << 20;

/// What comes from the side that counts.
pub enum Item {
    /// The processes are counted from here on.
    Begun,
    Batch(Batch),
    Python(Numbered),
    /// Everything that was done until it was asked for has come.
    All(Sums),
    /// As `All`, and nothing more comes; why, where the subscriber did not ask for it.
    End(Sums, Option<String>),
}

/// What found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub operations: u64,
    /// Of those operations.
    pub bytes: u64,
    pub events: u64,
    pub waits: u64,
    /// Stacks, code of Python programs, and counts by stack.
    pub line_records: u64,
    pub line_counts: u64,
}

/// One subscriber's queue.
pub struct Queue {
    inner: Mutex<Inner>,
    /// Readable while something waits.
    ready: OwnedFd,
}

#[derive(Default)]
struct Inner {
    items: VecDeque<Item>,
    bytes: usize,
    lost: Lost,
    /// Nobody takes anything any more.
    is_closed: bool,
    /// Why the subscription does not begin.
    refusal: Option<Refusal>,
}

impl Queue {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            inner: Mutex::default(),
            ready: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Adds counters or events, or counts them as lost.
    pub fn batch(&self, batch: Batch) {
        let mut inner = self.inner();
        let bytes = batch.size();
        if inner.bytes + bytes > MAX_BYTES {
            let (operations, bytes) = batch.operations();
            inner.lost.operations += operations;
            inner.lost.bytes += bytes;
            match batch {
                Batch::Events(events) => inner.lost.events += events.len() as u64,
                Batch::WaitRecords(records) => inner.lost.waits += records.waits.len() as u64,
                Batch::Operations(traced) => self.missing(&mut inner, traced.lost()),
                Batch::LineRecords(records) => inner.lost.line_records += records.len() as u64,
                Batch::LineCounts((keys, _)) => inner.lost.line_counts += keys.len() as u64,
                _ => {}
            }
            return;
        }
        inner.bytes += bytes;
        self.add(&mut inner, Item::Batch(batch));
    }

    /// Tells of what is missing in the trace: where that came last, too, with it.
    fn missing(&self, inner: &mut Inner, missing: Traced) {
        if let Some(Item::Batch(Batch::Operations(last))) = inner.items.back_mut() {
            return last.add_missing(missing);
        }
        let batch = Batch::Operations(missing);
        inner.bytes += batch.size();
        self.add(inner, Item::Batch(batch));
    }

    /// Adds an answer, which is small.
    pub fn answer(&self, item: Item) {
        self.add(&mut self.inner(), item);
    }

    /// Takes all that waits.
    pub fn take(&self) -> VecDeque<Item> {
        let mut inner = self.inner();
        // Nothing to read is no error: who looks before something comes finds nothing.
        let _ = read(&self.ready, &mut [0; 8]);
        inner.bytes = 0;
        std::mem::take(&mut inner.items)
    }

    /// What found no room so far.
    pub fn lost(&self) -> Lost {
        self.inner().lost
    }

    /// Says that nobody takes anything any more.
    pub fn close(&self) {
        let mut inner = self.inner();
        inner.is_closed = true;
        (inner.items, inner.bytes) = (VecDeque::new(), 0);
    }

    /// Says that it does not begin.
    pub fn refuse(&self, refusal: Refusal) {
        self.inner().refusal = Some(refusal);
        let _ = write(&self.ready, &1_u64.to_ne_bytes());
    }

    /// Why it does not begin, where that was said.
    pub fn refusal(&self) -> Option<Refusal> {
        self.inner().refusal.clone()
    }

    pub fn is_closed(&self) -> bool {
        self.inner().is_closed
    }

    fn add(&self, inner: &mut Inner, item: Item) {
        if inner.is_closed {
            return;
        }
        inner.items.push_back(item);
        // A counter that cannot grow is not 0, and so the descriptor is readable.
        let _ = write(&self.ready, &1_u64.to_ne_bytes());
    }

    /// Items that a panic interrupted are still items.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
