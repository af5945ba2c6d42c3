//! Which unit each process belongs to: its parent's when it is forked, and what its environment and its cgroup say when
//! it execs. The kernel side sends both, so a process that lives for milliseconds is attributed too.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    attribution::{self, Kind, Unit},
    environment,
    totals::{Totals, UNKNOWN, UnitId},
};
use crate::{
    model::input::{Event, ProcessId},
    targets,
};

/// How long a process that has ended is remembered: its last counters come a drain later.
const REMEMBER: Duration = Duration::from_secs(10);

/// Where `deploy/slurm/prolog` notes jobs: a link named by the SLUID, to the number.
const JOBS: &str = "/run/iotrace-jobs";

#[derive(Clone, Copy, Debug)]
struct Entry {
    unit: UnitId,
    ended: Option<Instant>,
}

/// The units of processes.
#[derive(Debug, Default)]
pub struct Processes {
    by_id: HashMap<ProcessId, Entry>,
    /// Whether each step of a Slurm job is a unit of its own.
    steps: bool,
    /// The control groups of execs whose environment comes next.
    groups: HashMap<ProcessId, String>,
    /// Processes whose environment could not be read for want of a privilege.
    refused: u64,
}

impl Processes {
    pub fn new(steps: bool) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }

    /// Number of processes remembered.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Execs whose environment has not come yet.
    pub fn waiting(&self) -> usize {
        self.groups.len()
    }

    /// Processes whose environment could not be read for want of a privilege.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes an event of the kernel side.
    pub fn see(&mut self, event: &Event, totals: &mut Totals) {
        match event {
            Event::Fork { parent, child, .. } => {
                let unit = self.unit_of(*parent, totals);
                self.set(*child, unit, totals);
            }
            Event::Cgroup { process, path } => {
                self.groups.insert(*process, path.clone());
            }
            Event::Environment { process, variables } => {
                self.start(*process, variables, totals);
            }
            Event::Exit { process, .. } => {
                self.groups.remove(process);
                if let Some(entry) = self.by_id.get_mut(process) {
                    entry.ended = Some(Instant::now());
                }
            }
            _ => {}
        }
    }

    /// Whether a process is remembered.
    pub fn knows(&self, process: ProcessId) -> bool {
        self.by_id.contains_key(&process)
    }

    /// The unit of a process, where it is remembered.
    pub fn known_unit(&self, process: ProcessId) -> Option<UnitId> {
        self.by_id.get(&process).map(|entry| entry.unit)
    }

    /// Those that have not ended: process id and unit.
    pub fn all_living(&self) -> Vec<(u32, UnitId)> {
        let living = self.by_id.iter().filter(|(_, entry)| entry.ended.is_none());
        living
            .map(|(process, entry)| (process.pid, entry.unit))
            .collect()
    }

    /// Number of those that have not ended.
    pub fn living(&self) -> usize {
        let all = self.by_id.values();
        all.filter(|entry| entry.ended.is_none()).count()
    }

    /// The unit of a process.
    pub fn unit_of(&mut self, process: ProcessId, totals: &mut Totals) -> UnitId {
        if let Some(entry) = self.by_id.get(&process) {
            return entry.unit;
        }
        let found = self.look(process);
        let unit = found.as_ref().map_or(UNKNOWN, |unit| totals.unit(unit));
        self.set(process, unit, totals);
        if found.is_none() {
            // Gone already: no event will say so.
            self.ended(process);
        }
        unit
    }

    /// Forgets processes that ended a while ago.
    pub fn sweep(&mut self, totals: &mut Totals, now: Instant) {
        self.by_id.retain(|_, entry| {
            let keep = entry
                .ended
                .is_none_or(|ended| now.saturating_duration_since(ended) < REMEMBER);
            if !keep {
                totals.release(entry.unit);
            }
            keep
        });
    }

    /// Finds processes whose end no event told of, because it was dropped.
    pub fn find_ended(&mut self) {
        let gone: Vec<ProcessId> = self
            .by_id
            .iter()
            .filter(|(process, entry)| entry.ended.is_none() && !targets::is_there(**process))
            .map(|(process, _)| *process)
            .collect();
        for process in gone {
            self.ended(process);
        }
        // Those whose environment and end were dropped.
        self.groups.retain(|process, _| targets::is_there(*process));
    }

    fn ended(&mut self, process: ProcessId) {
        if let Some(entry) = self.by_id.get_mut(&process) {
            entry.ended = Some(Instant::now());
        }
    }

    fn set(&mut self, process: ProcessId, unit: UnitId, totals: &mut Totals) {
        let entry = Entry { unit, ended: None };
        let before = self.by_id.insert(process, entry);
        if before.is_none_or(|before| before.unit != unit) {
            totals.hold(unit);
            if let Some(before) = before {
                totals.release(before.unit);
            }
        }
    }

    /// Takes what a process starts with: its place is set by now. Of one that is gone the kernel side has said the place;
    /// where it did not, it is of the job that its variables name, else of its parent's unit.
    fn start(&mut self, process: ProcessId, variables: &[u8], totals: &mut Totals) {
        let sent = self.groups.remove(&process);
        let group = cgroup(process).or(sent.map(|path| format!("0::{path}")));
        let is_known = group.is_some();
        let unit = attribution::unit(variables, &group.unwrap_or_default(), self.steps);
        if unit.kind == Kind::Unknown && !is_known {
            return;
        }
        let unit = totals.unit(&numbered(unit));
        self.set(process, unit, totals);
    }

    /// What /proc says; `None` where the process is gone.
    fn look(&mut self, process: ProcessId) -> Option<Unit> {
        let pid = process.pid;
        let environ = environment::of(pid).unwrap_or_else(|error| {
            if error.kind() == std::io::ErrorKind::PermissionDenied {
                self.refused += 1;
            }
            Vec::new()
        });
        let cgroup = cgroup(process)?;
        Some(numbered(attribution::unit(&environ, &cgroup, self.steps)))
    }
}

/// A Slurm job by its number, where only the prolog knows it.
fn numbered(unit: Unit) -> Unit {
    let Some(sluid) = unit.sluid() else {
        return unit;
    };
    match fs::read_link(Path::new(JOBS).join(sluid)) {
        Ok(number) => unit.numbered(&number.to_string_lossy()),
        Err(_) => unit,
    }
}

/// The text of a process's cgroups; `None` where it is gone.
fn cgroup(process: ProcessId) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).ok()?;
    // Looked at last: until here it was this process, and not another that got its pid.
    targets::is_there(process).then_some(text)
}
