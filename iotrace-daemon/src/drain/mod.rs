//! Takes what the programs left: counters out of the idle generation, events off the ring buffer.
//!
//! The only reader of the counter maps. What leaves: samples and events, straight into the [`Model`].

mod batch;
mod events;
mod generations;

use aya::maps::{Array, MapData, RingBuf};
use iotrace_common::{
    key::{FailureKey, IoKey},
    value::{Failures, Io, IoFull},
};
use tokio::io::unix::AsyncFd;

use crate::{
    kernel::{Detail, Kernel, KernelError, map_error},
    model::{
        Model,
        counters::Counters,
        input::{Event, Place, ProcessId},
    },
};
use events::{Decoded, Decoder};
use generations::Generations;

/// The counters of one detail, and their overflow.
enum Counts {
    Basic {
        io: Generations<IoKey, Io>,
        overflow: Generations<IoKey, Io>,
    },
    Full {
        io: Generations<IoKey, IoFull>,
        overflow: Generations<IoKey, IoFull>,
    },
}

/// Empties the maps into a model.
pub struct Drain {
    counts: Counts,
    failures: Generations<FailureKey, Failures>,
    fill: Array<MapData, u64>,
    events: AsyncFd<RingBuf<MapData>>,
    decoder: Decoder,
    stats: Stats,
}

/// What draining has done and cost so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Drains of the counters.
    pub drains: u64,
    /// Entries taken out of the counter maps.
    pub entries: u64,
    /// Records of the ring buffer that could not be decoded.
    pub damaged: u64,
    /// Time in drains, nanoseconds.
    pub drain_ns: u64,
    /// The longest drain, nanoseconds.
    pub slowest_drain_ns: u64,
}

/// What a look at the ring buffer found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// A generation is half full: drain now.
    pub fill: bool,
    /// Processes that ended.
    pub exits: Vec<ProcessId>,
}

impl Drain {
    /// Takes the maps out of the loaded programs.
    pub fn new(kernel: &mut Kernel) -> Result<Self, KernelError> {
        let counts = match kernel.detail() {
            Detail::Basic => Counts::Basic {
                io: Generations::take(kernel, ["IO", "IO_A", "IO_B"])?,
                overflow: Generations::take(kernel, ["OVERFLOW", "OVERFLOW_A", "OVERFLOW_B"])?,
            },
            Detail::Full => Counts::Full {
                io: Generations::take(kernel, ["IO_FULL", "IO_FULL_A", "IO_FULL_B"])?,
                overflow: Generations::take(
                    kernel,
                    ["OVERFLOW_FULL", "OVERFLOW_FULL_A", "OVERFLOW_FULL_B"],
                )?,
            },
        };
        let failures = Generations::take(kernel, ["FAILURES", "FAILURES_A", "FAILURES_B"])?;
        let fill = Array::try_from(kernel.take_map("FILL")?)
            .map_err(|error| map_error("FILL", "open", &error))?;
        let ring = RingBuf::try_from(kernel.take_map("EVENTS")?)
            .map_err(|error| map_error("EVENTS", "open", &error))?;
        // SAFETY: the map owns its descriptor and gives the same one as long as it lives.
        let events =
            unsafe { AsyncFd::register_with_interest(ring, tokio::io::Interest::READABLE) }
                .map_err(|error| KernelError::Io {
                    what: "the event ring buffer cannot be waited for".into(),
                    source: error.into(),
                })?;
        Ok(Self {
            counts,
            failures,
            fill,
            events,
            decoder: Decoder::default(),
            stats: Stats::default(),
        })
    }

    /// Waits until the kernel side has sent an event that wants a look at once.
    pub async fn wait(&self) -> Result<(), KernelError> {
        let mut ready = self
            .events
            .readable()
            .await
            .map_err(|source| KernelError::Io {
                what: "the event ring buffer".into(),
                source,
            })?;
        ready.clear_ready();
        Ok(())
    }

    /// Takes all events off the ring buffer.
    pub fn events(&mut self, model: &mut Model) -> Seen {
        let mut seen = Seen::default();
        let ring = self.events.get_mut();
        while let Some(record) = ring.next() {
            match self.decoder.decode(&record) {
                Decoded::Event(event) => {
                    if let Event::Exit { process, .. } = &event {
                        seen.exits.push(*process);
                    }
                    model.event(event);
                }
                Decoded::Fill => seen.fill = true,
                Decoded::Pending => {}
                Decoded::Damaged => self.stats.damaged += 1,
            }
        }
        seen
    }

    /// Drains the counters of the current generation.
    pub fn counters(&mut self, model: &mut Model) -> Result<(), KernelError> {
        let started = std::time::Instant::now();
        let result = self.sweep(model, false);
        self.account(started, result)
    }

    /// Drains both generations, when no program runs any more.
    pub fn rest(&mut self, model: &mut Model) -> Result<(), KernelError> {
        let started = std::time::Instant::now();
        self.events(model);
        let result = self.sweep(model, true);
        self.account(started, result)
    }

    /// What draining has cost so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn account(
        &mut self,
        started: std::time::Instant,
        result: Result<usize, KernelError>,
    ) -> Result<(), KernelError> {
        let ns = started.elapsed().as_nanos() as u64;
        self.stats.drains += 1;
        self.stats.entries += result? as u64;
        self.stats.drain_ns += ns;
        self.stats.slowest_drain_ns = self.stats.slowest_drain_ns.max(ns);
        Ok(())
    }

    /// Empties the maps into the model; `last`: both generations, in place.
    fn sweep(&mut self, model: &mut Model, last: bool) -> Result<usize, KernelError> {
        let mut entries = match &mut self.counts {
            Counts::Basic { io, overflow } => sweep(io, overflow, model, last)?,
            Counts::Full { io, overflow } => sweep(io, overflow, model, last)?,
        };
        self.fill
            .set(0, 0, 0)
            .map_err(|error| map_error("FILL", "update", &error))?;
        let take = |key: &FailureKey, failures: &Failures| {
            let (process, place) = place_of(&key.io);
            model.add_failures(
                process,
                place,
                key.op,
                key.errno,
                failures.calls,
                failures.ns,
            );
        };
        entries += if last {
            self.failures.drain_all(take)?
        } else {
            self.failures.drain_if_used(take)?
        };
        Ok(entries)
    }
}

fn sweep<V: aya::Pod>(
    io: &mut Generations<IoKey, V>,
    overflow: &mut Generations<IoKey, V>,
    model: &mut Model,
    last: bool,
) -> Result<usize, KernelError>
where
    for<'a> Counters: From<&'a V>,
{
    let mut entries = 0;
    let take = |key: &IoKey, value: &V| {
        let (process, place) = place_of(key);
        model.add(process, place, &Counters::from(value));
    };
    entries += if last {
        io.drain_all(take)?
    } else {
        io.drain(take)?
    };
    let take = |key: &IoKey, value: &V| {
        model.add(process_of(key), Place::Overflow, &Counters::from(value));
    };
    entries += if last {
        overflow.drain_all(take)?
    } else {
        overflow.drain_if_used(take)?
    };
    Ok(entries)
}

fn process_of(key: &IoKey) -> ProcessId {
    ProcessId {
        pid: key.tgid,
        start: key.start,
    }
}

fn place_of(key: &IoKey) -> (ProcessId, Place) {
    let place = if key.file.is_none() {
        Place::ByName
    } else {
        Place::File(key.file)
    };
    (process_of(key), place)
}
