//! What the main thread of each program or rank waited for.
//!
//! `iotrace_daemon::model::waits` has the time by leaf; here it is put together by waiter. Computing counts as the loader's
//! where the waiter's own process or one of its workers did it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use iotrace_common::diag;

use crate::{
    classify::{
        context::Sorted,
        phase::{Direction, Phase},
    },
    model::{
        Model,
        groups::Groups,
        run::Run,
        waits::{Interval, Key, Leaf},
    },
};

/// Share of a thread's time in calls that wait for a child's end from which its process is a launcher.
const LAUNCHER_SHARE: f64 = 0.9;
/// Share of the run that a thread must be known for to judge the run by it, and of its time that may be unresolved.
const MIN_SEEN_SHARE: f64 = 0.5;
const MAX_UNRESOLVED_SHARE: f64 = 0.1;
const WAITS_LOST: &str = diag::NAMES[diag::WAITS_LOST as usize];

/// What a thread waited for, as reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    Storage,
    LoaderCpu,
    RunQueue,
    Sleep,
    PageFault,
    Network,
    Other,
    Unresolved,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::Storage,
        Self::LoaderCpu,
        Self::RunQueue,
        Self::Sleep,
        Self::PageFault,
        Self::Network,
        Self::Other,
        Self::Unresolved,
    ];

    /// In a few words, behind "waited for".
    pub fn label(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::LoaderCpu => "loader computing",
            Self::RunQueue => "a CPU",
            Self::Sleep => "sleep",
            Self::PageFault => "page faults",
            Self::Network => "network",
            Self::Other => "other processes and devices",
            Self::Unresolved => "not known",
        }
    }

    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::LoaderCpu => "loader_cpu",
            Self::RunQueue => "run_queue",
            Self::Sleep => "sleep",
            Self::PageFault => "page_fault",
            Self::Network => "network",
            Self::Other => "other",
            Self::Unresolved => "unresolved",
        }
    }
}

/// What one main thread did with its time, nanoseconds.
#[derive(Debug)]
pub struct Waiter {
    /// Index of its process.
    pub process: u32,
    pub running: u64,
    /// By number of the kind. They add up to the time it waited.
    pub kinds: [u64; Kind::ALL.len()],
    /// Of storage, by file and phase; no file: operations that name none. The longest first.
    pub files: Vec<(Option<u32>, Phase, u64)>,
    /// In order, where the run is judged by it.
    pub steps: Vec<Step>,
    /// Processes that computed while it waited for them.
    pub loaders: BTreeSet<u32>,
    /// In calls that wait for the end of a child.
    for_child: u64,
}

impl Waiter {
    /// How long it waited.
    pub fn waiting(&self) -> u64 {
        self.kinds.iter().sum()
    }

    /// How long it is known.
    pub fn whole(&self) -> u64 {
        self.running + self.waiting()
    }

    pub fn of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    /// What faster input could save of it at most: all that it waited for storage, its loader and a CPU.
    fn improvable(&self) -> u64 {
        let kinds = [
            Kind::Storage,
            Kind::PageFault,
            Kind::LoaderCpu,
            Kind::RunQueue,
        ];
        kinds.map(|kind| self.of(kind)).iter().sum()
    }

    /// Whether it did little but wait for programs that it ran.
    fn is_launcher(&self) -> bool {
        self.for_child as f64 >= self.whole() as f64 * LAUNCHER_SHARE
    }
}

/// What a thread did in an interval: of waits, those that ended in it.
#[derive(Debug)]
pub struct Step {
    /// Nanoseconds since the start of the run.
    pub start: i64,
    pub end: i64,
    pub running: u64,
    /// By number of the kind.
    pub kinds: [u64; Kind::ALL.len()],
}

/// What main threads waited for.
#[derive(Debug, Default)]
pub struct Waits {
    /// Of programs and ranks: ranks by their number, then the others by how long they are known. Launchers only where there
    /// is nothing else.
    pub waiters: Vec<Waiter>,
    /// How many of them, from the first one, the run is judged by: all ranks, or where there are none the thread that is
    /// known for longest.
    judged: usize,
}

impl Waits {
    /// Puts the waits of a run together, whose files are `sorted`.
    pub fn new(model: &Model, run: &Run, sorted: &[Sorted], groups: &Groups) -> Self {
        let mut by_process: BTreeMap<u32, Vec<(&Key, u64)>> = BTreeMap::new();
        for (key, ns) in model.waits().all() {
            if groups.of(key.process) == key.process {
                by_process.entry(key.process).or_default().push((key, ns));
            }
        }
        let of = |(process, rows): (u32, Vec<_>)| waiter(sorted, groups, process, &rows);
        let mut waiters: Vec<Waiter> = by_process.into_iter().map(of).collect();
        if waiters.iter().any(|waiter| !waiter.is_launcher()) {
            waiters.retain(|waiter| !waiter.is_launcher());
        }
        let rank = |waiter: &Waiter| rank_of(model, waiter.process);
        waiters.sort_by_key(|waiter| {
            (
                rank(waiter).is_none(),
                rank(waiter),
                Reverse(waiter.whole()),
            )
        });
        let ranks = waiters.iter().take_while(|waiter| rank(waiter).is_some());
        let judged = ranks.count().max(1).min(waiters.len());
        for waiter in &mut waiters[..judged] {
            waiter.steps = steps(model, run, groups, waiter.process);
        }
        Self { waiters, judged }
    }

    /// The threads that the run is judged by.
    pub fn judged(&self) -> &[Waiter] {
        &self.waiters[..self.judged]
    }

    /// What these waited for, as far as it tells what the run waited for: all of it was seen, and it is known what for.
    pub fn exposed(&self, run: &Run) -> Option<Exposed> {
        let judged = self.judged();
        let sum = |of: fn(&Waiter) -> u64| judged.iter().map(of).sum::<u64>();
        let exposed = Exposed {
            threads: judged.len() as u64,
            whole: sum(Waiter::whole),
            running: sum(|waiter| waiter.running),
            kinds: Kind::ALL.map(|kind| judged.iter().map(|waiter| waiter.of(kind)).sum()),
            improvable: judged.iter().map(Waiter::improvable).max().unwrap_or(0),
        };
        let lost = run.losses.get(WAITS_LOST).copied().unwrap_or(0);
        let seen = judged.iter().map(Waiter::whole).max().unwrap_or(0);
        let is_seen = seen as f64 >= run.duration_ns as f64 * MIN_SEEN_SHARE;
        let is_resolved = exposed.share(Kind::Unresolved) <= MAX_UNRESOLVED_SHARE;
        (lost == 0 && is_seen && is_resolved).then_some(exposed)
    }
}

/// Waits of the threads that a run is judged by, together; nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Exposed {
    pub threads: u64,
    pub whole: u64,
    pub running: u64,
    kinds: [u64; Kind::ALL.len()],
    /// Of the thread with the most: all that faster input could save.
    pub improvable: u64,
}

impl Exposed {
    pub fn of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    /// As a share of the time that the threads are known.
    pub fn share(&self, kind: Kind) -> f64 {
        self.of(kind) as f64 / self.whole.max(1) as f64
    }

    /// Storage, by operations and by page faults.
    pub fn storage(&self) -> u64 {
        self.of(Kind::Storage) + self.of(Kind::PageFault)
    }
}

/// Number of the rank that a process is.
pub fn rank_of(model: &Model, process: u32) -> Option<u32> {
    let role = &model.processes()[process as usize].about.role;
    role.rank.map(|rank| rank.number)
}

fn waiter(sorted: &[Sorted], groups: &Groups, process: u32, rows: &[(&Key, u64)]) -> Waiter {
    let mut waiter = Waiter {
        process,
        running: 0,
        kinds: [0; Kind::ALL.len()],
        files: Vec::new(),
        steps: Vec::new(),
        loaders: BTreeSet::new(),
        for_child: 0,
    };
    let mut files: BTreeMap<(Option<u32>, &str), (Phase, u64)> = BTreeMap::new();
    for (key, ns) in rows {
        let Some(kind) = kind_of(groups, process, key.leaf, key.by) else {
            match key.leaf {
                Leaf::OfThatForChild => waiter.for_child += ns,
                _ => waiter.running += ns,
            }
            continue;
        };
        match kind {
            Kind::LoaderCpu => waiter.loaders.extend(key.by),
            Kind::Storage => {
                let phase = phase_of(sorted, key);
                let file = files.entry((key.file, phase.name())).or_insert((phase, 0));
                file.1 += ns;
            }
            _ => {}
        }
        waiter.kinds[kind as usize] += ns;
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

/// The kind of a leaf; none of a thread that ran, and of what counts twice.
fn kind_of(groups: &Groups, process: u32, leaf: Leaf, by: Option<u32>) -> Option<Kind> {
    Some(match leaf {
        Leaf::Running | Leaf::OfThatForChild => return None,
        Leaf::Computing if by.is_some_and(|by| groups.of(by) == process) => Kind::LoaderCpu,
        Leaf::Computing | Leaf::Other => Kind::Other,
        Leaf::Storage => Kind::Storage,
        Leaf::RunQueue => Kind::RunQueue,
        Leaf::Sleep => Kind::Sleep,
        Leaf::PageFault => Kind::PageFault,
        Leaf::Network => Kind::Network,
        Leaf::Unresolved => Kind::Unresolved,
    })
}

/// What the main thread of a process did over time.
fn steps(model: &Model, run: &Run, groups: &Groups, process: u32) -> Vec<Step> {
    let intervals = model.waits().history().iter();
    let step = |interval: &Interval| {
        let mut step = Step {
            start: interval.bounds.start - run.start_unix_ns,
            end: interval.bounds.end - run.start_unix_ns,
            running: 0,
            kinds: [0; Kind::ALL.len()],
        };
        let first = (process, Leaf::ALL[0], None);
        let of_process = interval
            .sums
            .range(first..)
            .take_while(|((of, ..), _)| *of == process);
        for ((_, leaf, by), ns) in of_process {
            match kind_of(groups, process, *leaf, *by) {
                Some(kind) => step.kinds[kind as usize] += ns,
                None if *leaf == Leaf::Running => step.running += ns,
                None => {}
            }
        }
        step
    };
    let steps = intervals.map(step);
    steps
        .filter(|step| step.running > 0 || step.kinds.iter().any(|ns| *ns > 0))
        .collect()
}

/// The phase of a wait for storage: as the kernel side sorted the file, or where no rule matched its name then, what it turned
/// out to be.
fn phase_of(sorted: &[Sorted], key: &Key) -> Phase {
    let known = Phase::from_code(key.phase);
    let Some(file) = key.file.filter(|_| known == Phase::UNMATCHED) else {
        return known;
    };
    let sorted = &sorted[file as usize];
    match sorted.phase(Direction::Write) {
        Phase::Checkpoint => Phase::Checkpoint,
        _ => sorted.phase(Direction::Read),
    }
}
