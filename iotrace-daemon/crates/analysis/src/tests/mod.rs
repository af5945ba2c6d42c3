//! Tests of the analysis on small jobs: what each does is written down, what is found is known.

mod durable;
mod epochs;
mod findings;
pub mod job;
mod polls;
mod predictions;
mod saves;
pub mod timeline;
