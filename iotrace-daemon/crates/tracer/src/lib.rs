//! The kernel side as user space sees it: loads, attaches and tests the kernel programs, and drains their maps.
//!
//! - [`engine`]: the start, step by step
//! - [`kernel`]: load, attach, self-test, losses
//! - [`drain`]: maps to batches, in a thread of its own
//! - [`in_flight`]: calls that have not returned
//!
//! Only this crate names aya's types.

pub mod drain;
pub mod engine;
pub mod in_flight;
pub mod kernel;
