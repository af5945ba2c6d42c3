//! All maps: why each has its type, its key and its size.
//!
//! Counters live in two generations: the programs write the current one, the daemon drains the other. So the kernel's
//! memory is bounded, the number of files is not, and no count can fall between a read and a delete. Those of a thread
//! and file are the cells of an array, of which an epoch says which half is current. Those that are seldom written are
//! hashes, which the programs reach through an array of maps with one slot; the daemon puts the other generation there.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC},
    btf_maps::{Array, ArrayOfMaps, HashMap, LruHashMap, PerCpuArray, RingBuf},
    macros::btf_map,
};
use iotrace_common::{
    diag,
    event::Name,
    global_merged,
    histogram::Histograms,
    key::{FailureKey, FileId, IoKey, LookKey},
    library::{CallKey, Calls},
    limits, phases,
    scope::Scope,
    trace::{Missing, Operation, Owner},
    value::{Cell, DeviceMappings, Failures, Io, IoFull, MERGED},
};

use crate::{
    flight::Flights,
    missing::Look,
    open_files::OpenFile,
    ring::{Records, Rings},
    sort::Walk,
    together::Line,
};

/// A generation's map type. Plain hashes: an LRU would evict live counters in silence. Preallocated, because a drain
/// by lookup-and-delete is four times as fast then (293 ns an entry against 1,195).
type Counters<K, V, const ENTRIES: usize> = HashMap<K, V, ENTRIES>;

/// Declares a pair of generations and the slot through which the programs reach the current one.
///
/// The slot's own type has one entry: the kernel compares key and value sizes only, and the loader makes and drops a
/// map of that type.
macro_rules! generations {
    ($(#[$doc:meta])* $slot:ident, $first:ident, $second:ident: $key:ty => $value:ty, $entries:expr) => {
        #[btf_map]
        static $first: Counters<$key, $value, { $entries as usize }> = HashMap::new();
        #[btf_map]
        static $second: Counters<$key, $value, { $entries as usize }> = HashMap::new();
        $(#[$doc])*
        #[btf_map]
        pub static $slot: ArrayOfMaps<HashMap<$key, $value, 1>, 1> = ArrayOfMaps::new();
    };
}

/// Counters per thread and file, detail basic: the cells of two generations, one behind the other, given out in order.
/// An array, whose lookup is inlined; mapped by the daemon to drain it.
#[btf_map]
pub static CELLS: Array<
    Cell<Io>,
    { 2 * limits::IO_ENTRIES_BASIC as usize },
    { BPF_F_MMAPABLE as usize },
> = Array::new();

/// As `CELLS`, detail full.
#[btf_map]
pub static CELLS_FULL: Array<
    Cell<IoFull>,
    { 2 * limits::IO_ENTRIES_FULL as usize },
    { BPF_F_MMAPABLE as usize },
> = Array::new();

/// Which cell is whose, by the hash of its key ([`crate::cells`]).
#[btf_map]
pub static SETS: Array<[u64; limits::SET_WAYS], { limits::IO_ENTRIES_BASIC as usize / 2 }> =
    Array::new();

/// Number of the current generation of cells; its lowest bit says which half they stand in. The daemon raises it and
/// waits until no program runs any more that saw it before.
#[btf_map]
pub static EPOCH: Array<u64, 1> = Array::new();

/// Cells given out, by generation. Shared and added to atomically, but only when an entry is new; the daemon sets it
/// back when it has drained them.
#[btf_map]
pub static FILL: Array<Fill, 2> = Array::new();

/// A cache line of its own.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Fill {
    pub cells: u64,
    pad: [u64; 7],
}

generations! {
    /// Where an operation goes whose entry found its generation full: per thread, without the file.
    OVERFLOW, OVERFLOW_A, OVERFLOW_B: IoKey => Io, limits::OVERFLOW_ENTRIES
}
generations! {
    /// As `OVERFLOW`, detail full.
    OVERFLOW_FULL, OVERFLOW_FULL_A, OVERFLOW_FULL_B: IoKey => IoFull, limits::OVERFLOW_ENTRIES
}
generations! {
    /// Failed calls per thread, file, operation and errno.
    FAILURES, FAILURES_A, FAILURES_B: FailureKey => Failures, limits::FAILURE_ENTRIES
}

/// As [`Counters`], but not preallocated: most of the time hardly anything is looked for in vain.
type Sparse<K, V, const ENTRIES: usize> = HashMap<K, V, ENTRIES, { BPF_F_NO_PREALLOC as usize }>;

#[btf_map]
static MISSING_A: Sparse<LookKey, Failures, { limits::MISSING_ENTRIES as usize }> = HashMap::new();
#[btf_map]
static MISSING_B: Sparse<LookKey, Failures, { limits::MISSING_ENTRIES as usize }> = HashMap::new();
/// Look-ups that found nothing, per process and directory.
#[btf_map]
pub static MISSING: ArrayOfMaps<Sparse<LookKey, Failures, 1>, 1> = ArrayOfMaps::new();

#[btf_map]
static LIBRARY_A: Sparse<CallKey, Calls, { limits::LIBRARY_ENTRIES as usize }> = HashMap::new();
#[btf_map]
static LIBRARY_B: Sparse<CallKey, Calls, { limits::LIBRARY_ENTRIES as usize }> = HashMap::new();
/// Calls of libraries per thread, function and file. Without uprobes it stays empty.
#[btf_map]
pub static LIBRARY: ArrayOfMaps<Sparse<CallKey, Calls, 1>, 1> = ArrayOfMaps::new();

/// What new entries of the hashes start from; too large for the stack.
#[btf_map]
pub static ZERO: Array<IoFull, 1> = Array::new();

/// The scope as it is now. The epoch is raised by the daemon when the scope changes under running threads, so that
/// verdicts are taken again.
#[btf_map]
pub static SCOPE: Array<Scope, 1> = Array::new();

/// Processes to trace by pid (a hash: pids are sparse up to 4 million). Not preallocated: mostly empty.
#[btf_map]
pub static TARGETS: HashMap<
    u32,
    u32,
    { limits::TARGET_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// The rules that sort files into phases, one table; the daemon fills it before the programs are attached.
#[btf_map]
pub static RULES: Array<phases::Table, 1> = Array::new();

/// Renames so far by traced processes, and hard links made. One word that all add to, as seldom as they rename.
#[btf_map]
pub static RENAMES: Array<u64, 1> = Array::new();

/// Calls in flight of the processes that have several threads: a table, because threads keep their process's place.
#[btf_map]
pub static FLIGHTS: Array<Flights, { limits::FLIGHT_SLOTS as usize }> = Array::new();

/// Calls in flight of all processes, by group of phases ([`crate::together`]). All CPUs write them, so each has a line of
/// its own.
#[btf_map]
pub static TOGETHER: Array<Line, { global_merged::GROUPS }> = Array::new();

/// Merged time over all processes by group, per CPU: summed by the daemon.
#[btf_map]
pub static TOGETHER_NS: PerCpuArray<global_merged::Time, { global_merged::GROUPS }> =
    PerCpuArray::new();

/// What is known of a file by its name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Named {
    /// Phases and rules of it, read and written ([`phases::State`]).
    pub sorted: u32,
    /// Renames before it was sorted, in the upper 31 bits; in the lowest, whether its name was sent.
    pub stamp: u32,
}

/// Files whose name was looked at (an LRU: forgetting one only means that this is done again).
#[btf_map]
pub static NAMED: LruHashMap<FileId, Named, { limits::NAMED_ENTRIES as usize }> = LruHashMap::new();

/// Spans begun so far ([`crate::spans`]).
#[btf_map]
pub static SPANS: Array<u64, 1> = Array::new();

/// Open files as the processes use them, found by their address ([`crate::open_files`]).
#[btf_map]
pub static OPEN_FILES: Array<
    [OpenFile; limits::OPEN_FILE_WAYS],
    { limits::OPEN_FILE_SETS as usize },
> = Array::new();

/// End of the last read, write and metadata operation of a (process, file), for times with overlap counted once.
/// Used by processes with several threads only; one thread never overlaps itself.
#[btf_map]
pub static LAST_ENDS: LruHashMap<IoKey, [u64; MERGED], { limits::LAST_END_ENTRIES as usize }> =
    LruHashMap::new();

/// Names, process notices and the fill notice.
#[btf_map]
pub static EVENTS: RingBuf<u8, { limits::EVENT_RING_BYTES as usize }> = RingBuf::new();

/// Durations and sizes by phase, where they are wanted. Per CPU: all threads of a CPU add to one value.
#[btf_map]
pub static HISTOGRAMS: PerCpuArray<Histograms, { phases::COUNT }> = PerCpuArray::new();

/// The operation trace: rings one behind the other, which the daemon maps into its memory. The loader gives them their
/// size; where nothing is traced they have one record.
#[btf_map]
pub static TRACE_OPERATIONS: Records<Operation> = Records::new();

/// Where each ring's writer and reader stand.
#[btf_map]
pub static TRACE_RINGS: Rings = Rings::new();

/// Operations missing in the trace, by process (a hash: pids are sparse). Not preallocated: mostly empty.
#[btf_map]
pub static TRACE_MISSING: HashMap<
    Owner,
    Missing,
    { limits::UNTRACED_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// Mappings of devices, by number and kind; threads share an entry.
#[btf_map]
pub static DEVICES: HashMap<u64, DeviceMappings, { limits::DEVICE_ENTRIES as usize }> =
    HashMap::new();

/// What was not counted, or not in full, by reason ([`diag`]).
#[btf_map]
pub static DIAGNOSTICS: PerCpuArray<u64, { diag::COUNT }> = PerCpuArray::new();

/// Room for one path: a per-CPU array because it is larger than the stack. One entry per program ([`scratch`]): from
/// Linux 7.2 on, one can be preempted by another on its CPU.
#[repr(C)]
pub struct Scratch {
    pub name: Name,
    /// Components and what follows them; one name more than the longest path, so that no write runs over.
    pub bytes: [u8; limits::PATH_BYTES + limits::NAME_BYTES + 1 + limits::PATH_BYTES],
    pub dentry: u64,
    pub vfsmount: u64,
    pub mount_root: u64,
    pub length: u64,
    pub done: u64,
    pub walk: Walk,
    pub look: Look,
}

#[btf_map]
pub static SCRATCH: PerCpuArray<Scratch, { scratch::COUNT }> = PerCpuArray::new();

/// Which entry of [`SCRATCH`] is whose.
pub mod scratch {
    use iotrace_common::limits::COPIES;

    /// Of copy `copy` of the program at the start of calls.
    pub const fn enter(copy: u32) -> u32 {
        2 * copy
    }

    /// Of that at their end.
    pub const fn exit(copy: u32) -> u32 {
        2 * copy + 1
    }

    /// Of the program that sees execs.
    pub const EXEC: u32 = 2 * COPIES as u32;
    /// Of those that see io_uring's requests.
    pub const SUBMIT: u32 = EXEC + 1;
    pub const COMPLETE: u32 = EXEC + 2;
    /// Of those on the page cache.
    pub const ADDED: u32 = EXEC + 3;
    pub const FAULT: u32 = EXEC + 4;
    pub const MAPPED: u32 = EXEC + 5;
    pub const DIRTIED: u32 = EXEC + 6;
    pub const FAULTED: u32 = EXEC + 7;
    pub const COUNT: usize = 2 * COPIES + 8;
}
