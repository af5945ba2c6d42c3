//! From the service's model to the thread that writes logs: what each unit did in an interval.
//!
//! Nothing here waits. If the thread does not keep up, counts stay here by process, without their files, and the log says
//! of how many.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc::TrySendError},
    time::{Duration, Instant},
};

use iotrace_common::{key::FileId, rights::Rights};
use tokio::sync::oneshot;

use super::{Counts, LogEnd, Message, State, Writer, about::is_named};
use crate::{
    attribution::{self, Kind, Unit},
    config::{self, CommandLines},
    processes::Processes,
    sight::groups,
    socket::{protocol::Code, with_known_namespace},
    totals::{OTHER, Totals, UNKNOWN, UnitId},
};
use iotrace_model::{
    About, FailureCount, IoTotals, Model, PhaseSet, Process,
    counters::Counters,
    host,
    input::{Event, FileName, Place, ProcessId},
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

/// Processes of one log that are kept one by one between two flushes. Beyond, they are kept as [`OTHERS`].
pub const MAX_PROCESSES: usize = 20_000;
/// Stands for all processes that found no room.
pub const OTHERS: ProcessId = ProcessId { pid: 0, start: 0 };
/// An event is seen before the drain that has the counters of the time before it, or before the one after that.
const DRAINS_UNTIL_SETTLED: u8 = 2;
/// Different rights of one process within that time. One with more is nobody's to see.
const MAX_RIGHTS: usize = 8;
/// Processes that began within this time before the first counts of their unit began with it.
const START_WINDOW: Duration = Duration::from_secs(5);

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
    /// Whose it will be, if all processes of the unit stay this user's.
    pub candidate: Option<u32>,
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
    /// Who waits for the end.
    pub told: Vec<oneshot::Sender<Option<PathBuf>>>,
}

/// Whose a log will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Of(u32),
    /// A batch job's, whose user is not known yet.
    Batch,
    /// A container's or a service's, of which no process has been seen yet.
    Unseen,
    /// All processes until now were this user's.
    Only(u32),
    Root,
}

impl Owner {
    fn new(unit: &Unit) -> Self {
        match unit.owner {
            Some(user) => Self::Of(user),
            None if is_batch(Some(unit.kind)) => Self::Batch,
            None => Self::Unseen,
        }
    }

    /// The owner when a process of the unit has been seen.
    fn and(self, about: &About) -> Self {
        let user = about.uid.filter(|user| {
            let has_rights = about.rights.is_some();
            *user != 0 && has_rights && is_open_to(about, *user)
        });
        match (self, user) {
            (Self::Batch, _) => {
                let is_of_job = |uid: &u32| *uid != 0 || about.role.job.is_some();
                about.uid.filter(is_of_job).map_or(Self::Batch, Self::Of)
            }
            (Self::Unseen, Some(user)) => Self::Only(user),
            (Self::Only(user), Some(other)) if user == other => self,
            (Self::Unseen | Self::Only(_), _) => Self::Root,
            (Self::Of(_) | Self::Root, _) => self,
        }
    }

    /// Who will see the log; `None`: a user who is not known yet.
    fn reader(self) -> Option<u32> {
        match self {
            Self::Of(user) | Self::Only(user) => Some(user),
            Self::Batch => None,
            Self::Unseen | Self::Root => Some(0),
        }
    }

    /// Whether that reader may see what a process with these rights uses.
    fn may_see(self, rights: &Rights) -> bool {
        match self.reader() {
            Some(0) => true,
            Some(user) => are_open_to(rights, user),
            // It is not the job of those who start it.
            None => ![0, Rights::UNKNOWN.uid].contains(&rights.uid),
        }
    }

    /// Whether all processes of the unit matter.
    fn is_undecided(self) -> bool {
        matches!(self, Self::Unseen | Self::Only(_))
    }
}

/// A unit that is logged.
struct Logged {
    name: String,
    job: String,
    owner: Owner,
    /// Whether somebody wishes its end.
    is_to_end: bool,
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
    /// Units whose log begins with this interval.
    begun: Vec<UnitId>,
    /// When the last log of a unit ended.
    ended: HashMap<UnitId, i64>,
    wishes: Vec<LogEnd>,
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
            rights: HashMap::new(),
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

    /// Has the logs of a job ended with the next interval.
    pub fn end_log(&mut self, end: LogEnd) {
        self.wishes.push(end);
    }

    /// Takes what rights processes begin with. Counters that are drained together may be of the program before an exec and of
    /// the one after it.
    pub fn see(&mut self, event: &Event) {
        let (process, rights, is_exec) = match event {
            Event::Fork { child, rights, .. } => (*child, *rights, false),
            Event::Exec {
                process, rights, ..
            } => (*process, *rights, true),
            _ => return,
        };
        let known = self.known.get(&process);
        let was_open = known.is_some_and(|known| !known.is_private);
        let of_late = self.rights.entry(process).or_default();
        match of_late.last_mut() {
            // It had these until now.
            Some((_, drains)) => *drains = DRAINS_UNTIL_SETTLED,
            None if is_exec && !was_open => {
                of_late.push((Rights::UNKNOWN, DRAINS_UNTIL_SETTLED));
            }
            None => {}
        }
        if of_late.last().is_some_and(|(last, _)| *last == rights) {
            return;
        }
        if of_late.len() >= MAX_RIGHTS {
            *of_late = vec![(Rights::UNKNOWN, DRAINS_UNTIL_SETTLED)];
        }
        of_late.push((rights, DRAINS_UNTIL_SETTLED));
    }

    /// Takes one use of a file; comes before [`Feed::take`].
    pub fn span(
        &mut self,
        unit: UnitId,
        row: (ProcessId, FileId),
        number: u32,
        counters: &Counters,
    ) {
        // The log of a unit may begin with this interval.
        let may_be_logged = unit != UNKNOWN && unit != OTHER && !self.refused.contains(&unit);
        if self.spans.len() < MAX_ROWS && may_be_logged {
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
            let is_known = self.known.contains_key(&process.id) || self.decides(process, processes);
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
                self.process(unit, process);
            }
            units.insert(index, unit);
        }
        self.begin(model, processes, &units, unix);
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
            start_unix_ns: now.1,
        };
        let logged = Logged {
            name: about.name.clone(),
            job: about.job.clone(),
            owner: Owner::new(about),
            is_to_end: false,
            groups: Vec::new(),
            begun: now.0,
            active: now,
        };
        self.units.insert(unit, logged);
        self.note(unit).begin = Some(begin);
        self.begun.push(unit);
        true
    }

    /// Whether a process that has changed may decide whose a log is.
    fn decides(&self, process: &Process, processes: &Processes) -> bool {
        let unit = process
            .is_changed()
            .then(|| processes.known_unit(process.id));
        let logged = unit.flatten().and_then(|unit| self.units.get(&unit));
        logged.is_some_and(|logged| logged.owner.is_undecided())
    }

    /// Completes what is known of the units whose logs begin: when they began, and whose processes they have.
    fn begin(
        &mut self,
        model: &Model,
        processes: &Processes,
        units: &HashMap<u32, Option<UnitId>>,
        now: i64,
    ) {
        let begun = std::mem::take(&mut self.begun);
        if begun.is_empty() {
            return;
        }
        let window = i64::try_from(START_WINDOW.as_nanos()).unwrap_or(i64::MAX);
        let living = processes.all_living();
        for unit in begun {
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
            let Some(logged) = self.units.get_mut(&unit) else {
                continue;
            };
            for (pid, _) in living.iter().filter(|(_, of)| *of == unit) {
                // Those without counts, too.
                if logged.owner.is_undecided()
                    && let Some(mut about) = targets::identify(*pid)
                {
                    about.rights = about.rights.map(with_known_namespace);
                    logged.owner = logged.owner.and(&about);
                }
            }
        }
    }

    /// Takes who wishes the end of logs.
    fn take_wishes(&mut self) {
        for wish in std::mem::take(&mut self.wishes) {
            let named = self
                .units
                .iter()
                .filter(|(_, logged)| is_named(&wish.job, &logged.name, &logged.job));
            let named: Vec<(UnitId, Owner)> =
                named.map(|(unit, logged)| (*unit, logged.owner)).collect();
            if named.is_empty() {
                let message = format!(
                    "no log of job {} is being written: it has ended, or the job has used no file",
                    wish.job
                );
                wish.refuse(Code::Gone, &message);
                continue;
            }
            let is_root = wish.user == 0;
            let may_end = |owner: &Owner| is_root || *owner == Owner::Of(wish.user);
            let allowed = named.iter().filter(|(_, owner)| may_end(owner));
            let allowed: Vec<UnitId> = allowed.map(|(unit, _)| *unit).collect();
            if allowed.is_empty() {
                let message = format!(
                    "job {} is another user's: only root may end its log",
                    wish.job
                );
                wish.refuse(Code::Denied, &message);
                continue;
            }
            let mut ended = Vec::new();
            for unit in allowed {
                let (tell, told) = oneshot::channel();
                self.note(unit).told.push(tell);
                ended.push(told);
                if let Some(logged) = self.units.get_mut(&unit) {
                    logged.is_to_end = true;
                }
            }
            // Who wished it may have gone.
            let _ = wish.reply.send(Ok(ended));
        }
    }

    /// Takes who a process is, where the log does not know it yet.
    fn process(&mut self, unit: UnitId, process: &Process) {
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
        let owner = self.owner(unit, about, process.id.pid);
        let is_private = match owner.reader() {
            Some(0) => false,
            Some(user) => !is_open_to(about, user),
            // Whose job it is comes later; it is not that of those who start it.
            None => about.uid == Some(0),
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

    /// Whose log it will be: the owner of the unit, the user of a batch job's processes, or that of all processes.
    fn owner(&mut self, unit: UnitId, about: &About, pid: u32) -> Owner {
        let Some(logged) = self.units.get_mut(&unit) else {
            return Owner::Root;
        };
        logged.owner = logged.owner.and(about);
        let user = logged.owner.reader();
        if logged.groups.is_empty() && user.is_some() && about.uid == user {
            logged.groups = groups(pid);
            logged.groups.extend(about.rights.map(|rights| rights.gid));
        }
        logged.owner
    }

    /// Whether it is not told which files a process uses.
    fn is_private(&self, unit: UnitId, process: ProcessId) -> bool {
        let (Some(known), Some(logged)) = (self.known.get(&process), self.units.get(&unit)) else {
            return true;
        };
        let of_late = self.rights.get(&process).map_or(&[][..], Vec::as_slice);
        known.is_private
            || of_late
                .iter()
                .any(|(rights, _)| !logged.owner.may_see(rights))
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
            if idle >= END_AFTER || is_long || logged.is_to_end {
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
                (note.user, note.candidate) = match logged.owner {
                    Owner::Of(user) => (Some(user), None),
                    Owner::Only(user) => (None, Some(user)),
                    _ => (None, None),
                };
                note.groups.clone_from(&logged.groups);
            }
            if let Some(end) = note.end {
                ended.push((*unit, end));
            }
        }
        self.mounts.clear();
        self.named.clear();
        let notes = std::mem::take(&mut self.notes).into_values().collect();
        match self.writer.sender.try_send(Message::Notes(notes)) {
            Ok(()) => {
                for (unit, end) in ended {
                    self.units.remove(&unit);
                    self.ended.insert(unit, end);
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
        let tables = [
            self.processes.len(),
            self.overflow.len(),
            self.failures.len(),
            self.phases.len(),
        ];
        if tables.into_iter().any(|entries| entries > MAX_PROCESSES) {
            self.fold();
        }
        merged
    }

    /// Keeps what is merged as that of [`OTHERS`].
    fn fold(&mut self) {
        let unsent: HashSet<ProcessId> = self.processes.drain(..).map(|(id, _)| id).collect();
        self.gone.retain(|process| !unsent.contains(process));
        self.gone.truncate(MAX_PROCESSES);
        self.processes.push((OTHERS, others()));
        for (_, counters) in std::mem::take(&mut self.overflow) {
            self.add_overflow(OTHERS, counters);
        }
        let mut failures: HashMap<_, FailureCount> = HashMap::new();
        for (_, _, op, errno, count) in std::mem::take(&mut self.failures) {
            *failures.entry((op, errno)).or_default() += count;
        }
        let failures = failures.into_iter();
        self.failures = failures
            .map(|((op, errno), count)| (OTHERS, Place::Overflow, op, errno, count))
            .collect();
        let mut phases: HashMap<u16, IoTotals> = HashMap::new();
        for (_, phase, done) in std::mem::take(&mut self.phases) {
            phases.entry(phase).or_default().add(&done);
        }
        let phases = phases.into_iter();
        self.phases = phases.map(|(phase, done)| (OTHERS, phase, done)).collect();
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

/// What a log says of [`OTHERS`].
pub fn others() -> About {
    About {
        comm: b"others".to_vec(),
        ..About::default()
    }
}

/// Whether a user may see which files a process uses, by the rule of ptrace(2); by its user alone where no more is known.
fn is_open_to(about: &About, user: u32) -> bool {
    match &about.rights {
        Some(rights) => are_open_to(rights, user),
        None => about.uid == Some(user),
    }
}

fn are_open_to(rights: &Rights, user: u32) -> bool {
    // Of whichever of the user's groups the process is.
    rights.are_open_to(&Rights {
        gid: rights.gid,
        ..Rights::of_user(user)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uid: u32, rights: Rights) -> About {
        About {
            uid: Some(uid),
            rights: Some(rights),
            ..About::default()
        }
    }

    #[test]
    fn a_log_is_a_users_only_if_all_processes_are() {
        let user = |uid| of(uid, Rights::of_user(uid));
        let elevated = Rights {
            capabilities: 1,
            ..Rights::of_user(7)
        };
        let owner = |seen: &[About]| seen.iter().fold(Owner::Unseen, |owner, of| owner.and(of));
        assert_eq!(owner(&[user(7), user(7)]), Owner::Only(7));
        for seen in [
            [user(7), user(8)],
            [user(0), user(7)],
            [user(7), of(7, elevated)],
            [user(7), About::default()],
        ] {
            assert_eq!(owner(&seen), Owner::Root, "{seen:?}");
        }
        assert_eq!(Owner::Batch.and(&user(7)), Owner::Of(7));
        assert_eq!(Owner::Batch.and(&user(0)), Owner::Batch);
    }

    #[test]
    fn what_is_merged_is_bounded_by_processes_and_loses_no_count() {
        let mut note = Note::default();
        let count = MAX_PROCESSES as u32 + 5;
        for pid in 1..=count {
            let process = ProcessId { pid, start: 1 };
            note.processes.push((process, About::default()));
            let mut counters = Counters::ZERO;
            counters.v[iotrace_model::counters::BYTES_WRITTEN] = 3;
            note.add_overflow(process, counters);
        }
        note.merge();
        assert_eq!((note.processes.len(), note.overflow.len()), (1, 1));
        let bytes = IoTotals::of(&note.overflow[&OTHERS]).bytes_written;
        assert_eq!(bytes, 3 * u64::from(count));
    }
}
