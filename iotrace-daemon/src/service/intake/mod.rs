//! One interval of the model into the totals, once a second; then the model forgets what is old.
//!
//! The phase of a count is the file's by its name when it is counted, and reads are told from writes as in reports. A
//! counter never falls, so a later rename moves nothing. Counts of a file whose name has not come yet wait for it.
//!
//! ```text
//! counts   counters into totals
//! labels   directories and mounts as labels have them
//! seen     what a look at units gave beside
//! ```

mod counts;
mod labels;
mod seen;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use iotrace_common::{key::FileId, op};

pub use seen::Seen;

use counts::{count, count_directory, save, without_file};
use labels::mount;

use super::{
    descriptors::Descriptors,
    epochs::{Passes, Read},
    findings::Looks,
    processes::Processes,
    totals::{Key, MountId, OTHER, Sums, Totals, UnitId, Value},
};
use crate::{
    analysis::epochs::is_of_evaluation,
    classify::{
        Classifier,
        context::Sorted,
        dfa::Verdict,
        phase::{Direction, Phase},
        used::Used,
    },
    drain::Batch,
    model::{Model, Moved, Spot, counters::*, history::Bounds, mounts::Mounts},
    report::phases::split,
};

/// How long counts wait for the name of their file.
const NAME_LIMIT: Duration = Duration::from_secs(3);

/// What a file's counts are labelled with.
#[derive(Clone, Copy, Debug)]
struct FileLabels {
    sorted: Sorted,
    mount: MountId,
}

/// Counts of a file without a name.
struct Waiting {
    counters: Counters,
    since: Instant,
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
    waiting: HashMap<(UnitId, u32), Waiting>,
    passes: HashMap<UnitId, Passes>,
    descriptors: Descriptors,
    looks: Looks,
    /// Mount points that there are; `None` as long as nobody has said.
    mounted: Option<HashSet<String>>,
}

impl Intake {
    pub fn new(classifier: Arc<Classifier>, slurm_steps: bool, looks: Looks) -> Self {
        Self {
            classifier,
            processes: Processes::new(slurm_steps),
            files: HashMap::new(),
            used: Vec::new(),
            interval: 0,
            seen: HashMap::new(),
            waiting: HashMap::new(),
            passes: HashMap::new(),
            descriptors: Descriptors::default(),
            looks,
            mounted: None,
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
        totals.expire(linger, now);
        let mounted = self.mounted.as_ref();
        totals.expire_mounts(linger, now, |mountpoint| {
            mounted.is_none_or(|mounted| mounted.contains(mountpoint))
        });
        let units = totals.units();
        self.seen.retain(|unit, _| units.get(*unit).is_some());
        self.passes.retain(|unit, _| units.get(*unit).is_some());
    }

    /// Entries of the tables that grow with units, files and processes.
    pub fn tables(&self) -> [(&'static str, usize); 9] {
        [
            ("unit_files", self.seen.values().map(HashSet::len).sum()),
            ("file_labels", self.files.len()),
            ("unnamed_counts", self.waiting.len()),
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
            totals.set_beside(*unit, |beside| beside.epochs = Some(complete.into()));
        }
        totals.directories.turn();
        totals.processes.turn();
    }

    /// Looks at a few of the open descriptors, and at one unit's findings. Comes after [`Intake::take`], outside of the
    /// lock of the totals; what came of it enters them by [`Seen::enter`].
    pub fn go_on(&mut self, model: &Model, findings: bool, now: Instant) -> Seen {
        let processes = &self.processes;
        Seen {
            open_files: self.descriptors.go_on(|| processes.all_living(), now),
            findings: findings
                .then(|| self.looks.go_on(model, processes, now))
                .flatten(),
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
        self.take_names(model, totals, now);
        self.take_rows(model, totals, now);
        self.take_processes(model, totals);
        self.take_failures(model, totals);
        self.take_waiting(model, totals, now);
        // No history is kept, so the bounds are those of nothing.
        totals.complete_saves(now);
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
        let waiting: HashSet<u32> = self.waiting.keys().map(|(_, file)| *file).collect();
        let moved = model.forget(
            |process| processes.knows(process.id),
            |file| used[file as usize] >= oldest || waiting.contains(&file),
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
        let (_, oldest, _) = used.select_nth_unstable(model.file_count() - max_files / 2);
        // Files of the interval that has just been taken may be in use: their names are still needed.
        (*oldest).min(self.interval)
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
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        self.waiting = waiting
            .filter_map(|((unit, file), waiting)| Some(((unit, moved.get(file)?), waiting)))
            .collect();
        let used = std::mem::take(&mut self.used).into_iter().zip(0..);
        self.used = used
            .filter_map(|(interval, file)| moved.get(file).map(|_| interval))
            .collect();
    }

    fn take_rows(&mut self, model: &Model, totals: &mut Totals, now: Instant) {
        for row in model.dirty_rows() {
            let process = model.processes()[row.process as usize].id;
            let unit = self.processes.unit_of(process, totals);
            self.used[row.file as usize] = self.interval;
            let interval = row.cell.interval();
            if totals.processes.is_on() {
                totals
                    .processes
                    .add((unit, process.pid), Sums::of(&interval));
            }
            if model.file(row.file).path.is_empty() {
                let waiting = self.waiting.entry((unit, row.file)).or_insert(Waiting {
                    counters: Counters::ZERO,
                    since: now,
                });
                let mut newer = interval;
                newer.absorb(&waiting.counters);
                waiting.counters = newer;
            } else {
                let total = row.cell.total();
                self.count_file(model, totals, unit, row.file, &interval, Some(&total));
            }
        }
    }

    /// Takes new names. What was written under a temporary name is a checkpoint from its rename on.
    fn take_names(&mut self, model: &Model, totals: &mut Totals, now: Instant) {
        let is_save =
            |labels: &FileLabels| labels.sorted.phase(Direction::Write) == Phase::Checkpoint;
        let mut renamed = HashSet::new();
        for file in model.changed_files() {
            let before = self.files.remove(file);
            if before.is_some_and(|before| !is_save(&before))
                && is_save(&self.labels(model, totals, *file))
            {
                renamed.insert(*file);
            }
        }
        if renamed.is_empty() {
            return;
        }
        for row in model
            .rows()
            .iter()
            .filter(|row| renamed.contains(&row.file))
        {
            // What came in this interval is taken with all other rows.
            let (total, interval) = (row.cell.total(), row.cell.interval());
            let bytes = total.v[BYTES_WRITTEN] - interval.v[BYTES_WRITTEN];
            let unit = self
                .processes
                .unit_of(model.processes()[row.process as usize].id, totals);
            save(totals, unit, bytes, &total, now);
        }
    }

    fn take_waiting(&mut self, model: &Model, totals: &mut Totals, now: Instant) {
        let is_over = |file: u32, waiting: &Waiting| {
            !model.file(file).path.is_empty()
                || now.saturating_duration_since(waiting.since) >= NAME_LIMIT
        };
        let over: Vec<_> = self
            .waiting
            .iter()
            .filter(|((_, file), waiting)| is_over(*file, waiting))
            .map(|(key, _)| *key)
            .collect();
        for key in over {
            if let Some(waiting) = self.waiting.remove(&key) {
                self.count_file(model, totals, key.0, key.1, &waiting.counters, None);
            }
        }
    }

    /// Counts what was done to a file. `whole`: what was done to it so far, which tells how it is used.
    fn count_file(
        &mut self,
        model: &Model,
        totals: &mut Totals,
        unit: UnitId,
        file: u32,
        counters: &Counters,
        whole: Option<&Counters>,
    ) {
        let labels = self.labels(model, totals, file);
        let used = Used::new(whole.unwrap_or(counters), &labels.sorted);
        let key = |direction| Key {
            unit,
            phase: labels.sorted.phase(direction),
            mount: labels.mount,
        };
        let main = key(used.main);
        if main.phase == Phase::Checkpoint && used.main == Direction::Write {
            save(
                totals,
                unit,
                counters.v[BYTES_WRITTEN],
                counters,
                Instant::now(),
            );
        }
        let read = key(Direction::Read);
        if read.phase == Phase::Training && counters.v[BYTES_READ] > 0 {
            self.pass(model, totals, unit, file, counters);
        }
        if used.reads_apart {
            let (reads, rest) = split(counters);
            count_directory(model, totals, read, file, &reads);
            count_directory(model, totals, main, file, &rest);
            count(totals, key(Direction::Read), &reads);
            count(totals, main, &rest);
        } else {
            count_directory(model, totals, main, file, counters);
            count(totals, main, counters);
        }
        let is_new = self.seen.entry(unit).or_default().insert(file);
        if is_new && !model.file(file).is_directory() {
            totals.add(main, Value::Files, 1);
        }
    }

    /// Takes reads of training data.
    fn pass(
        &mut self,
        model: &Model,
        totals: &mut Totals,
        unit: UnitId,
        index: u32,
        counters: &Counters,
    ) {
        let (file, now) = (model.file(index), Instant::now());
        if unit == OTHER || file.is_directory() {
            return;
        }
        let last = counters.v[LAST];
        totals.set_beside(unit, |beside| {
            beside.last_read = beside.last_read.max(Some(last));
        });
        if is_of_evaluation(file.path) {
            return;
        }
        let read = Read {
            file: file.id,
            size: file.size,
            bytes: counters.v[BYTES_READ],
            opens: counters.v[OPENS],
            closes: counters.v[CLOSES],
        };
        let passes = self.passes.entry(unit);
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
                totals.add(key, Value::Merged, done.merged_ns);
            }
            for cell in [&process.by_name, &process.overflow] {
                if !cell.is_settled() {
                    let unit = self.processes.unit_of(process.id, totals);
                    let interval = cell.interval();
                    totals
                        .processes
                        .add((unit, process.id.pid), Sums::of(&interval));
                    count(totals, without_file(unit), &interval);
                }
            }
        }
    }

    fn take_failures(&mut self, model: &Model, totals: &mut Totals) {
        for (failure, count) in model.failures().interval() {
            let process = model.processes()[failure.process as usize].id;
            let unit = self.processes.unit_of(process, totals);
            let key = match failure.spot {
                Spot::File(file) => {
                    let labels = self.labels(model, totals, file);
                    let written = [op::WRITE, op::TRANSFER_WRITE, op::TRUNCATE, op::FALLOCATE];
                    let direction = if written.contains(&(failure.op as usize)) {
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
                Spot::ByName | Spot::Overflow => without_file(unit),
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
        let verdict = if file.path.is_empty() {
            Verdict::NONE
        } else {
            self.classifier
                .verdict(file.path, file.is_directory(), fs_type)
        };
        let labels = FileLabels {
            sorted: Sorted {
                verdict,
                reasons: [None; 2],
            },
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
