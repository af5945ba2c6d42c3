//! Renames and removals that belong to a known file, waiting for their counts.
//!
//! The kernel counts a call by path to its process, not to a file, and sends a separate event. When a
//! file is known by that path, one count moves from the process to the file, so that sums stay what they were. The
//! event may come before the count or with it; a count that was flushed before its event came stays where it is.

use std::collections::HashMap;

use super::forget::Moved;

/// A count to move to a file: its index, and when the call was, `CLOCK_MONOTONIC` nanoseconds.
pub type Target = (u32, u64);

/// Counts to move, by process and counter.
#[derive(Debug, Default)]
pub struct Moves {
    pending: HashMap<(u32, usize), Vec<Target>>,
}

impl Moves {
    /// One count of `counter` of `process` belongs to `target`.
    pub fn push(&mut self, process: u32, counter: usize, target: Target) {
        self.pending
            .entry((process, counter))
            .or_default()
            .push(target);
    }

    /// How many counts wait for this process and counter.
    pub fn wanted(&self, process: u32, counter: usize) -> u64 {
        self.pending
            .get(&(process, counter))
            .map_or(0, |targets| targets.len() as u64)
    }

    /// Takes out the moves of what is forgotten.
    pub fn forget(&mut self, processes: &Moved, files: &Moved) {
        let pending = std::mem::take(&mut self.pending);
        for ((process, counter), targets) in pending {
            let targets: Vec<Target> = targets
                .into_iter()
                .filter_map(|(file, time)| Some((files.get(file)?, time)))
                .collect();
            if let Some(process) = processes.get(process)
                && !targets.is_empty()
            {
                self.pending.insert((process, counter), targets);
            }
        }
    }

    /// The oldest `count` of them.
    pub fn take(&mut self, process: u32, counter: usize, count: u64) -> Vec<Target> {
        let Some(targets) = self.pending.get_mut(&(process, counter)) else {
            return Vec::new();
        };
        let count = targets.len().min(count as usize);
        let taken = targets.drain(..count).collect();
        if targets.is_empty() {
            self.pending.remove(&(process, counter));
        }
        taken
    }
}
