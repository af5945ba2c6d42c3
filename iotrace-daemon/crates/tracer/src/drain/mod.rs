//! Takes what the programs left: counters out of the idle generation, events off the ring buffer.
//!
//! The only reader of the counter maps. What leaves: [`Batch`]es, which know how to enter a
//! [`Model`]. A thread of its own ([`collector`]) makes them, so that neither a slow disk nor a
//! long report lets the maps fill up.

mod batch;
mod block;
mod cells;
pub mod collector;
mod event_ring;
mod events;
mod generations;
mod global_merged;
mod handed_operations;
mod lines;
mod nobtf;
mod part;
pub mod rings;
mod threads;
pub mod tracer;
mod waits;
pub mod wire;

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use iotrace_common::{
    abi::maps,
    block::{TransferKey, Transfers},
    key::{FailureKey, FileId, IoKey, LookKey},
    latency::{self, Latencies},
    library::{CallKey, Calls},
    limits::EVENT_RING_BYTES,
    lines::{LineCounts, LineKey},
    value::{Failures, Io, IoFull, kind},
};

use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, KernelError, cpu::Threads};
use batch::Entries;
use block::Block;
use cells::{Cells, Halves};
use event_ring::EventRing;
use events::{Decoded, Decoder};
use generations::{Generations, Pair};
use global_merged::GlobalMerged;
use handed_operations::HandedOperations;
pub use handed_operations::Traced;
use iotrace_model::host;
use iotrace_model::{
    FailureCount, Model,
    block::{Classes, Device},
    counters::Counters,
    global_merged::Times,
    input::{Event, Place, ProcessId, Searched},
    latencies::{Histogram, Operations},
    lines::Lined,
    sources::SourceLine,
    timeline::Segment,
    waits::Waited,
};
use lines::OwnLines;
pub use lines::{Lines, Program};
pub use nobtf::Counts as Resolved;
use nobtf::Resolver;
use threads::{Look, Watch};
use waits::Waits;
pub use waits::{Records, Resolution};

/// Events, and records of lines, handed on at a time.
const EVENTS: usize = 1024;
const LINE_RECORDS: usize = 256;

/// What was taken, on its way to the model.
pub enum Batch {
    Events(Vec<Event>),
    /// Counters per thread and file.
    Basic(Entries<IoKey, Io>),
    /// What detail full adds to them.
    Full(Entries<IoKey, IoFull>),
    /// Counters per thread, of operations whose own entry had no room.
    BasicOverflow(Entries<IoKey, Io>),
    FullOverflow(Entries<IoKey, IoFull>),
    /// How long operations took, by thread, device, phase and class.
    Latencies(Entries<IoKey, Latencies>),
    Failures(Entries<FailureKey, Failures>),
    /// Look-ups that found nothing, by process and directory.
    NegativeLookups(Entries<LookKey, Failures>),
    /// Calls of libraries, by thread, function and file.
    Library(Entries<CallKey, Calls>),
    /// Merged time over all processes.
    GlobalMerged(Times),
    /// CPU time of threads.
    Threads(Look),
    /// Time of main threads, by what it went to.
    Waits(Vec<Waited>),
    /// Waits that are not resolved yet.
    WaitRecords(Records),
    /// Operations one by one, of which the model keeps nothing.
    Operations(Traced),
    /// When threads were off the CPU.
    Timeline(Vec<Segment>),
    /// What was done by line of a Python program.
    Lines(Vec<Lined>),
    /// Source text of these lines.
    Sources(Vec<SourceLine>),
    /// What the kernel side tells of Python programs and their stacks, as it does: a client of the service interprets it.
    LineRecords(Vec<Vec<u8>>),
    /// What was done by stack, for the same.
    LineCounts(Entries<LineKey, LineCounts>),
    /// Requests to block devices.
    Devices(Vec<(Device, Classes)>),
    /// Bytes moved between devices and files, by process and file.
    Transfers(Entries<TransferKey, Transfers>),
}

impl Batch {
    /// Files that were mapped as code, by whom and when.
    pub fn mapped(&self) -> Vec<(ProcessId, u64, FileId)> {
        let Self::Events(events) = self else {
            return Vec::new();
        };
        let mapped = events.iter().filter_map(|event| match event {
            Event::Mapped {
                process,
                time,
                file,
            } => Some((*process, *time, *file)),
            _ => None,
        });
        mapped.collect()
    }

    /// Enters it into the model.
    pub fn apply(self, model: &mut Model) {
        match self {
            Self::Events(events) => events.into_iter().for_each(|event| model.event(event)),
            Self::Basic(entries) => apply(&entries, model, place_of),
            Self::Full(entries) => apply(&entries, model, place_of),
            Self::BasicOverflow(entries) => apply(&entries, model, |_| Place::Overflow),
            Self::FullOverflow(entries) => apply(&entries, model, |_| Place::Overflow),
            Self::Latencies((keys, values)) => {
                for (key, latencies) in keys.iter().zip(&values) {
                    if let Some(class) = latency::class_of(key) {
                        let of = Operations {
                            device: key.file.device,
                            phase: key.phase as u16,
                            class: class as u8,
                        };
                        model.add_latencies(key.into(), of, &Histogram::from(latencies));
                    }
                }
            }
            Self::Failures((keys, values)) => {
                for (key, failures) in keys.iter().zip(&values) {
                    let (process, place) = (ProcessId::from(&key.io), place_of(&key.io));
                    model.add_failures(
                        process,
                        place,
                        key.op,
                        key.errno,
                        failures.calls,
                        failures.ns,
                    );
                }
            }
            Self::NegativeLookups((keys, values)) => {
                for (key, looks) in keys.iter().zip(&values) {
                    let process = key.into();
                    let searched = Searched {
                        base: key.base,
                        hash: key.directory,
                    };
                    let count = FailureCount {
                        calls: looks.calls,
                        ns: looks.ns,
                    };
                    model.add_negative_lookups(process, searched, count);
                }
            }
            Self::Library((keys, values)) => {
                for (key, calls) in keys.iter().zip(&values) {
                    model.add_library_calls(key, calls);
                }
            }
            Self::Threads(look) => {
                model.computing_mut().add_length(look.length_ns);
                for (process, time) in look.processes() {
                    model.add_cpu(process, &time);
                }
            }
            Self::Lines(all) => all.iter().for_each(|lined| model.add_lined(lined)),
            Self::Sources(all) => all
                .into_iter()
                .for_each(|line| model.sources_mut().add(line)),
            Self::Waits(all) => all.iter().for_each(|waited| model.add_waited(waited)),
            // Who asked a service for them has them resolved, or written.
            Self::WaitRecords(_)
            | Self::Operations(_)
            | Self::LineRecords(_)
            | Self::LineCounts(_) => {}
            Self::Timeline(segments) => model.timeline_mut().add(segments),
            Self::GlobalMerged(times) => model.global_merged_mut().add(&times),
            Self::Devices(devices) => {
                for (device, classes) in devices {
                    model.block_mut().add_device(device, &classes);
                }
            }
            Self::Transfers((keys, values)) => {
                for (key, transfers) in keys.iter().zip(&values) {
                    let process = (key.tgid != 0).then(|| key.into());
                    let file = (!key.file.is_none()).then_some(key.file);
                    model.add_transfers(process, file, transfers);
                }
            }
        }
    }
}

fn apply<V>((keys, values): &Entries<IoKey, V>, model: &mut Model, place: impl Fn(&IoKey) -> Place)
where
    for<'a> Counters: From<&'a V>,
{
    for (key, value) in keys.iter().zip(values) {
        let counters = Counters::from(value);
        let place = place(key);
        model.add_sorted(key.into(), place, key.phase_code(), &counters);
        if let (Place::File(file), 1..) = (place, key.span()) {
            model.add_span(key.into(), file, key.span(), &counters);
        }
    }
}

fn place_of(key: &IoKey) -> Place {
    if key.file.is_none() {
        Place::PathOnly
    } else {
        Place::File(key.file)
    }
}

/// What is done with lines.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum KeptLines {
    Own(OwnLines),
    /// They are handed on to recordings as they are counted.
    Handed(Generations<LineKey, LineCounts>),
}

impl KeptLines {
    /// Takes the maps out of the loaded programs, where lines are wanted.
    fn take(kernel: &mut Kernel) -> Result<Option<Self>, KernelError> {
        Ok(if kernel.hands_on_lines() {
            Some(Self::Handed(Generations::take(kernel, maps::LINE_COUNTS)?))
        } else if kernel.lines().are_some() {
            Some(Self::Own(OwnLines::take(kernel)?))
        } else {
            None
        })
    }

    fn pair(&mut self) -> &mut dyn Pair {
        match self {
            Self::Own(lines) => lines.pair(),
            Self::Handed(counts) => counts,
        }
    }
}

/// Maps in two generations.
struct Maps {
    overflow: Generations<IoKey, Io>,
    /// Of what detail full adds.
    overflow_full: Option<Generations<IoKey, IoFull>>,
    failures: Generations<FailureKey, Failures>,
    negative_lookups: Generations<LookKey, Failures>,
    library: Generations<CallKey, Calls>,
    lines: Option<KeptLines>,
    block: Option<Block>,
}

impl Maps {
    fn take(kernel: &mut Kernel) -> Result<Self, KernelError> {
        let overflow_full = match kernel.full_entries() {
            Some(_) => Some(Generations::take(kernel, maps::OVERFLOW_FULL)?),
            None => None,
        };
        let mut all = Self {
            overflow: Generations::take(kernel, maps::OVERFLOW)?,
            overflow_full,
            failures: Generations::take(kernel, maps::FAILURES)?,
            negative_lookups: Generations::take(kernel, maps::MISSING)?,
            library: Generations::take(kernel, maps::LIBRARY)?,
            lines: KeptLines::take(kernel)?,
            block: Block::take(kernel)?,
        };
        generations::put_all(all.pairs())?;
        Ok(all)
    }

    fn pairs(&mut self) -> Vec<&mut dyn Pair> {
        let mut pairs: Vec<&mut dyn Pair> = vec![
            &mut self.overflow,
            &mut self.failures,
            &mut self.negative_lookups,
            &mut self.library,
        ];
        pairs.extend(self.overflow_full.as_mut().map(|map| map as _));
        pairs.extend(self.lines.as_mut().map(KeptLines::pair));
        pairs.extend(self.block.iter_mut().flat_map(Block::pairs));
        pairs
    }
}

/// Empties the maps and the ring buffer.
pub struct Drain {
    halves: Halves,
    cells: Cells<Io>,
    maps: Maps,
    /// Of what detail full adds, where some processes may be kept at it.
    cells_full: Option<Cells<IoFull>>,
    /// Where they may be kept of some processes.
    latencies: Option<Cells<Latencies>>,
    global_merged: Option<GlobalMerged>,
    watch: Option<Watch>,
    waits: Option<Waits>,
    /// Where recordings may have them.
    operations: Option<HandedOperations>,
    /// Just before the generations last changed places, `CLOCK_MONOTONIC` nanoseconds.
    flipped: u64,
    /// Whether the current generation is half full. The programs say so once.
    is_half_full: bool,
    ring: EventRing,
    decoder: Decoder,
    /// Where the programs know no files.
    resolver: Option<Resolver>,
    stats: Stats,
}

/// Takes merged time over all processes, where it is kept; at once behind the change of the generations, so that it is of
/// the same calls, but for those that end in between.
fn merged(
    global_merged: &mut Option<GlobalMerged>,
    sink: &mut impl FnMut(Batch),
) -> Result<(), KernelError> {
    if let Some(global_merged) = global_merged {
        sink(Batch::GlobalMerged(global_merged.look()?));
    }
    Ok(())
}

/// Why a wait has ended.
pub enum Wake {
    /// The kernel side has something, or time is up.
    Look,
    /// A byte came through the pipe.
    Asked,
    /// The other end of the pipe was closed.
    Stop,
}

/// What draining has done and cost so far.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Drains of the counters.
    pub drains: u64,
    /// Entries taken out of the counter maps.
    pub entries: u64,
    /// Entries that the last drain took.
    pub last_entries: u64,
    /// Records of the ring buffer that could not be decoded.
    pub damaged: u64,
    /// Time in drains, nanoseconds.
    pub drain_ns: u64,
    /// The longest drain, nanoseconds.
    pub slowest_drain_ns: u64,
}

impl Stats {
    /// What was done since `earlier`; the slowest drain is that of all time.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            drains: self.drains - earlier.drains,
            entries: self.entries - earlier.entries,
            damaged: self.damaged - earlier.damaged,
            drain_ns: self.drain_ns - earlier.drain_ns,
            ..*self
        }
    }
}

impl Drain {
    /// Takes the maps out of the loaded programs.
    pub fn new(kernel: &mut Kernel) -> Result<Self, KernelError> {
        let halves = Halves::take(kernel)?;
        let cells = Cells::take(kernel, maps::CELLS, kernel.map_entries(), kind::BASIC)?;
        let cells_full = match kernel.full_entries() {
            Some(each) => Some(Cells::take(kernel, maps::CELLS_FULL, each, kind::FULL)?),
            None => None,
        };
        let latencies = match kernel.latency_entries() {
            Some(each) => Some(Cells::take(
                kernel,
                maps::CELLS_LATENCY,
                each,
                kind::LATENCY,
            )?),
            None => None,
        };
        let maps = Maps::take(kernel)?;
        let global_merged = GlobalMerged::take(kernel)?;
        let resolver = Resolver::take(kernel)?;
        let is_shared = kernel.waits().is_on_demand();
        let waits = rings::waits(kernel)?.map(|rings| Waits::new(rings, is_shared));
        let operations = match kernel.traces_recordings() {
            true => rings::Operations::take(kernel)?.map(HandedOperations::new),
            false => None,
        };
        let ring = EventRing::take(kernel)?;
        let (decoder, stats) = (Decoder::default(), Stats::default());
        Ok(Self {
            halves,
            cells,
            maps,
            cells_full,
            latencies,
            global_merged,
            watch: None,
            waits,
            operations,
            flipped: 0,
            is_half_full: false,
            ring,
            decoder,
            resolver,
            stats,
        })
    }

    /// Counts CPU time, too.
    pub fn watch(&mut self, threads: Option<Threads>) {
        self.watch = threads.map(Watch::begin);
    }

    /// Lets what is counted of block devices begin now: until here it is not of this run.
    pub fn begin_block(&mut self) -> Result<(), KernelError> {
        match self.maps.block {
            // Nothing else was counted yet.
            Some(_) => self.sweep(&mut |_| (), false),
            None => Ok(()),
        }
    }

    /// Lets what is told of waits begin now: until here it is of the self-test.
    pub fn begin_waits(&mut self) {
        if let Some(waits) = &mut self.waits {
            waits.skip();
        }
    }

    /// Keeps each wait by itself, too.
    pub fn keep_timeline(&mut self) {
        if let Some(waits) = &mut self.waits {
            waits.keep_timeline();
        }
    }

    /// Hands on waits and operations that cannot wait for the next drain; comes after [`Self::events`], which tell whose they
    /// are.
    pub fn hand_on_records(&mut self, sink: &mut impl FnMut(Batch)) {
        let waits = self.waits.as_mut().and_then(Waits::many);
        let operations = self.operations.as_mut();
        let operations = operations.and_then(HandedOperations::many);
        waits.into_iter().chain(operations).for_each(sink);
    }

    /// Hands on what threads wait for from now on, or no longer.
    pub fn want_waits(&mut self, are_wanted: bool) {
        if let Some(waits) = &mut self.waits {
            waits.want(are_wanted);
        }
    }

    /// Hands on operations one by one from now on, or no longer.
    pub fn want_operations(&mut self, are_wanted: bool) -> Result<(), KernelError> {
        match &mut self.operations {
            Some(operations) => operations.want(are_wanted),
            None => Ok(()),
        }
    }

    /// Looks for Python in processes that run already.
    pub fn begin_lines(&mut self, pids: &[u32]) {
        if let Some(KeptLines::Own(lines)) = &mut self.maps.lines {
            pids.iter().for_each(|pid| lines.look(*pid));
        }
    }

    /// Reads the waits and operations that have ended; how long nobody need look again, where somebody wants them.
    pub fn look_at_rings(&mut self) -> Option<Duration> {
        let waits = self.waits.as_mut().and_then(|waits| {
            waits.look();
            waits.interval()
        });
        let operations = self.operations.as_mut().and_then(|operations| {
            operations.look();
            operations.interval()
        });
        waits.into_iter().chain(operations).min()
    }

    /// Whether waits are kept and resolved here.
    fn resolves_waits(&self) -> bool {
        self.waits.as_ref().is_some_and(Waits::are_resolved)
    }

    /// Looks at the threads; `anew`: what they did until now is not of this run.
    fn look(&mut self, anew: bool, sink: &mut impl FnMut(Batch)) {
        let resolves = self.resolves_waits();
        let Some(watch) = &mut self.watch else { return };
        let looked = if anew {
            watch.begin_anew()
        } else {
            let look = watch.look(self.flipped);
            look.map(|look| tell_look(look, resolves, sink))
        };
        if let Err(error) = looked {
            log::warn!("CPU time is not counted any more: {error}");
            self.watch = None;
        }
    }

    /// Waits until the kernel side wants a look, something is asked through `asked`, or time is up.
    pub fn wait(&self, asked: BorrowedFd<'_>, limit: Duration) -> io::Result<Wake> {
        let limit = match self.ring.has_early() {
            true => Duration::ZERO,
            false => limit,
        };
        let watch = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut watched = [watch(self.ring.as_raw_fd()), watch(asked.as_raw_fd())];
        let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: two entries, alive for the call.
        let found =
            unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, limit) };
        if found < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(Wake::Look)
            } else {
                Err(error)
            };
        }
        Ok(match watched[1].revents {
            0 => Wake::Look,
            // What was asked before the other end was closed comes first.
            events if events & libc::POLLIN != 0 => Wake::Asked,
            _ => Wake::Stop,
        })
    }

    /// Takes the events off the ring buffer that are there, and of those that come meanwhile no more than it holds: a program may
    /// make them as fast as they are taken. True: the current generation is half full, drain it now.
    pub fn events(&mut self, sink: &mut impl FnMut(Batch)) -> bool {
        // Of a process it is first told what it runs, and with what rights.
        let mut flush = |events: &mut Vec<Event>, records: &mut Vec<Vec<u8>>| {
            if !events.is_empty() {
                sink(Batch::Events(std::mem::take(events)));
            }
            if !records.is_empty() {
                sink(Batch::LineRecords(std::mem::take(records)));
            }
        };
        let (mut events, mut records) = (Vec::new(), Vec::new());
        let mut taken = 0;
        while taken < EVENT_RING_BYTES as usize
            && let Some(record) = self.ring.next()
        {
            taken += record.len();
            let decoded = match &mut self.resolver {
                Some(resolver) => match resolver.decode(&record, &mut events) {
                    Some(decoded) => decoded,
                    None => continue,
                },
                None => self.decoder.decode(&record),
            };
            match decoded {
                Decoded::Event(event) => {
                    if let (Some(KeptLines::Own(lines)), Event::Exec { process, .. }) =
                        (&mut self.maps.lines, &event)
                    {
                        lines.look(process.pid);
                    }
                    events.push(event);
                }
                Decoded::Lines(told) => match &mut self.maps.lines {
                    Some(KeptLines::Own(lines)) => lines.tell(told),
                    Some(KeptLines::Handed(_)) => records.push(record.to_vec()),
                    None => {}
                },
                Decoded::Fill => self.is_half_full = true,
                Decoded::ThreadEnd(end) => {
                    if let Some(waits) = &mut self.waits {
                        waits.ended(&end);
                    }
                    if let Some(watch) = &mut self.watch {
                        watch.ended(end);
                    }
                }
                Decoded::Pending => {}
                Decoded::Damaged => self.stats.damaged += 1,
            }
            if events.len() >= EVENTS || records.len() >= LINE_RECORDS {
                flush(&mut events, &mut records);
            }
        }
        flush(&mut events, &mut records);
        self.is_half_full
    }

    /// Drains the counters of the current generation.
    pub fn counters(&mut self, sink: &mut impl FnMut(Batch)) -> Result<(), KernelError> {
        self.resolved(sink, false)
    }

    /// As [`Self::sweep`]. Where the programs know no files, what they count is of handles, each of which they told of before.
    fn resolved(&mut self, sink: &mut impl FnMut(Batch), last: bool) -> Result<(), KernelError> {
        if matches!(self.maps.lines, Some(KeptLines::Own(_))) {
            self.sweep(sink, last)?;
            // Stacks are told of before they are counted.
            self.events(sink);
            if let Some(KeptLines::Own(lines)) = &mut self.maps.lines {
                let (lines, sources) = lines.news(last);
                sink(Batch::Lines(lines));
                sink(Batch::Sources(sources));
            }
            return Ok(());
        }
        if self.resolver.is_none() {
            return self.sweep(sink, last);
        }
        let mut swept = Vec::new();
        self.sweep(&mut |batch| swept.push(batch), last)?;
        self.events(sink);
        if let Some(resolver) = &mut self.resolver {
            swept
                .into_iter()
                .for_each(|batch| sink(resolver.resolve(batch)));
            resolver.prune();
        }
        Ok(())
    }

    /// What was found out of handles, where the programs know no files.
    pub fn files(&self) -> Option<&Resolved> {
        self.resolver.as_ref().map(Resolver::counts)
    }

    /// Lets that begin at 0, after the self-test.
    pub fn zero_files(&mut self) {
        if let Some(resolver) = &mut self.resolver {
            resolver.zero();
        }
    }

    /// Drains all that is left, when the hooks are off.
    pub fn rest(&mut self, sink: &mut impl FnMut(Batch)) -> Result<(), KernelError> {
        // Names, and stacks that are counted, come first.
        let mut counted = Vec::new();
        self.rest_of_counters(&mut |batch| counted.push(batch))?;
        self.events(sink);
        counted.into_iter().for_each(&mut *sink);
        if let Some(watch) = &mut self.watch {
            tell_look(watch.rest(), self.resolves_waits(), sink);
        }
        if let Some(waits) = &mut self.waits {
            waits.rest().into_iter().for_each(&mut *sink);
        }
        Ok(())
    }

    /// Drains the counters that are left, when the hooks are off.
    pub fn rest_of_counters(&mut self, sink: &mut impl FnMut(Batch)) -> Result<(), KernelError> {
        // Waits for the programs that still ran when their hooks came off.
        self.resolved(sink, false)?;
        self.resolved(sink, true)
    }

    /// When the generations last changed places, `CLOCK_MONOTONIC` nanoseconds.
    pub fn flipped(&self) -> u64 {
        self.flipped
    }

    /// What draining has cost so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Empties the counter maps; `last`: both generations, in place.
    fn sweep(&mut self, sink: &mut impl FnMut(Batch), last: bool) -> Result<(), KernelError> {
        let started = Instant::now();
        self.flipped = host::monotonic();
        let halves = &mut self.halves;
        halves.flip()?;
        self.is_half_full = false;
        let entries = self.ring.read_while(|| {
            self.maps.overflow.wait_for_programs()?;
            let idle = halves.idle();
            merged(&mut self.global_merged, sink)?;
            let mut entries = self
                .cells
                .sweep(halves, last, |entries| sink(Batch::Basic(entries)))?;
            entries += self
                .maps
                .overflow
                .sweep(idle, last, |entries| sink(Batch::BasicOverflow(entries)))?;
            if let Some(cells) = &mut self.cells_full {
                entries += cells.sweep(halves, last, |entries| sink(Batch::Full(entries)))?;
            }
            if let Some(overflow) = &mut self.maps.overflow_full {
                entries +=
                    overflow.sweep(idle, last, |entries| sink(Batch::FullOverflow(entries)))?;
            }
            if let Some(latencies) = &mut self.latencies {
                entries +=
                    latencies.sweep(halves, last, |entries| sink(Batch::Latencies(entries)))?;
            }
            entries += self
                .maps
                .failures
                .sweep(idle, last, |entries| sink(Batch::Failures(entries)))?;
            entries += self
                .maps
                .negative_lookups
                .sweep(idle, last, |entries| sink(Batch::NegativeLookups(entries)))?;
            entries += self
                .maps
                .library
                .sweep(idle, last, |entries| sink(Batch::Library(entries)))?;
            entries += match &mut self.maps.lines {
                Some(KeptLines::Own(lines)) => lines.sweep(idle, last)?,
                Some(KeptLines::Handed(counts)) => {
                    counts.sweep(idle, last, |entries| sink(Batch::LineCounts(entries)))?
                }
                None => 0,
            };
            if let Some(block) = &mut self.maps.block {
                entries += block.sweep(idle, last, sink)?;
            }
            if let Some(waits) = &mut self.waits {
                waits.look();
                waits.batches().into_iter().for_each(&mut *sink);
            }
            if let Some(operations) = &mut self.operations {
                let current = (!last).then(|| halves.current());
                operations.batch(current)?.into_iter().for_each(&mut *sink);
            }
            Ok(entries)
        })?;
        let ns = started.elapsed().as_nanos() as u64;
        self.stats.drains += 1;
        self.stats.entries += entries as u64;
        self.stats.last_entries = entries as u64;
        self.stats.drain_ns += ns;
        self.stats.slowest_drain_ns = self.stats.slowest_drain_ns.max(ns);
        Ok(())
    }
}

/// Hands on a look at threads, and what it says of main threads where their waits are kept.
fn tell_look(look: Look, keeps_waits: bool, sink: &mut impl FnMut(Batch)) {
    if keeps_waits {
        sink(Batch::Waits(look.in_calls()));
    }
    sink(Batch::Threads(look));
}
