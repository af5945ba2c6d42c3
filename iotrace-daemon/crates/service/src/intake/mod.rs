//! One interval of the model into the totals, once a second; then the model forgets what is old.
//!
//! A counter never falls, so what is counted once stays. What only later uses of files tell (whether a read is a load or a
//! first epoch, a write a checkpoint or a copy of one) waits until it is decided: `undecided`. All else is of the phase that
//! the file's name says, and reads are told from writes as in reports.
//!
//! ```text
//! counts   counters into totals
//! labels   directories and mounts as labels have them
//! seen     what a look at units gave beside
//! waits    what main threads waited for
//! timed    how long operations took
//! syncs    what tells whether saves were synced
//! ```

mod counts;
mod labels;
mod seen;
mod syncs;
mod timed;
mod waits;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use iotrace_common::{key::FileId, op};

pub use seen::Seen;

use counts::{count, count_directory, without_file};
use labels::mount;

use super::{
    attribution::Unit,
    descriptors::Descriptors,
    epochs::{Passes, Read},
    findings::Looks,
    jobs::{self, Feed},
    processes::Processes,
    socket::protocol::Code,
    totals::{Key, MountId, OTHER, Totals, UnitId, Value},
    undecided::{Decided, Undecided},
};
use iotrace_analysis::evaluation::is_of_evaluation;
use iotrace_analysis::phases::split;
use iotrace_model::{
    IoTotals, Model, Moved,
    counters::*,
    history::Bounds,
    input::{Place, ProcessId},
    mounts::Mounts,
    run::{CallInFlight, Run},
};
use iotrace_phases::{
    Classifier,
    context::{Sorted, by_names},
    phase::{Direction, Phase},
    used::Used,
};
use iotrace_tracer::{drain::Batch, kernel::Losses};

/// Calls in flight of one unit that are kept, the oldest.
const MAX_IN_FLIGHT: usize = 256;

/// What a file's counts are labelled with.
#[derive(Clone, Copy, Debug)]
struct FileLabels {
    sorted: Sorted,
    mount: MountId,
}

/// What one process did to one file, as it is counted.
struct Use<'a> {
    unit: UnitId,
    file: FileId,
    path: &'a [u8],
    is_directory: bool,
    /// Bytes.
    size: u64,
    labels: FileLabels,
    used: Used,
    /// Whether the unit has not used the file before.
    is_new: bool,
    counters: &'a Counters,
}

/// Units that the configuration names, by name or kind.
#[derive(Default)]
struct Chosen(Vec<String>);

impl Chosen {
    fn has(&self, unit: &Unit) -> bool {
        let mut chosen = self.0.iter();
        chosen.any(|chosen| *chosen == unit.name || chosen == unit.kind.name())
    }
}

/// Takes intervals in.
pub struct Intake {
    classifier: Arc<Classifier>,
    processes: Processes,
    /// By index of the file.
    files: HashMap<u32, FileLabels>,
    /// By index of the file: in which interval it was last used.
    used: Vec<u32>,
    /// Number of the interval.
    interval: u32,
    /// Files that a unit has used, by index.
    seen: HashMap<UnitId, HashSet<u32>>,
    undecided: Undecided,
    /// Bytes that each process wrote in the interval and in the one before.
    written: [HashMap<ProcessId, u64>; 2],
    passes: HashMap<UnitId, Passes>,
    descriptors: Descriptors,
    looks: Looks,
    /// Logs of units, where they are configured.
    jobs: Option<Feed>,
    /// Units of which waits are kept, and of which it is kept how long operations took.
    waits: Chosen,
    latencies: Chosen,
    /// Calls that have not returned, by unit, at the last look.
    in_flight: BTreeMap<UnitId, Vec<CallInFlight>>,
    /// Mount points that there are; `None` as long as nobody has said.
    mounted: Option<HashSet<String>>,
}

impl Intake {
    /// `run`: what is known of this host and of the service's start.
    pub fn new(classifier: Arc<Classifier>, slurm_steps: bool, looks: Looks, run: Run) -> Self {
        Self {
            undecided: Undecided::new(Arc::clone(&classifier), run),
            written: Default::default(),
            classifier,
            processes: Processes::new(slurm_steps),
            files: HashMap::new(),
            used: Vec::new(),
            interval: 0,
            seen: HashMap::new(),
            passes: HashMap::new(),
            descriptors: Descriptors::default(),
            looks,
            jobs: None,
            waits: Chosen::default(),
            latencies: Chosen::default(),
            in_flight: BTreeMap::new(),
            mounted: None,
        }
    }

    /// Takes names and kinds of the units of which waits are kept, and of which it is kept how long operations took.
    pub fn set_chosen(&mut self, waits: &[String], latencies: &[String]) {
        self.waits = Chosen(waits.to_vec());
        self.latencies = Chosen(latencies.to_vec());
    }

    /// Has job logs written.
    pub fn set_jobs(&mut self, jobs: Option<Feed>) {
        self.jobs = jobs;
    }

    /// The state of the job logs, where there are any.
    pub fn jobs(&self) -> Option<jobs::State> {
        self.jobs.as_ref().map(Feed::state)
    }

    /// Takes what was lost until now, and how many events were damaged; comes before [`Intake::take`].
    pub fn set_losses(&mut self, losses: &Losses, damaged: u64) {
        self.undecided.set_losses(losses);
        if let Some(jobs) = &mut self.jobs {
            jobs.set_losses(losses, damaged);
        }
    }

    /// Has the log of one job ended with the next interval.
    pub fn end_log(&mut self, end: jobs::LogEnd) {
        match &mut self.jobs {
            Some(jobs) => jobs.end_log(end),
            None => end.refuse(
                Code::Gone,
                "the service writes no job logs: set `directory` under [jobs] in its configuration",
            ),
        }
    }

    /// Ends the job logs.
    pub fn end_jobs(&mut self) {
        if let Some(jobs) = self.jobs.take() {
            jobs.end();
        }
    }

    /// Takes the text of a mountinfo file: what is mounted now.
    pub fn update_mounts(&mut self, mountinfo: &[u8]) {
        let mut mounts = Mounts::default();
        mounts.update(mountinfo);
        let labels = mounts
            .all()
            .iter()
            .map(|of| mount(&of.mount_point, &of.fs_type));
        self.mounted = Some(labels.map(|labels| labels.mountpoint).collect());
    }

    /// Removes everything of units and of mounts that are gone. What is known by unit goes with the unit.
    pub fn expire(&mut self, totals: &mut Totals, linger: Duration, now: Instant) {
        for unit in self.undecided.waiting() {
            totals.keep(unit);
        }
        totals.expire(linger, now);
        let mounted = self.mounted.as_ref();
        totals.expire_mounts(linger, now, |mountpoint| {
            mounted.is_none_or(|mounted| mounted.contains(mountpoint))
        });
        let units = totals.units();
        self.seen.retain(|unit, _| units.get(*unit).is_some());
        self.passes.retain(|unit, _| units.get(*unit).is_some());
        self.undecided.retain(|unit| units.get(unit).is_some());
    }

    /// Entries of the tables that grow with units, files and processes.
    pub fn tables(&self) -> [(&'static str, usize); 10] {
        [
            ("unit_files", self.seen.values().map(HashSet::len).sum()),
            ("file_labels", self.files.len()),
            ("undecided_rows", self.undecided.rows()),
            ("undecided_spans", self.undecided.spans()),
            ("epochs", self.passes.len()),
            ("epoch_files", self.passes.values().map(Passes::files).sum()),
            ("findings", self.looks.entries()),
            ("processes", self.processes.count()),
            ("starting_processes", self.processes.waiting()),
            ("unreadable_processes", self.processes.stuck()),
        ]
    }

    /// Units whose findings were not looked for, because they have too many files.
    pub fn findings_skipped(&self) -> u64 {
        self.looks.skipped()
    }

    /// Looks at what needs no second's exactness: passes over the data, and who does the most. Comes every ten seconds.
    pub fn look(&mut self, totals: &mut Totals, now: Instant) {
        for (unit, passes) in &mut self.passes {
            let complete = passes.look(now);
            totals.set_beside(*unit, |beside| beside.epochs = complete.map(u64::from));
        }
        totals.directories.turn();
        totals.processes.turn();
    }

    /// Takes the calls that have not returned, of all processes, the oldest first.
    pub fn take_in_flight(&mut self, calls: Vec<(ProcessId, CallInFlight)>, totals: &mut Totals) {
        let before = std::mem::take(&mut self.in_flight);
        for (process, call) in calls {
            if let Some(unit) = self.processes.known_unit(process) {
                let of_unit = self.in_flight.entry(unit).or_default();
                if of_unit.len() < MAX_IN_FLIGHT {
                    of_unit.push(call);
                }
            }
        }
        let units: BTreeSet<UnitId> = before
            .keys()
            .chain(self.in_flight.keys())
            .copied()
            .collect();
        for unit in units {
            let calls = self.in_flight.get(&unit).map_or(&[][..], Vec::as_slice);
            let mut oldest = BTreeMap::new();
            for call in calls {
                let mount_point = call.mount_point.clone().unwrap_or_default();
                // They come with the oldest first.
                oldest
                    .entry((call.operation.clone(), mount_point))
                    .or_insert(call.ns);
            }
            totals.set_beside(unit, |beside| beside.in_flight = oldest);
        }
    }

    /// Counts that found no room to be decided later, and were counted as their path says.
    pub fn crowded_out(&self) -> u64 {
        self.undecided.crowded_out()
    }

    /// Decides what waits in one unit, and looks at a few of the open descriptors and at one unit's findings. Comes after
    /// [`Intake::take`], outside of the lock of the totals; what was decided enters them by the next one, the rest by
    /// [`Seen::enter`].
    pub fn go_on(&mut self, model: &Model, findings: bool, now: Instant) -> Seen {
        let processes = &self.processes;
        let living = processes.all_living().into_iter().map(|(_, unit)| unit);
        self.undecided.decide(
            model,
            |process| processes.known_unit(process),
            &living.collect(),
            now,
        );
        let findings = findings
            .then(|| {
                self.looks
                    .go_on(model, processes, &self.undecided, &self.in_flight, now)
            })
            .flatten();
        if let Some((unit, found)) = &findings
            && let Some(passes) = self.passes.get_mut(unit)
        {
            passes.set_untold(found.epochs_untold);
        }
        Seen {
            open_files: self.descriptors.go_on(|| processes.all_living(), now),
            findings,
        }
    }

    /// The units of processes.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Looks at a batch on its way to the model: processes are attributed while they are there.
    pub fn see(&mut self, batch: &Batch, totals: &mut Totals) {
        if let Batch::Events(events) = batch {
            for event in events {
                self.processes.see(event, totals);
                if let Some(jobs) = &mut self.jobs {
                    jobs.see(event, &self.processes);
                }
            }
        }
    }

    /// Reads what must be known of processes before [`Intake::take`]. Comes outside of the lock of the totals, since the
    /// kernel may let it wait.
    pub fn read_ahead(&mut self, model: &Model) {
        let all = model.processes().iter().map(|process| process.id);
        self.processes.read_ahead(all);
    }

    /// Takes the interval of the model into the totals, and ends it.
    pub fn take(&mut self, model: &mut Model, totals: &mut Totals, now: Instant) {
        self.processes.take_read(totals);
        self.interval += 1;
        self.used.resize(model.file_count(), self.interval);
        for file in model.changed_files() {
            self.files.remove(file);
        }
        self.take_rows(model, totals, now);
        self.take_syncs(model);
        self.take_spans(model, totals);
        self.take_processes(model, totals);
        self.take_failures(model, totals);
        self.take_latencies(model, totals);
        self.take_decided(model, totals);
        if let Some(jobs) = &mut self.jobs {
            jobs.take(model, &self.processes, totals, now);
        }
        // No history is kept, so the bounds are those of nothing.
        model.settle(Bounds { start: 0, end: 0 });
        self.processes.sweep(totals, now);
    }

    /// Lets the model forget the processes that have ended and, where it knows more than `max_files`, the files that
    /// were unused for longest, down to half as many. Returns the files forgotten. Comes after [`Intake::take`].
    pub fn forget(&mut self, model: &mut Model, max_files: usize) -> Vec<FileId> {
        self.processes.find_ended();
        let oldest = self.oldest_kept(model, max_files);
        let processes = &self.processes;
        let used = &self.used;
        let over: Vec<u32> = (0..model.file_count() as u32)
            .filter(|file| used[*file as usize] < oldest)
            .collect();
        let forgotten = over.iter().map(|file| model.file(*file).id).collect();
        let moved = model.forget(
            |process| processes.knows(process.id),
            |file| used[file as usize] >= oldest,
        );
        self.follow(&moved.files);
        forgotten
    }

    /// The interval since which a file must have been used to be kept.
    fn oldest_kept(&self, model: &Model, max_files: usize) -> u32 {
        if model.file_count() <= max_files {
            return 0;
        }
        let mut used = self.used.clone();
        let (_, newest_over, _) = used.select_nth_unstable(model.file_count() - max_files / 2 - 1);
        // All files of that interval, or none would go where all were used in one. Files of the interval that has just been taken
        // may be in use: their names are still needed.
        (*newest_over + 1).min(self.interval)
    }

    /// Follows the files to their new indices.
    fn follow(&mut self, moved: &Moved) {
        let files = std::mem::take(&mut self.files).into_iter();
        self.files = files
            .filter_map(|(file, labels)| Some((moved.get(file)?, labels)))
            .collect();
        for files in self.seen.values_mut() {
            *files = files.iter().filter_map(|file| moved.get(*file)).collect();
        }
        let used = std::mem::take(&mut self.used).into_iter().zip(0..);
        self.used = used
            .filter_map(|(interval, file)| moved.get(file).map(|_| interval))
            .collect();
    }

    fn take_rows(&mut self, model: &Model, totals: &mut Totals, now: Instant) {
        self.written.swap(0, 1);
        self.written[0].clear();
        for row in model.dirty_rows() {
            let bytes = row.cell.interval().v[BYTES_WRITTEN];
            if bytes > 0 {
                let process = model.processes()[row.process as usize].id;
                saturating_add(self.written[0].entry(process).or_default(), bytes);
            }
        }
        for row in model.dirty_rows() {
            let process = model.processes()[row.process as usize].id;
            let unit = self.processes.unit_of(process, totals);
            self.used[row.file as usize] = self.interval;
            let interval = row.cell.interval();
            if totals.processes.is_on() {
                totals
                    .processes
                    .add((unit, process.pid), IoTotals::of(&interval));
            }
            let file = model.file(row.file);
            let labels = self.labels(model, totals, row.file);
            let total = row.cell.total();
            let waits = self.undecided.has(unit, file.id)
                || file.path.is_empty()
                || self.is_undecided(process, &labels.sorted, &total, &interval);
            let place = (model, row.file);
            if waits && self.undecided.hold(unit, process, place, &interval, now) {
                continue;
            }
            let is_new = self.seen.entry(unit).or_default().insert(row.file);
            self.count(
                totals,
                &Use {
                    unit,
                    file: file.id,
                    path: file.path,
                    is_directory: file.is_directory(),
                    size: file.size,
                    labels,
                    used: Used::new(&total, &labels.sorted),
                    is_new,
                    counters: &interval,
                },
            );
        }
    }

    /// Whether what comes later may tell that counts are of another phase than the file's name says.
    fn is_undecided(
        &self,
        process: ProcessId,
        sorted: &Sorted,
        total: &Counters,
        interval: &Counters,
    ) -> bool {
        let is_written = total.v[BYTES_WRITTEN] > 0;
        let written = sorted.phase(Direction::Write);
        if is_written
            && matches!(
                written,
                Phase::Checkpoint | Phase::Restore | Phase::UNMATCHED
            )
        {
            return true;
        }
        let bytes = interval.v[BYTES_READ];
        match sorted.phase(Direction::Read) {
            Phase::Restore => total.v[BYTES_READ] > 0,
            // Staged, where the same process wrote as much.
            Phase::Training if bytes > 0 => {
                let written = self.written.iter();
                let written = written.filter_map(|written| written.get(&process)).copied();
                interval.v[TRANSFER_READS] > 0 || saturating_sum(written) >= bytes
            }
            _ => false,
        }
    }

    /// Takes the uses of files whose counts wait.
    fn take_spans(&mut self, model: &mut Model, totals: &mut Totals) {
        for (process, file, number, counters) in model.take_spans() {
            let unit = self.processes.unit_of(process, totals);
            self.undecided
                .add_span(unit, (process, file), number, &counters);
            if let Some(jobs) = &mut self.jobs {
                jobs.span(unit, (process, file), number, &counters);
            }
        }
    }

    /// Counts what was decided since the last interval.
    fn take_decided(&mut self, model: &Model, totals: &mut Totals) {
        let (decided, saves) = self.undecided.take();
        for (unit, save) in saves {
            totals.save(unit, save);
        }
        for one in decided {
            self.count_decided(model, totals, &one);
        }
    }

    fn count_decided(&mut self, model: &Model, totals: &mut Totals, decided: &Decided) {
        let (mount_point, fs_type) = &decided.mount;
        let known = model.find_file_index(decided.file);
        let seen = self.seen.entry(decided.unit).or_default();
        let is_new = known.is_none_or(|file| seen.insert(file));
        let mount = totals.mount_id(&mount(mount_point, fs_type));
        self.count(
            totals,
            &Use {
                unit: decided.unit,
                file: decided.file,
                path: &decided.path,
                is_directory: decided.is_directory,
                size: decided.size,
                labels: FileLabels {
                    sorted: decided.sorted,
                    mount,
                },
                used: decided.used,
                is_new,
                counters: &decided.counters.unpack(),
            },
        );
    }

    fn count(&mut self, totals: &mut Totals, one: &Use<'_>) {
        let key = |direction| Key {
            unit: one.unit,
            phase: one.labels.sorted.phase(direction),
            mount: one.labels.mount,
        };
        let (main, read) = (key(one.used.main), key(Direction::Read));
        let counters = one.counters;
        if read.phase == Phase::Training && counters.v[BYTES_READ] > 0 {
            self.pass(totals, one);
        }
        let place = (one.path, one.is_directory);
        if one.used.reads_apart {
            let (reads, rest) = split(counters);
            count_directory(totals, read, place, &reads);
            count_directory(totals, main, place, &rest);
            count(totals, read, &reads);
            count(totals, main, &rest);
        } else {
            count_directory(totals, main, place, counters);
            count(totals, main, counters);
        }
        if one.is_new && !one.is_directory {
            totals.add(main, Value::FilesSeen, 1);
        }
    }

    /// Takes reads of training data.
    fn pass(&mut self, totals: &mut Totals, one: &Use<'_>) {
        let now = Instant::now();
        if one.unit == OTHER || one.is_directory {
            return;
        }
        let v = &one.counters.v;
        let last = v[LAST_OPERATION];
        totals.set_beside(one.unit, |beside| {
            beside.last_read = beside.last_read.max(Some(last));
        });
        if is_of_evaluation(one.path) {
            return;
        }
        // The open that wrote the file is none of those that read it.
        let wrote = u64::from(v[BYTES_WRITTEN] > 0 && v[OPENS] > 1);
        let read = Read {
            file: one.file,
            size: one.size,
            bytes: v[BYTES_READ],
            opens: v[OPENS] - wrote,
            closes: v[CLOSES].saturating_sub(wrote),
        };
        let passes = self.passes.entry(one.unit);
        passes.or_insert_with(|| Passes::new(now)).read(&read, now);
    }

    fn take_processes(&mut self, model: &Model, totals: &mut Totals) {
        for process in model.processes() {
            for (code, done) in process.phases.interval() {
                let unit = self.processes.unit_of(process.id, totals);
                let key = Key {
                    phase: Phase::from_code(code),
                    ..without_file(unit)
                };
                totals.add(key, Value::MergedTime, done.merged_ns);
            }
            for cell in [&process.path_only, &process.overflow] {
                if !cell.is_settled() {
                    let unit = self.processes.unit_of(process.id, totals);
                    let interval = cell.interval();
                    totals
                        .processes
                        .add((unit, process.id.pid), IoTotals::of(&interval));
                    count(totals, without_file(unit), &interval);
                }
            }
        }
    }

    fn take_failures(&mut self, model: &Model, totals: &mut Totals) {
        for (failure, count) in model.failures().interval() {
            let process = model.processes()[failure.process as usize].id;
            let unit = self.processes.unit_of(process, totals);
            let key = match failure.place {
                Place::File(file) => {
                    let labels = self.labels(model, totals, file);
                    let direction = if op::modifies(failure.op as usize) {
                        Direction::Write
                    } else {
                        Direction::Read
                    };
                    Key {
                        unit,
                        phase: labels.sorted.phase(direction),
                        mount: labels.mount,
                    }
                }
                Place::PathOnly | Place::Overflow => without_file(unit),
            };
            let value = Value::Error {
                op: failure.op,
                errno: failure.errno,
            };
            totals.add(key, value, count.calls);
        }
    }

    fn labels(&mut self, model: &Model, totals: &mut Totals, index: u32) -> FileLabels {
        // The label of a mount that was given back is looked up again.
        let known = self.files.get(&index);
        if let Some(labels) = known.filter(|labels| totals.has_mount(labels.mount)) {
            return *labels;
        }
        let file = model.file(index);
        let (mount_point, fs_type) = model.mount_of(&file);
        let labels = FileLabels {
            sorted: by_names(model, &self.classifier, &file),
            mount: totals.mount_id(&mount(mount_point, fs_type)),
        };
        if !file.path.is_empty() {
            self.files.insert(index, labels);
        }
        labels
    }
}

#[cfg(test)]
mod tests;
