//! The service: what it counts by job, its metrics, its socket, and how it is deployed.

#[path = "../common/mod.rs"]
mod common;

mod agrees;
mod attribution;
mod churn;
mod daemon;
mod deploy;
mod durable;
mod front;
mod helm;
mod http;
mod jobs;
mod latencies;
mod metrics;
mod seccomp;
mod slurm;
mod socket;
mod units;
mod unreadable;
mod waits;

/// Tests that share the machine at a time, at most: they wait for the service most of the time.
const MAX_SHARING: u32 = 4;
