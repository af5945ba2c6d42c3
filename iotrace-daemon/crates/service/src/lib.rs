//! The service: what the whole machine does, for as long as it runs, as metrics by job.
//!
//! ```text
//! config        what it is told
//! attribution   /proc/PID/{environ,cgroup} -> unit (pure)
//! environment   that of a process which ran before
//! readers       reads it in a thread that can be given up
//! processes     which unit each process belongs to, from its fork on
//! intake        one interval of the model -> totals, then the model forgets what is old
//! jobs          a recording for every unit
//! undecided     counts and checkpoints that only what comes after decides
//! epochs, findings, descriptors
//!               what else is known of a unit: passes over its data, what is wrong, open files
//! losses        what was not counted
//! totals        sums by unit, phase and mount; bounded
//! shared        what the drain's side writes and the endpoint reads
//! metrics       totals -> OpenMetrics (the only file that names prometheus-client)
//! front         the process without privileges that http and the socket's door run in
//! http          the endpoint
//! sight         which names of files a user may learn
//! socket        recordings and snapshots for users without privileges
//! subscriptions recordings that share the programs of the service
//! subordinate   whose a user id is
//! snapshot      what a process and its descendants have done
//! background    threads of servers
//! notify        systemd: ready, status, watchdog
//! own           what the service itself costs
//! ```
//!
//! `cli::daemon` runs it.

pub mod attribution;
pub mod background;
pub mod config;
mod descriptors;
mod environment;
mod epochs;
pub mod findings;
pub mod front;
pub mod http;
pub mod intake;
pub mod jobs;
mod losses;
pub mod metrics;
pub mod notify;
pub mod own;
pub mod processes;
mod readers;
pub mod shared;
mod sight;
pub mod snapshot;
pub mod socket;
mod subordinate;
pub mod subscriptions;
pub mod totals;
mod undecided;
