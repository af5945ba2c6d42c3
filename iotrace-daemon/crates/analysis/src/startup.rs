//! How a run starts: what was looked for and not found, and where, what libraries cost, and when training data was read
//! first.

use std::{cmp::Reverse, collections::BTreeMap};

use iotrace_common::op;

use super::uses::Uses;
use iotrace_model::{
    Model,
    counters::{
        BYTES_READ, Counters, MAJOR_FAULT_NS, META_NS, OPENS, READ_NS, STATS, saturating_add,
        saturating_sum,
    },
};
use iotrace_phases::{
    context::Sorted,
    phase::{Direction, Phase},
};

const ENOENT: u32 = libc::ENOENT as u32;

/// A directory in which files were looked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    pub path: Vec<u8>,
    pub calls: u64,
    /// Nanoseconds in these calls.
    pub ns: u64,
    /// Processes that made them.
    pub processes: u64,
}

/// The start of a run.
#[derive(Clone, Debug, Default)]
pub struct Startup {
    /// Nanoseconds from the start of the run to the first read of a training file; `None` without one.
    pub first_training_read_ns: Option<u64>,
    /// Calls that looked for a file which is not there, over the whole run.
    pub not_found: u64,
    /// Nanoseconds in these calls.
    pub not_found_ns: u64,
    /// The same by process, those with the most calls first.
    pub by_process: Vec<(u32, u64)>,
    /// Directories that these calls looked in, as far as they are known, those with the most calls first.
    pub searched: Vec<Searched>,
    /// Distinct files of phase startup.
    pub files: u64,
    pub opens: u64,
    pub stats: u64,
    pub bytes_read: u64,
    /// Nanoseconds in metadata calls on these files, and in reads of them.
    pub meta_ns: u64,
    pub read_ns: u64,
    /// Nanoseconds in page faults on these files that waited for storage, by process.
    pub fault_ns: BTreeMap<u32, u64>,
}

impl Startup {
    pub(super) fn new(model: &Model, uses: &Uses, sorted: &[Sorted]) -> Self {
        let mut startup = Self::default();
        let first = uses.visits.iter().map(|visit| visit.start).min();
        startup.first_training_read_ns = first.and_then(|start| u64::try_from(start).ok());
        let mut by_process = vec![0; model.processes().len()];
        for (key, count) in model.failures().all() {
            if key.errno == ENOENT && op::looks_up(key.op as usize) {
                saturating_add(&mut startup.not_found, count.calls);
                saturating_add(&mut startup.not_found_ns, count.ns);
                saturating_add(&mut by_process[key.process as usize], count.calls);
            }
        }
        let all = by_process.into_iter().enumerate();
        startup.by_process = all
            .filter(|(_, calls)| *calls > 0)
            .map(|(p, c)| (p as u32, c))
            .collect();
        startup.by_process.sort_by_key(|(process, calls)| {
            (Reverse(*calls), model.processes()[*process as usize].id.pid)
        });
        startup.searched = searched(model);
        let mut seen = vec![false; model.file_count()];
        for row in model.rows() {
            if sorted[row.file as usize].phase(Direction::Read) == Phase::Startup {
                startup.add(row.process, &row.cell.total());
                let is_file = !model.file(row.file).is_directory();
                let is_new = !std::mem::replace(&mut seen[row.file as usize], true);
                startup.files += u64::from(is_file && is_new);
            }
        }
        startup
    }

    /// Calls that looked for a file which is not there, in directories that are not known.
    pub fn unlisted(&self) -> u64 {
        let listed = saturating_sum(self.searched.iter().map(|searched| searched.calls));
        self.not_found.saturating_sub(listed)
    }

    fn add(&mut self, process: u32, counters: &Counters) {
        let v = &counters.v;
        saturating_add(&mut self.opens, v[OPENS]);
        saturating_add(&mut self.stats, v[STATS]);
        saturating_add(&mut self.bytes_read, v[BYTES_READ]);
        saturating_add(&mut self.meta_ns, v[META_NS]);
        saturating_add(&mut self.read_ns, v[READ_NS]);
        if v[MAJOR_FAULT_NS] > 0 {
            let faults = self.fault_ns.entry(process).or_default();
            saturating_add(faults, v[MAJOR_FAULT_NS]);
        }
    }
}

/// Directories that were searched in vain. Paths that mean one directory are one.
fn searched(model: &Model) -> Vec<Searched> {
    let mut by_path: BTreeMap<&[u8], Searched> = BTreeMap::new();
    for (_, path, count) in model
        .negative_lookups()
        .all()
        .filter(|(_, path, _)| !path.is_empty())
    {
        let searched = by_path.entry(path).or_insert_with(|| Searched {
            path: path.to_vec(),
            calls: 0,
            ns: 0,
            processes: 0,
        });
        saturating_add(&mut searched.calls, count.calls);
        saturating_add(&mut searched.ns, count.ns);
        searched.processes += 1;
    }
    let mut all: Vec<Searched> = by_path.into_values().collect();
    all.sort_by_key(|searched| Reverse(searched.calls));
    all
}
