//! Processes: their start, their programs and their end, and what is read of a task.

#[cfg(not(feature = "nobtf"))]
pub mod btf;
#[cfg(feature = "nobtf")]
pub mod nobtf;
