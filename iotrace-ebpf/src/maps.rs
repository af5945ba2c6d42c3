//! The maps that all objects have. Those of the table that the daemon knows ([`iotrace_common::abi::maps`]) have their types
//! and sizes from there.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC},
    btf_maps::{Array, ArrayOfMaps, HashMap, LruHashMap, PerCpuArray, RingBuf},
    macros::btf_map,
};
use iotrace_common::{abi, event::Name, global_merged, limits, value::IoFull};

use crate::{flight::Flights, missing::Look, open_files::OpenFile, sort::Walk, together::Line};

/// A row's kind as a map.
pub trait Declared {
    type Map;
    const NEW: Self::Map;
}

macro_rules! declared {
    ($(<$($type:ident),*; $($size:ident),*> $kind:ty => $map:ty;)*) => {$(
        impl<$($type,)* $(const $size: usize),*> Declared for $kind {
            type Map = $map;
            const NEW: Self::Map = <$map>::new();
        }
    )*};
}

declared! {
    <V; N, F> abi::Array<V, N, F> => Array<V, N, F>;
    <V; N> abi::PerCpuArray<V, N> => PerCpuArray<V, N>;
    <K, V; N, F> abi::Hash<K, V, N, F> => HashMap<K, V, N, F>;
    <K, V; N> abi::LruHash<K, V, N> => LruHashMap<K, V, N>;
    // The slot's own type has one entry: the kernel compares key and value sizes only, and the loader makes and drops a
    // map of that type.
    <K, V; F> abi::Slot<K, V, F> => ArrayOfMaps<HashMap<K, V, 1, F>, 1>;
    <; N> abi::RingBuffer<N> => RingBuf<u8, N>;
}

const _: () = {
    assert!(abi::MMAPABLE == BPF_F_MMAPABLE as usize);
    assert!(abi::NO_PREALLOC == BPF_F_NO_PREALLOC as usize);
};

/// Declares maps of the table by their names.
macro_rules! maps {
    ($($visible:vis $name:ident;)*) => {$(
        #[aya_ebpf::macros::btf_map]
        $visible static $name: <iotrace_common::abi::maps::$name as $crate::maps::Declared>::Map =
            <iotrace_common::abi::maps::$name as $crate::maps::Declared>::NEW;
    )*};
}

/// Declares a map of the table whose type is this crate's own.
macro_rules! opaque_map {
    ($(#[$doc:meta])* $visible:vis static $name:ident: $type:ty = $new:expr;) => {
        const _: iotrace_common::abi::Map<iotrace_common::abi::Opaque> =
            iotrace_common::abi::maps::$name;
        $(#[$doc])*
        #[aya_ebpf::macros::btf_map]
        $visible static $name: $type = $new;
    };
}

maps! {
    pub CELLS;
    pub CELLS_FULL;
    pub SETS;
    pub EPOCH;
    pub FILL;
    pub OVERFLOW;
    OVERFLOW_A;
    OVERFLOW_B;
    pub OVERFLOW_FULL;
    OVERFLOW_FULL_A;
    OVERFLOW_FULL_B;
    pub FAILURES;
    FAILURES_A;
    FAILURES_B;
    pub MISSING;
    MISSING_A;
    MISSING_B;
    pub LIBRARY;
    LIBRARY_A;
    LIBRARY_B;
    pub SCOPE;
    pub TARGETS;
    pub RULES;
    pub TOGETHER_NS;
    pub NAMED;
    pub LAST_ENDS;
    pub EVENTS;
    pub HISTOGRAMS;
    pub TRACE_OPERATIONS;
    pub TRACE_RINGS;
    pub TRACE_MISSING;
    pub DEVICES;
    pub DIAGNOSTICS;
}

/// What new entries of the hashes start from; too large for the stack.
#[btf_map]
pub static ZERO: Array<IoFull, 1> = Array::new();

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

/// Spans begun so far ([`crate::spans`]).
#[btf_map]
pub static SPANS: Array<u64, 1> = Array::new();

/// Open files as the processes use them, found by their address ([`crate::open_files`]).
#[btf_map]
pub static OPEN_FILES: Array<
    [OpenFile; limits::OPEN_FILE_WAYS],
    { limits::OPEN_FILE_SETS as usize },
> = Array::new();

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
