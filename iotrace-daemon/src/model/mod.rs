//! Processes, files and their counters.

pub mod input;
