//! A main thread that asks again and again whether its loader has the data, and sleeps between.
//!
//! The sums of waits say that a thread slept, not how often: each sleep is in the timeline alone. Sleeps with next to no
//! running between them are a loop, which polls if a loader is at work until its last sleep: the data come within that one.
//! A thread that sleeps for another reason does so while the loader is idle, and one that takes the data in a blocking call
//! with a timeout is woken by the loader.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Confidence, Data, Finding, MIN_WAITED_SHARE, Saving, Subject, Value, seconds, thresholds::*,
};
use crate::waits::Waits;
use iotrace_model::{
    Model,
    groups::Groups,
    input::ProcessId,
    run::Run,
    timeline::{Cause, Segment, by_thread},
    waits::Leaf,
};

/// Segments of a timeline that is read, at most: about 200 MB.
const MAX_SEGMENTS: u64 = 2_000_000;
/// Minimum number of sleeps of a loop: a single sleep may be for anything.
const MIN_SLEEPS: u64 = 2;
/// For how long a thread runs between two sleeps of a loop at most, nanoseconds.
const MAX_CHECK_NS: u64 = 1_000_000;
/// Minimum share of the time before the last sleep of a loop for which a loader was at work.
const MIN_BUSY_SHARE: f64 = 0.8;

/// A run whose main threads may poll: they slept for long and have loaders.
#[derive(Debug)]
pub struct Suspect {
    /// Main threads' processes with their index, and the processes of their loaders.
    mains: Vec<(ProcessId, u32, BTreeSet<ProcessId>)>,
    /// Time for which the main threads are known, nanoseconds.
    whole_ns: u64,
    /// Minimum share of it in loops.
    min_share: f64,
}

/// The main threads that may poll, if there is a timeline that tells.
pub fn suspect(data: &Data<'_>) -> Option<Suspect> {
    let timeline = data.run.timeline?;
    let exposed = data.exposed()?;
    let slept = exposed.share(exposed.spent.of(Leaf::Sleep));
    let min_share = data.limit(WAITED_SHARE);
    if timeline.dropped > 0 || timeline.segments > MAX_SEGMENTS || slept < min_share {
        return None;
    }
    let loaders = loaders(
        data.model,
        data.uses.visits.iter().map(|visit| visit.process),
    );
    let mains = with_loaders(data.model, &data.analysis.waits, &loaders);
    (!mains.is_empty()).then_some(Suspect {
        mains,
        whole_ns: exposed.spent.whole(),
        min_share,
    })
}

/// By process that they load for: other processes that read training data.
fn loaders(
    model: &Model,
    readers: impl Iterator<Item = u32>,
) -> BTreeMap<u32, BTreeSet<ProcessId>> {
    let groups = Groups::new(model);
    let mut loaders: BTreeMap<u32, BTreeSet<ProcessId>> = BTreeMap::new();
    for reader in readers {
        let main = groups.of(reader);
        if main != reader {
            let id = model.processes()[reader as usize].id;
            loaders.entry(main).or_default().insert(id);
        }
    }
    loaders
}

fn with_loaders(
    model: &Model,
    waits: &Waits,
    loaders: &BTreeMap<u32, BTreeSet<ProcessId>>,
) -> Vec<(ProcessId, u32, BTreeSet<ProcessId>)> {
    let judged = waits.judged().iter();
    let of = |process: u32| {
        let id = model.processes()[process as usize].id;
        Some((id, process, loaders.get(&process)?.clone()))
    };
    judged.filter_map(|waiter| of(waiter.process)).collect()
}

/// What the loops of one thread amount to, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Polled {
    loops: u64,
    sleeps: u64,
    /// From the first sleep of a loop to the end of the last.
    ns: u64,
    /// In the last sleep of each.
    last_ns: u64,
}

impl Suspect {
    /// The finding, if the timeline shows that they poll.
    pub fn find(&self, run: &Run, segments: &mut [Segment]) -> Option<Finding> {
        let threads: Vec<&[Segment]> = by_thread(segments).collect();
        let mut all = Polled::default();
        let mut most_ns = 0;
        let mut subjects = Vec::new();
        let mut loader_count = 0;
        for (main, index, loaders) in &self.mains {
            let polled = polled(&threads, *main, loaders);
            if polled.loops == 0 {
                continue;
            }
            all.loops += polled.loops;
            all.sleeps += polled.sleeps;
            all.ns += polled.ns;
            most_ns = most_ns.max(polled.last_ns);
            subjects.push(Subject::Process(*index));
            loader_count += loaders.len() as u64;
        }
        let share = all.ns as f64 / self.whole_ns.max(1) as f64;
        let is_much = most_ns as f64 >= run.duration_ns as f64 * MIN_WAITED_SHARE;
        if share < self.min_share || !is_much {
            return None;
        }
        subjects.truncate(super::MAX_SUBJECTS);
        let who = match subjects.len() {
            1 => "The main thread polled",
            _ => "Main threads polled",
        };
        Some(Finding {
            code: "loader-polls",
            saving: Saving::of(
                run,
                most_ns,
                Confidence::Medium,
                &["whether the thread polled for anything else than the loader's data"],
            ),
            title: format!("{who} for the loader's data, {:.0} % of the time", share * 100.0),
            evidence: vec![
                ("polled_seconds", seconds(all.ns)),
                ("share_of_time", Value::Share(share)),
                ("waits", Value::Count(all.loops)),
                ("sleeps", Value::Count(all.sleeps)),
                ("mean_sleep_seconds", seconds(all.ns / all.sleeps.max(1))),
                ("loader_processes", Value::Count(loader_count)),
            ],
            subjects,
            advice: "Take the data in a call that blocks until they are there (`queue.get()`, `Connection.recv()`, a condition variable) instead \
                     of a loop that sleeps: it returns at once, the loop only after its last sleep. If there is no such call, sleep for less."
                .into(),
            also: Vec::new(),
        })
    }
}

/// The loops in which a main thread polled for what its loaders do.
fn polled(threads: &[&[Segment]], main: ProcessId, loaders: &BTreeSet<ProcessId>) -> Polled {
    let of_loaders = || {
        threads
            .iter()
            .filter(move |one| loaders.contains(&one[0].process))
    };
    let loader_tids: BTreeSet<u32> = of_loaders().map(|thread| thread[0].tid).collect();
    let at_work = Union::new(of_loaders().flat_map(|thread| busy(thread, is_at_work)));
    // While another thread of the process runs, a wait that times out may be one for the interpreter's lock.
    let of_main = || threads.iter().filter(move |one| one[0].process == main);
    let others = of_main().filter(|one| one[0].tid != main.pid);
    let own = Union::new(others.flat_map(|thread| busy(thread, |_| false)));
    let mut polled = Polled::default();
    let mut woken = 0;
    for thread in of_main().filter(|one| one[0].tid == main.pid) {
        for (sleeps, next) in loops(thread) {
            let [first, .., last] = sleeps[..] else {
                continue;
            };
            let (start, end) = (first.off, last.on);
            if own.overlap(start, end) * 2 >= end - start {
                continue;
            }
            let is_woken = next.is_some_and(|next| {
                next.cause == Cause::Thread && next.by.is_some_and(|by| loader_tids.contains(&by))
            });
            let worked = at_work.overlap(start, last.off) as f64;
            if worked < (last.off - start) as f64 * MIN_BUSY_SHARE {
                continue;
            }
            woken += u64::from(is_woken);
            polled.loops += 1;
            polled.sleeps += sleeps.len() as u64;
            polled.ns += end - start;
            polled.last_ns += last.on - last.off;
        }
    }
    // A blocking call with a timeout: the loader ends it.
    if woken * 2 > polled.loops {
        return Polled::default();
    }
    polled
}

/// The loops of a thread: sleeps between which it ran for a moment, and for what it left the CPU a moment after the last.
fn loops(thread: &[Segment]) -> Vec<(Vec<&Segment>, Option<&Segment>)> {
    let mut found = Vec::new();
    let mut sleeps: Vec<&Segment> = Vec::new();
    let mut ran_ns = 0;
    let mut on = 0;
    for segment in thread {
        ran_ns += segment.off.saturating_sub(on);
        on = segment.on;
        let is_moment = ran_ns <= MAX_CHECK_NS;
        match segment.cause {
            // It did not leave by itself.
            Cause::Preempted if segment.off < segment.on => {}
            Cause::Sleep if is_moment || sleeps.is_empty() => {
                sleeps.push(segment);
                ran_ns = 0;
            }
            cause => {
                let next = is_moment.then_some(segment);
                found.push((std::mem::take(&mut sleeps), next));
                if cause == Cause::Sleep {
                    sleeps.push(segment);
                }
                ran_ns = 0;
            }
        }
    }
    found.push((sleeps, None));
    found.retain(|(sleeps, _)| sleeps.len() as u64 >= MIN_SLEEPS);
    found
}

/// Whether a thread off the CPU for this cause is at work: it reads, or is held up by the machine.
fn is_at_work(cause: Cause) -> bool {
    matches!(cause, Cause::Storage | Cause::PageFault | Cause::Preempted)
}

/// When a thread ran, was ready to run, or was off the CPU for a cause that `counts`; from its birth to its end.
fn busy(thread: &[Segment], counts: fn(Cause) -> bool) -> Vec<(u64, u64)> {
    let mut times = Vec::new();
    let mut from = thread[0].on;
    for segment in &thread[1..] {
        if !counts(segment.cause) {
            times.push((from, segment.off));
            from = segment.woken;
        }
    }
    times.push((from, thread[thread.len() - 1].on));
    times
}

/// Times that do not overlap, in order.
struct Union(Vec<(u64, u64)>);

impl Union {
    fn new(times: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut times: Vec<(u64, u64)> = times.filter(|(start, end)| start < end).collect();
        times.sort_unstable();
        let mut union: Vec<(u64, u64)> = Vec::new();
        for (start, end) in times {
            match union.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => union.push((start, end)),
            }
        }
        Self(union)
    }

    /// How much of a time is within.
    fn overlap(&self, start: u64, end: u64) -> u64 {
        let first = self.0.partition_point(|(_, until)| *until <= start);
        let within = self.0[first..].iter().take_while(|(from, _)| *from < end);
        within
            .map(|(from, until)| (*until).min(end) - (*from).max(start))
            .sum()
    }
}
