//! Ranks and their workers: which processes belong together.
//!
//! A data loader's workers are forked from the process that trains, or started by Python's multiprocessing with a command
//! line of its own; a launcher's ranks run a program each. So a process belongs to its parent's rank unless it has
//! executed a program since, other than multiprocessing's.
//!
//! `torch.multiprocessing.spawn` starts ranks as multiprocessing starts workers. But workers of a data loader or of a pool are
//! daemonic, and those may have no workers of their own (`multiprocessing.Process.start`): one that has is a rank. Nor do
//! workers save: where one of several does, and neither who started them nor another worker trains, all of them are ranks. Nor does
//! who trains wait for nothing but the end of children, as a launcher does ([`is_launcher`]): they train, or
//! workers of theirs do.

use std::collections::{BTreeMap, HashMap, HashSet};

use iotrace_common::phases::code;

use super::{About, Model, Process, counters::saturating_sum, waits::is_launcher};

/// The processes of each rank.
#[derive(Debug)]
pub struct Groups {
    /// By index of the process: index of the rank's first process.
    leader: Vec<u32>,
    /// Ranks that their launcher's program forked, or started by multiprocessing, by index.
    spawned: HashSet<u32>,
    /// The processes that started them, by index.
    launchers: HashSet<u32>,
}

impl Groups {
    /// Groups the processes of a model.
    pub fn new(model: &Model) -> Self {
        let processes = model.processes();
        let all_parents = parents(model);
        let mut parents = all_parents.clone();
        for (parent, process) in parents.iter_mut().zip(processes) {
            parent.take_if(|parent| !is_worker(&process.about, &processes[*parent as usize].about));
        }
        let with_workers = parents.iter().flatten().copied();
        let is_spawned = |index: &u32| has_arg(&processes[*index as usize].about, SPAWN_MODULE);
        let mut spawned: HashSet<u32> = with_workers.filter(is_spawned).collect();
        let workers = workers(&parents);
        spawned.extend(saving_ranks(processes, &workers, is_spawned));
        spawned.extend(waited_for(model, &all_parents, &workers));
        let started = spawned.iter();
        let launchers = started
            .filter_map(|index| parents[*index as usize].take())
            .collect();
        let leader = |index| oldest(&parents, index);
        Self {
            leader: (0..processes.len() as u32).map(leader).collect(),
            spawned,
            launchers,
        }
    }

    /// The first process of the rank that `process` belongs to.
    pub fn of(&self, process: u32) -> u32 {
        self.leader[process as usize]
    }

    /// The first processes of the ranks that have such a process.
    pub fn with(&self, model: &Model, is_such: impl Fn(&Process) -> bool) -> HashSet<u32> {
        let processes = (0..).zip(model.processes());
        let such = processes.filter(|(_, process)| is_such(process));
        such.map(|(index, _)| self.of(index)).collect()
    }

    /// Whether a process is a rank that its launcher's program forked, or started by multiprocessing.
    pub fn is_spawned_rank(&self, process: u32) -> bool {
        self.spawned.contains(&process)
    }

    /// Whether a process started such ranks.
    pub fn is_launcher(&self, process: u32) -> bool {
        self.launchers.contains(&process)
    }
}

/// The process that a process descends from, by these parents.
fn oldest(parents: &[Option<u32>], process: u32) -> u32 {
    let mut oldest = process;
    // Bounded: parents that name each other would never end.
    for _ in 0..parents.len() {
        match parents[oldest as usize] {
            Some(parent) => oldest = parent,
            None => break,
        }
    }
    oldest
}

/// By process: the one that began to run its program; forks go on with it, also where they are ranks.
pub fn programs(model: &Model) -> Vec<u32> {
    let (groups, mut parents) = (Groups::new(model), parents(model));
    for (parent, process) in parents.iter_mut().zip(model.processes()) {
        parent.take_if(|_| process.about.execs != 0);
    }
    let processes = 0..parents.len() as u32;
    processes
        .map(|process| oldest(&parents, groups.of(process)))
        .collect()
}

/// The workers that each process has itself, by index.
fn workers(parents: &[Option<u32>]) -> BTreeMap<u32, Vec<u32>> {
    let mut workers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (index, parent) in (0..).zip(parents) {
        if let Some(parent) = parent {
            workers.entry(*parent).or_default().push(index);
        }
    }
    workers
}

/// Whether a process saves, or reads what is named as training data.
fn trains(process: &Process) -> bool {
    let read = process.phases.total(code::TRAINING as u16);
    process.saves() || read.bytes_read > 0
}

/// Ranks that are known by a save of one of them.
fn saving_ranks(
    processes: &[Process],
    workers: &BTreeMap<u32, Vec<u32>>,
    is_spawned: impl Fn(&u32) -> bool,
) -> Vec<u32> {
    let process = |index: &u32| &processes[*index as usize];
    let ranks = workers.iter().filter_map(|(parent, workers)| {
        let (ranks, others): (Vec<u32>, Vec<u32>) = workers.iter().partition(|one| is_spawned(one));
        let are_ranks = ranks.len() > 1 && ranks.iter().any(|index| process(index).saves());
        let mut others = [parent].into_iter().chain(&others);
        (are_ranks && !others.any(|index| trains(process(index)))).then_some(ranks)
    });
    ranks.flatten().collect()
}

/// Ranks that are known by a launcher, which does not train and only waits for them.
fn waited_for(
    model: &Model,
    parents: &[Option<u32>],
    workers: &BTreeMap<u32, Vec<u32>>,
) -> Vec<u32> {
    let process = |index: &u32| &model.processes()[*index as usize];
    let has_data = |index: &u32| process(index).saves() || process(index).reads_data();
    let is_rank = |index: &u32| {
        let mut own = workers.get(index).into_iter().flatten();
        has_data(index) || own.any(has_data)
    };
    let times = model.waits().by_process();
    let ranks = workers.iter().filter_map(|(parent, workers)| {
        let ranks: Vec<u32> = workers.iter().copied().filter(is_rank).collect();
        let are_known =
            !trains(process(parent)) && only_waits(model, parents, &times, *parent, &ranks);
        are_known.then_some(ranks)
    });
    ranks.flatten().collect()
}

/// Whether a process did little but wait for the end of `ranks` since it started the first of them.
fn only_waits(
    model: &Model,
    parents: &[Option<u32>],
    times: &BTreeMap<u32, (u64, u64)>,
    parent: u32,
    ranks: &[u32],
) -> bool {
    let processes = model.processes();
    let start = |index: u32| processes[index as usize].about.start_boottime;
    let time = |index: u32| times.get(&index).copied().unwrap_or_default();
    let Some(first) = ranks.iter().map(|rank| start(*rank)).min() else {
        return false;
    };
    let lived = ranks
        .iter()
        .map(|rank| start(*rank) - first + time(*rank).0);
    let lived = lived.max().unwrap_or(0);
    let (whole, for_children) = time(parent);
    if for_children == 0 || !is_launcher(lived, for_children) {
        return false;
    }
    // Of who reads nothing, what came before is its imports, which end sooner than a training does.
    let before = match (start(parent), processes[parent as usize].reads_data()) {
        (0, _) | (_, true) => 0,
        (began, false) => first.saturating_sub(began).min(lived),
    };
    // It may have waited for programs that it ran before: compilers, for example.
    let children = (0..).zip(parents).filter(|(_, of)| **of == Some(parent));
    let older = children.filter(|(index, _)| (1..first).contains(&start(*index)));
    let for_older = older.map(|(index, _)| time(index).0.min(first - start(index)));
    is_launcher(
        whole.saturating_sub(before).max(lived),
        for_children.saturating_sub(saturating_sum(for_older)),
    )
}

/// The parent of each process, by index; `None` if it is unknown.
pub fn parents(model: &Model) -> Vec<Option<u32>> {
    let processes = model.processes();
    let mut by_pid: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    for (index, process) in (0..).zip(processes) {
        let of_pid = by_pid.entry((process.node, process.id.pid)).or_default();
        of_pid.push(index);
    }
    let parent = |(index, process): (u32, &Process)| {
        // Process ids are reused: the parent is the youngest of its id that is not younger than the child.
        let candidates = by_pid.get(&(process.node, process.about.parent))?;
        let older = candidates.iter().copied().filter(|candidate| {
            let about = &processes[*candidate as usize].about;
            *candidate != index && about.start_boottime <= process.about.start_boottime
        });
        older.max_by_key(|candidate| processes[*candidate as usize].about.start_boottime)
    };
    (0..).zip(processes).map(parent).collect()
}

/// In the command line of a process that multiprocessing starts.
const SPAWN_MODULE: &str = "multiprocessing.spawn";
/// In that of the process that forks others for it.
const FORKSERVER_MODULE: &str = "multiprocessing.forkserver";

/// Whether a process was forked or started as a worker of its parent is.
fn is_worker(about: &About, parent: &About) -> bool {
    let is_multiprocessing = || has_arg(about, SPAWN_MODULE) || has_arg(about, FORKSERVER_MODULE);
    about.execs == 0 && may_be_fork(about, parent) || is_multiprocessing()
}

/// Whether a process may run its parent's program: of one that was there before the recording, it is not known whether it
/// executed another. What is not known excludes nothing.
fn may_be_fork(about: &About, parent: &About) -> bool {
    let are_known = !about.args.is_empty() && !parent.args.is_empty();
    about.exe.is_empty() || about.exe == parent.exe && (!are_known || about.args == parent.args)
}

/// Whether an argument of a process contains a text.
fn has_arg(about: &About, text: &str) -> bool {
    let mut args = about.args.iter();
    args.any(|arg| String::from_utf8_lossy(arg).contains(text))
}

#[cfg(test)]
mod tests {
    use crate::{
        IoTotals,
        input::ProcessId,
        waits::{Key, Leaf},
    };

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Processes of these ids, each with its parent's and whether multiprocessing started it; else it was forked.
    fn model(processes: &[(u32, u32, bool)]) -> Model {
        let mut model = Model::default();
        for (pid, parent, is_spawned) in processes {
            let arg: &[u8] = b"from multiprocessing.spawn import spawn_main; spawn_main()";
            let id = ProcessId {
                pid: *pid,
                start: *pid,
            };
            let about = About {
                start_boottime: (*pid).into(),
                parent: *parent,
                execs: (*is_spawned).into(),
                args: is_spawned.then(|| arg.to_vec()).into_iter().collect(),
                ..About::default()
            };
            model.restore_process(id, about);
        }
        model
    }

    /// Their groups.
    fn groups(processes: &[(u32, u32, bool)]) -> Groups {
        Groups::new(&model(processes))
    }

    #[test]
    fn a_spawned_process_with_workers_is_a_rank() {
        // 10 starts 20 and 30, each of which forks or starts a loader's worker; 40 has none.
        let groups = groups(&[
            (10, 0, false),
            (20, 10, true),
            (30, 10, true),
            (40, 10, true),
            (21, 20, false),
            (31, 30, true),
        ]);
        let leaders: Vec<u32> = (0..6).map(|index| groups.of(index)).collect();
        assert_eq!(leaders, [0, 1, 2, 0, 1, 2]);
        let ranks: Vec<u32> = (0..6).filter(|one| groups.is_spawned_rank(*one)).collect();
        assert_eq!(ranks, [1, 2]);
        let launchers: Vec<u32> = (0..6).filter(|one| groups.is_launcher(*one)).collect();
        assert_eq!(launchers, [0]);
    }

    /// Groups of a program, 10, that starts 20 and 30 by multiprocessing and forks 40. Bytes that each of them saved and read of
    /// training data, in this order.
    fn groups_of_savers(moved: [(u64, u64); 4]) -> Groups {
        let mut model = model(&[
            (10, 0, false),
            (20, 10, true),
            (30, 10, true),
            (40, 10, false),
        ]);
        for (process, (saved, read)) in model.processes.all_mut().iter_mut().zip(moved) {
            let bytes = |bytes_written, bytes_read| IoTotals {
                bytes_written,
                bytes_read,
                ..IoTotals::default()
            };
            process.phases.add(code::CHECKPOINT, &bytes(saved, 0));
            process.phases.add(code::TRAINING, &bytes(0, read));
        }
        Groups::new(&model)
    }

    #[test]
    fn spawned_processes_of_which_one_saves_are_ranks() {
        let are_ranks = |moved| [1, 2].map(|index| groups_of_savers(moved).is_spawned_rank(index));
        assert_eq!(are_ranks([(0, 0), (0, 5), (9, 5), (0, 0)]), [true; 2]);
        assert!(groups_of_savers([(0, 0), (0, 5), (9, 5), (0, 0)]).is_launcher(0));
        // A program that saves itself, with workers that load. A worker that writes the saves of a program that reads data itself,
        // or by another worker, which it forked.
        for moved in [
            [(9, 0), (0, 5), (0, 5), (0, 0)],
            [(0, 5), (0, 0), (9, 0), (0, 0)],
            [(0, 0), (0, 0), (9, 0), (0, 5)],
        ] {
            assert_eq!(are_ranks(moved), [false; 2], "{moved:?}");
        }
    }

    /// Adds seconds of a process's main thread in calls for a child's end, and else.
    fn spend(model: &mut Model, process: u32, for_children: u64, rest: u64) {
        for (leaf, seconds) in [
            (Leaf::OfThatForChild, for_children),
            (Leaf::Computing, for_children),
            (Leaf::Running, rest),
        ] {
            let key = Key {
                process,
                leaf,
                by: None,
                file: None,
                phase: 0,
            };
            model.waits.add(key, seconds * SECOND);
        }
    }

    #[test]
    fn what_comes_before_the_ranks_is_no_part_of_the_wait_for_them() {
        // 10 runs a compiler, 11, and forks 20, which reads training data. Seconds of 10's main thread in calls for a child's end, and
        // else; of 11 and of 20; from 10's start to that of 20; bytes that 10 reads.
        let cases = [
            ((60, 21), 0, 60, 20, 0, true),
            ((60, 21), 0, 60, 20, 1 << 30, false),
            // What it did first takes longer than its child lives: it trained, perhaps.
            ((60, 101), 0, 60, 100, 0, false),
            // It works on after its child's end.
            ((60, 41), 0, 60, 20, 0, false),
            // It waits for the compiler. The child lives as long as it computes, or until it waits for that, too.
            ((90, 61), 90, 60, 100, 0, false),
            ((90, 5), 30, 60, 35, 0, true),
        ];
        for ((for_children, rest), compiled, lived, begins, read, is_launcher) in cases {
            let mut model = model(&[(10, 0, false), (11, 10, false), (20, 10, false)]);
            let starts = [1, 2, 1 + begins];
            for (process, seconds) in model.processes.all_mut().iter_mut().zip(starts) {
                process.about.start_boottime = seconds * SECOND;
            }
            model.processes.all_mut()[1].about.execs = 1;
            let bytes = |bytes_read| IoTotals {
                bytes_read,
                operations: bytes_read,
                ..IoTotals::default()
            };
            model.processes.all_mut()[0]
                .phases
                .add(code::UNMATCHED, &bytes(read));
            model.processes.all_mut()[2]
                .phases
                .add(code::TRAINING, &bytes(5));
            spend(&mut model, 0, for_children, rest);
            spend(&mut model, 1, 0, compiled);
            spend(&mut model, 2, 0, lived);
            let groups = Groups::new(&model);
            let found = groups.is_launcher(0);
            assert_eq!(found, is_launcher, "{for_children} {rest} {compiled}");
        }
    }

    #[test]
    fn who_waits_for_all_that_others_train_is_a_launcher() {
        // 10 forks 20, which forks 21, and 30; bytes of training data that 10, 20, 21 and 30 read, and seconds of 10's main thread in
        // calls for a child's end, and else. Leaders.
        let cases = [
            ([0, 5, 0, 0], (95, 5), [0, 1, 1, 0]),
            ([0, 0, 5, 5], (95, 5), [0, 1, 1, 3]),
            // It computes too, or trains itself; or nobody does.
            ([0, 5, 0, 0], (80, 20), [0; 4]),
            ([5, 5, 0, 0], (95, 5), [0; 4]),
            ([0; 4], (95, 5), [0; 4]),
        ];
        for (read, (for_children, rest), leaders) in cases {
            let mut model = model(&[
                (10, 0, false),
                (20, 10, false),
                (21, 20, false),
                (30, 10, false),
            ]);
            for (process, bytes_read) in model.processes.all_mut().iter_mut().zip(read) {
                let read = IoTotals {
                    bytes_read,
                    operations: bytes_read,
                    ..IoTotals::default()
                };
                process.phases.add(code::TRAINING, &read);
            }
            spend(&mut model, 0, for_children, rest);
            let groups = Groups::new(&model);
            let found: Vec<u32> = (0..4).map(|index| groups.of(index)).collect();
            assert_eq!(found, leaders, "{read:?} {for_children}");
        }
    }

    #[test]
    fn a_program_that_ran_before_the_recording_is_no_worker_of_the_shell() {
        let about = |pid: u32, parent, exe: &str, args: &[&str]| About {
            start_boottime: pid.into(),
            parent,
            exe: exe.into(),
            args: args.iter().map(|arg| (*arg).into()).collect(),
            ..About::default()
        };
        let mut model = Model::default();
        for (pid, parent, exe, args) in [
            (10, 0, "/bin/bash", &["bash"][..]),
            (20, 10, "/bin/python", &["python", "torchrun"]),
            (21, 20, "/bin/python", &["python", "train.py"]),
            (22, 21, "/bin/python", &["python", "train.py"]),
        ] {
            let id = ProcessId { pid, start: pid };
            model.restore_process(id, about(pid, parent, exe, args));
        }
        let groups = Groups::new(&model);
        let leaders: Vec<u32> = (0..4).map(|index| groups.of(index)).collect();
        assert_eq!(leaders, [0, 1, 2, 2]);
    }

    #[test]
    fn workers_and_their_forks_belong_to_who_started_them() {
        // 20 and 30 are a loader's workers; 40 was forked, and forks another.
        let groups = groups(&[
            (10, 0, false),
            (20, 10, true),
            (30, 10, true),
            (40, 10, false),
            (41, 40, false),
        ]);
        assert!((0..5).all(|index| groups.of(index) == 0));
        assert!((0..5).all(|index| !groups.is_spawned_rank(index) && !groups.is_launcher(index)));
    }
}
