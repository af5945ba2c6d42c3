//! What iotrace's kernel programs and its daemon share.
//!
//! Every type that crosses the kernel boundary is `repr(C)`, made of fixed-width integers with explicit
//! padding, and its size and the offsets that matter are asserted where it is defined. A change of any of
//! them, of the meaning of a field, of a number in [`event`], or of the order in [`op`] or [`diag`] raises `REVISION`,
//! and with it [`ABI_VERSION`]; the daemon refuses an object with another one.
#![no_std]

pub mod abi;
pub mod block;
pub mod bucket;
pub mod counters;
pub mod cpu;
pub mod diag;
pub mod event;
pub mod global_merged;
pub mod histogram;
pub mod in_flight;
pub mod key;
pub mod latency;
pub mod library;
pub mod limits;
pub mod lines;
pub mod nobtf;
pub mod op;
pub mod phases;
pub mod rights;
pub mod scope;
pub mod trace;
pub mod uring;
pub mod value;
pub mod waits;

/// Version of everything in this crate that the kernel programs and the daemon must agree on.
///
/// Operations and diagnostics are part of it; [`REVISION`] is for all else.
pub const ABI_VERSION: u64 = REVISION * 1_000_000 + op::COUNT as u64 * 1_000 + diag::COUNT as u64;
const REVISION: u64 = 25;

/// Helper number that stands for the kernel function `bpf_rdonly_cast` in the built object; no kernel has this helper.
pub const CAST_MARKER: i32 = 0x7f00_0001;
