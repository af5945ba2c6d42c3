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

use iotrace_common::{diag, key::FileId, rights::Rights};
use tokio::sync::oneshot;

use super::{
    Counts, LogEnd, Message, State, Writer,
    about::is_named,
    owner::{self, Owner, Standing},
};
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
    counters::{Counters, saturating_add, saturating_sum},
    host,
    input::{Event, FileName, Place, ProcessId},
    latencies::{Histogram, Operations},
    mounts::Mount,
    run::Run,
    targets,
    waits::Waited,
};
use iotrace_tracer::kernel::{Losses, hooks::Purpose};

/// A unit has ended when it has had no process and no count for this long: the last counts come a drain later.
const END_AFTER: Duration = Duration::from_secs(3);
/// Processes x files of one interval that are sent with their files.
const MAX_ROWS: usize = 32_768;
/// A log that lasts longer is ended, and goes on in another.
const MAX_DURATION: Duration = Duration::from_secs(86_400);

/// Processes of one log that are kept one by one between two flushes. Beyond, they are kept as [`OTHERS`].
pub const MAX_PROCESSES: usize = 20_000;
/// All processes that found no room.
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
    /// Whose it is if it ends now; none: root's.
    pub user: Option<u32>,
    /// Whose it will be, unless a process makes it root's.
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
    pub waits: Vec<Waited>,
    pub latencies: HashMap<(ProcessId, Operations), Histogram>,
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
    end: i64,
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

    /// Takes what was lost until now. What lost events would have said of the rights of processes is not known.
    pub fn set_losses(&mut self, losses: &Losses, damaged: u64) {
        let dropped = diag::NAMES[diag::EVENTS_DROPPED as usize];
        let skipped = diag::MISSES[Purpose::Processes as usize].0;
        let counts = [dropped, skipped].map(|reason| losses.get(reason).copied().unwrap_or(0));
        let lost = saturating_sum(counts).saturating_add(damaged);
        if lost > self.lost.0 {
            self.lost = (lost, DRAINS_UNTIL_SETTLED);
            // Where they are needed, /proc says them again.
            self.standings.clear();
        }
    }

    /// Takes what rights processes begin with; comes after the units know the event.
    pub fn see(&mut self, event: &Event, processes: &Processes) {
        match event {
            Event::Fork { child, rights, .. } => self.begins(*child, *rights, false, processes),
            Event::Exec {
                process, rights, ..
            } => self.begins(*process, *rights, true, processes),
            // It has the process's unit from now on.
            Event::Environment { process, .. } => {
                if let Some(unit) = processes.known_unit(*process) {
                    self.follow(unit, *process);
                }
            }
            Event::Exit { process, .. } => {
                if let Some(standing) = self.standings.get_mut(process) {
                    *standing = standing.settled();
                    let standing = *standing;
                    self.judge(&standing);
                }
            }
            _ => {}
        }
    }

    fn begins(&mut self, process: ProcessId, rights: Rights, is_exec: bool, processes: &Processes) {
        self.take_rights(process, rights, is_exec);
        let unit = processes.known_unit(process).unwrap_or(UNKNOWN);
        let standing = match self.standings.get(&process) {
            Some(standing) => standing.then(unit, rights),
            None => Standing::new(unit, rights, false),
        };
        self.standings.insert(process, standing);
        self.judge(&standing);
    }

    /// Lets a process decide whose the logs of its unit are: the one that is written, and one that has its last counts.
    fn judge(&mut self, standing: &Standing) {
        if let Some(logged) = self.units.get_mut(&standing.unit) {
            logged.owner.take(standing);
        }
        let closing = self.closing.iter_mut();
        for closing in closing.filter(|closing| closing.unit == standing.unit) {
            closing.owner.take(standing);
        }
    }

    /// Takes that a process is of a unit.
    fn follow(&mut self, unit: UnitId, process: ProcessId) {
        if let Some(standing) = self.standings.get_mut(&process)
            && standing.unit != unit
        {
            *standing = standing.moved(unit);
            let standing = *standing;
            self.judge(&standing);
        }
    }

    /// What a process is in its unit; from /proc, where no event has said it.
    fn standing(&mut self, unit: UnitId, process: &Process) -> Standing {
        self.follow(unit, process.id);
        if let Some(standing) = self.standings.get(&process.id) {
            return *standing;
        }
        // Looked at last: until here it was this process, and not another that got its pid.
        let about = targets::identify(process.id.pid);
        let about = about.filter(|_| targets::is_running(process.id));
        let rights = about.as_ref().and_then(|about| about.rights);
        let rights = rights.map_or(Rights::UNKNOWN, with_known_namespace);
        let mut standing = Standing::new(unit, rights, true);
        let start = about.map_or(i64::MAX, |about| {
            self.run.clock.unix_ns_of_boottime(about.start_boottime)
        });
        if start < self.run.start_unix_ns {
            // It was there before the service.
            standing = standing.settled();
        }
        self.standings.insert(process.id, standing);
        self.judge(&standing);
        standing
    }

    /// Whether a unit's log has nothing of a process, because it is root's.
    fn is_left_out(&mut self, unit: UnitId, process: &Process, totals: &Totals) -> bool {
        let standing = self.standing(unit, process);
        let owner = match self.units.get(&unit) {
            Some(logged) => logged.owner,
            None => match totals.units().get(unit) {
                Some(unit) => Owner::new(unit),
                None => return false,
            },
        };
        // The job is root's own where the process is of it.
        let is_of_job = process.about.role.job.is_some() && owner.user().is_none();
        standing.state == owner::State::Root && owner.leaves_root_out() && !is_of_job
    }

    /// Settles whose the logs are at the end of an interval: root's processes have had the time to begin programs of users.
    fn settle(&mut self) {
        for logged in self.units.values_mut() {
            logged.awaits = false;
        }
        for standing in self.standings.values_mut() {
            *standing = standing.aged();
            if let Some(logged) = self.units.get_mut(&standing.unit) {
                logged.owner.take(standing);
                logged.awaits |= logged.owner.awaits(standing);
            }
        }
        if self.lost.1 > 0 {
            self.lost.1 -= 1;
            let open = self.units.values_mut().map(|logged| &mut logged.owner);
            let closing = self.closing.iter_mut().map(|closing| &mut closing.owner);
            open.chain(closing).for_each(Owner::give_to_root);
        }
    }

    /// Takes with which rights a process goes on. Counters that are drained together may be of the program before an exec and
    /// of the one after it.
    fn take_rights(&mut self, process: ProcessId, rights: Rights, is_exec: bool) {
        let known = self.standings.get(&process);
        let was_users = known.is_some_and(|known| matches!(known.state, owner::State::Of { .. }));
        let of_late = self.rights.entry(process).or_default();
        match of_late.last_mut() {
            // It had these until now.
            Some((_, drains)) => *drains = DRAINS_UNTIL_SETTLED,
            None if is_exec && !was_users => {
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

    /// Ends all logs.
    pub fn end(mut self) {
        let now = host::realtime().unwrap_or(0);
        let closing = self.closing_notes();
        let notes = std::mem::take(&mut self.notes).into_values();
        let notes = closing.into_iter().chain(notes).collect();
        self.writer.end(notes, now);
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
            let may_end = |owner: &Owner| wish.user == 0 || owner.user() == Some(wish.user);
            let allowed = named.iter().filter(|(_, owner)| may_end(owner));
            let allowed: Vec<UnitId> = allowed.map(|(unit, _)| *unit).collect();
            if allowed.is_empty() {
                let message = format!(
                    "the log of job {} is another user's or root's: only root may end it",
                    wish.job
                );
                wish.refuse(Code::Denied, &message);
                continue;
            }
            let mut ended = Vec::new();
            for unit in allowed {
                let (tell, told) = oneshot::channel();
                ended.push(told);
                if let Some(logged) = self.units.get_mut(&unit) {
                    logged.told.push(tell);
                }
            }
            // Who wished it may have gone.
            let _ = wish.reply.send(Ok(ended));
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

    /// Whether a log may say which program a process runs.
    fn may_name(&self, unit: UnitId, process: ProcessId) -> bool {
        let (logged, standing) = (self.units.get(&unit), self.standings.get(&process));
        let standing = standing.filter(|standing| standing.unit == unit);
        logged
            .zip(standing)
            .is_some_and(|(logged, standing)| logged.owner.may_name(standing.state))
    }

    /// Whether it is not told which files a process uses.
    fn is_private(&self, unit: UnitId, process: ProcessId) -> bool {
        let Some(logged) = self.units.get(&unit) else {
            return true;
        };
        let of_late = self.rights.get(&process).map_or(&[][..], Vec::as_slice);
        let was_others = |(rights, _): &(Rights, u8)| !logged.owner.may_name_with(rights);
        !self.may_name(unit, process) || of_late.iter().any(was_others)
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
            if idle >= END_AFTER || is_long || !logged.told.is_empty() {
                ended.push((*unit, logged.active.1));
            }
        }
        self.refused.retain(|unit| living.contains(unit));
        for (unit, end) in ended {
            self.note(unit).end = Some(end);
        }
    }

    /// The ends of the logs that got their last counts a drain ago.
    fn closing_notes(&mut self) -> Vec<Note> {
        let standings = &self.standings;
        let closing = self.closing.iter_mut();
        let notes = closing.map(|closing| {
            let mut of_unit = standings.values().filter(|of| of.unit == closing.unit);
            let awaits = of_unit.any(|standing| closing.owner.awaits(standing));
            Note {
                unit: closing.unit,
                user: closing.owner.user().filter(|_| !awaits),
                candidate: closing.owner.user(),
                now: closing.end,
                end: Some(closing.end),
                told: std::mem::take(&mut closing.told),
                ..Note::default()
            }
        });
        notes.collect()
    }

    /// Sends the notes. If the thread does not keep up, they stay, without files.
    fn send(&mut self, unix: i64) {
        if self.notes.is_empty() && self.closing.is_empty() {
            return;
        }
        let mut ended = Vec::new();
        for (unit, note) in &mut self.notes {
            note.now = unix;
            if let Some(logged) = self.units.get(unit) {
                note.candidate = logged.owner.user();
                note.user = note.candidate.filter(|_| !logged.awaits);
                note.groups.clone_from(&logged.groups);
            }
            if let Some(end) = note.end.take() {
                note.now = end;
                ended.push((*unit, end));
            }
        }
        self.mounts.clear();
        self.named.clear();
        let mut notes = self.closing_notes();
        let ends = notes.len();
        // The end of a log comes before the beginning of the unit's next one.
        notes.extend(std::mem::take(&mut self.notes).into_values());
        match self.writer.sender.try_send(Message::Notes(notes)) {
            Ok(()) => {
                self.closing.clear();
                for (unit, end) in ended {
                    let Some(logged) = self.units.remove(&unit) else {
                        continue;
                    };
                    self.closing.push(Closing {
                        unit,
                        owner: logged.owner,
                        end,
                        told: logged.told,
                    });
                    self.ended.insert(unit, end);
                    self.known.retain(|_, known| known.unit != unit);
                }
            }
            Err(TrySendError::Full(Message::Notes(mut notes))) => {
                let unsent = notes.split_off(ends);
                for (note, closing) in notes.into_iter().zip(&mut self.closing) {
                    closing.told = note.told;
                }
                for mut note in unsent {
                    let merged = note.merge();
                    self.counts.merged.fetch_add(merged, Relaxed);
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
        self.merge_waits();
        self.merged += merged;
        let tables = [
            self.processes.len(),
            self.overflow.len(),
            self.failures.len(),
            self.phases.len(),
            self.waits.len(),
            self.latencies.len(),
        ];
        if tables.into_iter().any(|entries| entries > MAX_PROCESSES) {
            self.fold();
        }
        merged
    }

    fn merge_waits(&mut self) {
        let mut waits: HashMap<_, u64> = HashMap::new();
        for one in std::mem::take(&mut self.waits) {
            let key = (one.process, one.leaf, one.by, one.phase);
            saturating_add(waits.entry(key).or_default(), one.ns);
        }
        let waits = waits.into_iter();
        self.waits = waits
            .map(|((process, leaf, by, phase), ns)| Waited {
                process,
                leaf,
                by,
                file: None,
                phase,
                ns,
            })
            .collect();
    }

    /// Keeps what is merged as that of [`OTHERS`]; what they waited for is not kept.
    fn fold(&mut self) {
        self.waits = Vec::new();
        let unsent: HashSet<ProcessId> = self.processes.drain(..).map(|(id, _)| id).collect();
        self.gone.retain(|process| !unsent.contains(process));
        self.gone.truncate(MAX_PROCESSES);
        self.processes.push((OTHERS, others()));
        for (_, counters) in std::mem::take(&mut self.overflow) {
            self.add_overflow(OTHERS, counters);
        }
        for ((_, of), done) in std::mem::take(&mut self.latencies) {
            let others = self.latencies.entry((OTHERS, of));
            others.or_default().absorb(&done);
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

/// What a log says of [`OTHERS`].
pub fn others() -> About {
    About {
        comm: b"others".to_vec(),
        ..About::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
