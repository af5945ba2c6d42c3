//! The ring buffer of events, which is read while the counter maps are emptied, too.
//!
//! To empty a map, the drain waits until no program uses it (a grace period of RCU). On a busy machine that takes up to half
//! a second, in which fast programs fill the ring.

use std::{
    collections::VecDeque,
    ops::Deref,
    os::fd::{AsRawFd, RawFd},
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, Thread},
    time::Duration,
};

use aya::maps::{MapData, RingBuf, ring_buf::RingBufItem};
use iotrace_common::{abi::maps, limits::EVENT_RING_BYTES};

use crate::kernel::{Kernel, KernelError};

/// Time between two looks at the ring while something else is done.
const LOOK: Duration = Duration::from_millis(10);

/// The ring, of which this is the one reader.
pub struct EventRing {
    ring: RingBuf<MapData>,
    /// Records that were read meanwhile, in order; those in the ring come after them.
    early: Early,
}

#[derive(Default)]
struct Early {
    records: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Early {
    /// Takes what the ring has, but no more than the ring can hold: the rest stays there.
    fn take(&mut self, ring: &mut RingBuf<MapData>) {
        while self.bytes < EVENT_RING_BYTES as usize
            && let Some(record) = ring.next()
        {
            self.bytes += record.len();
            self.records.push_back(Box::from(&*record));
        }
    }

    fn next(&mut self) -> Option<Box<[u8]>> {
        let record = self.records.pop_front()?;
        self.bytes -= record.len();
        Some(record)
    }
}

/// A record of the ring.
pub enum Record<'a> {
    Early(Box<[u8]>),
    InRing(RingBufItem<'a>),
}

impl Deref for Record<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Early(record) => record,
            Self::InRing(record) => record,
        }
    }
}

impl EventRing {
    /// Takes it out of the loaded programs.
    pub fn take(kernel: &mut Kernel) -> Result<Self, KernelError> {
        Ok(Self {
            ring: kernel.take(maps::EVENTS)?,
            early: Early::default(),
        })
    }

    /// The next record, if there is one.
    pub fn next(&mut self) -> Option<Record<'_>> {
        match self.early.next() {
            Some(record) => Some(Record::Early(record)),
            None => self.ring.next().map(Record::InRing),
        }
    }

    /// Whether there are records that waiting for the ring does not tell of.
    pub fn has_early(&self) -> bool {
        !self.early.records.is_empty()
    }

    /// Does something that may take long while another thread reads the ring.
    pub fn read_while<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let Self { ring, early } = self;
        let is_done = AtomicBool::new(false);
        let read = || {
            while !is_done.load(Ordering::Acquire) {
                early.take(ring);
                thread::park_timeout(LOOK);
            }
        };
        thread::scope(|scope| {
            // Without the thread, the ring has to hold what comes meanwhile.
            let reader = thread::Builder::new()
                .name("iotrace-events".into())
                .spawn_scoped(scope, read);
            let _done = Done {
                is_done: &is_done,
                reader: reader.ok().map(|reader| reader.thread().clone()),
            };
            work()
        })
    }
}

/// Ends the reading thread when it goes, after a panic as well: the scope waits for the thread.
struct Done<'a> {
    is_done: &'a AtomicBool,
    reader: Option<Thread>,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::Release);
        if let Some(reader) = &self.reader {
            reader.unpark();
        }
    }
}

impl AsRawFd for EventRing {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}
