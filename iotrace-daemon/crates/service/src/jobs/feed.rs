//! From the service's model to the thread that writes logs: what each unit did in an interval.
//!
//! `standings` decides whose the logs are, `ends` ends and sends them. Nothing here waits. If the thread does not keep up,
//! counts stay here by process, without their files, and the log says of how many.

mod ends;
mod standings;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use iotrace_common::{key::FileId, rights::Rights};
use tokio::sync::oneshot;

use super::{
    Counts, LogEnd, State, Writer,
    note::{Begin, End, Note},
    owner::{Owner, Standing},
};
use crate::{
    attribution::{self, Kind, Unit},
    config::{self, CommandLines},
    processes::Processes,
    sight::groups,
    totals::{OTHER, Totals, UNKNOWN, UnitId},
};
use iotrace_model::{
    About, Model, Process,
    counters::Counters,
    host,
    input::{Place, ProcessId},
    latencies::{Histogram, Operations},
    mounts::Mount,
    run::Run,
    targets,
    waits::Waited,
};

/// Processes x files of one interval that are sent with their files.
const MAX_ROWS: usize = 32_768;

/// Processes that began within this time before the first counts of their unit began with it.
const START_WINDOW: Duration = Duration::from_secs(5);

/// A unit that is logged.
struct Logged {
    name: String,
    job: String,
    owner: Owner,
    /// Whether a process of root's may yet turn out to be a user's.
    awaits: bool,
    /// Who wishes its end.
    told: Vec<oneshot::Sender<Option<PathBuf>>>,
    /// Groups of the first process of the user.
    groups: Vec<u32>,
    begun: Instant,
    /// When it last had a process or a count.
    active: (Instant, i64),
}

/// A log that has got its last counts. It ends a drain later: until then an event may come that says of which rights those
/// were.
struct Closing {
    unit: UnitId,
    owner: Owner,
    end: End,
    told: Vec<oneshot::Sender<Option<PathBuf>>>,
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
    /// Units whose log begins with this interval.
    begun: Vec<UnitId>,
    /// When the last log of a unit ended.
    ended: HashMap<UnitId, i64>,
    wishes: Vec<LogEnd>,
    closing: Vec<Closing>,
    standings: HashMap<ProcessId, Standing>,
    /// Events that were lost, and for how many drains there may be counts of what they would have said.
    lost: (u64, u8),
    known: HashMap<ProcessId, Known>,
    /// Rights that processes had of late, and for how many drains there may be counts of that time.
    rights: HashMap<ProcessId, Vec<(Rights, u8)>>,
    notes: HashMap<UnitId, Note>,
    /// Mounts that are in the notes, by unit.
    mounts: HashSet<(UnitId, Mount)>,
    /// Files that are in the notes, by unit.
    named: HashSet<(UnitId, FileId)>,
    /// The unit of the service itself, which is not logged.
    own: Unit,
    rows: usize,
    spans: Vec<(UnitId, ProcessId, FileId, u32, Counters)>,
    waits: Vec<(UnitId, Waited)>,
    latencies: Vec<(UnitId, ProcessId, Operations, Histogram)>,
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
            begun: Vec::new(),
            ended: HashMap::new(),
            wishes: Vec::new(),
            closing: Vec::new(),
            standings: HashMap::new(),
            lost: (0, 0),
            rights: HashMap::new(),
            known: HashMap::new(),
            notes: HashMap::new(),
            mounts: HashSet::new(),
            named: HashSet::new(),
            own: own_unit(),
            rows: 0,
            spans: Vec::new(),
            waits: Vec::new(),
            latencies: Vec::new(),
        }
    }

    /// The state of the logs.
    pub fn state(&self) -> State {
        self.counts.state()
    }

    /// Has the logs of a job ended with the next interval.
    pub fn end_log(&mut self, end: LogEnd) {
        self.wishes.push(end);
    }

    /// Takes one use of a file; comes before [`Feed::take`].
    pub fn span(
        &mut self,
        unit: UnitId,
        row: (ProcessId, FileId),
        number: u32,
        counters: &Counters,
    ) {
        if self.spans.len() < MAX_ROWS && self.may_be_logged(unit) {
            self.spans
                .push((unit, row.0, row.1, number, counters.clone()));
        }
    }

    /// Takes what the main thread of a process waited for; comes before [`Feed::take`].
    pub fn waited(&mut self, unit: UnitId, waited: Waited) {
        if self.waits.len() < MAX_ROWS && self.may_be_logged(unit) {
            self.waits.push((unit, waited));
        }
    }

    /// Takes how long operations of a process took; comes before [`Feed::take`].
    pub fn latencies(&mut self, unit: UnitId, process: ProcessId, of: Operations, done: Histogram) {
        if self.config.latencies && self.may_be_logged(unit) {
            self.latencies.push((unit, process, of, done));
        }
    }

    /// Whether a unit has a log, or may get one with this interval.
    fn may_be_logged(&self, unit: UnitId) -> bool {
        unit != UNKNOWN && unit != OTHER && !self.refused.contains(&unit)
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
            let unit = unit.filter(|unit| !self.is_left_out(*unit, process, totals));
            let unit = unit.filter(|unit| self.is_logged(*unit, totals, (now, unix)));
            units.insert(index, unit);
        }
        self.settle();
        for (index, unit) in &units {
            if let Some(unit) = unit {
                self.process(*unit, &model.processes()[*index as usize]);
            }
        }
        self.begin(model, &units, unix);
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
            let is_named = !self.is_private(unit, process) && self.rows < MAX_ROWS;
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
            if is_named && !self.is_private(unit, process) {
                self.note(unit)
                    .spans
                    .push((process, file, number, counters));
            }
        }
        for (unit, mut waited) in std::mem::take(&mut self.waits) {
            if !self.known.contains_key(&waited.process) {
                continue;
            }
            let is_named = |file: &FileId| self.named.contains(&(unit, *file));
            let is_private = self.is_private(unit, waited.process);
            waited.file = waited.file.filter(|file| is_named(file) && !is_private);
            self.note(unit).waits.push(waited);
        }
        for (unit, process, of, done) in std::mem::take(&mut self.latencies) {
            self.time(unit, process, model, of, &done);
        }
        self.take_wishes();
        self.end_units(processes, (now, unix));
        self.send(unix);
        self.ended
            .retain(|unit, _| totals.units().get(*unit).is_some());
        self.rights.retain(|_, of_late| {
            of_late.iter_mut().for_each(|(_, drains)| *drains -= 1);
            of_late.retain(|(_, drains)| *drains > 0);
            !of_late.is_empty()
        });
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
            start_unix_ns: now.1,
        };
        let logged = Logged {
            name: about.name.clone(),
            job: about.job.clone(),
            owner: Owner::new(about),
            awaits: false,
            told: Vec::new(),
            groups: Vec::new(),
            begun: now.0,
            active: now,
        };
        self.units.insert(unit, logged);
        self.note(unit).begin = Some(begin);
        self.begun.push(unit);
        true
    }

    /// Finds when the units began whose logs begin.
    fn begin(&mut self, model: &Model, units: &HashMap<u32, Option<UnitId>>, now: i64) {
        let window = i64::try_from(START_WINDOW.as_nanos()).unwrap_or(i64::MAX);
        for unit in std::mem::take(&mut self.begun) {
            let of_unit = units.iter().filter(|(_, of)| **of == Some(unit));
            let starts = of_unit.map(|(index, _)| {
                let about = &model.processes()[*index as usize].about;
                self.run.clock.unix_ns_of_boottime(about.start_boottime)
            });
            // Not that of a process that has done other things before.
            let start = starts.filter(|start| now - start <= window).min();
            let start = start.unwrap_or(now).min(now - 1_000_000_000);
            let last = self.ended.get(&unit).copied().unwrap_or(i64::MIN);
            let start = start.max(self.run.start_unix_ns).max(last);
            if let Some(begin) = &mut self.note(unit).begin {
                begin.start_unix_ns = start;
            }
        }
    }

    /// Takes who a process is, where the log does not know it yet.
    fn process(&mut self, unit: UnitId, process: &Process) {
        if let Some(logged) = self.units.get_mut(&unit)
            && process.about.uid == Some(0)
            && process.about.role.job.is_some()
        {
            logged.owner.take_root_of_batch_job();
        }
        let is_private = !self.may_name(unit, process.id);
        let known = self.known.get(&process.id);
        let is_known =
            known.is_some_and(|known| (known.unit, known.is_private) == (unit, is_private));
        if is_known && !process.is_changed() {
            return;
        }
        let mut found = known.and_then(|known| known.found.clone());
        if process.about.uid.is_none() && found.is_none() {
            let about = targets::identify(process.id.pid);
            found = about.filter(|about| targets::is_of(about, process.id));
        }
        let mut about = match &found {
            Some(found) if process.about.uid.is_none() => found.clone(),
            _ => process.about.clone(),
        };
        self.find_groups(unit, &about, process.id.pid);
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

    /// Takes the groups of the log's user from the first process.
    fn find_groups(&mut self, unit: UnitId, about: &About, pid: u32) {
        if let Some(logged) = self.units.get_mut(&unit)
            && let Some(user) = logged.owner.user()
            && logged.groups.is_empty()
            && about.uid == Some(user)
        {
            logged.groups = groups(pid);
            logged.groups.extend(about.rights.map(|rights| rights.gid));
        }
    }

    fn count_file(
        &mut self,
        unit: UnitId,
        process: ProcessId,
        (model, index): (&Model, u32),
        counters: Counters,
    ) {
        if self.is_private(unit, process) {
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
        if let Some(mount) = model.mount_record(&file) {
            self.mount(unit, mount);
        }
        let opened_as = file.opened_as.map(<[u8]>::to_vec);
        let name = (file.name(), opened_as, file.phases);
        self.note(unit).names.push(name);
    }

    /// Takes how long operations of a process took that the unit's log has.
    fn time(
        &mut self,
        unit: UnitId,
        process: ProcessId,
        model: &Model,
        of: Operations,
        done: &Histogram,
    ) {
        let known = self.known.get(&process);
        if known.is_none_or(|known| known.unit != unit) {
            return;
        }
        if let Some(mount) = model.mount_of_device(0, of.device)
            && !self.is_private(unit, process)
        {
            self.mount(unit, mount);
        }
        let latencies = &mut self.note(unit).latencies;
        latencies.entry((process, of)).or_default().absorb(done);
    }

    /// Has the log know a mount.
    fn mount(&mut self, unit: UnitId, mount: &Mount) {
        if self.mounts.insert((unit, mount.clone())) {
            self.note(unit).mounts.push(mount.clone());
        }
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
        self.standings
            .retain(|process, _| processes.knows(*process));
        for (process, unit) in gone {
            self.known.remove(&process);
            if self.units.contains_key(&unit) {
                self.note(unit).gone.push(process);
            }
        }
    }
}

/// The unit that the service runs in.
fn own_unit() -> Unit {
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    attribution::unit(&[], &group, false)
}
