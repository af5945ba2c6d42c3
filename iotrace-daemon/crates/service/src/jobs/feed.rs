//! From the service's model to the thread that writes logs: what each unit did in an interval.
//!
//! Nothing here waits. If the thread does not keep up, counts stay here by process, without their files, and the log says
//! of how many.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering::Relaxed, mpsc::TrySendError},
    time::{Duration, Instant},
};

use iotrace_common::{key::FileId, rights::Rights};

use super::{Counts, Message, State, Writer};
use crate::{
    attribution::{self, Kind, Unit},
    config::{self, CommandLines},
    processes::Processes,
    sight::groups,
    totals::{OTHER, Totals, UNKNOWN, UnitId},
};
use iotrace_model::{
    About, FailureCount, IoTotals, Model, PhaseSet, Process,
    counters::Counters,
    host,
    input::{FileName, Place, ProcessId},
    mounts::Mount,
    run::Run,
    targets,
};

/// A unit has ended when it has had no process and no count for this long: the last counts come a drain later.
const END_AFTER: Duration = Duration::from_secs(3);
/// Processes x files of one interval that are sent with their files.
const MAX_ROWS: usize = 32_768;
/// A log that lasts longer is ended, and goes on in another.
const MAX_DURATION: Duration = Duration::from_secs(86_400);

/// What begins a log.
pub struct Begin {
    pub unit: Unit,
    pub start_unix_ns: i64,
}

/// What one unit did.
#[derive(Default)]
pub struct Note {
    pub unit: UnitId,
    pub begin: Option<Begin>,
    pub user: Option<u32>,
    /// The user's.
    pub groups: Vec<u32>,
    pub processes: Vec<(ProcessId, About)>,
    pub mounts: Vec<Mount>,
    pub names: Vec<(FileName, Option<Vec<u8>>, PhaseSet)>,
    pub counts: Vec<(ProcessId, Place, Counters)>,
    /// Counts without their file.
    pub overflow: HashMap<ProcessId, Counters>,
    pub spans: Vec<(ProcessId, FileId, u32, Counters)>,
    pub failures: Vec<(ProcessId, Place, u32, u32, FailureCount)>,
    pub phases: Vec<(ProcessId, u16, IoTotals)>,
    /// Processes that no more counts come of.
    pub gone: Vec<ProcessId>,
    /// How many of `overflow` had a file.
    pub merged: u64,
    /// Nanoseconds since the Unix epoch.
    pub now: i64,
    pub end: Option<i64>,
}

/// A unit that is logged.
struct Logged {
    user: Option<u32>,
    /// Groups of the first process of the user.
    groups: Vec<u32>,
    begun: Instant,
    /// When it last had a process or a count.
    active: (Instant, i64),
}

/// What the thread knows of a process.
struct Known {
    unit: UnitId,
    is_private: bool,
    /// What /proc says, where no event has.
    found: Option<About>,
}

/// Feeds the logs.
pub struct Feed {
    config: config::Jobs,
    run: Run,
    counts: Arc<Counts>,
    writer: Writer,
    units: HashMap<UnitId, Logged>,
    /// Units that found no room.
    refused: HashSet<UnitId>,
    known: HashMap<ProcessId, Known>,
    notes: HashMap<UnitId, Note>,
    /// Mounts that are in the notes, by unit.
    mounts: HashSet<(UnitId, Mount)>,
    /// Files that are in the notes, by unit.
    named: HashSet<(UnitId, FileId)>,
    /// The unit of the service itself, which is not logged.
    own: Unit,
    rows: usize,
    spans: Vec<(UnitId, ProcessId, FileId, u32, Counters)>,
}

impl Feed {
    pub(super) fn new(
        config: &config::Jobs,
        run: Run,
        counts: Arc<Counts>,
        writer: Writer,
    ) -> Self {
        Self {
            config: config.clone(),
            run,
            counts,
            writer,
            units: HashMap::new(),
            refused: HashSet::new(),
            known: HashMap::new(),
            notes: HashMap::new(),
            mounts: HashSet::new(),
            named: HashSet::new(),
            own: own_unit(),
            rows: 0,
            spans: Vec::new(),
        }
    }

    /// The state of the logs.
    pub fn state(&self) -> State {
        self.counts.state()
    }

    /// Takes one use of a file; comes before [`Feed::take`].
    pub fn span(
        &mut self,
        unit: UnitId,
        row: (ProcessId, FileId),
        number: u32,
        counters: &Counters,
    ) {
        if self.spans.len() < MAX_ROWS && self.units.contains_key(&unit) {
            self.spans
                .push((unit, row.0, row.1, number, counters.clone()));
        }
    }

    /// Takes the interval of the model, before it is settled.
    pub fn take(&mut self, model: &Model, processes: &Processes, totals: &Totals, now: Instant) {
        let unix = host::realtime().unwrap_or(0);
        self.rows = 0;
        self.forget(processes);
        // Processes with counts, by index.
        let mut units: HashMap<u32, Option<UnitId>> = HashMap::new();
        let counted = model.dirty_rows().map(|row| row.process);
        let failed = model.failures().interval().map(|(key, _)| key.process);
        let others = (0..).zip(model.processes()).filter(|(_, process)| {
            let is_known = self.known.contains_key(&process.id);
            !process.path_only.is_settled()
                || !process.overflow.is_settled()
                || process.phases.interval().next().is_some()
                || is_known && process.is_changed()
        });
        let others = others.map(|(index, _)| index);
        let all: HashSet<u32> = counted.chain(failed).chain(others).collect();
        for index in all {
            let process = &model.processes()[index as usize];
            let unit = processes.known_unit(process.id);
            let unit = unit.filter(|unit| self.is_logged(*unit, totals, (now, unix)));
            if let Some(unit) = unit {
                self.process(unit, process, totals);
            }
            units.insert(index, unit);
        }
        let unit_of = |index: u32| units.get(&index).copied().flatten();
        for row in model.dirty_rows() {
            if let Some(unit) = unit_of(row.process) {
                let process = model.processes()[row.process as usize].id;
                self.count_file(unit, process, (model, row.file), row.cell.interval());
            }
        }
        for (index, process) in (0..).zip(model.processes()) {
            let Some(unit) = unit_of(index) else { continue };
            let note = self.note(unit);
            if !process.path_only.is_settled() {
                let counters = process.path_only.interval();
                note.counts.push((process.id, Place::PathOnly, counters));
            }
            if !process.overflow.is_settled() {
                note.add_overflow(process.id, process.overflow.interval());
            }
            let phases = process.phases.interval();
            note.phases
                .extend(phases.map(|(phase, done)| (process.id, phase, *done)));
        }
        for (key, count) in model.failures().interval() {
            let Some(unit) = unit_of(key.process) else {
                continue;
            };
            let process = model.processes()[key.process as usize].id;
            let place = key.place.map(|file| model.file(file).id);
            let is_named = !self.is_private(process) && self.rows < MAX_ROWS;
            let place = match place {
                Place::File(_) if !is_named => Place::Overflow,
                place => place,
            };
            if let (Place::File(_), Place::File(index)) = (place, key.place) {
                self.name(unit, model, index);
            }
            self.note(unit)
                .failures
                .push((process, place, key.op, key.errno, count));
        }
        for (unit, process, file, number, counters) in std::mem::take(&mut self.spans) {
            let is_named = self.named.contains(&(unit, file));
            if is_named && !self.is_private(process) {
                self.note(unit)
                    .spans
                    .push((process, file, number, counters));
            }
        }
        self.end_units(processes, (now, unix));
        self.send(unix);
    }

    /// Ends all logs.
    pub fn end(mut self) {
        let now = host::realtime().unwrap_or(0);
        self.send(now);
        self.writer.end(now);
    }

    /// Whether a unit has a log, which may begin now.
    fn is_logged(&mut self, unit: UnitId, totals: &Totals, now: (Instant, i64)) -> bool {
        if let Some(logged) = self.units.get_mut(&unit) {
            logged.active = now;
            return true;
        }
        if unit == UNKNOWN || unit == OTHER {
            return false;
        }
        let Some(about) = totals.units().get(unit) else {
            return false;
        };
        let is_own = about.kind == Kind::Systemd && about.name == self.own.name;
        if about.kind == Kind::Other || is_own {
            return false;
        }
        if self.units.len() >= self.config.max_open {
            if self.refused.insert(unit) {
                self.counts.not_logged.fetch_add(1, Relaxed);
            }
            return false;
        }
        let begin = Begin {
            unit: about.clone(),
            start_unix_ns: (now.1 - 1_000_000_000).max(self.run.start_unix_ns),
        };
        let logged = Logged {
            user: about.owner,
            groups: Vec::new(),
            begun: now.0,
            active: now,
        };
        self.units.insert(unit, logged);
        self.note(unit).begin = Some(begin);
        true
    }

    /// Takes who a process is, where the log does not know it yet.
    fn process(&mut self, unit: UnitId, process: &Process, totals: &Totals) {
        let known = self.known.get(&process.id);
        let is_known = known.is_some_and(|known| known.unit == unit);
        if is_known && !process.is_changed() {
            return;
        }
        let mut found = known.and_then(|known| known.found.clone());
        if process.about.uid.is_none() && found.is_none() {
            let about = targets::identify(process.id.pid);
            found = about.filter(|about| targets::is_of(about, process.id));
        }
        let about = match &found {
            Some(found) if process.about.uid.is_none() => found,
            _ => &process.about,
        };
        let kind = totals.units().get(unit).map(|unit| unit.kind);
        let user = self.user(unit, kind, about, process.id.pid);
        let is_private = match user {
            Some(0) => false,
            Some(user) => !is_open_to(about, user),
            // Whose job it is comes later; it is not that of those who start it.
            None => is_batch(kind) && about.uid == Some(0),
        };
        let mut about = about.clone();
        about.end = process.about.end;
        about.status = process.about.status;
        if is_private || self.config.command_lines != CommandLines::Full {
            about.args = Vec::new();
        }
        if is_private || self.config.command_lines == CommandLines::None {
            about.exe = Vec::new();
        }
        self.note(unit).processes.push((process.id, about));
        let known = Known {
            unit,
            is_private,
            found,
        };
        self.known.insert(process.id, known);
    }

    /// Whose log it will be: the owner of the unit, or the user of a batch job's processes.
    fn user(&mut self, unit: UnitId, kind: Option<Kind>, about: &About, pid: u32) -> Option<u32> {
        let logged = self.units.get_mut(&unit)?;
        if logged.user.is_none() && is_batch(kind) {
            let is_of_job = |uid: &u32| *uid != 0 || about.role.job.is_some();
            logged.user = about.uid.filter(is_of_job);
        }
        if logged.groups.is_empty() && logged.user.is_some() && about.uid == logged.user {
            logged.groups = groups(pid);
            logged.groups.extend(about.rights.map(|rights| rights.gid));
        }
        logged.user
    }

    fn is_private(&self, process: ProcessId) -> bool {
        let known = self.known.get(&process);
        known.is_none_or(|known| known.is_private)
    }

    fn count_file(
        &mut self,
        unit: UnitId,
        process: ProcessId,
        (model, index): (&Model, u32),
        counters: Counters,
    ) {
        if self.is_private(process) {
            self.note(unit).add_overflow(process, counters);
            return;
        }
        if self.rows >= MAX_ROWS {
            let note = self.note(unit);
            note.add_overflow(process, counters);
            note.merged += 1;
            self.counts.merged.fetch_add(1, Relaxed);
            return;
        }
        self.rows += 1;
        self.name(unit, model, index);
        let place = Place::File(model.file(index).id);
        self.note(unit).counts.push((process, place, counters));
    }

    fn name(&mut self, unit: UnitId, model: &Model, index: u32) {
        let file = model.file(index);
        if !self.named.insert((unit, file.id)) {
            return;
        }
        if let Some(mount) = model.mount_record(&file)
            && self.mounts.insert((unit, mount.clone()))
        {
            self.note(unit).mounts.push(mount.clone());
        }
        let opened_as = file.opened_as.map(<[u8]>::to_vec);
        let name = (file.name(), opened_as, file.phases);
        self.note(unit).names.push(name);
    }

    fn note(&mut self, unit: UnitId) -> &mut Note {
        self.notes.entry(unit).or_insert_with(|| Note {
            unit,
            ..Note::default()
        })
    }

    /// Forgets processes that are gone.
    fn forget(&mut self, processes: &Processes) {
        let gone = self.known.iter().filter(|(id, _)| !processes.knows(**id));
        let gone: Vec<(ProcessId, UnitId)> = gone.map(|(id, known)| (*id, known.unit)).collect();
        for (process, unit) in gone {
            self.known.remove(&process);
            if self.units.contains_key(&unit) {
                self.note(unit).gone.push(process);
            }
        }
    }

    /// Ends the logs of units without a process, and those that have lasted for long.
    fn end_units(&mut self, processes: &Processes, now: (Instant, i64)) {
        let living = processes.all_living().into_iter();
        let living: HashSet<UnitId> = living.map(|(_, unit)| unit).collect();
        let mut ended = Vec::new();
        for (unit, logged) in &mut self.units {
            if living.contains(unit) {
                logged.active = now;
            }
            let idle = now.0.saturating_duration_since(logged.active.0);
            let is_long = now.0.saturating_duration_since(logged.begun) >= MAX_DURATION;
            if idle >= END_AFTER || is_long {
                ended.push((*unit, logged.active.1));
            }
        }
        self.refused.retain(|unit| living.contains(unit));
        for (unit, end) in ended {
            self.note(unit).end = Some(end);
        }
    }

    /// Sends the notes. If the thread does not keep up, they stay, without files.
    fn send(&mut self, unix: i64) {
        if self.notes.is_empty() {
            return;
        }
        let mut ended = Vec::new();
        for (unit, note) in &mut self.notes {
            note.now = unix;
            if let Some(logged) = self.units.get(unit) {
                note.user = logged.user;
                note.groups.clone_from(&logged.groups);
            }
            if note.end.is_some() {
                ended.push(*unit);
            }
        }
        self.mounts.clear();
        self.named.clear();
        let notes = std::mem::take(&mut self.notes).into_values().collect();
        match self.writer.sender.try_send(Message::Notes(notes)) {
            Ok(()) => {
                for unit in ended {
                    self.units.remove(&unit);
                    self.known.retain(|_, known| known.unit != unit);
                }
            }
            Err(TrySendError::Full(Message::Notes(notes))) => {
                for mut note in notes {
                    let merged = note.merge();
                    self.counts.merged.fetch_add(merged, Relaxed);
                    // It is said again when it can be sent.
                    note.end = None;
                    self.notes.insert(note.unit, note);
                }
            }
            // The thread has ended by a panic, which was reported.
            Err(_) => {}
        }
    }
}

impl Note {
    fn add_overflow(&mut self, process: ProcessId, mut counters: Counters) {
        if let Some(before) = self.overflow.get(&process) {
            counters.absorb(before);
        }
        self.overflow.insert(process, counters);
    }

    /// Leaves the files out of what is here; of how many counts.
    fn merge(&mut self) -> u64 {
        let mut merged = 0;
        for (process, place, counters) in std::mem::take(&mut self.counts) {
            merged += u64::from(matches!(place, Place::File(_)));
            self.add_overflow(process, counters);
        }
        let mut failures: HashMap<_, FailureCount> = HashMap::new();
        for (process, _, op, errno, count) in std::mem::take(&mut self.failures) {
            *failures.entry((process, op, errno)).or_default() += count;
        }
        self.failures = failures
            .into_iter()
            .map(|((process, op, errno), count)| (process, Place::Overflow, op, errno, count))
            .collect();
        let mut phases: HashMap<_, IoTotals> = HashMap::new();
        for (process, phase, done) in std::mem::take(&mut self.phases) {
            phases.entry((process, phase)).or_default().add(&done);
        }
        let phases = phases.into_iter();
        self.phases = phases
            .map(|((process, phase), done)| (process, phase, done))
            .collect();
        let processes: HashMap<_, _> = std::mem::take(&mut self.processes).into_iter().collect();
        self.processes = processes.into_iter().collect();
        self.names = Vec::new();
        self.mounts = Vec::new();
        self.spans = Vec::new();
        self.merged += merged;
        merged
    }
}

/// The unit that the service runs in.
fn own_unit() -> Unit {
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    attribution::unit(&[], &group, false)
}

fn is_batch(kind: Option<Kind>) -> bool {
    use Kind::{Flux, Lsf, Pbs, Slurm};
    matches!(kind, Some(Slurm | Pbs | Lsf | Flux))
}

/// Whether a user may see which files a process uses, by the rule of ptrace(2); by its user alone where no more is known.
fn is_open_to(about: &About, user: u32) -> bool {
    match &about.rights {
        Some(rights) => {
            // Of whichever of the user's groups the process is.
            let gid = rights.gid;
            rights.are_open_to(&Rights {
                gid,
                ..Rights::of_user(user)
            })
        }
        None => about.uid == Some(user),
    }
}
