//! What is counted is what was done: everything that loads the kernel's programs and compares counts.

#[path = "../common/mod.rs"]
mod common;

mod block;
mod checkpoints;
mod corpus;
mod darshan;
mod disk;
mod documented;
mod engine;
mod exact;
mod experiments;
mod findings;
mod fio;
mod full;
mod golden;
mod histograms;
mod in_flight;
mod kill;
mod late;
mod latencies;
mod libaio;
mod lines;
mod losses;
mod machine;
mod many;
mod mapped;
mod mapped_time;
mod mpiio;
mod older;
mod overflow;
mod overlap;
mod page_cache;
mod paths;
mod phases;
mod recordings;
mod scale;
mod scheduler;
mod stacks;
mod staging;
mod strace;
mod timeline;
mod trace;
mod unseen;
mod untyped;
mod uprobes;
mod waits;
mod ways;
mod whatif;

/// Tests that share the machine at a time, at most: most load programs, and some compare times.
const MAX_SHARING: u32 = 2;
