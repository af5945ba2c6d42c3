//! The maps of the kernel programs that the daemon reads, writes or resizes. All others are declared where they are used.
//!
//! Counters live in two generations: the programs write the current one, the daemon drains the other. So the kernel's
//! memory is bounded, the number of files is not, and no count can fall between a read and a delete. Those of a thread
//! and file are the cells of an array, of which an epoch says which half is current. Those that are seldom written are
//! hashes, which the programs reach through an array of both.
//! Plain hashes, since an LRU would evict live counters silently. Those that are written often are preallocated, since a
//! drain by lookup-and-delete is four times as fast then (293 ns an entry instead of 1,195).

#![expect(non_camel_case_types, reason = "the type of a map has the map's name")]

use super::{
    Array, Generations, Halves, Hash, LruHash, MMAPABLE, Map, NO_PREALLOC, Opaque, PerCpuArray,
    RingBuffer,
};
use crate::{
    block::{DeviceKey, Requests, TransferKey, Transfers},
    diag,
    global_merged::{self, Time},
    histogram::Histograms,
    key::{FailureKey, FileId, IoKey, LookKey},
    latency::Latencies,
    library::{CallKey, Calls},
    limits,
    lines::{LineCounts, LineKey, Python},
    nobtf,
    phases::{self, Named},
    scope::{Recordings, Scope},
    trace::{MissingByGeneration, Operation, Owner, Ring},
    value::{Cell, DeviceMappings, Failures, Fill, Io, IoFull, MERGED_KINDS, kind},
    waits::Wait,
};

macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident: $kind:ty;)*) => {
        $($(#[$doc])* pub const $name: Map<$kind> = Map::new(stringify!($name));)*
        $(#[doc = concat!("The kind of [`", stringify!($name), "`](const@", stringify!($name), ").")] pub type $name = $kind;)*
        /// Names of all maps but the generations.
        const SINGLE: &[&str] = &[$(stringify!($name)),*];
    };
}

macro_rules! generations {
    ($($(#[$doc:meta])* $halves:ident, $first:ident, $second:ident: $key:ty => $value:ty, $entries:expr, $flags:expr;)*) => {
        $(
            $(#[$doc])*
            pub const $halves: Generations<$key, $value, { $entries as usize }, { $flags }> = Generations {
                halves: Map::new(stringify!($halves)),
                maps: [Map::new(stringify!($first)), Map::new(stringify!($second))],
            };
            pub type $halves = Halves<$key, $value, { $flags }>;
            pub type $first = Hash<$key, $value, { $entries as usize }, { $flags }>;
            pub type $second = $first;
        )*
        /// Names of the maps of generations.
        const PAIRED: &[&str] = &[$(stringify!($halves), stringify!($first), stringify!($second)),*];
    };
}

maps! {
    /// Counters per thread and file: the cells of two generations, one after the other, given out in order. An array, whose
    /// lookup is inlined.
    CELLS: Array<Cell<Io>, { 2 * limits::IO_ENTRIES_BASIC as usize }, MMAPABLE>;
    /// As `CELLS`: what detail full adds, of the threads that are kept at it.
    CELLS_FULL: Array<Cell<IoFull>, { 2 * limits::IO_ENTRIES_FULL as usize }, MMAPABLE>;
    /// As `CELLS`: latencies, by thread, device, phase and class of operation ([`crate::latency::key`]).
    CELLS_LATENCY: Array<Cell<Latencies>, { 2 * limits::LATENCY_ENTRIES as usize }, MMAPABLE>;
    /// Which cell of any kind is whose, by the hash of its key.
    SETS: Array<[u64; limits::SET_WAYS], { limits::IO_ENTRIES_BASIC as usize / 2 }>;
    /// Number of the current generation; its lowest bit says which half of the cells it is, and which map of a pair. The
    /// daemon raises it and waits until no program runs that saw it before.
    EPOCH: Array<u64, 1>;
    /// Cells given out ([`value::fill_of`]). All threads add to it atomically, but only for a new entry; the daemon sets it back
    /// when it has drained them.
    FILL: Array<Fill, { 2 * kind::COUNT }>;
    /// The scope as it is now. The daemon raises its epoch when it changes the scope of running threads, so that verdicts
    /// are taken again.
    SCOPE: Array<Scope, 1>;
    /// Processes to trace by pid (a hash: pids are sparse up to 4 million), and the recordings that have them. Where all
    /// processes are traced, those of which more is kept.
    TARGETS: Hash<u32, Recordings, { limits::TARGET_ENTRIES as usize }, NO_PREALLOC>;
    /// The rules that sort files into phases, one table, and after it that of the paths that the operation trace has; the
    /// daemon fills it before the programs are attached.
    RULES: Array<phases::Table, 1>;
    /// Merged time over all processes by group, per CPU: summed by the daemon.
    TOGETHER_NS: PerCpuArray<Time, { global_merged::GROUPS }>;
    /// Files whose name was looked at (an LRU: forgetting one only means that this is done again).
    NAMED: LruHash<FileId, Named, { limits::NAMED_ENTRIES as usize }>;
    /// End of the last read, write and metadata operation of a (process, file), for times with overlap counted once.
    /// Only for processes with several threads; one thread never overlaps itself.
    LAST_ENDS: LruHash<IoKey, [u64; MERGED_KINDS], { limits::LAST_END_ENTRIES as usize }>;
    /// Names, process notices and the fill notice.
    EVENTS: RingBuffer<{ limits::EVENT_RING_BYTES as usize }>;
    /// Durations and sizes by phase. Per CPU: all threads of a CPU add to one value.
    HISTOGRAMS: PerCpuArray<Histograms, { phases::COUNT }>;
    /// Mappings of devices, by number and kind; threads share an entry.
    DEVICES: Hash<u64, DeviceMappings, { limits::DEVICE_ENTRIES as usize }>;
    /// What was not counted, or not in full, by reason ([`diag`]).
    DIAGNOSTICS: PerCpuArray<u64, { diag::COUNT }>;
    /// State of threads: the table of most of them, and those that have no place in it (or all, before Linux 5.15).
    THREAD_TABLE: Opaque;
    THREADS: Opaque;

    /// The operation trace: rings one after another, which the daemon maps into its memory, and gives their size.
    TRACE_OPERATIONS: Array<Operation, 1, MMAPABLE>;
    /// Where each ring's writer and reader are.
    TRACE_RINGS: Array<Ring, 1, MMAPABLE>;
    /// Operations missing in the trace, by process (a hash: pids are sparse).
    TRACE_MISSING: Hash<Owner, MissingByGeneration, { limits::UNTRACED_ENTRIES as usize }, NO_PREALLOC>;

    /// Waits of threads: as the rings of the operation trace.
    WAIT_RECORDS: Array<Wait, 1, MMAPABLE>;
    WAIT_RINGS: Array<Ring, 1, MMAPABLE>;

    /// The interpreters of Python processes, by process.
    PYTHONS: Hash<u32, Python, { limits::TARGET_ENTRIES as usize }, NO_PREALLOC>;
    /// Stacks and code objects that were sent, and open files by line (LRUs: what is forgotten is sent again, or counts for no
    /// line).
    STACKS_SENT: LruHash<u64, u32, { limits::STACK_ENTRIES as usize }>;
    LINED_FILES: Opaque;
    /// Scratch for the frames or the top of a stack, by CPU and copy of the program.
    WALKS: Opaque;
    STACK_TOPS: Opaque;

    /// Requests to block devices in flight, by their address.
    BLOCK_REQUESTS: Opaque;
    /// Requests in flight by device. All CPUs that use a device add to its word.
    BLOCK_DEPTH: Hash<u32, u64, { limits::BLOCK_DEPTH_ENTRIES as usize }>;

    /// What handles of libraries are of.
    HANDLES: Opaque;
    /// Files mapped as code that were sent.
    MAPPED: LruHash<FileId, u32, { limits::MAPPED_ENTRIES as usize }>;

    /// Without type information: descriptors by process (an LRU: a forgotten one is looked at again).
    DESCRIPTORS: LruHash<nobtf::Key, nobtf::Descriptor, { nobtf::DESCRIPTORS as usize }>;
    /// Without type information: processes by pid.
    PROCESSES: LruHash<u32, nobtf::Process, { nobtf::PROCESSES as usize }>;
}

generations! {
    /// Where an operation goes whose entry found its generation full: per thread, without the file.
    OVERFLOW, OVERFLOW_A, OVERFLOW_B: IoKey => Io, limits::OVERFLOW_ENTRIES, 0;
    /// As `OVERFLOW`: what detail full adds.
    OVERFLOW_FULL, OVERFLOW_FULL_A, OVERFLOW_FULL_B: IoKey => IoFull, limits::OVERFLOW_ENTRIES, 0;
    /// Failed calls per thread, file, operation and errno.
    FAILURES, FAILURES_A, FAILURES_B: FailureKey => Failures, limits::FAILURE_ENTRIES, 0;
    /// Look-ups that found nothing, per process and directory.
    MISSING, MISSING_A, MISSING_B: LookKey => Failures, limits::MISSING_ENTRIES, NO_PREALLOC;
    /// Calls of libraries per thread, function and file. Without uprobes it stays empty.
    LIBRARY, LIBRARY_A, LIBRARY_B: CallKey => Calls, limits::LIBRARY_ENTRIES, NO_PREALLOC;
    /// What was done by line of a Python program. Without `--lines` it stays empty.
    LINE_COUNTS, LINE_COUNTS_A, LINE_COUNTS_B: LineKey => LineCounts, limits::LINE_ENTRIES, NO_PREALLOC;
    /// Requests to block devices, by device, class and CPU.
    BLOCK_DEVICES, BLOCK_DEVICES_A, BLOCK_DEVICES_B: DeviceKey => Requests, limits::BLOCK_DEVICE_ENTRIES, 0;
    /// What is moved between devices and files, by process and file: added to atomically, since all threads of a process
    /// use one entry.
    BLOCK_FILES, BLOCK_FILES_A, BLOCK_FILES_B: TransferKey => Transfers, limits::BLOCK_FILE_ENTRIES, 0;
}

/// Names of all maps.
pub fn names() -> impl Iterator<Item = &'static str> {
    SINGLE.iter().chain(PAIRED).copied()
}
