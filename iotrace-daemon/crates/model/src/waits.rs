//! What the main threads of processes waited for, and how long they ran.

use std::collections::BTreeMap;

use iotrace_common::key::FileId;

use super::{counters::saturating_add, history::Bounds, input::ProcessId};

/// Share of a main thread's time in calls that wait for a child's end from which its process is a launcher.
const LAUNCHER_SHARE: f64 = 0.9;

/// Whether a main thread did little but wait for the end of a child: all of its time, and that for children, nanoseconds.
pub fn is_launcher(whole: u64, for_children: u64) -> bool {
    for_children as f64 >= whole as f64 * LAUNCHER_SHARE
}

/// What a thread did, or waited for. Each nanosecond has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Leaf {
    /// It ran.
    Running,
    /// An operation on a file, its own or one of a thread that it waited for.
    Storage,
    /// Another thread that was on a CPU: a loader's, or one of another process.
    Computing,
    /// Another thread of the same process that was on a CPU and loads no data: it runs backward passes, for example.
    ComputeThreads,
    /// A thread that was ready to run and had no CPU.
    RunQueue,
    /// A sleep, or a wait that ended by its timeout.
    Sleep,
    /// A page fault on a file or on memory.
    PageFault,
    /// The network, or another descriptor that an interrupt made ready.
    Network,
    /// A thread that is not traced, a lock in the kernel, a device.
    Other,
    /// Not known: a wake-up was not seen, or what the waker did is not known any more.
    Unresolved,
    /// Time in calls that wait for the end of a child, which the others count as well.
    OfThatForChild,
    /// Time in calls on files, in which it ran or waited, which the others count as well.
    OfThatInCalls,
}

impl Leaf {
    /// All, in order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Running,
        Self::Storage,
        Self::Computing,
        Self::ComputeThreads,
        Self::RunQueue,
        Self::Sleep,
        Self::PageFault,
        Self::Network,
        Self::Other,
        Self::Unresolved,
        Self::OfThatForChild,
        Self::OfThatInCalls,
    ];

    /// Whether the others count this time as well.
    pub fn is_of_others(self) -> bool {
        matches!(self, Self::OfThatForChild | Self::OfThatInCalls)
    }

    /// Its name in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Storage => "storage",
            Self::Computing => "computing",
            Self::ComputeThreads => "compute_threads",
            Self::RunQueue => "run_queue",
            Self::Sleep => "sleep",
            Self::PageFault => "page_fault",
            Self::Network => "network",
            Self::Other => "other",
            Self::Unresolved => "unresolved",
            Self::OfThatForChild => "of_that_for_child",
            Self::OfThatInCalls => "of_that_in_calls",
        }
    }

    /// Undoes [`Leaf::name`].
    pub fn of_name(name: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|leaf| leaf.name().as_bytes() == name)
    }
}

/// Time of the main thread of a process, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    pub process: ProcessId,
    pub leaf: Leaf,
    pub by: Option<ProcessId>,
    pub file: Option<FileId>,
    pub phase: u16,
    pub ns: u64,
}

/// Whose wait, and what for. Processes and files are their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Whose main thread waited.
    pub process: u32,
    pub leaf: Leaf,
    /// Whose thread was in it.
    pub by: Option<u32>,
    /// The file, of storage; none where the operation names none.
    pub file: Option<u32>,
    /// Its phase (`Phase::code`); 0: none.
    pub phase: u16,
}

/// Time by what it went to.
#[derive(Debug, Default)]
pub struct Waits {
    /// Total and the part since the last flush, nanoseconds.
    all: BTreeMap<Key, (u64, u64)>,
    history: Vec<Interval>,
}

/// What main threads did in an interval, without the files.
#[derive(Debug)]
pub struct Interval {
    pub bounds: Bounds,
    /// By process and leaf, and whose thread was in it: nanoseconds of waits that ended in the interval.
    pub sums: BTreeMap<(u32, Leaf, Option<u32>), u64>,
}

impl Waits {
    /// Adds time, nanoseconds.
    pub fn add(&mut self, key: Key, ns: u64) {
        let (total, interval) = self.all.entry(key).or_default();
        saturating_add(total, ns);
        saturating_add(interval, ns);
    }

    /// Of the whole run.
    pub fn all(&self) -> impl Iterator<Item = (&Key, u64)> {
        self.all.iter().map(|(key, (total, _))| (key, *total))
    }

    /// Since the last [`Waits::settle`].
    pub fn interval(&self) -> impl Iterator<Item = (&Key, u64)> {
        let recent = self.all.iter().filter(|(_, (_, new))| *new > 0);
        recent.map(|(key, (_, new))| (key, *new))
    }

    /// Whether nothing is known of any thread.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Settled intervals, of one node each.
    pub fn history(&self) -> &[Interval] {
        &self.history
    }

    /// Time of main threads by index of the process: all of it, and that in calls that wait for the end of a child, nanoseconds.
    pub fn by_process(&self) -> BTreeMap<u32, (u64, u64)> {
        let mut by_process: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (key, ns) in self.all() {
            let (whole, for_children) = by_process.entry(key.process).or_default();
            match key.leaf {
                Leaf::OfThatForChild => saturating_add(for_children, ns),
                leaf if !leaf.is_of_others() => saturating_add(whole, ns),
                _ => {}
            }
        }
        by_process
    }

    /// Ends the interval, which had these bounds.
    pub fn settle(&mut self, bounds: Bounds) {
        let mut sums = BTreeMap::new();
        for (key, ns) in self.interval() {
            let sum = sums.entry((key.process, key.leaf, key.by)).or_insert(0);
            saturating_add(sum, ns);
        }
        if !sums.is_empty() {
            self.history.push(Interval { bounds, sums });
        }
        self.all
            .values_mut()
            .for_each(|(_, interval)| *interval = 0);
    }

    /// Adds those of another node, whose processes begin at `processes` and whose files are `files` here.
    pub(super) fn append(&mut self, other: Self, processes: u32, files: &[u32]) {
        for (key, (total, _)) in other.all {
            let key = Key {
                process: key.process + processes,
                by: key.by.map(|by| by + processes),
                file: key.file.map(|file| files[file as usize]),
                ..key
            };
            saturating_add(&mut self.all.entry(key).or_default().0, total);
        }
        let moved = |((process, leaf, by), ns): ((u32, Leaf, Option<u32>), u64)| {
            ((process + processes, leaf, by.map(|by| by + processes)), ns)
        };
        self.history
            .extend(other.history.into_iter().map(|interval| Interval {
                sums: interval.sums.into_iter().map(moved).collect(),
                ..interval
            }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (number, leaf) in Leaf::ALL.into_iter().enumerate() {
            assert_eq!(
                (leaf as usize, Leaf::of_name(leaf.name().as_bytes())),
                (number, Some(leaf))
            );
        }
        assert_eq!(Leaf::of_name(b"gpu"), None);
    }

    #[test]
    fn intervals_add_up_and_nodes_move() {
        let key = Key {
            process: 1,
            leaf: Leaf::Storage,
            by: Some(0),
            file: Some(1),
            phase: 2,
        };
        let mut waits = Waits::default();
        waits.add(key, 5);
        waits.settle(Bounds { start: 0, end: 9 });
        waits.add(key, 7);
        let of = |waits: &Waits| waits.interval().map(|(_, ns)| ns).collect::<Vec<_>>();
        assert_eq!((of(&waits), waits.all().next().unwrap().1), (vec![7], 12));
        let mut job = Waits::default();
        job.append(waits, 10, &[4, 3]);
        let (moved, ns) = job.all().next().unwrap();
        assert_eq!(
            (moved.process, moved.by, moved.file, ns),
            (11, Some(10), Some(3), 12)
        );
        assert_eq!(of(&job), [0; 0]);
        let [interval] = job.history() else {
            panic!("one interval");
        };
        assert_eq!(interval.sums.get(&(11, Leaf::Storage, Some(10))), Some(&5));
    }
}
