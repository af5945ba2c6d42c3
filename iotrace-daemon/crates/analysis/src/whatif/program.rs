//! The recorded timeline as a program: for each thread, steps that can be replayed at other speeds.

use std::collections::HashMap;

use iotrace_common::key::FileId;
use iotrace_model::{
    Model,
    counters::saturating_sum,
    input::ProcessId,
    timeline::{Cause, Segment, by_thread},
};

/// What a thread does next. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Uses a CPU for so long.
    Run(u64),
    /// Waits for something other than a traced thread for so long.
    Pause(Cause, Option<FileId>, u64),
    /// Is ready to run, but gets no CPU for so long, although not all are used by traced threads.
    Delay(u64),
    /// Waits until a signal was sent.
    Await(u32),
    Signal(u32),
    /// Waits until a signal was sent, if the replay keeps that order.
    Hold(Order, u32),
}

/// Which order of threads a replay keeps; each includes those before it. The recording shows that a thread waited for
/// another, and not that it would have: what was ready before it was asked for leaves no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// A thread waits for those for which it waited.
    Recorded,
    /// And it does not end before its children that ended before it.
    Ends,
    /// And it does not wake a thread that does not wait for it yet.
    Wakes,
    /// And it does not pass the moment at which another began to wait for it, or ended, before that does the same. If
    /// nothing becomes faster, no hand-over that was early can delay a thread more than this.
    Arrivals,
}

/// A recorded thread.
#[derive(Debug)]
pub struct Thread {
    pub process: ProcessId,
    pub tid: u32,
    /// Thread id of its parent, if its birth was recorded: its first step awaits that.
    parent: Option<u32>,
    /// Thread id of who made it; of who made its process where its birth was not recorded, if that is known.
    made_by: Option<u32>,
    /// First and last recorded moment, nanoseconds.
    pub start: u64,
    pub end: u64,
    pub steps: Vec<Step>,
}

impl Thread {
    /// How long it is known for.
    pub fn span(&self) -> u64 {
        self.end - self.start
    }

    pub fn is_born(&self) -> bool {
        self.parent.is_some()
    }

    /// How long it ran and waited for storage.
    pub fn busy(&self) -> u64 {
        let ran = self.steps.iter().map(|step| match step {
            Step::Run(ns) => *ns,
            _ => 0,
        });
        saturating_sum(ran).saturating_add(self.storage())
    }

    /// How long it waited for storage.
    fn storage(&self) -> u64 {
        let waited = self.steps.iter().map(|step| match step {
            Step::Pause(Cause::Storage, _, ns) => *ns,
            _ => 0,
        });
        saturating_sum(waited)
    }
}

/// All recorded threads.
#[derive(Debug, Default)]
pub struct Program {
    pub threads: Vec<Thread>,
    /// The main thread to predict.
    pub root: Option<usize>,
    /// Earliest recorded moment, nanoseconds.
    pub start: u64,
    /// Who sends each signal: thread and step.
    pub senders: Vec<(u32, u32)>,
}

/// The segments of one thread.
struct Recorded {
    segments: Vec<Segment>,
    start: u64,
    end: u64,
    /// Moments at which it woke others, and what it does then.
    wakes: Vec<(u64, Wake)>,
    /// Signals without which it does not pass a moment ([`Order::Arrivals`]).
    holds: Vec<(u64, u32)>,
    /// Signals without which it does not end ([`Order::Ends`]).
    joins: Vec<u32>,
    /// Signals that it sends when it ends.
    exits: Vec<u32>,
}

impl Recorded {
    fn process(&self) -> ProcessId {
        self.segments[0].process
    }

    fn tid(&self) -> u32 {
        self.segments[0].tid
    }

    /// Whether its birth was seen.
    fn is_born(&self) -> bool {
        self.segments[0].cause == Cause::Born && self.segments[0].by.is_some()
    }

    /// Whether it was seen to end.
    fn has_ended(&self) -> bool {
        let last = self.segments[self.segments.len() - 1];
        last.cause == Cause::Preempted && last.off == last.on
    }

    /// Its segment at a time at which it waits to be woken.
    fn waits_at(&self, time: u64) -> Option<usize> {
        let place = self.segments.partition_point(|one| one.off <= time);
        let place = place.checked_sub(1)?;
        (time < self.segments[place].woken).then_some(place)
    }
}

/// What a thread does when it wakes another; at one time in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// Awaits that the other waits ([`Order::Wakes`]).
    Hold(u32),
    Signal(u32),
}

/// What ended a wait.
#[derive(Clone, Copy)]
struct Link {
    /// Who woke it.
    sender: usize,
    signal: u32,
    /// What it sends when it begins to wait.
    arrival: Option<u32>,
}

/// Links by thread and segment.
type Links = HashMap<(usize, usize), Link>;

impl Program {
    /// Makes a program of recorded segments, in any order, on a host with so many CPUs. `mains`: processes of which the main
    /// thread is predicted that was there for longest.
    pub fn new(mut segments: Vec<Segment>, mains: &[ProcessId], cpus: u32) -> Self {
        let mut threads = split(&mut segments);
        let (mut links, mut count) = link(&mut threads);
        let root = longest_main(&threads, mains);
        let mut new_signal = || {
            count += 1;
            count - 1
        };
        hold_wakers(&mut threads, &mut links, &mut new_signal);
        hold_parents(&mut threads, &links, root, &mut new_signal);
        let load = Load::new(&threads, cpus);
        let mut program = Self {
            start: threads.iter().map(|thread| thread.start).min().unwrap_or(0),
            senders: vec![(0, 0); count as usize],
            threads: Vec::with_capacity(threads.len()),
            root,
        };
        for (index, mut thread) in threads.into_iter().enumerate() {
            thread.wakes.sort_unstable();
            thread.holds.sort_unstable();
            let steps = steps(&thread, &load, |place| links.get(&(index, place)).copied());
            for (place, step) in (0..).zip(&steps) {
                if let Step::Signal(signal) = step {
                    program.senders[*signal as usize] = (index as u32, place);
                }
            }
            let first = thread.segments[0];
            let parent = first.by.filter(|_| links.contains_key(&(index, 0)));
            program.threads.push(Thread {
                process: first.process,
                tid: first.tid,
                parent,
                made_by: parent.filter(|_| first.cause == Cause::Born),
                start: thread.start,
                end: thread.end,
                steps,
            });
        }
        program
    }

    /// The program of a recorded run.
    pub fn of_run(model: &Model, segments: Vec<Segment>, mains: &[ProcessId], cpus: u32) -> Self {
        let parent = |process| model.about(process).map(|about| about.parent);
        Self::new(segments, mains, cpus).with_parents(parent)
    }

    /// Adds the process ids of those that made processes: they are known also where the timeline lacks a birth.
    pub(super) fn with_parents(mut self, parent: impl Fn(ProcessId) -> Option<u32>) -> Self {
        let is_main = |thread: &&mut Thread| thread.tid == thread.process.pid;
        for thread in self.threads.iter_mut().filter(is_main) {
            thread.made_by = thread.made_by.or_else(|| parent(thread.process));
        }
        self
    }

    /// Median of waits for storage of the files that are wanted, nanoseconds.
    pub fn median_storage(&self, is_wanted: impl Fn(Option<FileId>) -> bool) -> Option<u64> {
        let steps = self.threads.iter().flat_map(|thread| &thread.steps);
        let mut waits: Vec<u64> = steps
            .filter_map(|step| match step {
                Step::Pause(Cause::Storage, file @ Some(_), ns) if is_wanted(*file) => Some(*ns),
                _ => None,
            })
            .collect();
        let middle = waits.len() / 2;
        (!waits.is_empty()).then(|| *waits.select_nth_unstable(middle).1)
    }

    /// Finds the workers of a main thread: the main threads of processes that it started, if any of them read files, else the
    /// threads of its own process that read files. `min_share`: of the busiest process, or of the thread with most storage time.
    pub fn workers(&self, root: usize, min_share: f64) -> Vec<usize> {
        let main = &self.threads[root];
        let all = self.threads.iter().enumerate();
        let children =
            all.filter(|(index, thread)| thread.made_by == Some(main.tid) && *index != root);
        let (mut workers, threads): (Vec<usize>, Vec<usize>) = children
            .map(|(index, _)| index)
            .partition(|index| self.threads[*index].process != main.process);
        // Where some find their files in the page cache, they compute alone.
        let mut work: fn(&Thread) -> u64 = Thread::busy;
        let reads = |index: &usize| self.threads[*index].storage() > 0;
        if !workers.iter().any(reads) {
            workers = threads;
            workers.retain(reads);
            work = Thread::storage;
        }
        let work = |worker: &usize| work(&self.threads[*worker]);
        let most = workers.iter().map(work).max().unwrap_or(0);
        workers.retain(|worker| work(worker) as f64 >= most as f64 * min_share);
        workers
    }

    /// How many of these threads were there at one time, at most.
    pub fn most_at_once(&self, threads: &[usize]) -> usize {
        let ends = threads.iter().flat_map(|index| {
            let thread = &self.threads[*index];
            [(thread.start, 1), (thread.end.max(thread.start + 1), -1)]
        });
        let mut ends: Vec<(u64, isize)> = ends.collect();
        ends.sort_unstable();
        let counts = ends.iter().scan(0, |count, (_, change)| {
            *count += change;
            Some(*count)
        });
        counts.max().unwrap_or(0).max(1) as usize
    }
}

/// Segments by thread. Those of a thread are in order and do not overlap.
fn split(segments: &mut [Segment]) -> Vec<Recorded> {
    let recorded = |segments: &[Segment]| {
        let start = segments[0].off;
        let mut end = start;
        let in_order = segments.iter().map(|segment| {
            let off = segment.off.max(end);
            let woken = segment.woken.max(off);
            end = segment.on.max(woken);
            Segment {
                off,
                woken,
                on: end,
                ..*segment
            }
        });
        Recorded {
            segments: in_order.collect(),
            start,
            end,
            wakes: Vec::new(),
            holds: Vec::new(),
            joins: Vec::new(),
            exits: Vec::new(),
        }
    };
    by_thread(segments).map(recorded).collect()
}

/// Of the main threads of these processes, the one that is known for longest.
fn longest_main(threads: &[Recorded], processes: &[ProcessId]) -> Option<usize> {
    let mains = threads.iter().enumerate().filter(|(_, thread)| {
        thread.tid() == thread.process().pid && processes.contains(&thread.process())
    });
    mains
        .max_by_key(|(_, thread)| thread.end - thread.start)
        .map(|(index, _)| index)
}

/// Finds who woke whom; the number of signals.
fn link(threads: &mut [Recorded]) -> (Links, u32) {
    let mut by_tid: HashMap<u32, Vec<usize>> = HashMap::new();
    for (index, thread) in threads.iter().enumerate() {
        by_tid.entry(thread.tid()).or_default().push(index);
    }
    // A number is used by one thread at a time: the last one that had begun. Or one that ran then and was not met yet.
    let find = |threads: &[Recorded], tid: u32, time: u64| {
        let of_number = by_tid.get(&tid)?.iter().copied();
        let begun = of_number.clone();
        let begun = begun.filter(|index| threads[*index].start <= time);
        let later = of_number.filter(|index| !threads[*index].is_born());
        begun
            .max_by_key(|index| threads[*index].start)
            .or_else(|| later.min_by_key(|index| threads[*index].start))
    };
    let mut links = Links::new();
    for waiter in 0..threads.len() {
        for place in 0..threads[waiter].segments.len() {
            let segment = threads[waiter].segments[place];
            let sender = segment.by.and_then(|by| find(threads, by, segment.woken));
            let Some(sender) = sender.filter(|sender| *sender != waiter) else {
                continue;
            };
            let signal = links.len() as u32;
            let thread = &mut threads[sender];
            thread.wakes.push((segment.woken, Wake::Signal(signal)));
            thread.start = thread.start.min(segment.woken);
            thread.end = thread.end.max(segment.woken);
            let link = Link {
                sender,
                signal,
                arrival: None,
            };
            links.insert((waiter, place), link);
        }
    }
    let count = links.len() as u32;
    (links, count)
}

/// A thread that waited was ahead of the one that woke it: holds the latter where it could overtake.
fn hold_wakers(threads: &mut [Recorded], links: &mut Links, new_signal: &mut impl FnMut() -> u32) {
    for waiter in 0..threads.len() {
        for place in 0..threads[waiter].segments.len() {
            let segment = threads[waiter].segments[place];
            if segment.cause != Cause::Thread || segment.off >= segment.woken {
                continue;
            }
            let Some((holder, wake)) = holder(threads, links, (waiter, place)) else {
                continue;
            };
            let arrival = new_signal();
            threads[holder].holds.push((segment.off, arrival));
            threads[holder].wakes.push((wake, Wake::Hold(arrival)));
            if let Some(link) = links.get_mut(&(waiter, place)) {
                link.arrival = Some(arrival);
            }
        }
    }
}

/// Who was to go on when a wait began: the waker, or if that waited as well, its own waker. And when that woke the next one.
fn holder(threads: &[Recorded], links: &Links, wait: (usize, usize)) -> Option<(usize, u64)> {
    let off = threads[wait.0].segments[wait.1].off;
    let (mut at, mut woken) = (wait, u64::MAX);
    loop {
        let sender = links.get(&at)?.sender;
        let wake = threads[at.0].segments[at.1].woken;
        // Each waker was woken before, unless the recorded times contradict each other.
        if sender == wait.0 || wake >= woken {
            return None;
        }
        woken = wake;
        let next = match threads[sender].waits_at(off) {
            // It was not born yet.
            None if off < threads[sender].start => 0,
            None => return Some((sender, woken)),
            Some(place) => place,
        };
        if !links.contains_key(&(sender, next)) {
            return Some((sender, woken));
        }
        at = (sender, next);
    }
}

/// Holds parents until their children have come as far as they had.
fn hold_parents(
    threads: &mut [Recorded],
    links: &Links,
    root: Option<usize>,
    new_signal: &mut impl FnMut() -> u32,
) {
    for child in 0..threads.len() {
        let is_born = threads[child].is_born();
        let born_by = links.get(&(child, 0)).filter(|_| is_born);
        let parent = born_by.map(|link| link.sender).or(root);
        let Some(parent) = parent.filter(|parent| *parent != child) else {
            continue;
        };
        let (end, parent_end) = (threads[child].end, threads[parent].end);
        if end > parent_end {
            if threads[child].start < parent_end {
                let signal = new_signal();
                threads[child]
                    .wakes
                    .push((parent_end, Wake::Signal(signal)));
                threads[parent].holds.push((parent_end, signal));
            }
            continue;
        }
        let signal = new_signal();
        threads[child].exits.push(signal);
        threads[parent].holds.push((end, signal));
        if born_by.is_some() && threads[child].has_ended() {
            let signal = new_signal();
            threads[child].exits.push(signal);
            threads[parent].joins.push(signal);
        }
    }
}

/// What a thread does. `link`: of a segment.
fn steps(thread: &Recorded, load: &Load, link: impl Fn(usize) -> Option<Link>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut wakes = thread.wakes.iter().copied().peekable();
    let mut holds = thread.holds.iter().copied().peekable();
    let mut at = thread.start;
    let mut until = |steps: &mut Vec<Step>, at: &mut u64, off: u64, on: u64| {
        loop {
            // A wake-up that seems to come from a thread off the CPU comes before it.
            let wake = wakes.peek().map(|(time, _)| *time);
            let hold = holds.peek().map(|(time, _)| *time);
            let is_wake =
                wake.is_some_and(|time| time < on && hold.is_none_or(|hold| time.min(off) <= hold));
            let next = match is_wake {
                true => wakes.next().map(|(time, wake)| match wake {
                    Wake::Hold(signal) => (time, Step::Hold(Order::Wakes, signal)),
                    Wake::Signal(signal) => (time, Step::Signal(signal)),
                }),
                false => holds
                    .next_if(|(time, _)| *time < off)
                    .map(|(time, signal)| (time, Step::Hold(Order::Arrivals, signal))),
            };
            let Some((time, step)) = next else { break };
            let time = time.min(off);
            run(steps, time.saturating_sub(*at));
            *at = time.max(*at);
            steps.push(step);
        }
    };
    for (place, segment) in thread.segments.iter().enumerate() {
        until(&mut steps, &mut at, segment.off, segment.on);
        run(&mut steps, segment.off.saturating_sub(at));
        let waited = segment.woken - segment.off;
        match (segment.cause, link(place)) {
            (Cause::Born | Cause::Thread, Some(link)) => {
                steps.extend(link.arrival.map(Step::Signal));
                steps.push(Step::Await(link.signal));
            }
            (Cause::Born | Cause::Preempted, _) => {}
            // Of a thread of which nothing is known.
            (Cause::Thread, None) => steps.push(Step::Pause(Cause::Other, None, waited)),
            (cause, _) => steps.push(Step::Pause(cause, segment.file, waited)),
        }
        let delay = load.free_between(segment.woken, segment.on);
        if delay > 0 {
            steps.push(Step::Delay(delay));
        }
        at = segment.on;
    }
    until(&mut steps, &mut at, u64::MAX, u64::MAX);
    let joins = thread.joins.iter().copied();
    steps.extend(joins.map(|signal| Step::Hold(Order::Ends, signal)));
    steps.extend(thread.exits.iter().copied().map(Step::Signal));
    steps
}

fn run(steps: &mut Vec<Step>, ns: u64) {
    match steps.last_mut() {
        _ if ns == 0 => {}
        Some(Step::Run(before)) => *before = before.saturating_add(ns),
        _ => steps.push(Step::Run(ns)),
    }
}

/// When CPUs were free of traced threads.
struct Load {
    /// Moments, and how long until then not all CPUs had run traced threads; from each on, whether that is so.
    free: Vec<(u64, u64, bool)>,
}

impl Load {
    fn new(threads: &[Recorded], cpus: u32) -> Self {
        let mut changes: Vec<(u64, i64)> = Vec::new();
        for thread in threads {
            let mut at = thread.start;
            for segment in &thread.segments {
                if at < segment.off {
                    changes.extend([(at, 1), (segment.off, -1)]);
                }
                at = segment.on;
            }
        }
        changes.sort_unstable();
        let (mut free, mut running, mut sum, mut last) = (Vec::new(), 0, 0, 0);
        let mut is_free = true;
        for (time, change) in changes {
            sum += if is_free { time - last } else { 0 };
            running += change;
            last = time;
            let now = running < i64::from(cpus);
            if now != is_free {
                is_free = now;
                free.push((time, sum, is_free));
            }
        }
        Self { free }
    }

    /// For how long from one moment to another not all CPUs ran traced threads.
    fn free_between(&self, start: u64, end: u64) -> u64 {
        let until = |time: u64| {
            let before = self.free.partition_point(|(from, ..)| *from <= time);
            match before.checked_sub(1).map(|index| self.free[index]) {
                Some((from, sum, true)) => sum + (time - from),
                Some((_, sum, false)) => sum,
                None => time,
            }
        };
        until(end).saturating_sub(until(start))
    }
}
