//! Which unit each process belongs to: its parent's when it is forked, and what its environment and its cgroup say when
//! it execs. The kernel side sends both, so a process that lives for milliseconds is attributed too.

use std::{
    collections::HashMap,
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    attribution::{
        self, Unit,
        cgroup::{self, Place},
    },
    readers::{Found, Readers},
    subordinate::Subordinates,
    totals::{Totals, UNKNOWN, UnitId},
};
use iotrace_model::{
    environ::{self, Job},
    input::{Event, ProcessId},
    targets,
};

/// How long a process that has ended is remembered: its last counters come a drain later.
const KEEP_ENDED_FOR: Duration = Duration::from_secs(10);

/// How long an interval waits for environments that are being read.
const READ_AHEAD: Duration = Duration::from_millis(200);

/// Where `deploy/slurm/prolog` notes jobs: a link named by the SLUID, to the number.
const JOBS: &str = "/run/iotrace-jobs";

#[derive(Clone, Copy, Debug)]
struct Entry {
    unit: UnitId,
    /// The process, or its ancestor, whose environment is still being read.
    awaits: Option<ProcessId>,
    ended: Option<Instant>,
}

/// What is known of an exec whose environment comes next.
#[derive(Debug, Default)]
struct Start {
    uid: Option<u32>,
    group: Option<String>,
}

/// The units of processes.
#[derive(Debug, Default)]
pub struct Processes {
    by_id: HashMap<ProcessId, Entry>,
    /// Whether each step of a Slurm job is a unit of its own.
    steps: bool,
    starts: HashMap<ProcessId, Start>,
    readers: Readers,
    /// What was read of processes that have no unit yet.
    early: HashMap<ProcessId, Option<Job>>,
    subordinates: Subordinates,
    /// Processes whose environment could not be read for want of a privilege.
    refused: u64,
}

impl Processes {
    pub fn new(steps: bool) -> Self {
        Self {
            steps,
            subordinates: Subordinates::read(),
            ..Self::default()
        }
    }

    /// Number of processes remembered.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Reads of environments that were given up.
    pub fn reads_given_up(&self) -> u64 {
        self.readers.total_given_up()
    }

    /// Processes whose environment is not read again.
    pub fn stuck(&self) -> usize {
        self.readers.stuck()
    }

    /// Execs whose environment has not come yet.
    pub fn waiting(&self) -> usize {
        self.starts.len()
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
                let awaits = self.by_id.get(parent).and_then(|entry| entry.awaits);
                self.set(*child, unit, awaits, totals);
            }
            Event::Cgroup { process, path } => {
                self.starts.entry(*process).or_default().group = Some(path.clone());
            }
            Event::Exec {
                process, rights, ..
            } => {
                self.starts.entry(*process).or_default().uid = Some(rights.uid);
            }
            Event::Environment { process, variables } => {
                self.start(*process, variables, totals);
            }
            Event::Exit { process, .. } => {
                self.starts.remove(process);
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
        let unit = found
            .as_ref()
            .map_or(UNKNOWN, |(unit, _)| totals.unit(unit));
        let awaits = matches!(found, Some((_, true))).then_some(process);
        self.set(process, unit, awaits, totals);
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
                .is_none_or(|ended| now.saturating_duration_since(ended) < KEEP_ENDED_FOR);
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
            .filter(|(process, entry)| entry.ended.is_none() && !targets::is_running(**process))
            .map(|(process, _)| *process)
            .collect();
        for process in gone {
            self.ended(process);
        }
        // Those whose environment and end were dropped.
        self.starts
            .retain(|process, _| targets::is_running(*process));
        self.early.clear();
        self.readers.retain(targets::is_running);
        self.subordinates = Subordinates::read();
    }

    fn ended(&mut self, process: ProcessId) {
        if let Some(entry) = self.by_id.get_mut(&process) {
            entry.ended = Some(Instant::now());
        }
    }

    fn set(
        &mut self,
        process: ProcessId,
        unit: UnitId,
        awaits: Option<ProcessId>,
        totals: &mut Totals,
    ) {
        let ended = None;
        let entry = Entry {
            unit,
            awaits,
            ended,
        };
        let before = self.by_id.insert(process, entry);
        if before.is_none_or(|before| before.unit != unit) {
            totals.hold(unit);
            if let Some(before) = before {
                totals.release(before.unit);
            }
        }
    }

    /// Takes what a process starts with: its place is set by now. Of one that is gone the kernel side has said the place;
    /// if it did not, the process stays of its parent's unit.
    fn start(&mut self, process: ProcessId, variables: &[u8], totals: &mut Totals) {
        let start = self.starts.remove(&process).unwrap_or_default();
        let sent = start.group.map(|path| format!("0::{path}"));
        let Some(group) = targets::cgroups(process).or(sent) else {
            return;
        };
        let place = cgroup::place(&group);
        let uid = start.uid.or_else(|| uid_of(process.pid));
        let unit = self.decide(environ::job(variables), &place, uid);
        let unit = totals.unit(&unit);
        self.set(process, unit, None, totals);
    }

    /// What /proc says, and whether the process's environment is still to be read; `None` if the process is gone.
    fn look(&mut self, process: ProcessId) -> Option<(Unit, bool)> {
        let place = cgroup::place(&targets::cgroups(process)?);
        let read = self.early.remove(&process);
        let awaits = read.is_none() && place.needs_environment() && self.readers.ask(process);
        let unit = self.decide(read.flatten(), &place, uid_of(process.pid));
        Some((unit, awaits))
    }

    /// Has the environments of processes read that are not known yet, if their cgroup leaves something open, and waits for
    /// it for a moment. Reads can hang, so this is not to be done under a lock.
    pub fn read_ahead(&mut self, all: impl Iterator<Item = ProcessId>) {
        let unknown: Vec<ProcessId> = all.filter(|process| !self.knows(*process)).collect();
        for process in unknown {
            let group = targets::cgroups(process);
            if group.is_some_and(|group| cgroup::place(&group).needs_environment()) {
                self.readers.ask(process);
            }
        }
        for Found { process, job } in self.readers.wait(READ_AHEAD) {
            let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            self.refused += u64::from(job.as_ref().is_err_and(denied));
            self.early.insert(process, job.unwrap_or_default());
        }
    }

    /// Takes what has been read of processes that were given a unit before.
    pub fn take_read(&mut self, totals: &mut Totals) {
        let known = |process: &ProcessId| self.by_id.contains_key(process);
        let read: Vec<ProcessId> = self.early.keys().filter(|id| known(id)).copied().collect();
        let mut units = HashMap::new();
        for process in read {
            let job = self.early.remove(&process).flatten();
            let Some(group) = targets::cgroups(process) else {
                continue;
            };
            let unit = self.decide(job, &cgroup::place(&group), uid_of(process.pid));
            units.insert(process, totals.unit(&unit));
        }
        if units.is_empty() {
            return;
        }
        // The children that were forked meanwhile, too.
        let waiting = self.by_id.iter_mut().filter_map(|(_, entry)| {
            let unit = *units.get(&entry.awaits?)?;
            Some((entry, unit))
        });
        for (entry, unit) in waiting {
            entry.awaits = None;
            totals.hold(unit);
            totals.release(entry.unit);
            entry.unit = unit;
        }
    }

    fn decide(&self, claimed: Option<Job>, place: &Place, uid: Option<u32>) -> Unit {
        let uid = uid.map(|uid| self.subordinates.owner(uid));
        let unit = attribution::decide(claimed.as_ref(), place, uid, self.steps);
        numbered(unit).with_names(claimed.as_ref())
    }
}

/// The real user of a process.
fn uid_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
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
