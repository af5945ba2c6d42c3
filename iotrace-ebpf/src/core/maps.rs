//! The maps that all objects have and several modules use, or that the daemon opens even where nothing fills them.

use aya_ebpf::{
    bindings,
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use iotrace_common::{
    event::Name,
    limits,
    value::{Io, IoFull},
};

use crate::platform::{negative_lookups::Look, phase::Walk};

/// Of an insert: there must be none by this key.
pub const BPF_NOEXIST: u64 = bindings::BPF_NOEXIST as u64;

maps! {
    pub CELLS;
    pub CELLS_FULL;
    pub CELLS_LATENCY;
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
    pub LINE_COUNTS;
    LINE_COUNTS_A;
    LINE_COUNTS_B;
    pub SCOPE;
    pub TARGETS;
    pub RULES;
    pub NAMED;
    pub EVENTS;
    pub DEVICES;
    pub DIAGNOSTICS;
}

/// What new entries of the hashes start from; too large for the stack.
#[repr(C)]
pub struct Zero {
    pub io: Io,
    pub full: IoFull,
}

#[btf_map]
pub static ZERO: Array<Zero, 1> = Array::new();

/// Renames so far by traced processes, and hard links made. One word that all add to, as seldom as they rename.
#[btf_map]
pub static RENAMES: Array<u64, 1> = Array::new();

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
    /// What became of the name (`files::btf::path`).
    pub became: u32,
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
