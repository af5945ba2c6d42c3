//! Replays a program on CPUs that all runnable threads share evenly.
//!
//! A thread that is ready runs at once, at a rate below 1 while more threads are ready than CPUs exist. So all of them
//! progress by one virtual clock, and a run ends when that clock has reached the run's own end.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use iotrace_common::key::FileId;
use iotrace_model::timeline::Cause;

use super::program::{Order, Program, Step, Thread};

/// A moment on its way through a heap: positive floats are in the order of their bits.
type Bits = u64;

/// How fast a thread does its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// CPUs that it uses while it runs, if it gets them.
    pub run: f64,
    /// Length of its pauses, in relation to the program.
    pub pause: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            run: 1.0,
            pause: 1.0,
        }
    }
}

impl Pace {
    /// Of a thread that does the work of `share` workers: it needs its time divided by `share`. Real workers take turns to
    /// run, so it uses the CPUs that they use in the mean, at least one.
    pub fn of_share(
        thread: &Thread,
        share: f64,
        scaled: &dyn Fn(u64, Option<FileId>) -> f64,
    ) -> Self {
        let (mut ran, mut paused) = (0.0, 0.0);
        for step in &thread.steps {
            match *step {
                Step::Run(ns) => ran += ns as f64,
                Step::Pause(cause, file, ns) => paused += length(cause, file, ns, scaled),
                Step::Delay(ns) => paused += ns as f64,
                Step::Await(_) | Step::Signal(_) | Step::Hold(..) => {}
            }
        }
        let whole = ran + paused;
        if paused <= 0.0 || whole <= 0.0 {
            return Self {
                run: share,
                pause: 1.0,
            };
        }
        let run = (share * ran / whole).max(1.0);
        Self {
            run,
            pause: ((whole / share - ran / run) / paused).max(0.0),
        }
    }
}

/// How long a pause is replayed, nanoseconds.
fn length(
    cause: Cause,
    file: Option<FileId>,
    ns: u64,
    scaled: &dyn Fn(u64, Option<FileId>) -> f64,
) -> f64 {
    match cause {
        Cause::Storage | Cause::PageFault => scaled(ns, file),
        _ => ns as f64,
    }
}

/// How a replay went. Moments are nanoseconds since the start of the program.
pub struct Outcome {
    /// When each thread began or was born.
    pub starts: Vec<u64>,
    /// When each step of each thread ended.
    pub ends: Vec<Vec<u64>>,
    /// CPU time of all threads, nanoseconds.
    pub cpu_ns: f64,
    /// Whether threads waited for each other.
    pub is_stuck: bool,
}

impl Outcome {
    /// When a thread began and ended: of one that was born, from its birth.
    pub fn bounds(&self, thread: usize) -> (u64, u64) {
        let ends = &self.ends[thread];
        let start = self.starts[thread];
        (start, ends.last().copied().unwrap_or(start).max(start))
    }
}

struct Replay<'a> {
    program: &'a Program,
    paces: &'a [Pace],
    scaled: &'a dyn Fn(u64, Option<FileId>) -> f64,
    order: Order,
    now: f64,
    /// The virtual clock of threads that run.
    clock: f64,
    /// CPUs that these use if they get them.
    running: f64,
    /// Ends of runs by the virtual clock, and of pauses.
    runs: BinaryHeap<Reverse<(Bits, u32)>>,
    pauses: BinaryHeap<Reverse<(Bits, u32)>>,
    is_sent: Vec<bool>,
    /// Who waits for a signal.
    waiting: Vec<Option<u32>>,
    /// Signals that threads are held for, in the order in which they came there.
    held: VecDeque<u32>,
    ready: VecDeque<u32>,
    outcome: Outcome,
}

/// Replays a program. `paces`: by thread. `scaled`: length of a wait for storage of a file. `order`: of threads, which it
/// keeps.
pub fn replay(
    program: &Program,
    cpus: u32,
    paces: &[Pace],
    scaled: &dyn Fn(u64, Option<FileId>) -> f64,
    order: Order,
) -> Outcome {
    let threads = &program.threads;
    let cpus = cpus.max(1);
    let mut replay = Replay {
        program,
        paces,
        scaled,
        order,
        now: 0.0,
        clock: 0.0,
        running: 0.0,
        runs: BinaryHeap::new(),
        pauses: BinaryHeap::new(),
        is_sent: vec![false; program.senders.len()],
        waiting: vec![None; program.senders.len()],
        held: VecDeque::new(),
        ready: VecDeque::new(),
        outcome: Outcome {
            starts: vec![0; threads.len()],
            ends: threads
                .iter()
                .map(|thread| Vec::with_capacity(thread.steps.len()))
                .collect(),
            cpu_ns: 0.0,
            is_stuck: false,
        },
    };
    for (index, thread) in (0..).zip(threads) {
        if thread.is_born() {
            replay.ready.push_back(index);
        } else {
            let start = thread.start - program.start;
            replay.outcome.starts[index as usize] = start;
            replay
                .pauses
                .push(Reverse(((start as f64).to_bits(), index)));
        }
    }
    replay.run(f64::from(cpus));
    let mut outcome = replay.outcome;
    let mut all = threads.iter().zip(&outcome.ends);
    outcome.is_stuck = all.any(|(thread, ends)| ends.len() < thread.steps.len());
    for (index, thread) in program.threads.iter().enumerate() {
        if thread.is_born() {
            outcome.starts[index] = outcome.ends[index].first().copied().unwrap_or(0);
        }
    }
    outcome
}

impl Replay<'_> {
    fn run(&mut self, cpus: f64) {
        // Threads that begin with a pause have no step for it.
        let mut started = vec![false; self.program.threads.len()];
        loop {
            while let Some(thread) = self.ready.pop_front() {
                started[thread as usize] = true;
                self.advance(thread);
            }
            let rate = (cpus / self.running.max(cpus)).min(1.0);
            let run = self.runs.peek().map(|Reverse((end, _))| {
                self.now + (f64::from_bits(*end) - self.clock).max(0.0) / rate
            });
            let pause = self
                .pauses
                .peek()
                .map(|Reverse((end, _))| f64::from_bits(*end));
            let (is_run, time) = match (run, pause) {
                (None, None) if self.release() => continue,
                (None, None) => return,
                (Some(run), pause) if pause.is_none_or(|pause| run <= pause) => (true, run),
                (_, pause) => (false, pause.unwrap_or(self.now)),
            };
            let queue = if is_run {
                &mut self.runs
            } else {
                &mut self.pauses
            };
            let Some(Reverse((end, thread))) = queue.pop() else {
                return;
            };
            if is_run {
                self.clock = f64::from_bits(end);
                self.running -= self.paces[thread as usize].run;
            } else {
                self.clock += (time - self.now).max(0.0) * rate;
            }
            self.now = time.max(self.now);
            if self.runs.is_empty() {
                // Rounding must not add up.
                self.running = 0.0;
            }
            if started[thread as usize] {
                self.end_step(thread);
            }
            self.ready.push_back(thread);
        }
    }

    fn end_step(&mut self, thread: u32) {
        self.outcome.ends[thread as usize].push(self.now.round() as u64);
    }

    /// Lets a thread go on until it must wait.
    fn advance(&mut self, thread: u32) {
        let index = thread as usize;
        let pace = self.paces[index];
        while let Some(step) = self.program.threads[index]
            .steps
            .get(self.outcome.ends[index].len())
        {
            match *step {
                Step::Run(ns) => {
                    let end = self.clock + ns as f64 / pace.run;
                    self.outcome.cpu_ns += ns as f64;
                    self.running += pace.run;
                    self.runs.push(Reverse((end.to_bits(), thread)));
                    return;
                }
                Step::Pause(cause, file, ns) => {
                    let ns = length(cause, file, ns, self.scaled);
                    return self.pause(thread, ns * pace.pause);
                }
                Step::Delay(ns) => return self.pause(thread, ns as f64 * pace.pause),
                Step::Await(signal) if !self.is_sent[signal as usize] => {
                    self.waiting[signal as usize] = Some(thread);
                    return;
                }
                Step::Hold(order, signal)
                    if order <= self.order && !self.is_sent[signal as usize] =>
                {
                    self.waiting[signal as usize] = Some(thread);
                    self.held.push_back(signal);
                    return;
                }
                Step::Await(_) | Step::Hold(..) => {}
                Step::Signal(signal) => {
                    self.send(signal);
                }
            }
            self.end_step(thread);
        }
    }

    /// Sends a signal; whether a thread goes on for it.
    fn send(&mut self, signal: u32) -> bool {
        self.is_sent[signal as usize] = true;
        let waiter = self.waiting[signal as usize].take();
        if let Some(waiter) = waiter {
            self.end_step(waiter);
            self.ready.push_back(waiter);
        }
        waiter.is_some()
    }

    /// Gives up one order that threads cannot keep; whether there was one.
    fn release(&mut self) -> bool {
        while let Some(signal) = self.held.pop_front() {
            if self.send(signal) {
                return true;
            }
        }
        false
    }

    fn pause(&mut self, thread: u32, ns: f64) {
        self.pauses
            .push(Reverse(((self.now + ns).to_bits(), thread)));
    }
}
