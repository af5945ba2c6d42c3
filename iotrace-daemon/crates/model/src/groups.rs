//! Ranks and their workers: which processes belong together.
//!
//! A data loader's workers are forked from the process that trains, or started by Python's multiprocessing with a command
//! line of its own; a launcher's ranks run a program each. So a process belongs to its parent's rank unless it has
//! executed a program since, other than multiprocessing's.

use std::collections::HashMap;

use super::{About, Model};

/// The processes of each rank.
#[derive(Debug)]
pub struct Groups {
    /// By index of the process: index of the rank's first process.
    leader: Vec<u32>,
}

impl Groups {
    /// Groups the processes of a model.
    pub fn new(model: &Model) -> Self {
        let processes = model.processes();
        let mut by_pid: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        for (index, process) in processes.iter().enumerate() {
            by_pid
                .entry((process.node, process.id.pid))
                .or_default()
                .push(index as u32);
        }
        let parent = |index: u32| {
            let process = &processes[index as usize];
            if !is_worker(&process.about) {
                return None;
            }
            // Process ids are reused: the parent is the youngest of its id that is not younger than the child.
            let candidates = by_pid.get(&(process.node, process.about.parent))?;
            let older = candidates.iter().copied().filter(|candidate| {
                let about = &processes[*candidate as usize].about;
                *candidate != index && about.start_boottime <= process.about.start_boottime
            });
            older.max_by_key(|candidate| processes[*candidate as usize].about.start_boottime)
        };
        let parents: Vec<Option<u32>> = (0..processes.len() as u32).map(parent).collect();
        let leader = |index: u32| {
            let mut leader = index;
            // Bounded: parents that name each other would never end.
            for _ in 0..processes.len() {
                match parents[leader as usize] {
                    Some(parent) => leader = parent,
                    None => break,
                }
            }
            leader
        };
        Self {
            leader: (0..processes.len() as u32).map(leader).collect(),
        }
    }

    /// The first process of the rank that `process` belongs to.
    pub fn of(&self, process: u32) -> u32 {
        self.leader[process as usize]
    }
}

/// Whether a process is a part of its parent's rank.
pub fn is_worker(about: &About) -> bool {
    let is_multiprocessing = || {
        let mut args = about.args.iter();
        args.any(|arg| {
            let text = String::from_utf8_lossy(arg);
            text.contains("multiprocessing.spawn") || text.contains("multiprocessing.forkserver")
        })
    };
    about.parent != 0 && (about.execs == 0 || is_multiprocessing())
}
