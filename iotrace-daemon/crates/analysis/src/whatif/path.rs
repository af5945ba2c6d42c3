//! What the time of a replayed thread consisted of: backwards from its end, and through signals to those who sent them.

use std::collections::BTreeMap;

use iotrace_model::{counters::saturating_add, timeline::Cause};

use super::{
    program::{Program, Step},
    replay::{Outcome, Pace},
};

/// What a stretch of time was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The main thread ran.
    Main,
    /// Another thread ran, for which it waited: the timeline does not tell loaders from others.
    Loader,
    Storage,
    PageFault,
    /// A thread was ready to run and had no CPU, or only a share of one.
    RunQueue,
    Sleep,
    Network,
    /// Processes that are not traced, devices, what is not known.
    Other,
}

impl Part {
    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main_thread",
            Self::Loader => "loader_cpu",
            Self::Storage => "storage",
            Self::PageFault => "page_fault",
            Self::RunQueue => "run_queue",
            Self::Sleep => "sleep",
            Self::Network => "network",
            Self::Other => "other",
        }
    }

    /// In a few words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Main => "main thread computing",
            Self::Loader => "other threads computing",
            Self::Storage => "storage",
            Self::PageFault => "page faults",
            Self::RunQueue => "too few CPUs",
            Self::Sleep => "sleep",
            Self::Network => "network",
            Self::Other => "other processes and devices",
        }
    }
}

/// What the time of thread `root` consisted of, nanoseconds.
pub fn parts(
    program: &Program,
    outcome: &Outcome,
    paces: &[Pace],
    root: usize,
) -> BTreeMap<Part, u64> {
    let mut parts = BTreeMap::new();
    let (begin, mut at) = outcome.bounds(root);
    let (mut thread, mut step) = (root, program.threads[root].steps.len());
    while at > begin {
        let Some(before) = step.checked_sub(1) else {
            // It began when it was first seen.
            add(&mut parts, Part::Other, at - begin);
            break;
        };
        step = before;
        let start = match step.checked_sub(1) {
            Some(previous) => outcome.ends[thread][previous],
            None if program.threads[thread].is_born() => 0,
            None => outcome.starts[thread],
        };
        let start = start.max(begin).min(at);
        let ns = at - start;
        match program.threads[thread].steps[step] {
            Step::Run(work) => {
                let part = if thread == root {
                    Part::Main
                } else {
                    Part::Loader
                };
                let work = (work as f64 / paces[thread].run).round() as u64;
                add(&mut parts, part, ns.min(work));
                add(&mut parts, Part::RunQueue, ns.saturating_sub(work));
            }
            Step::Pause(cause, ..) => add(&mut parts, of_cause(cause), ns),
            Step::Delay(_) => add(&mut parts, Part::RunQueue, ns),
            Step::Await(signal) | Step::Hold(_, signal) if ns > 0 => {
                let (sender, place) = program.senders[signal as usize];
                (thread, step) = (sender as usize, place as usize);
                continue;
            }
            Step::Await(_) | Step::Hold(..) | Step::Signal(_) => {}
        }
        at = start;
    }
    parts.retain(|_, ns| *ns > 0);
    parts
}

fn add(parts: &mut BTreeMap<Part, u64>, part: Part, ns: u64) {
    saturating_add(parts.entry(part).or_insert(0), ns);
}

fn of_cause(cause: Cause) -> Part {
    match cause {
        Cause::Storage => Part::Storage,
        Cause::PageFault => Part::PageFault,
        Cause::Sleep => Part::Sleep,
        Cause::Network => Part::Network,
        Cause::Preempted | Cause::Born => Part::RunQueue,
        Cause::Thread | Cause::Other | Cause::Unresolved => Part::Other,
    }
}
