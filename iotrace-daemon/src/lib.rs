//! iotrace: who reads and writes which files, how long it takes, and in which phase of a training job.
//!
//! Data runs one way through these modules:
//!
//! ```text
//! kernel (load, attach) -> drain (maps -> samples, events) -> model (processes, files, counters)
//!     -> classify (phases), analysis (checkpoints, epochs, findings) -> recording (Parquet parts),
//!     report (text, JSON, HTML), export (other tools' formats)
//!     -> service (metrics over HTTP)
//! ```
//!
//! Only `kernel` and `drain` name aya's types. `report` runs the same model on a recording that `record` fills live.

pub mod analysis;
pub mod classify;
pub mod cli;
mod directory;
pub mod drain;
pub mod export;
pub mod host;
pub mod in_flight;
pub mod kernel;
mod memory;
pub mod model;
pub mod recording;
pub mod report;
pub mod service;
pub mod targets;
