//! What can be turned off, or missing on a kernel: each with its programs, its maps and its types.
//!
//! In all objects:
//! - `histogram`: durations and sizes by phase
//! - `latencies`: how long operations took, by device, phase and class
//! - `oplog`: every operation by itself
//! - `spans`: which calls are one use of a file
//!
//! With type information:
//! - `cgroup`: the control group of a new program
//! - `cpu`: CPU time of threads
//! - `devices`: mappings of devices
//! - `negative_lookups`: look-ups that found nothing
//!
//! For kernels from 5.15 on:
//! - `uring`: requests of io_uring; `aio`: those of libaio
//! - `pages`: the page cache and mapped files; `mappings`: what msync is of
//! - `block`: requests to block devices, and whose bytes they move
//! - `waits`: what threads wait for
//! - `lines`: which line of a Python program opened a file; `stacks`: which function of a native one
//! - `uprobe`: functions of libraries

pub mod histogram;
pub mod latencies;
pub mod oplog;
pub mod spans;

#[cfg(not(feature = "nobtf"))]
pub mod cgroup;
#[cfg(not(feature = "nobtf"))]
pub mod cpu;
#[cfg(not(feature = "nobtf"))]
pub mod devices;
#[cfg(not(feature = "nobtf"))]
pub mod negative_lookups;

#[cfg(not(feature = "compat_510"))]
pub mod aio;
#[cfg(not(feature = "compat_510"))]
pub mod block;
#[cfg(not(feature = "compat_510"))]
pub mod lines;
#[cfg(not(feature = "compat_510"))]
pub mod mappings;
#[cfg(not(feature = "compat_510"))]
pub mod pages;
#[cfg(not(feature = "compat_510"))]
pub mod stacks;
#[cfg(not(feature = "compat_510"))]
pub mod uprobe;
#[cfg(not(feature = "compat_510"))]
pub mod uring;
#[cfg(not(feature = "compat_510"))]
pub mod waits;
