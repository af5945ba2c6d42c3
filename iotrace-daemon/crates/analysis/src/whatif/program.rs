//! The recorded timeline as a program: for each thread, steps that can be replayed at other speeds.

use std::collections::HashMap;

use iotrace_common::key::FileId;
use iotrace_model::{
    input::ProcessId,
    timeline::{Cause, Segment},
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
}

/// A recorded thread.
#[derive(Debug)]
pub struct Thread {
    pub process: ProcessId,
    pub tid: u32,
    /// Thread id of its parent, if its birth was recorded: its first step awaits that.
    parent: Option<u32>,
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
        ran.sum::<u64>() + self.storage()
    }

    /// How long it waited for storage.
    fn storage(&self) -> u64 {
        let waited = self.steps.iter().map(|step| match step {
            Step::Pause(Cause::Storage, _, ns) => *ns,
            _ => 0,
        });
        waited.sum()
    }
}

/// All recorded threads.
#[derive(Debug, Default)]
pub struct Program {
    pub threads: Vec<Thread>,
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
    /// Moments at which it woke others, and the signals.
    wakes: Vec<(u64, u32)>,
}

impl Program {
    /// Makes a program of recorded segments, in any order, on a host with so many CPUs.
    pub fn new(mut segments: Vec<Segment>, cpus: u32) -> Self {
        segments.sort_by_key(|one| (one.process, one.tid, one.off, one.on));
        let mut threads = split(segments);
        let mut by_tid: HashMap<u32, Vec<u32>> = HashMap::new();
        for (index, thread) in (0..).zip(&threads) {
            let tid = thread.segments[0].tid;
            by_tid.entry(tid).or_default().push(index);
        }
        // A number is used by one thread at a time: the last one that had begun.
        let find = |threads: &[Recorded], tid: u32, time: u64| {
            let of_number = by_tid.get(&tid)?.iter().copied();
            of_number
                .filter(|index| threads[*index as usize].start <= time)
                .max_by_key(|index| threads[*index as usize].start)
        };
        let mut count = 0;
        let mut signals = HashMap::new();
        for waiter in 0..threads.len() {
            for place in 0..threads[waiter].segments.len() {
                let segment = threads[waiter].segments[place];
                let sender = segment.by.and_then(|by| find(&threads, by, segment.woken));
                let Some(sender) = sender.filter(|sender| *sender as usize != waiter) else {
                    continue;
                };
                let sender = &mut threads[sender as usize];
                sender.wakes.push((segment.woken, count));
                sender.end = sender.end.max(segment.woken);
                signals.insert((waiter, place), count);
                count += 1;
            }
        }
        let load = Load::new(&threads, cpus);
        let mut program = Self {
            start: threads.iter().map(|thread| thread.start).min().unwrap_or(0),
            senders: vec![(0, 0); count as usize],
            threads: Vec::with_capacity(threads.len()),
        };
        for (index, mut thread) in threads.into_iter().enumerate() {
            thread.wakes.sort_unstable();
            let steps = steps(&thread, &load, |place| {
                signals.get(&(index, place)).copied()
            });
            for (place, step) in (0..).zip(&steps) {
                if let Step::Signal(signal) = step {
                    program.senders[*signal as usize] = (index as u32, place);
                }
            }
            let first = thread.segments[0];
            program.threads.push(Thread {
                process: first.process,
                tid: first.tid,
                parent: first.by.filter(|_| signals.contains_key(&(index, 0))),
                start: thread.start,
                end: thread.end,
                steps,
            });
        }
        program
    }

    /// Of the main threads of these processes, the one that is known for longest.
    pub fn longest_main(&self, processes: &[ProcessId]) -> Option<usize> {
        let threads = self.threads.iter().enumerate();
        let mains = threads
            .filter(|(_, thread)| thread.tid == thread.process.pid)
            .filter(|(_, thread)| processes.contains(&thread.process));
        mains
            .max_by_key(|(_, thread)| thread.span())
            .map(|(index, _)| index)
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

    /// Threads that a main thread started and that read files: main threads of processes, or where there are none threads
    /// of its own process. `min_share`: of the storage time of the one with most.
    pub fn workers(&self, root: usize, min_share: f64) -> Vec<usize> {
        let main = &self.threads[root];
        let started = |(index, thread): (usize, &Thread)| {
            let is_child = thread.parent == Some(main.tid) && index != root;
            (is_child && thread.storage() > 0).then_some(index)
        };
        let all: Vec<usize> = self
            .threads
            .iter()
            .enumerate()
            .filter_map(started)
            .collect();
        let is_process = |index: &usize| self.threads[*index].process != main.process;
        let mut workers: Vec<usize> = all.iter().copied().filter(is_process).collect();
        if workers.is_empty() {
            workers = all;
        }
        let storage = |worker: &usize| self.threads[*worker].storage();
        let most = workers.iter().map(storage).max().unwrap_or(0);
        workers.retain(|worker| storage(worker) as f64 >= most as f64 * min_share);
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
fn split(segments: Vec<Segment>) -> Vec<Recorded> {
    let mut threads: Vec<Recorded> = Vec::new();
    for mut segment in segments {
        let known = threads.last_mut().filter(|thread| {
            let last = thread.segments[thread.segments.len() - 1];
            (last.process, last.tid) == (segment.process, segment.tid)
                && segment.cause != Cause::Born
        });
        match known {
            Some(thread) => {
                segment.off = segment.off.max(thread.end);
                segment.woken = segment.woken.max(segment.off);
                segment.on = segment.on.max(segment.woken);
                thread.end = segment.on;
                thread.segments.push(segment);
            }
            None => threads.push(Recorded {
                start: segment.off,
                end: segment.on,
                segments: vec![segment],
                wakes: Vec::new(),
            }),
        }
    }
    threads
}

/// What a thread does. `signal`: the one that a segment awaits.
fn steps(thread: &Recorded, load: &Load, signal: impl Fn(usize) -> Option<u32>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut wakes = thread.wakes.iter().copied().peekable();
    let mut at = thread.start;
    for (place, segment) in thread.segments.iter().enumerate() {
        // A wake-up that seems to come from a thread off the CPU comes before it.
        while let Some((time, signal)) = wakes.next_if(|(time, _)| *time < segment.on) {
            let time = time.min(segment.off);
            run(&mut steps, time.saturating_sub(at));
            at = at.max(time);
            steps.push(Step::Signal(signal));
        }
        run(&mut steps, segment.off.saturating_sub(at));
        let waited = segment.woken - segment.off;
        match (segment.cause, signal(place)) {
            (Cause::Born | Cause::Thread, Some(signal)) => steps.push(Step::Await(signal)),
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
    for (time, signal) in wakes {
        run(&mut steps, time.saturating_sub(at));
        at = at.max(time);
        steps.push(Step::Signal(signal));
    }
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
