//! What the main thread of each program or rank waited for.
//!
//! `iotrace_model::waits` has the time by leaf; here it is put together by waiter. Computing counts as the loader's if a
//! worker process did it, or a thread of the same process that loads data.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashSet},
};

use iotrace_common::diag;

use super::{epoch_waits::ByEpoch, epochs::Epochs, startup::Startup, workers::Workers};
use iotrace_model::{
    Model,
    counters::{saturating_add, saturating_sum},
    groups::Groups,
    input::ProcessId,
    run::{Run, Target},
    waits::{Interval, Key, Leaf, is_launcher},
};
use iotrace_phases::{
    context::Sorted,
    phase::{Direction, Phase},
};

/// Share of the run that threads must be known for to judge the run by them, and of their time that may be unresolved.
const MIN_SEEN_SHARE: f64 = 0.5;
const MAX_UNRESOLVED_SHARE: f64 = 0.1;
/// The run is not judged by threads that are known for less than this share of the longest.
const MIN_JUDGED_SHARE: f64 = 0.1;
const WAITS_LOST: &str = diag::NAMES[diag::WAITS_LOST as usize];

/// What a thread can wait for.
pub const WAITS: [Leaf; 9] = [
    Leaf::Storage,
    Leaf::Computing,
    Leaf::ComputeThreads,
    Leaf::RunQueue,
    Leaf::Sleep,
    Leaf::PageFault,
    Leaf::Network,
    Leaf::Other,
    Leaf::Unresolved,
];

/// A leaf in a few words, to follow "waited for".
pub fn label(leaf: Leaf) -> &'static str {
    match leaf {
        Leaf::Storage => "storage",
        Leaf::Computing => "loader computing",
        Leaf::ComputeThreads => "compute threads",
        Leaf::RunQueue => "a CPU",
        Leaf::Sleep => "sleep",
        Leaf::PageFault => "page faults",
        Leaf::Network => "network or device",
        Leaf::Other => "other processes and devices",
        Leaf::Unresolved => "not known",
        Leaf::Running => "ran",
        Leaf::OfThatForChild => "children",
        Leaf::OfThatInCalls => "calls on files",
    }
}

/// A leaf as JSON has it: computing is the loader's alone.
pub fn name(leaf: Leaf) -> &'static str {
    match leaf {
        Leaf::Computing => "loader_cpu",
        _ => leaf.name(),
    }
}

/// Time by leaf, nanoseconds; computing is the loader's alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent([u64; Leaf::ALL.len()]);

impl Spent {
    pub fn of(&self, leaf: Leaf) -> u64 {
        self.0[leaf as usize]
    }

    pub fn add(&mut self, leaf: Leaf, ns: u64) {
        saturating_add(&mut self.0[leaf as usize], ns);
    }

    /// Leaves out time; no more than there is.
    pub fn take(&mut self, leaf: Leaf, ns: u64) {
        let known = &mut self.0[leaf as usize];
        *known = known.saturating_sub(ns);
    }

    /// Time by what a thread did: it ran, or waited for something.
    pub fn parts(&self) -> impl Iterator<Item = (Leaf, u64)> {
        let all = [Leaf::Running].into_iter().chain(WAITS);
        all.map(move |leaf| (leaf, self.of(leaf)))
    }

    /// Of a thread that waited.
    pub fn waiting(&self) -> u64 {
        saturating_sum(WAITS.map(|leaf| self.of(leaf)))
    }

    /// Of a thread that ran or waited.
    pub fn whole(&self) -> u64 {
        self.of(Leaf::Running).saturating_add(self.waiting())
    }

    /// Of a thread that waited for storage, by operations and by page faults.
    pub fn storage(&self) -> u64 {
        self.of(Leaf::Storage)
            .saturating_add(self.of(Leaf::PageFault))
    }

    /// Whether a thread did little but wait for programs that it ran.
    pub fn is_launcher(&self) -> bool {
        is_launcher(self.whole(), self.of(Leaf::OfThatForChild))
    }
}

/// What one main thread did with its time, nanoseconds.
#[derive(Debug)]
pub struct Waiter {
    /// Index of its process.
    pub process: u32,
    /// Nanoseconds since the start of the run.
    start: i64,
    pub spent: Spent,
    /// Of storage, by file and phase; no file: operations that name none. The longest first.
    pub files: Vec<(Option<u32>, Phase, u64)>,
    /// Of its page faults, those on files of phase `startup`.
    startup_faults: u64,
    /// Of its waits for storage, those in operations of its own process after its start.
    waited_itself: u64,
    /// Of the time in which it ran, that in calls on files after its start: at least and at most.
    ran_in_calls: [u64; 2],
    /// In order, where the run is judged by it.
    pub steps: Vec<Step>,
    /// The same by epoch; none without epochs.
    pub by_epoch: Option<ByEpoch>,
    /// Processes that computed while it waited for them.
    pub loaders: BTreeSet<u32>,
}

impl Waiter {
    /// When it ended, nanoseconds since the start of the run.
    fn end(&self) -> i64 {
        self.start.saturating_add_unsigned(self.spent.whole())
    }

    /// Its waits for storage that are for files of phase `startup`, page faults included.
    pub fn starting(&self) -> u64 {
        self.operations(Phase::Startup)
            .saturating_add(self.startup_faults)
    }

    /// Its waits for storage that are neither for programs and libraries nor for saves.
    pub fn input(&self) -> u64 {
        let others = self
            .starting()
            .saturating_add(self.operations(Phase::Checkpoint));
        self.spent.storage().saturating_sub(others)
    }

    /// What saves held it up at most: its waits for their storage and for pages, and its own calls on them, of which there were
    /// `calls` nanoseconds; where others save, too, what it waited for without knowing what they did.
    pub fn saving(&self, calls: u64, do_others_save: bool) -> u64 {
        let own = calls.min(self.spent.of(Leaf::OfThatInCalls));
        let faults = self.spent.of(Leaf::PageFault);
        let faults = faults.saturating_sub(self.startup_faults);
        let others = [
            Leaf::Computing,
            Leaf::Other,
            Leaf::Network,
            Leaf::Unresolved,
        ];
        let others = others.map(|leaf| {
            if do_others_save {
                self.spent.of(leaf)
            } else {
                0
            }
        });
        saturating_sum(
            [self.operations(Phase::Checkpoint), own, faults]
                .into_iter()
                .chain(others),
        )
    }

    /// Its waits for operations on files of a phase.
    fn operations(&self, phase: Phase) -> u64 {
        let of_phase = self.files.iter().filter(|(_, known, _)| *known == phase);
        saturating_sum(of_phase.map(|(_, _, ns)| *ns))
    }

    /// What faster input and saves could save of it at most: all that it waited for storage after its start, its loader and a
    /// CPU, and ran in calls on files.
    fn improvable(&self) -> u64 {
        let storage = self.spent.storage().saturating_sub(self.starting());
        let waits = [Leaf::Computing, Leaf::RunQueue].map(|leaf| self.spent.of(leaf));
        let [_, ran_in_calls] = self.ran_in_calls;
        storage
            .saturating_add(saturating_sum(waits))
            .saturating_add(ran_in_calls)
    }

    /// Finds out how long it ran in calls on files, where its process was in such calls of its start for `startup` nanoseconds.
    fn find_calls(&mut self, startup: u64) {
        let in_calls = self.spent.of(Leaf::OfThatInCalls).saturating_sub(startup);
        let ran = self.spent.of(Leaf::Running);
        let at_least = in_calls.saturating_sub(self.waited_itself);
        self.ran_in_calls = [at_least.min(ran), in_calls.min(ran)];
    }
}

/// What a thread did in an interval: of waits, those that ended in it.
#[derive(Debug)]
pub struct Step {
    /// Nanoseconds since the start of the run.
    pub start: i64,
    pub end: i64,
    pub spent: Spent,
}

/// What main threads waited for.
#[derive(Debug, Default)]
pub struct Waits {
    /// Of programs and ranks: ranks by their number, then those that train, then the others, each by how long they are known.
    /// Launchers only where there is nothing else.
    pub waiters: Vec<Waiter>,
    /// How many of them, from the first one, the run is judged by: all ranks, or where there are none those that
    /// [`put_trainers_first`] chooses.
    judged: usize,
}

impl Waits {
    /// Puts the waits of a run together, whose files are `sorted`.
    pub fn new(
        model: &Model,
        run: &Run,
        sorted: &[Sorted],
        groups: &Groups,
        startup: &Startup,
    ) -> Self {
        let mut by_process: BTreeMap<u32, Vec<(&Key, u64)>> = BTreeMap::new();
        for (key, ns) in model.waits().all() {
            if groups.of(key.process) == key.process {
                by_process.entry(key.process).or_default().push((key, ns));
            }
        }
        let workers = Workers::new(model, groups);
        let of = |(process, rows): (u32, Vec<_>)| waiter(sorted, &workers, process, &rows);
        let mut waiters: Vec<Waiter> = by_process.into_iter().map(of).collect();
        for waiter in &mut waiters {
            let faults = startup.fault_ns.get(&waiter.process).copied().unwrap_or(0);
            waiter.startup_faults = faults.min(waiter.spent.of(Leaf::PageFault));
            let process = &model.processes()[waiter.process as usize];
            waiter.find_calls(process.phases.total(Phase::Startup.code()).ns);
            let began = run.clock.unix_ns_of_boottime(process.about.start_boottime);
            waiter.start = (began - run.start_unix_ns).max(0);
        }
        let is_launcher =
            |waiter: &Waiter| waiter.spent.is_launcher() || groups.is_launcher(waiter.process);
        if waiters.iter().any(|waiter| !is_launcher(waiter)) {
            waiters.retain(|waiter| !is_launcher(waiter));
        }
        let rank = |waiter: &Waiter| rank_of(model, waiter.process);
        let is_rank =
            |waiter: &Waiter| rank(waiter).is_some() || groups.is_spawned_rank(waiter.process);
        waiters.sort_by_key(|waiter| {
            (
                !is_rank(waiter),
                rank(waiter),
                Reverse(waiter.spent.whole()),
            )
        });
        let judged = match waiters.iter().take_while(|waiter| is_rank(waiter)).count() {
            0 => put_trainers_first(&mut waiters, &workers, run.duration_ns),
            ranks => ranks,
        };
        for waiter in &mut waiters[..judged] {
            waiter.steps = steps(model, run, &workers, waiter.process);
        }
        Self { waiters, judged }
    }

    /// Splits what the judged threads did by epoch.
    pub(super) fn split(&mut self, model: &Model, run: &Run, epochs: &Epochs) {
        if epochs.epochs.is_empty() {
            return;
        }
        for waiter in &mut self.waiters[..self.judged] {
            let end = model.processes()[waiter.process as usize].about.end;
            let ended = end.map(|end| run.clock.unix_ns(end) - run.start_unix_ns);
            waiter.by_epoch = Some(ByEpoch::new(&waiter.steps, ended, &epochs.epochs));
        }
    }

    /// The threads that the run is judged by.
    pub fn judged(&self) -> &[Waiter] {
        &self.waiters[..self.judged]
    }

    /// The processes of these.
    pub fn mains(&self, model: &Model) -> Vec<ProcessId> {
        let of = |waiter: &Waiter| model.processes()[waiter.process as usize].id;
        self.judged().iter().map(of).collect()
    }

    /// What these waited for, as far as it tells what the run waited for: all of it was seen, and it is known what for. Not of
    /// all processes of a machine: their threads are of no one job.
    pub fn exposed(&self, run: &Run) -> Option<Exposed> {
        let is_job = !matches!(run.target, Target::All(_));
        let judged: Vec<&Waiter> = self.judged().iter().collect();
        is_job
            .then(|| exposed(&judged, run, run.duration_ns))
            .flatten()
    }

    /// The wall time of the run, nanoseconds, that some time of these is at most.
    pub fn at_most(&self, of: impl Fn(&Waiter) -> u64) -> u64 {
        at_most(self.judged(), of)
    }
}

/// Puts the threads first that the run is judged by where there are no ranks, and counts them: those of programs that use training
/// data, else of those that read data or save, with long ones before and behind them, where all of these are known for enough of
/// the run; else the longest one.
fn put_trainers_first(waiters: &mut [Waiter], workers: &Workers<'_>, run_ns: u64) -> usize {
    let ns_of = |share: f64, ns: u64| (ns as f64 * share) as u64;
    for trainers in [&workers.with_samples, &workers.with_data] {
        let trains = |waiter: &&Waiter| trainers.contains(&waiter.process);
        let longest = waiters.iter().find(trains);
        let least = longest.map_or(0, |waiter| ns_of(MIN_JUDGED_SHARE, waiter.spent.whole()));
        let (mut judged, others): (Vec<&Waiter>, Vec<&Waiter>) = waiters
            .iter()
            .partition(|waiter| trains(waiter) && waiter.spent.whole() >= least);
        if judged.is_empty() {
            continue;
        }
        if !are_seen(&judged, run_ns) {
            for other in others {
                let overlaps = |one: &&Waiter| other.start < one.end() && one.start < other.end();
                let is_long = other.spent.whole() >= ns_of(MIN_JUDGED_SHARE, run_ns);
                if is_long && !judged.iter().any(overlaps) {
                    judged.push(other);
                }
            }
        }
        if are_seen(&judged, run_ns) {
            let chosen: HashSet<u32> = judged.iter().map(|waiter| waiter.process).collect();
            waiters.sort_by_key(|waiter| !chosen.contains(&waiter.process));
            return chosen.len();
        }
    }
    waiters.len().min(1)
}

/// Whether at least one of these threads is known for enough of the time for which they are judged, nanoseconds.
fn are_seen(judged: &[&Waiter], whole_ns: u64) -> bool {
    let spans = judged.iter().map(|waiter| (waiter.start, waiter.end()));
    let mut spans: Vec<(i64, i64)> = spans.collect();
    spans.sort_unstable();
    let (mut seen, mut until) = (0, i64::MIN);
    for (start, end) in spans {
        seen += (end - start.max(until)).max(0);
        until = until.max(end);
    }
    !judged.is_empty() && seen as f64 >= whole_ns as f64 * MIN_SEEN_SHARE
}

/// Of threads that are known one after the other, what they had together; of all such rows of threads that of the one that had most.
fn at_most<'a>(waiters: impl IntoIterator<Item = &'a Waiter>, of: impl Fn(&Waiter) -> u64) -> u64 {
    let mut waiters: Vec<&Waiter> = waiters.into_iter().collect();
    waiters.sort_by_key(|waiter| waiter.end());
    // By the end of the last thread of a row: what it had at most.
    let mut rows: Vec<(i64, u64)> = vec![(i64::MIN, 0)];
    for waiter in waiters {
        let before = rows.partition_point(|(end, _)| *end <= waiter.start);
        let own = rows[before - 1].1.saturating_add(of(waiter));
        let most = own.max(rows[rows.len() - 1].1);
        rows.push((waiter.end(), most));
    }
    rows[rows.len() - 1].1
}

/// The same of one program of a machine, of these threads in the order of [`Waits::waiters`]; it lived for `lifetime_ns`
/// nanoseconds.
pub fn exposed_of(
    model: &Model,
    run: &Run,
    waiters: &[&Waiter],
    lifetime_ns: u64,
) -> Option<Exposed> {
    let is_rank = |waiter: &&&Waiter| rank_of(model, waiter.process).is_some();
    let ranks = waiters.iter().take_while(is_rank).count();
    let judged = ranks.max(1).min(waiters.len());
    exposed(&waiters[..judged], run, lifetime_ns)
}

/// What threads waited for, if it is known for enough of the time for which they are judged, nanoseconds.
fn exposed(judged: &[&Waiter], run: &Run, whole_ns: u64) -> Option<Exposed> {
    let mut spent = Spent::default();
    for waiter in judged {
        for leaf in Leaf::ALL {
            spent.add(leaf, waiter.spent.of(leaf));
        }
    }
    let sum = |of: fn(&Waiter) -> u64| saturating_sum(judged.iter().map(|waiter| of(waiter)));
    let exposed = Exposed {
        threads: judged.len() as u64,
        spent,
        starting: sum(Waiter::starting),
        ran_in_calls: sum(|waiter| waiter.ran_in_calls[0]),
        improvable: at_most(judged.iter().copied(), Waiter::improvable),
    };
    let lost = run.losses.get(WAITS_LOST).copied().unwrap_or(0);
    let is_resolved = exposed.share(spent.of(Leaf::Unresolved)) <= MAX_UNRESOLVED_SHARE;
    (lost == 0 && are_seen(judged, whole_ns) && is_resolved).then_some(exposed)
}

/// Waits of the threads that a run is judged by, together; nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Exposed {
    pub threads: u64,
    pub spent: Spent,
    /// Of the waits for storage, those for files of phase `startup`.
    starting: u64,
    /// Of the time in which they ran, that in calls on files after their start, at least.
    pub ran_in_calls: u64,
    /// Of the run: all that faster input and saves could save.
    pub improvable: u64,
}

impl Exposed {
    /// Whether most of the waits for storage were for programs and libraries.
    pub fn is_mostly_start(&self) -> bool {
        self.starting > self.spent.storage() / 2
    }

    /// A time as a share of that for which the threads are known.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.spent.whole().max(1) as f64
    }
}

/// Number of the rank that a process is.
pub fn rank_of(model: &Model, process: u32) -> Option<u32> {
    let role = &model.processes()[process as usize].about.role;
    role.rank.map(|rank| rank.number)
}

fn waiter(sorted: &[Sorted], workers: &Workers<'_>, process: u32, rows: &[(&Key, u64)]) -> Waiter {
    let mut waiter = Waiter {
        process,
        start: 0,
        spent: Spent::default(),
        files: Vec::new(),
        startup_faults: 0,
        waited_itself: 0,
        ran_in_calls: [0; 2],
        steps: Vec::new(),
        by_epoch: None,
        loaders: BTreeSet::new(),
    };
    let mut files: BTreeMap<(Option<u32>, &str), (Phase, u64)> = BTreeMap::new();
    for (key, ns) in rows {
        let leaf = workers.reported(process, key.leaf, key.by);
        match leaf {
            Leaf::Computing => waiter.loaders.extend(key.by),
            Leaf::Storage => {
                let phase = phase_of(sorted, key);
                let file = files.entry((key.file, phase.name())).or_insert((phase, 0));
                saturating_add(&mut file.1, *ns);
                if key.by == Some(process) && phase != Phase::Startup {
                    saturating_add(&mut waiter.waited_itself, *ns);
                }
            }
            _ => {}
        }
        waiter.spent.add(leaf, *ns);
    }
    let files = files.into_iter();
    waiter.files = files
        .map(|((file, _), (phase, ns))| (file, phase, ns))
        .collect();
    waiter
        .files
        .sort_by_key(|(file, _, ns)| (Reverse(*ns), *file));
    waiter
}

/// What the main thread of a process did over time.
fn steps(model: &Model, run: &Run, workers: &Workers<'_>, process: u32) -> Vec<Step> {
    let intervals = model.waits().history().iter();
    let step = |interval: &Interval| {
        let mut step = Step {
            start: interval.bounds.start - run.start_unix_ns,
            end: interval.bounds.end - run.start_unix_ns,
            spent: Spent::default(),
        };
        let first = (process, Leaf::ALL[0], None);
        let of_process = interval
            .sums
            .range(first..)
            .take_while(|((of, ..), _)| *of == process);
        for ((_, leaf, by), ns) in of_process {
            step.spent.add(workers.reported(process, *leaf, *by), *ns);
        }
        step
    };
    let steps = intervals.map(step);
    steps.filter(|step| step.spent.whole() > 0).collect()
}

/// The phase of a wait for storage: what the file turned out to be, in the direction that the kernel side sorted it by.
fn phase_of(sorted: &[Sorted], key: &Key) -> Phase {
    let known = Phase::from_code(key.phase);
    let Some(file) = key.file else {
        return known;
    };
    let sorted = &sorted[file as usize];
    let written = sorted.phase(Direction::Write);
    let is_save = known == Phase::UNMATCHED && written == Phase::Checkpoint;
    match is_save || known == Phase::Checkpoint {
        true => written,
        false => sorted.phase(Direction::Read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs of which these use training data, and these read data or save.
    fn workers<'a>(groups: &'a Groups, with_samples: &[u32], with_data: &[u32]) -> Workers<'a> {
        let mut workers = Workers::none(groups);
        workers.with_samples = with_samples.iter().copied().collect();
        workers.with_data = with_data.iter().copied().collect();
        workers
    }

    /// Threads of one process each, by when they began and ended; their processes are numbered in this order.
    fn waiters(workers: &Workers<'_>, spans: &[(i64, i64)]) -> Vec<Waiter> {
        let spans = (0..).zip(spans);
        let mut waiters: Vec<Waiter> = spans
            .map(|(process, (start, end))| {
                let mut waiter = waiter(&[], workers, process, &[]);
                waiter.start = *start;
                waiter.spent.add(Leaf::Running, (end - start) as u64);
                waiter
            })
            .collect();
        waiters.sort_by_key(|waiter| Reverse(waiter.spent.whole()));
        waiters
    }

    /// The processes that a run of 100 ns is judged by.
    fn judged(spans: &[(i64, i64)], with_samples: &[u32], with_data: &[u32]) -> Vec<u32> {
        let groups = Groups::new(&Model::default());
        let workers = workers(&groups, with_samples, with_data);
        let mut waiters = waiters(&workers, spans);
        let count = put_trainers_first(&mut waiters, &workers, 100);
        let mut judged: Vec<u32> = waiters[..count].iter().map(|one| one.process).collect();
        judged.sort_unstable();
        judged
    }

    #[test]
    fn a_run_is_judged_by_those_that_train() {
        // A log that is followed, and a training.
        assert_eq!(judged(&[(0, 100), (1, 90)], &[1], &[1]), [1]);
        assert_eq!(judged(&[(0, 100), (1, 90)], &[], &[1]), [1]);
        // Nobody trains, or for too little of the run to tell of it.
        assert_eq!(judged(&[(0, 100), (1, 90)], &[], &[]), [0]);
        assert_eq!(judged(&[(0, 100), (1, 40)], &[1], &[1]), [0]);
        // Trainings one after the other, and two at one time; a look at the data is none.
        let in_turn = [(0, 30), (31, 60), (61, 99), (99, 100)];
        assert_eq!(judged(&in_turn, &[0, 1, 2, 3], &[]), [0, 1, 2]);
        assert_eq!(judged(&[(0, 100), (0, 90)], &[0, 1], &[]), [0, 1]);
        // What comes before a training is of the run.
        assert_eq!(judged(&[(0, 60), (60, 100)], &[1], &[1]), [0, 1]);
        // A copy of what is saved does not train.
        assert_eq!(judged(&[(0, 90), (0, 100)], &[0], &[0, 1]), [0]);
        assert!(judged(&[], &[], &[]).is_empty());
    }

    #[test]
    fn threads_in_turn_wait_one_after_the_other() {
        let groups = Groups::new(&Model::default());
        let workers = workers(&groups, &[], &[]);
        let most = |spans: &[(i64, i64)]| {
            at_most(&waiters(&workers, spans), |waiter| waiter.spent.whole())
        };
        assert_eq!(most(&[(0, 30), (30, 60), (61, 99)]), 98);
        assert_eq!(most(&[(0, 50), (10, 100)]), 90);
        assert_eq!(most(&[(0, 40), (10, 90), (60, 100)]), 80);
        assert_eq!(most(&[]), 0);
    }
}
