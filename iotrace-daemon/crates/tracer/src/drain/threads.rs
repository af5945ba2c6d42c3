//! CPU time: what threads had of it since the last look, and what that says of computing beside calls.
//!
//! A thread that was in calls for N of the time between two looks, and had W of CPU time, computed for at least W - N of it,
//! as all of its time in calls may have been CPU time; and for at most W, or what was left beside its calls. It computed
//! beside another thread's call for no longer than the other threads were in calls.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Read as _},
};

use iotrace_common::cpu::{ThreadTime, flag};
use serde::{Deserialize, Serialize};

use crate::kernel::cpu::Threads;
use iotrace_model::host;
use iotrace_model::{
    computing::CpuTime,
    counters::{saturating_add, saturating_sum},
    input::ProcessId,
    waits::{Leaf, Waited},
};

/// How much CPU time of a thread that runs may not be told yet: a scheduler tick, of which there are 100 a second at least.
const TICK: u64 = 10_000_000;

/// What all threads did between two looks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Look {
    /// From before the first look to behind the second, nanoseconds.
    pub length_ns: u64,
    pub threads: Vec<Did>,
}

impl Look {
    /// What processes had of CPU time, and computed beside calls of all threads of the look.
    pub fn processes(&self) -> Vec<(ProcessId, CpuTime)> {
        sum(&self.threads)
    }

    /// How long main threads were in calls on files.
    pub fn in_calls(&self) -> Vec<Waited> {
        let mains = self.threads.iter().filter(|did| did.is_main);
        let in_calls = mains.map(|did| Waited {
            process: did.process,
            leaf: Leaf::OfThatInCalls,
            by: None,
            file: None,
            phase: 0,
            ns: did.in_calls,
        });
        in_calls.collect()
    }

    /// The look as if there were no other processes than these.
    pub fn part(&self, mut is_wanted: impl FnMut(ProcessId) -> bool) -> Self {
        let threads = self.threads.iter().filter(|did| is_wanted(did.process));
        Self {
            length_ns: self.length_ns,
            threads: threads.copied().collect(),
        }
    }
}

/// A thread that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub process: ProcessId,
    pub tid: u32,
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub time: u64,
    pub runtime: u64,
    pub called: u64,
}

/// Process, its start key and thread.
type Key = (u32, u32, u32);

/// A thread as it was at the last look.
#[derive(Clone, Copy, Debug)]
struct Before {
    now: u64,
    runtime: u64,
    in_calls: u64,
    was_running: bool,
}

/// What one thread did since the last look, nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Did {
    pub process: ProcessId,
    is_main: bool,
    cpu: u64,
    in_calls: u64,
    at_least: u64,
    at_most: u64,
    /// It has requests that run beside its calls.
    is_asynchronous: bool,
}

/// Threads as they were at the last look.
pub struct Watch {
    threads: Threads,
    before: HashMap<Key, Before>,
    ended: Vec<Ended>,
    began: u64,
    /// Just before the counters of the last look were taken, and the look itself.
    drained: u64,
    looked: u64,
}

impl Watch {
    /// Begins to watch; threads that are not there yet are all that count.
    pub fn begin(threads: Threads) -> Self {
        let now = host::monotonic();
        Self {
            threads,
            before: HashMap::new(),
            ended: Vec::new(),
            began: now,
            drained: now,
            looked: 0,
        }
    }

    /// Begins anew: what threads that are in scope did until now is not of this run.
    pub fn begin_anew(&mut self) -> io::Result<()> {
        let now = host::monotonic();
        self.look(now)?;
        self.began = now;
        Ok(())
    }

    /// Takes down that a thread has ended.
    pub fn ended(&mut self, thread: Ended) {
        self.ended.push(thread);
    }

    /// Looks at all threads; `drained` is a moment just before the counters were taken.
    pub fn look(&mut self, drained: u64) -> io::Result<Look> {
        let mut bytes = Vec::new();
        self.threads.open()?.read_to_end(&mut bytes)?;
        let times = bytes.chunks_exact(size_of::<ThreadTime>()).map(|record| {
            // SAFETY: a record is as long, and every bit pattern is a valid one.
            unsafe { record.as_ptr().cast::<ThreadTime>().read_unaligned() }
        });
        let now = host::monotonic();
        let length_ns = now.saturating_sub(self.drained);
        let look = self.take(times, length_ns);
        (self.drained, self.looked) = (drained, now);
        Ok(look)
    }

    /// What is left of threads that have ended, when there are no more looks.
    pub fn rest(&mut self) -> Look {
        let length_ns = host::monotonic().saturating_sub(self.looked.max(self.drained));
        let ended = std::mem::take(&mut self.ended);
        Look {
            length_ns,
            threads: ended.iter().map(|end| self.end(end)).collect(),
        }
    }

    fn take(&mut self, times: impl Iterator<Item = ThreadTime>, length_ns: u64) -> Look {
        let ended = std::mem::take(&mut self.ended);
        let mut threads: Vec<Did> = ended.iter().map(|end| self.end(end)).collect();
        let mut now = HashMap::with_capacity(self.before.len());
        for time in times {
            let key = (time.tgid, time.start, time.tid);
            let current = match time.entered {
                0 => 0,
                entered => time.now.saturating_sub(entered),
            };
            let is_running = time.flags & flag::RUNNING != 0;
            let after = Before {
                now: time.now,
                runtime: time.runtime,
                in_calls: time.called.saturating_add(current),
                was_running: is_running,
            };
            threads.push(Did {
                is_asynchronous: time.flags & flag::ASYNCHRONOUS != 0,
                ..did(key, self.before.get(&key), &after, self.began)
            });
            now.insert(key, after);
        }
        self.before = now;
        Look { length_ns, threads }
    }

    /// What a thread did until it ended.
    fn end(&mut self, end: &Ended) -> Did {
        let key = (end.process.pid, end.process.start, end.tid);
        let after = Before {
            now: end.time,
            runtime: end.runtime,
            in_calls: end.called,
            was_running: true,
        };
        let mut did = did(key, self.before.remove(&key).as_ref(), &after, self.began);
        if end.time <= self.looked {
            // It was gone at the last look already, so all this was before that.
            did.at_least = 0;
        }
        did
    }
}

/// What a thread did between two looks; `before` is none where it was not there yet, at the time when it `began`.
fn did((pid, start, tid): Key, before: Option<&Before>, after: &Before, began: u64) -> Did {
    // A thread that executes a program can take its process's id, and its numbers begin anew.
    let before = before.filter(|before| before.runtime <= after.runtime);
    let since = |of: fn(&Before) -> u64| of(after).saturating_sub(before.map_or(0, of));
    let longest = after
        .now
        .saturating_sub(before.map_or(began, |before| before.now));
    let cpu = since(|at| at.runtime).min(longest);
    let in_calls = since(|at| at.in_calls);
    let stale = before.is_some_and(|before| before.was_running);
    let mut at_most = cpu.saturating_add(if after.was_running { TICK } else { 0 });
    if before.is_some() {
        at_most = at_most.min(since(|at| at.now).saturating_sub(in_calls));
    }
    Did {
        process: ProcessId { pid, start },
        is_main: tid == pid,
        cpu,
        in_calls,
        at_least: cpu.saturating_sub(in_calls.saturating_add(if stale { TICK } else { 0 })),
        at_most,
        is_asynchronous: false,
    }
}

/// By process. With requests that run beside calls, any thread may compute beside one.
fn sum(done: &[Did]) -> Vec<(ProcessId, CpuTime)> {
    let asynchronous = done.iter().any(|did| did.is_asynchronous);
    let in_calls = saturating_sum(done.iter().map(|did| did.in_calls));
    let mut processes: BTreeMap<ProcessId, CpuTime> = BTreeMap::new();
    for did in done.iter().filter(|did| did.cpu > 0) {
        let time = processes.entry(did.process).or_default();
        let others = if asynchronous {
            u64::MAX
        } else {
            in_calls - did.in_calls
        };
        saturating_add(&mut time.cpu_ns, did.cpu);
        time.computing_at_least_ns = time.computing_at_least_ns.max(did.at_least);
        saturating_add(&mut time.beside_at_most_ns, did.at_most.min(others));
    }
    processes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(now: u64, runtime: u64, in_calls: u64) -> Before {
        Before {
            now,
            runtime,
            in_calls,
            was_running: false,
        }
    }

    #[test]
    fn one_thread_computes_beside_no_call() {
        let own = did(
            (1, 2, 1),
            Some(&at(0, 0, 0)),
            &at(SECOND, SECOND / 2, SECOND / 4),
            0,
        );
        assert_eq!((own.at_least, own.at_most), (SECOND / 4, SECOND / 2));
        let [(_, time)] = sum(&[own])[..] else {
            panic!("one process");
        };
        assert_eq!((time.cpu_ns, time.beside_at_most_ns), (SECOND / 2, 0));
    }

    #[test]
    fn time_in_calls_is_no_computing() {
        let own = did(
            (1, 2, 1),
            Some(&at(0, 0, 0)),
            &at(SECOND, SECOND, SECOND),
            0,
        );
        assert_eq!((own.at_least, own.at_most), (0, 0));
    }

    #[test]
    fn one_computes_while_the_other_reads() {
        let reader = did((1, 2, 1), Some(&at(0, 0, 0)), &at(SECOND, 0, SECOND), 0);
        let spinner = did((1, 2, 3), Some(&at(0, 0, 0)), &at(SECOND, SECOND, 0), 0);
        let [(_, time)] = sum(&[reader, spinner])[..] else {
            panic!("one process");
        };
        assert_eq!(
            (time.computing_at_least_ns, time.beside_at_most_ns),
            (SECOND, SECOND)
        );
    }

    #[test]
    fn numbers_that_begin_anew_are_another_threads() {
        let own = did((1, 2, 1), Some(&at(0, 9 * SECOND, 0)), &at(SECOND, 5, 0), 0);
        assert_eq!((own.cpu, own.at_least), (5, 5));
    }
}
