//! Counting for a moment and not for a recording: what `top` and `snapshot --for` begin with.
//!
//! A service that runs counts already, and sends the part of the chosen processes. Without one, root loads kernel programs.

use crate::PROGRAMS;
use std::path::{Path, PathBuf};

use super::{
    config::Sorting,
    remote::{self, Remote},
    source::Source,
};
use iotrace_model::targets;
use iotrace_model::{About, Model};
use iotrace_service::socket::protocol::Record;
use iotrace_tracer::engine::{Engine, Loaded};
use iotrace_tracer::kernel::{HookChoice, KernelError, Losses, Options, capabilities};

/// The socket of the service that is to count: the one that is named, or the one that there is where this process may
/// not trace itself.
pub fn service(named: Option<&Path>) -> Option<PathBuf> {
    let there = || Some(remote::place()).filter(|path| path.exists() && !capabilities::may_trace());
    named.map(Path::to_owned).or_else(there)
}

/// Says what else could be done where a privilege is missing.
pub fn explain(error: anyhow::Error, asked: bool) -> anyhow::Error {
    match error.downcast_ref() {
        Some(KernelError::Privilege(_)) if !asked => {
            error.context(format!(
                "run `sudo iotrace {}`, or let the administrator turn the service's socket on (`socket` in [recordings], not \
                 at {})",
                super::words().get(1..).unwrap_or_default().join(" "),
                remote::place().display()
            ))
        }
        _ => error,
    }
}

/// Lets the counting begin, of these processes and their descendants, or of all where none is named; with `latencies`, also
/// of how long operations take.
pub fn open(
    pids: &[u32],
    named: Option<&Path>,
    sorting: &Sorting,
    latencies: bool,
) -> anyhow::Result<Source> {
    pids.iter().try_for_each(|pid| targets::check(*pid))?;
    let socket = service(named);
    let source = match &socket {
        Some(socket) => of_service(socket, pids, latencies),
        None => running_service(pids, latencies).map_or_else(|| own(pids, sorting, latencies), Ok),
    };
    source.map_err(|error| explain(error, socket.is_some()))
}

fn of_service(socket: &Path, pids: &[u32], latencies: bool) -> anyhow::Result<Source> {
    let record = Record {
        latencies,
        ..Record::least(pids.to_vec())
    };
    Remote::start(socket, record, &[]).map(Source::Service)
}

/// What a service counts already, if one runs: nothing is to be loaded then.
fn running_service(pids: &[u32], latencies: bool) -> Option<Source> {
    let socket = Some(remote::place()).filter(|path| path.exists())?;
    let source = of_service(&socket, pids, latencies);
    source
        .inspect_err(|error| log::debug!("the service at {}: {error:#}", socket.display()))
        .ok()
}

fn own(pids: &[u32], sorting: &Sorting, latencies: bool) -> anyhow::Result<Source> {
    let options = Options {
        latencies,
        ..Options::least()
    };
    let loaded = Loaded::new(&options, &PROGRAMS, sorting.classifier.table())?;
    let Engine {
        mut kernel, drain, ..
    } = loaded.attach(HookChoice::Auto)?.prove()?;
    if pids.is_empty() {
        kernel.trace_all()?;
    }
    // Twice: a child made between the first look and its parent's becoming a target is not followed.
    let find = || targets::descendants(pids);
    for pid in find().into_iter().chain(find()) {
        kernel.add_target(pid)?;
    }
    Ok(Source::own(kernel, drain)?)
}

/// Asks /proc, by `look`, for the processes that no event has told of.
pub fn describe(model: &mut Model, look: fn(u32) -> Option<About>) {
    let unknown: Vec<_> = model.undescribed().collect();
    for process in unknown {
        let about = look(process.pid);
        if let Some(about) = about.filter(|about| targets::is_of(about, process)) {
            model.describe_process(process, about);
        }
    }
}

/// Whether process `pid` has ended.
pub fn has_ended(pid: u32) -> bool {
    matches!(targets::check(pid), Err(targets::TargetError::Gone(_)))
}

/// Operations that no counter holds.
pub fn lost(losses: &Losses) -> u64 {
    let reasons = ["lost_operations", "exit_missed", "recursion_misses"];
    reasons.iter().filter_map(|name| losses.get(*name)).sum()
}
