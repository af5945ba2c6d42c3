//! What the object for kernels without type information (BTF) has of its own, in place of what reads the kernel's
//! structs: beside the arguments of system calls, which the machine's interface fixes, nothing of them is known.
//!
//! - `programs`: on raw tracepoints, and one classic one
//! - `file`: which file a descriptor is: a handle, by following descriptors; `book`: what system calls do to them
//! - `process`: who comes, what they run, who goes; `path`: names of renames and unlinks
//! - `running`: of the task that calls
//! - `left_out`: where the common code calls what is left out here
//!
//! Everything else is that of the object for older kernels.

mod book;
pub mod file;
mod left_out;
pub mod path;
pub mod process;
mod programs;
pub mod running;

pub use left_out::{cpu, devices, missing, owner, sort};
