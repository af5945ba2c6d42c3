//! System calls on files, from their start to their counters.
//!
//! - `enter`, `exit`: the start and the end of a call; `programs_*`: the programs that see them
//! - `thread`: whose call it is, and what its start leaves for its end
//! - `account`, `full`: the counters; `cells`: where they are; `open_files`: last accesses
//! - `config`, `maps`, `memory`, `events`, `ring`, `diagnose`: what all of it uses

pub mod account;
pub mod cells;
pub mod config;
pub mod diagnose;
pub mod enter;
pub mod events;
pub mod exit;
pub mod full;
pub mod maps;
pub mod memory;
pub mod open_files;
#[cfg(not(feature = "nobtf"))]
mod programs_btf;
#[cfg(feature = "nobtf")]
mod programs_nobtf;
#[cfg(not(feature = "compat_510"))]
mod programs_tracepoint;
pub mod ring;
pub mod thread;
