//! Times a loop in pieces, and takes the median of those that had their CPU to themselves.
//!
//! Beside other programs, other guests of the host use the same cores: a busy hyperthread next door makes
//! calls 1.4 times as long, for seconds at a time. A loop that enters no kernel shows it, since it
//! slows down as well: a piece counts only if that loop ran at its best speed before and after it.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::calls::{Places, SIZE};
use super::{Answer, cpus};
use crate::bench::call::Call;
use crate::bench::stats::{median, quantile};
use crate::bench::unless_brief;

/// How long a piece takes: long against the two readings of the clock, short against a time slice.
const PIECE: Duration = Duration::from_micros(150);
/// Pieces that are taken, and how many are enough if time runs out.
const PIECES: usize = 200;
const ENOUGH: usize = 15;
/// Time for them.
const LIMIT: Duration = Duration::from_secs(2);
/// Turns of the loop that enters no kernel.
const TURNS: u32 = 10_000;
/// How much slower than its best that loop may be.
const SLOWER: f64 = 1.08;

/// Runs the loop that enters no kernel for a while: its best time, nanoseconds.
pub fn best(period: Duration) -> Result<Answer> {
    cpus::raise_priority();
    cpus::pin(cpus::own()[0])?;
    let end = Instant::now() + period;
    let mut times = Vec::new();
    while Instant::now() < end {
        times.push(spin());
    }
    Ok([fastest(times), 0.0, 1.0, 0.0])
}

/// The best time, less sensitive to a clock's steps than the least.
fn fastest(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    quantile(&times, 0.01)
}

fn spin() -> f64 {
    let start = Instant::now();
    let mut turn = 0;
    while turn < TURNS {
        turn = black_box(turn + 1);
    }
    start.elapsed().as_nanos() as f64
}

/// Does a call many times: nanoseconds a call; how many there were; 1 if enough pieces had their CPU to
/// themselves, 0 if the nanoseconds are those of all pieces; and the best time of the loop that enters
/// no kernel.
pub fn time(call: Call, places: &Places, best: f64) -> Result<Answer> {
    cpus::raise_priority();
    let cpus = cpus::own();
    let threads = call.threads();
    if cpus.len() < threads {
        bail!("{} needs {threads} CPUs", call.word());
    }
    let meeting = Meeting {
        all: threads,
        start: Barrier::new(threads),
        ready: AtomicUsize::new(0),
    };
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|number| {
                let pieces = Pieces {
                    call,
                    places,
                    second: number > 0,
                    best,
                };
                let (cpu, meeting) = (cpus[number], &meeting);
                scope.spawn(move || {
                    cpus::pin(cpu)?;
                    pieces.time(meeting)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut sum = [0.0, 0.0, 1.0, f64::MAX];
    for result in results {
        let [ns, calls, quiet, best] =
            result.map_err(|_| anyhow!("a thread of the worker died"))??;
        sum = [
            sum[0] + ns / threads as f64,
            sum[1] + calls,
            quiet.min(sum[2]),
            best.min(sum[3]),
        ];
    }
    Ok(sum)
}

/// Where the threads of a measurement begin and end together.
struct Meeting {
    all: usize,
    start: Barrier,
    /// Threads that have their pieces.
    ready: AtomicUsize,
}

/// What one thread does.
struct Pieces<'a> {
    call: Call,
    places: &'a Places,
    second: bool,
    best: f64,
}

impl Pieces<'_> {
    /// Finds the length of a piece, then times pieces until all threads have enough.
    fn time(&self, meeting: &Meeting) -> Result<Answer> {
        let (count, mut calls) = self.calibrate()?;
        meeting.start.wait();
        let end = Instant::now() + unless_brief(LIMIT, LIMIT / 50);
        let (mut quiet, mut all, mut spins) = (Vec::new(), Vec::new(), Vec::new());
        let (mut before, mut is_ready) = (spin(), false);
        while meeting.ready.load(Ordering::Relaxed) < meeting.all {
            let ns = self.piece(count)?.as_nanos() as f64 / count as f64;
            calls += count;
            all.push(ns);
            let after = spin();
            spins.push(after);
            if before.max(after) <= self.best * SLOWER {
                quiet.push(ns);
            }
            before = after;
            let done = quiet.len() == PIECES || Instant::now() > end;
            if done && !is_ready && all.len() >= ENOUGH {
                is_ready = true;
                meeting.ready.fetch_add(1, Ordering::Relaxed);
            }
        }
        let enough = quiet.len() >= ENOUGH;
        let ns = median(if enough { &mut quiet } else { &mut all });
        Ok([
            ns,
            calls as f64,
            f64::from(u8::from(enough)),
            fastest(spins),
        ])
    }

    /// The calls of a piece, and how many it took to find that out.
    fn calibrate(&self) -> Result<(u64, u64)> {
        let (mut count, mut calls) = (16, 0);
        loop {
            calls += count;
            if self.piece(count)? >= PIECE || count >= SIZE / 4 {
                return Ok((count, calls));
            }
            count *= 2;
        }
    }

    fn piece(&self, count: u64) -> Result<Duration> {
        if self.call == Call::Read {
            self.places.rewind()?;
        }
        let start = Instant::now();
        self.places.repeat(self.call, count, self.second)?;
        Ok(start.elapsed())
    }
}
