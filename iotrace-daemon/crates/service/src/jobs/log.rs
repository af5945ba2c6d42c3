//! The log of one unit: a model of the interval since the last flush, and a recorder.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    Counts,
    about::About,
    keep, make_directory, name,
    note::{MAX_PROCESSES, Note, OTHERS, others},
};
use crate::{config, sight::Sight};
use iotrace_model::{
    IoTotals, Model,
    counters::{Counters, saturating_add},
    host,
    input::{Place, ProcessId},
    run::{Run, Target},
};
use iotrace_recording::{Error, Recorder};

/// Processes x files that a log keeps between two flushes. Beyond, counts are kept by process alone.
const MAX_ROWS: usize = 20_000;
/// Uses of files that go on over a flush.
const MAX_SPANS: usize = 5_000;
/// How long the end of a log is tried again.
const END_RETRY: Duration = Duration::from_secs(600);
/// [`Run::losses`]: counts without their file.
const MERGED_LOSS: &str = "job_log_merged";

/// One log.
pub struct Log {
    config: config::Jobs,
    run: Run,
    about: About,
    /// Of the program that it names, in one interval.
    most_operations: u64,
    model: Model,
    /// Whose it will be, unless a process makes it root's.
    candidate: Option<u32>,
    /// Who waits for its end.
    told: Vec<oneshot::Sender<Option<PathBuf>>>,
    /// Which names its user may learn; none: it is root's.
    sight: Option<Sight>,
    recorder: Option<Recorder>,
    path: Option<PathBuf>,
    io_totals: IoTotals,
    due: Instant,
    /// Processes that no more counts come of.
    gone: HashSet<ProcessId>,
    ended: Option<Instant>,
    is_done: bool,
    /// Whether its last write failed.
    fails: bool,
}

impl Log {
    /// `service`: the run of the service.
    pub fn new(note: &Note, service: &Run, config: &config::Jobs) -> Self {
        let (about, start) = match &note.begin {
            Some(begin) => (
                About {
                    unit: begin.unit.name.clone(),
                    kind: begin.unit.kind.name().into(),
                    job: begin.unit.job.clone(),
                    step: begin.unit.step.clone(),
                    ..About::default()
                },
                begin.start_unix_ns,
            ),
            None => (About::default(), service.start_unix_ns),
        };
        Self {
            config: config.clone(),
            run: Run {
                target: Target::Unit(about.unit.clone()),
                start_unix_ns: start,
                ..service.clone()
            },
            about: About {
                host: service.host.clone(),
                start_unix_ns: start,
                ..about
            },
            model: Model::with_spans(),
            candidate: None,
            told: Vec::new(),
            sight: None,
            recorder: None,
            path: None,
            io_totals: IoTotals::default(),
            due: Instant::now() + config.flush.0,
            gone: HashSet::new(),
            ended: None,
            is_done: false,
            fails: false,
            most_operations: 0,
        }
    }

    /// Takes what the unit did in an interval.
    pub fn take(&mut self, note: Note) {
        (self.about.user, self.candidate) = (note.user, note.candidate);
        self.told.extend(note.told);
        match self.candidate {
            Some(user) if self.sight.is_none() => {
                self.sight = Some(Sight::new(user, note.groups));
            }
            Some(_) => {}
            None => self.sight = None,
        }
        let model = &mut self.model;
        for (process, about) in note.processes {
            self.gone.remove(&process);
            if place_of(model, process) == process {
                model.restore_process(process, about);
            }
        }
        for mount in note.mounts {
            model.restore_mount(mount);
        }
        for (name, opened_as, phases) in note.names {
            let sight = self.sight.as_mut();
            if sight.is_some_and(|sight| !sight.may_learn(&name.path)) {
                continue;
            }
            model.restore_file(&name, opened_as.as_deref(), phases);
        }
        let overflow = note.overflow.into_iter();
        let overflow = overflow.map(|(process, counters)| (process, Place::Overflow, counters));
        for (process, place, counters) in note.counts.into_iter().chain(overflow) {
            self.io_totals.add(&IoTotals::of(&counters));
            let process = place_of(model, process);
            model.add(process, place, &counters);
        }
        for (process, file, number, counters) in note.spans {
            // The uses of others would be taken for those of one process.
            if place_of(model, process) == process {
                model.add_span(process, file, number, &counters);
            }
        }
        for (process, place, op, errno, count) in note.failures {
            let process = place_of(model, process);
            model.add_failures(process, place, op, errno, count.calls, count.ns);
        }
        for waited in note.waits {
            if place_of(model, waited.process) == waited.process {
                model.add_waited(&waited);
            }
        }
        for ((process, of), done) in note.latencies {
            let process = place_of(model, process);
            model.add_latencies(process, of, &done);
        }
        for (process, phase, done) in note.phases {
            let process = place_of(model, process);
            model.add_done(process, phase.into(), &done);
        }
        let gone = note.gone.into_iter();
        self.gone
            .extend(gone.filter(|process| model.about(*process).is_some()));
        self.about.merged += note.merged;
        if let Some(end) = note.end {
            self.about.unit_ended = end.unit_ended;
            self.end(end.at);
        } else {
            self.lasts_until(note.now);
        }
    }

    /// Ends it, unless it has ended.
    pub fn end(&mut self, now: i64) {
        if self.ended.is_none() {
            self.lasts_until(now);
            self.ended = Some(Instant::now());
            self.due = Instant::now();
        }
    }

    fn lasts_until(&mut self, now: i64) {
        let duration = u64::try_from(now - self.run.start_unix_ns).unwrap_or(0);
        self.run.duration_ns = self.run.duration_ns.max(duration);
    }

    /// Where it is, once it is there.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Where it is, if it has ended well.
    pub fn written(&self) -> Option<&Path> {
        self.path().filter(|_| self.is_done && self.about.complete)
    }

    /// Tells those who wait for its end, once it is done.
    pub fn tell(&mut self) {
        let is_written = self.written().is_some() || self.path.is_none();
        for told in std::mem::take(&mut self.told) {
            if is_written {
                // Who waited may have gone.
                let _ = told.send(self.path.clone());
            }
        }
    }

    /// Whether nothing more is to be written.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Writes what is due; `is_last`: there is no other time.
    pub fn write(&mut self, now: Instant, is_last: bool, counts: &Counts) {
        if now < self.due && !is_last {
            return;
        }
        self.due = now + self.config.flush.0;
        let is_short = Duration::from_nanos(self.run.duration_ns) < self.config.least.0;
        if self.ended.is_some() && is_short {
            self.settle(counts, false);
            self.discard();
            return;
        }
        match self.flush() {
            Ok(()) => {
                self.settle(counts, true);
                if self.ended.is_some() {
                    self.is_done = true;
                    counts.written.fetch_add(1, Relaxed);
                }
            }
            Err(error) => {
                let failed_before = std::mem::replace(&mut self.fails, true);
                counts.fails(error.to_string(), !failed_before);
                if self.model.dirty_rows().count() > MAX_ROWS {
                    self.merge(counts);
                }
                let is_over = |ended: Instant| now.saturating_duration_since(ended) >= END_RETRY;
                if self.is_done || is_last || self.ended.is_some_and(is_over) {
                    self.is_done = true;
                    counts.failed.fetch_add(1, Relaxed);
                    self.settle(counts, false);
                }
            }
        }
    }

    /// Ends what a failed write began: what it lacked is written, or is given up.
    fn settle(&mut self, counts: &Counts, is_written: bool) {
        if std::mem::take(&mut self.fails) {
            counts.settles(is_written);
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.about.merged > 0 {
            self.run
                .losses
                .insert(MERGED_LOSS.into(), self.about.merged);
        }
        let is_end = self.ended.is_some();
        if let Some((operations, program)) = self.busiest_program()
            && (operations > self.most_operations || self.about.executable.is_empty())
        {
            (self.most_operations, self.about.executable) = (operations, program);
        }
        if self.recorder.is_none() {
            self.create()?;
        }
        if is_end {
            self.run.room_bytes = host::room(&self.model);
        }
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        let (model, run) = (&mut self.model, &self.run);
        let is_settled = if is_end {
            recorder.flush(model, run)?;
            true
        } else {
            recorder.flush_open(model, run)?
        };
        self.about.duration_ns = self.run.duration_ns;
        self.about.bytes_read = self.io_totals.bytes_read;
        self.about.bytes_written = self.io_totals.bytes_written;
        self.about.operations = self.io_totals.operations;
        let directory = recorder.directory().clone();
        let fail = |source| Error::Io {
            action: "write",
            path: directory.path().join(super::about::FILE_NAME),
            source,
            hint: "",
        };
        if !is_end {
            self.about.write(&directory).map_err(fail)?;
            if is_settled {
                self.forget();
            }
            return Ok(());
        }
        if let Some(recorder) = self.recorder.take() {
            // It cannot be ended twice.
            self.is_done = true;
            recorder.finish(&mut self.model, &self.run)?;
        }
        self.about.complete = true;
        self.about.write(&directory).map_err(fail)?;
        let own = iotrace_recording::directory::effective_user();
        let user = self.about.user.filter(|user| *user != own);
        if let Some(user) = user.filter(|_| keep::may_give()) {
            keep::give(directory.path(), user).map_err(|error| fail(error.into()))?;
        }
        Ok(())
    }

    fn create(&mut self) -> Result<(), Error> {
        let Some(base) = &self.config.directory else {
            return Ok(());
        };
        let (date, name) = name::path(&About {
            user: self.candidate,
            ..self.about.clone()
        });
        let mut path = base.clone();
        for directory in date {
            path.push(directory);
            make_directory(&path).map_err(|source| Error::Io {
                action: "make",
                path: path.clone(),
                source,
                hint: "",
            })?;
        }
        path.push(name);
        self.recorder = Some(Recorder::create(&path, &self.run)?);
        self.path = Some(path);
        Ok(())
    }

    /// The program of the process with the most operations of the interval, and their number.
    fn busiest_program(&self) -> Option<(u64, String)> {
        let mut operations: HashMap<u32, u64> = HashMap::new();
        for row in self.model.dirty_rows() {
            let count = IoTotals::of(&row.cell.interval()).operations;
            saturating_add(operations.entry(row.process).or_default(), count);
        }
        // Of one that runs since before the service the path is not known.
        let program = |about: &iotrace_model::About| match about.exe.is_empty() {
            true => String::from_utf8_lossy(&about.comm).into_owned(),
            false => String::from_utf8_lossy(&about.exe).into_owned(),
        };
        let processes = self.model.processes().iter().zip(0..);
        let programs = processes.map(|(process, index)| (operations.get(&index), process));
        let named = programs.filter(|(_, process)| !program(&process.about).is_empty());
        let (operations, process) = named
            .max_by_key(|(operations, process)| (*operations, !process.about.exe.is_empty()))?;
        Some((operations.copied().unwrap_or(0), program(&process.about)))
    }

    /// Forgets what is written: files, whose names come with their counts, and processes that have gone.
    fn forget(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        self.model.keep_newest_spans(MAX_SPANS);
        self.model
            .forget(|process| !gone.contains(&process.id), |_| false);
    }

    /// Keeps what is not written by process alone.
    fn merge(&mut self, counts: &Counts) {
        let old = std::mem::replace(&mut self.model, Model::with_spans());
        let id = |index: u32| old.processes()[index as usize].id;
        for process in old.processes() {
            self.model
                .restore_process(process.id, process.about.clone());
            let places = [
                (Place::PathOnly, &process.path_only),
                (Place::Overflow, &process.overflow),
            ];
            for (place, cell) in places {
                self.model.add(process.id, place, &cell.interval());
            }
            for (phase, done) in process.phases.interval() {
                self.model.add_done(process.id, phase.into(), done);
            }
        }
        let mut merged = 0;
        for row in old.dirty_rows() {
            let counters: Counters = row.cell.interval();
            self.model.add(id(row.process), Place::Overflow, &counters);
            merged += 1;
        }
        for (key, count) in old.failures().interval() {
            let process = id(key.process);
            let place = Place::Overflow;
            self.model
                .add_failures(process, place, key.op, key.errno, count.calls, count.ns);
        }
        for (process, of, done) in old.latencies().interval() {
            self.model.add_latencies(id(process), of, done);
        }
        self.about.merged += merged;
        counts.merged.fetch_add(merged, Relaxed);
    }

    /// Takes away the log of a unit that was too short.
    fn discard(&mut self) {
        self.is_done = true;
        self.recorder = None;
        if let Some(path) = self.path.take()
            && let Err(error) = std::fs::remove_dir_all(&path)
        {
            log::warn!("job logs: {} is not removed: {error}", path.display());
        }
    }
}

/// The process that counts of `process` are kept for: [`OTHERS`] where it finds no room.
fn place_of(model: &mut Model, process: ProcessId) -> ProcessId {
    if model.processes().len() < MAX_PROCESSES || model.about(process).is_some() {
        return process;
    }
    if model.about(OTHERS).is_none() {
        model.restore_process(OTHERS, others());
    }
    OTHERS
}

#[cfg(test)]
mod tests {
    use iotrace_model::{About as Process, counters::BYTES_WRITTEN};

    use super::*;

    #[test]
    fn a_log_is_bounded_by_processes_and_loses_no_count() {
        let run = host::run("test", Target::All(true), "none", "basic").unwrap();
        let mut log = Log::new(&Note::default(), &run, &config::Jobs::default());
        let count = MAX_PROCESSES as u32 + 7;
        let mut note = Note::default();
        for pid in 1..=count {
            let process = ProcessId { pid, start: 1 };
            note.processes.push((process, Process::default()));
            let mut counters = Counters::ZERO;
            counters.v[BYTES_WRITTEN] = 5;
            note.counts.push((process, Place::PathOnly, counters));
        }
        log.take(note);
        assert_eq!(log.model.processes().len(), MAX_PROCESSES + 1);
        let bytes = 5 * u64::from(count);
        assert_eq!(log.model.io_totals().bytes_written, bytes);
        assert_eq!(log.io_totals.bytes_written, bytes);
        let others = log.model.processes().iter().find(|of| of.id == OTHERS);
        let others = others.unwrap().path_only.interval();
        assert_eq!(IoTotals::of(&others).bytes_written, 5 * 7);
    }
}
