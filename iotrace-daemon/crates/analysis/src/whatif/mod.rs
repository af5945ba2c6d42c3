//! What if: the recorded timeline of threads, replayed on simulated CPUs with other storage, CPUs or workers.
//!
//! ```text
//! segments -> program    each thread as steps: run, pause, await a signal, send a signal
//!          -> replay     the same steps with scaled pauses, on N CPUs that runnable threads share
//!          -> path       backwards from the end of the main thread: what the replayed time consisted of
//! ```
//!
//! [`Program`] and [`replay`] are pure. `docs/guide/whatif.md` says what the model leaves out.

mod path;
mod program;
mod replay;
mod single;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use iotrace_common::{diag, key::FileId};
use iotrace_model::{input::ProcessId, run::Run};

pub use path::Part;
use program::Order;
pub use program::Program;
use replay::{Outcome, Pace, replay};
pub use single::Single;

/// Share of a prediction by which it may be wrong in any case.
const BASE_ERROR: f64 = 0.03;
/// Of the time that a prediction waits for CPUs, the share by which it may be wrong.
const QUEUE_ERROR: f64 = 0.5;
/// Share of a prediction by which another order of threads may change it before it is not predictable.
const MAX_ORDER_ERROR: f64 = 0.1;
/// How much longer than the median worker one of a pool may be busy.
const MAX_WORKER_RATIO: f64 = 2.0;
/// A process that was busy, or a thread that was paused by storage, for less than this share of the time of the one with most is
/// no worker.
const MIN_WORKER_SHARE: f64 = 0.1;
/// Share of the recorded time by which the model may be off before its predictions are not to be trusted.
const MAX_MODEL_ERROR: f64 = 0.2;
const WAITS_LOST: &str = diag::NAMES[diag::WAITS_LOST as usize];

/// How fast storage is, in relation to the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast.
    Times(f64),
    /// At most as slow as the median of all other waits for storage.
    Typical,
}

/// What is changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// Of all storage without a speed of its own.
    pub storage: f64,
    /// Of single files.
    pub files: HashMap<FileId, Speed>,
    /// CPUs; none: as in the recording.
    pub cpus: Option<u32>,
    /// Workers; none: as in the recording.
    pub workers: Option<u32>,
}

impl Default for Change {
    fn default() -> Self {
        Self {
            storage: 1.0,
            files: HashMap::new(),
            cpus: None,
            workers: None,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotTell {
    #[error("record again with --waits=timeline: the recording has no timeline")]
    NoTimeline,
    #[error("record again on a less busy host: {0} waits were lost, so a replay would be wrong")]
    WaitsLost(u64),
    #[error(
        "record a shorter part with --duration: {dropped} of {waits} waits had no room in the timeline"
    )]
    NoRoom { dropped: u64, waits: u64 },
    #[error("the timeline has no main thread to predict: record the program from its start")]
    NoMainThread,
    #[error(
        "the effect of other workers is not known: the main thread started no processes or threads that waited for storage"
    )]
    NoWorkers,
    #[error(
        "the effect of other workers is not known: some workers did more than twice as much as others, so their work is not \
         shared evenly"
    )]
    UnevenWorkers,
    #[error(
        "no other files were waited for, so there is no speed to compare with: write a factor instead of `fast`"
    )]
    NothingTypical,
    #[error("the recorded wake-ups contradict each other: record again on a less busy host")]
    Contradiction,
}

/// CPUs of a recorded run, if a replay of its timeline can be right.
pub fn replayable(run: &Run) -> Result<u32, CannotTell> {
    let timeline = run.timeline.ok_or(CannotTell::NoTimeline)?;
    match run.losses.get(WAITS_LOST).copied().unwrap_or(0) {
        0 if timeline.dropped > 0 => Err(CannotTell::NoRoom {
            dropped: timeline.dropped,
            waits: timeline.dropped + timeline.segments,
        }),
        0 => Ok(timeline.cpus),
        lost => Err(CannotTell::WaitsLost(lost)),
    }
}

/// A replayed run, nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// From the start of the main thread to its end.
    pub ns: u64,
    /// What that consisted of.
    pub parts: BTreeMap<Part, u64>,
    /// Mean number of CPUs that were busy.
    pub busy_cpus: f64,
}

impl Replayed {
    /// What it consisted of most.
    pub fn bottleneck(&self) -> Option<(Part, u64)> {
        let parts = self.parts.iter().map(|(part, ns)| (*part, *ns));
        parts.max_by_key(|(_, ns)| *ns)
    }

    fn of(&self, part: Part) -> u64 {
        self.parts.get(&part).copied().unwrap_or(0)
    }
}

/// A prediction with its range, nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    pub replayed: Replayed,
    pub low: u64,
    pub high: u64,
    /// False if much of the range is due to hand-overs that the recording does not show, because they were ready before they
    /// were asked for.
    pub is_predictable: bool,
    /// Whether the range begins where the recorded workers shared the bandwidth of the storage: there are fewer now.
    pub has_fewer_workers: bool,
}

/// A recording that can be replayed.
#[derive(Debug)]
pub struct WhatIf {
    program: Program,
    /// The main thread.
    root: usize,
    cpus: u32,
    /// From the start of the main thread to its end as recorded, nanoseconds.
    pub recorded_ns: u64,
    /// The same by a replay in which nothing is changed.
    pub unchanged: Replayed,
}

impl WhatIf {
    /// Prepares a timeline.
    pub fn new(program: Program, cpus: u32) -> Result<Self, CannotTell> {
        let root = program.root.ok_or(CannotTell::NoMainThread)?;
        let unchanged = Changed::new(&program, root, cpus, &Change::default())?.replay()?;
        Ok(Self {
            recorded_ns: program.threads[root].span(),
            program,
            root,
            cpus,
            unchanged,
        })
    }

    /// How far the model is from the recording when nothing is changed: a share of the recorded time.
    pub fn model_error(&self) -> f64 {
        let (recorded, replayed) = (self.recorded_ns as f64, self.unchanged.ns as f64);
        (replayed - recorded) / recorded.max(1.0)
    }

    /// Whether the model is so near to the recording that its predictions can be trusted.
    pub fn is_trusted(&self) -> bool {
        self.model_error().abs() <= MAX_MODEL_ERROR
    }

    /// CPUs of the recording.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Workers of the recording, if it is known how others would share their work.
    pub fn workers(&self) -> Result<u32, CannotTell> {
        let pool = even_pool(&self.program, self.root)?;
        Ok(self.program.most_at_once(&pool) as u32)
    }

    /// Replays it with a change.
    pub fn predict(&self, change: &Change) -> Result<Prediction, CannotTell> {
        let changed = Changed::new(&self.program, self.root, self.cpus, change)?;
        let replayed = changed.replay()?;
        let shortest = changed.ns(Order::Recorded).min(replayed.ns);
        let with_bandwidth = self.with_shared_bandwidth(change)?;
        let lowest = with_bandwidth.map_or(shortest, |ns| ns.min(shortest));
        let longest = changed.ns(changed.strictest()).max(replayed.ns);
        let constant = self.recorded_ns.abs_diff(self.unchanged.ns) as f64
            + replayed.of(Part::RunQueue) as f64 * QUEUE_ERROR;
        let margin = |ns: u64| constant + ns as f64 * BASE_ERROR;
        Ok(Prediction {
            low: (lowest as f64 - margin(lowest)).max(0.0) as u64,
            high: (longest as f64 + margin(longest)) as u64,
            is_predictable: (longest - shortest) as f64 <= replayed.ns as f64 * MAX_ORDER_ERROR,
            has_fewer_workers: with_bandwidth.is_some(),
            replayed,
        })
    }

    /// How long the main thread takes at least with fewer workers, if the recorded ones shared the bandwidth of the storage: each read
    /// of those that are left is the faster. `None` without fewer workers.
    fn with_shared_bandwidth(&self, change: &Change) -> Result<Option<u64>, CannotTell> {
        let Some(workers) = change.workers else {
            return Ok(None);
        };
        let faster = f64::from(self.workers()?) / f64::from(workers);
        if faster <= 1.0 {
            return Ok(None);
        }
        let speed = |speed: &Speed| match speed {
            Speed::Times(times) => Speed::Times(times * faster),
            Speed::Typical => Speed::Typical,
        };
        let files = change.files.iter();
        let change = Change {
            storage: change.storage * faster,
            files: files.map(|(file, own)| (*file, speed(own))).collect(),
            ..change.clone()
        };
        let changed = Changed::new(&self.program, self.root, self.cpus, &change)?;
        Ok(Some(changed.ns(Order::Recorded)))
    }
}

/// A program with a change.
struct Changed<'a> {
    program: &'a Program,
    root: usize,
    cpus: u32,
    change: &'a Change,
    /// How long a wait for storage is at most where its file is to be as fast as others.
    typical: u64,
    paces: Vec<Pace>,
    /// Whether anything becomes slower.
    is_slower: bool,
}

impl<'a> Changed<'a> {
    /// `recorded_cpus`: CPUs of the recording.
    fn new(
        program: &'a Program,
        root: usize,
        recorded_cpus: u32,
        change: &'a Change,
    ) -> Result<Self, CannotTell> {
        let is_typical = |file: &FileId| change.files.get(file) == Some(&Speed::Typical);
        let typical = match change.files.values().any(|speed| *speed == Speed::Typical) {
            true => program
                .median_storage(|file| !file.is_some_and(|file| is_typical(&file)))
                .ok_or(CannotTell::NothingTypical)?,
            false => 0,
        };
        let cpus = change.cpus.unwrap_or(recorded_cpus);
        let is_slow = |speed: &Speed| matches!(speed, Speed::Times(factor) if *factor < 1.0);
        let mut changed = Self {
            program,
            root,
            cpus,
            change,
            typical,
            paces: vec![Pace::default(); program.threads.len()],
            is_slower: change.storage < 1.0
                || cpus < recorded_cpus
                || change.files.values().any(is_slow),
        };
        if let Some(workers) = change.workers {
            let (threads, share) = workers_of(program, root, workers)?;
            changed.is_slower |= share < 1.0;
            for thread in threads {
                let pace = Pace::of_share(&program.threads[thread], share, &|ns, file| {
                    changed.scaled(ns, file)
                });
                changed.paces[thread] = pace;
            }
        }
        Ok(changed)
    }

    /// How long a wait for storage is.
    fn scaled(&self, ns: u64, file: Option<FileId>) -> f64 {
        let own = file.and_then(|file| self.change.files.get(&file));
        match own.copied().unwrap_or(Speed::Times(self.change.storage)) {
            Speed::Times(factor) => ns as f64 / factor,
            Speed::Typical => ns.min(self.typical) as f64,
        }
    }

    /// The most that unseen hand-overs can delay. If threads only become faster, those who were ahead stay ahead for the
    /// most part; to hold all others as strictly would forbid them to become faster.
    fn strictest(&self) -> Order {
        match self.is_slower {
            true => Order::Arrivals,
            false => Order::Wakes,
        }
    }

    fn outcome(&self, order: Order) -> Outcome {
        let scaled = |ns, file| self.scaled(ns, file);
        replay(self.program, self.cpus, &self.paces, &scaled, order)
    }

    /// How long the main thread takes if the order of threads is such.
    fn ns(&self, order: Order) -> u64 {
        let (start, end) = self.outcome(order).bounds(self.root);
        end - start
    }

    fn replay(&self) -> Result<Replayed, CannotTell> {
        let outcome = self.outcome(Order::Ends);
        if outcome.is_stuck {
            return Err(CannotTell::Contradiction);
        }
        let (start, end) = outcome.bounds(self.root);
        let ns = end - start;
        Ok(Replayed {
            ns,
            parts: path::parts(self.program, &outcome, &self.paces, self.root),
            busy_cpus: outcome.cpu_ns / (ns as f64).max(1.0),
        })
    }
}

/// Workers that share their work evenly.
fn even_pool(program: &Program, root: usize) -> Result<Vec<usize>, CannotTell> {
    let pool = program.workers(root, MIN_WORKER_SHARE);
    let mut busy: Vec<u64> = pool
        .iter()
        .map(|worker| program.threads[*worker].busy())
        .collect();
    busy.sort_unstable();
    let (Some(most), Some(median)) = (busy.last(), busy.get(busy.len() / 2)) else {
        return Err(CannotTell::NoWorkers);
    };
    if *most as f64 > *median as f64 * MAX_WORKER_RATIO
        || (busy[0] as f64) * MAX_WORKER_RATIO < *median as f64
    {
        return Err(CannotTell::UnevenWorkers);
    }
    Ok(pool)
}

/// Threads of a pool, and how many workers each of them represents if there were `workers`, which share the work evenly.
fn workers_of(
    program: &Program,
    root: usize,
    workers: u32,
) -> Result<(Vec<usize>, f64), CannotTell> {
    let pool = even_pool(program, root)?;
    let share = f64::from(workers) / program.most_at_once(&pool) as f64;
    let main = program.threads[root].process;
    let of_pool = |worker: &usize| program.threads[*worker].process;
    let processes: HashSet<ProcessId> = pool.iter().map(of_pool).collect();
    if processes.contains(&main) {
        return Ok((pool, share));
    }
    // A worker's process has threads that send for it.
    let is_worker = |index: &usize| processes.contains(&of_pool(index));
    let threads = (0..program.threads.len()).filter(is_worker);
    Ok((threads.collect(), share))
}
