//! What the main thread of each program or rank waited for.
//!
//! `iotrace_daemon::model::waits` has the time by leaf; here it is put together by waiter. Computing counts as the loader's
//! where the waiter's own process or one of its workers did it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::Report;
use crate::{
    classify::phase::{Direction, Phase},
    model::{
        groups::Groups,
        waits::{Key, Leaf},
    },
};

/// Share of a thread's time in calls that wait for a child's end from which its process is a launcher.
const LAUNCHER_SHARE: f64 = 0.9;

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
pub struct Waiter {
    /// Index of its process.
    pub process: u32,
    pub running: u64,
    /// By number of the kind. They add up to the time it waited.
    pub kinds: [u64; Kind::ALL.len()],
    /// Of storage, by file and phase; no file: operations that name none. The longest first.
    pub files: Vec<(Option<u32>, Phase, u64)>,
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

    /// Whether it did little but wait for programs that it ran.
    fn is_launcher(&self) -> bool {
        self.for_child as f64 >= self.whole() as f64 * LAUNCHER_SHARE
    }
}

impl Report<'_> {
    /// The main threads of programs and ranks: ranks by their number, then the others by how long they are known. Launchers
    /// only where there is nothing else.
    pub(super) fn waiters(&self) -> Vec<Waiter> {
        let groups = Groups::new(self.model);
        let mut by_process: BTreeMap<u32, Vec<(&Key, u64)>> = BTreeMap::new();
        for (key, ns) in self.model.waits().all() {
            if groups.of(key.process) == key.process {
                by_process.entry(key.process).or_default().push((key, ns));
            }
        }
        let of = |(process, rows): (u32, Vec<_>)| self.waiter(&groups, process, &rows);
        let mut waiters: Vec<Waiter> = by_process.into_iter().map(of).collect();
        if waiters.iter().any(|waiter| !waiter.is_launcher()) {
            waiters.retain(|waiter| !waiter.is_launcher());
        }
        waiters.sort_by_key(|waiter| {
            let rank = self.rank_of(waiter.process);
            (rank.is_none(), rank, Reverse(waiter.whole()))
        });
        waiters
    }

    /// Those that the run is judged by: all ranks, or where there are none the thread that is known for longest.
    pub(super) fn judged_waiters(&self) -> Vec<Waiter> {
        let mut waiters = self.waiters();
        let ranks = waiters
            .iter()
            .take_while(|waiter| self.rank_of(waiter.process).is_some());
        let count = ranks.count().max(1);
        waiters.truncate(count);
        waiters
    }

    /// Number of the rank that a process is.
    pub(super) fn rank_of(&self, process: u32) -> Option<u32> {
        let role = &self.model.processes()[process as usize].about.role;
        role.rank.map(|rank| rank.number)
    }

    fn waiter(&self, groups: &Groups, process: u32, rows: &[(&Key, u64)]) -> Waiter {
        let mut waiter = Waiter {
            process,
            running: 0,
            kinds: [0; Kind::ALL.len()],
            files: Vec::new(),
            loaders: BTreeSet::new(),
            for_child: 0,
        };
        let mut files: BTreeMap<(Option<u32>, &str), (Phase, u64)> = BTreeMap::new();
        for (key, ns) in rows {
            let kind = match key.leaf {
                Leaf::Running => {
                    waiter.running += ns;
                    continue;
                }
                Leaf::OfThatForChild => {
                    waiter.for_child += ns;
                    continue;
                }
                Leaf::Computing if key.by.is_some_and(|by| groups.of(by) == process) => {
                    waiter.loaders.extend(key.by);
                    Kind::LoaderCpu
                }
                Leaf::Storage => {
                    let phase = self.phase_of_wait(key);
                    let file = files.entry((key.file, phase.name())).or_insert((phase, 0));
                    file.1 += ns;
                    Kind::Storage
                }
                Leaf::Computing | Leaf::Other => Kind::Other,
                Leaf::RunQueue => Kind::RunQueue,
                Leaf::Sleep => Kind::Sleep,
                Leaf::PageFault => Kind::PageFault,
                Leaf::Network => Kind::Network,
                Leaf::Unresolved => Kind::Unresolved,
            };
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

    /// The phase of a wait for storage: as the kernel side sorted the file, or where no rule matched its name then, what it
    /// turned out to be.
    fn phase_of_wait(&self, key: &Key) -> Phase {
        let known = Phase::from_code(key.phase);
        let Some(file) = key.file.filter(|_| known == Phase::UNMATCHED) else {
            return known;
        };
        let sorted = &self.sorted[file as usize];
        match sorted.phase(Direction::Write) {
            Phase::Checkpoint => Phase::Checkpoint,
            _ => sorted.phase(Direction::Read),
        }
    }
}
