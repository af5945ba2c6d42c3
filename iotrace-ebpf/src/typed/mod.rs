//! What reads the kernel's structs, by the type information (BTF) that the daemon took their offsets from.
//!
//! - `programs`: on BTF raw tracepoints
//! - `file`, `path`: which file it is, and its name; `sort`: its phase
//! - `process`, `owner`: who does it, and whether that is in scope; `cgroup`: in which group
//! - `running`: of the task that calls
//! - `cpu`: CPU time of threads, where it is wanted
//! - `missing`: where files were looked for that are not there; `devices`: what is mapped and is no file

mod cgroup;
pub mod cpu;
pub mod devices;
pub mod file;
pub mod missing;
pub mod owner;
pub mod path;
pub mod process;
mod programs;
pub mod running;
pub mod sort;
