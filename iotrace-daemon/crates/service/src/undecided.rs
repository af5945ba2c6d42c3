//! What is decided late: counts whose phase only what comes after tells, and checkpoints that may go on.
//!
//! A file that is read once may be weights, or data in its first epoch; what is written may get a checkpoint's name, or be a
//! copy of one. Such counts are kept in a model of their unit, with the uses of the files one by one, and are counted in the
//! phases that a report of that model has. Checkpoints are the report's, too. All other counts are counted at once.
//!
//! ```text
//! hold     the counts of an interval that wait
//! decide   unit by unit: counts that nothing was added to for a while, or that waited for too long
//! take     what was decided, to be counted
//! ```

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use iotrace_common::{key::FileId, op};

use super::{
    losses,
    totals::{Saved, UnitId},
};
use iotrace_analysis::{durable, saves, uses::Uses};
use iotrace_model::host;
use iotrace_model::{
    File, Model,
    counters::*,
    history::Bounds,
    input::{Place, ProcessId},
    packed::Packed,
    run::Run,
};
use iotrace_phases::{
    Classifier,
    context::{Sorted, sort},
    copies::Copies,
    phase::{Direction, Phase},
    used::Used,
};
use iotrace_tracer::kernel::Losses;

/// Counts wait until nothing was added to them for this long.
const MIN_QUIET: Duration = Duration::from_secs(3);
/// The same for reads that may be the first epoch of the data.
const MIN_QUIET_OF_LOADS: Duration = Duration::from_secs(60);
/// The longest wait in all: for files of no known kind, for checkpoints, and for such reads.
const MAX_WAIT: Duration = Duration::from_secs(10);
const MAX_WAIT_OF_SAVES: Duration = Duration::from_secs(60);
const MAX_WAIT_OF_LOADS: Duration = Duration::from_secs(600);
/// A unit without a process is over when it did nothing for so long.
const OVER_AFTER: Duration = Duration::from_secs(10);
/// Shortest pause between two looks at one unit, and the pause as a multiple of what a look took.
const MIN_PAUSE: Duration = Duration::from_secs(2);
const PAUSE_PER_COST: u32 = 200;
/// Time for looks in one interval.
const MAX_LOOKS: Duration = Duration::from_millis(50);
/// Processes x files of one unit, and of all, that are kept; those beyond are counted at once.
const MAX_ROWS: usize = 20_000;
const MAX_ROWS_OF_ALL: usize = 100_000;
/// Uses of files of one unit that are kept.
const MAX_SPANS: usize = 50_000;
/// Where a unit has [`FORGET_FROM`] rows, files that were decided and not used for this long are forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);
const FORGET_FROM: usize = MAX_ROWS / 4;

/// One process on one file.
type Row = (ProcessId, FileId);

/// What was decided of one process's counts on one file.
pub struct Decided {
    pub unit: UnitId,
    pub file: FileId,
    pub path: Vec<u8>,
    pub is_directory: bool,
    /// Bytes.
    pub size: u64,
    /// Mount point and type of the filesystem.
    pub mount: (Vec<u8>, String),
    pub sorted: Sorted,
    pub used: Used,
    pub counters: Packed,
}

/// All units' counts that wait.
pub struct Undecided {
    classifier: Arc<Classifier>,
    run: Run,
    units: HashMap<UnitId, Unit>,
    decided: Vec<Decided>,
    saves: Vec<(UnitId, Saved)>,
    /// What was not counted until now, of the whole machine, and until the interval before.
    losses: Losses,
    losses_before: Losses,
    /// Processes x files that are kept, of all units.
    rows: usize,
    /// Counts that found no room, and were counted as their path says.
    crowded_out: u64,
}

struct Unit {
    /// What waits, and what was decided: both are needed to tell what else is.
    model: Model,
    rows: HashMap<Row, State>,
    /// Start of the last checkpoint that was counted, nanoseconds since the start of the service.
    counted_to: i64,
    /// What had not been counted when nothing waited last.
    losses: Losses,
    touched: Instant,
    /// When it is looked at next; `None` where nothing waits.
    due: Option<Instant>,
}

struct State {
    /// Nothing where nothing waits.
    waiting: Packed,
    /// When the first of `waiting` came.
    since: Instant,
    touched: Instant,
}

impl Undecided {
    /// `run`: what is known of this host and of the service's start.
    pub fn new(classifier: Arc<Classifier>, run: Run) -> Self {
        Self {
            classifier,
            run,
            units: HashMap::new(),
            decided: Vec::new(),
            saves: Vec::new(),
            losses: Losses::new(),
            losses_before: Losses::new(),
            rows: 0,
            crowded_out: 0,
        }
    }

    /// Whether anything of a unit is kept here.
    pub fn has_unit(&self, unit: UnitId) -> bool {
        self.units.contains_key(&unit)
    }

    /// Whether what a unit does to a file is kept here: something was before.
    pub fn has(&self, unit: UnitId, file: FileId) -> bool {
        let unit = self.units.get(&unit);
        unit.is_some_and(|unit| unit.model.find_file_index(file).is_some())
    }

    /// Takes counts of the file at `index` of `model`; `false` where there is no room.
    pub fn hold(
        &mut self,
        unit: UnitId,
        process: ProcessId,
        (model, index): (&Model, u32),
        counters: &Counters,
        now: Instant,
    ) -> bool {
        let file = model.file(index);
        let row = (process, file.id);
        let known = self.units.get(&unit);
        if !known.is_some_and(|unit| unit.rows.contains_key(&row)) {
            let of_unit = known.map_or(0, |unit| unit.rows.len());
            if of_unit >= MAX_ROWS || self.rows >= MAX_ROWS_OF_ALL {
                self.crowded_out += 1;
                return false;
            }
            self.rows += 1;
        }
        let unit = self
            .units
            .entry(unit)
            .or_insert_with(|| Unit::new(self.losses_before.clone(), now));
        unit.touched = now;
        unit.due.get_or_insert(now + MIN_PAUSE);
        unit.model.add(process, Place::File(file.id), counters);
        let state = unit.rows.entry(row).or_insert_with(|| {
            name(&mut unit.model, model, &file);
            State {
                waiting: Packed::default(),
                since: now,
                touched: now,
            }
        });
        state.touched = now;
        if state.waiting.is_empty() {
            state.since = now;
            state.waiting = Packed::from(counters);
        } else {
            let mut newer = counters.clone();
            state.waiting.add_to(&mut newer);
            state.waiting = Packed::from(&newer);
        }
        true
    }

    /// Takes what was not counted until now.
    pub fn set_losses(&mut self, losses: &Losses) {
        self.losses_before = std::mem::replace(&mut self.losses, losses.clone());
    }

    /// Takes counts of a process that tell whether a save was synced, though they are of no file that is kept: calls of sync and
    /// syncfs, and what found no room.
    pub fn take_syncs(&mut self, unit: UnitId, process: ProcessId, place: Place, of: &Counters) {
        let Some(unit) = self.units.get_mut(&unit) else {
            return;
        };
        let mut counters = Counters::ZERO;
        let place = match place {
            Place::Overflow if of.calls(|op| op::is_sync(op) || op::is_write(op)) > 0 => {
                counters = of.clone();
                place
            }
            Place::PathOnly if of.v[SYNCS] > 0 => place,
            // In place of the file: its filesystem.
            Place::File(file) if of.v[SYNCFS] > 0 && unit.model.find_file_index(file).is_none() => {
                Place::File(FileId {
                    generation: 0,
                    inode: 0,
                    ..file
                })
            }
            _ => return,
        };
        if place != Place::Overflow {
            for counter in [SYNCS, SYNCFS, LAST_SYNC] {
                counters.v[counter] = of.v[counter];
            }
        }
        unit.model.add(process, place, &counters);
    }

    /// Takes one use of a file whose counts are kept.
    pub fn add_span(&mut self, unit: UnitId, row: Row, number: u32, counters: &Counters) {
        if let Some(unit) = self.units.get_mut(&unit)
            && unit.rows.contains_key(&row)
        {
            unit.model.add_span(row.0, row.1, number, counters);
        }
    }

    /// Looks at the units that are due, for [`MAX_LOOKS`] at most. `unit_of` gives the unit of a process of `model`, and
    /// `living` has the units with a process.
    pub fn decide(
        &mut self,
        model: &Model,
        unit_of: impl Fn(ProcessId) -> Option<UnitId>,
        living: &HashSet<UnitId>,
        now: Instant,
    ) {
        let units = self.units.iter();
        let due = units.filter_map(|(id, unit)| Some((unit.due?, *id)));
        let mut due: Vec<_> = due.filter(|(due, _)| *due <= now).collect();
        due.sort_unstable();
        let begun = Instant::now();
        for (_, id) in due {
            self.decide_unit(id, model, &unit_of, living.contains(&id), now);
            if begun.elapsed() >= MAX_LOOKS {
                break;
            }
        }
    }

    fn decide_unit(
        &mut self,
        id: UnitId,
        model: &Model,
        unit_of: impl Fn(ProcessId) -> Option<UnitId>,
        is_living: bool,
        now: Instant,
    ) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        let begun = Instant::now();
        for process in model.processes() {
            if unit_of(process.id) == Some(id) {
                unit.model
                    .restore_process(process.id, process.about.clone());
            }
        }
        unit.take_names(model);
        let monotonic = self.run.clock.unix_ns(host::monotonic());
        let run = Run {
            duration_ns: u64::try_from(monotonic - self.run.start_unix_ns).unwrap_or(0),
            losses: losses::since(&self.losses, &unit.losses),
            ..self.run.clone()
        };
        let is_over = !is_living && now.saturating_duration_since(unit.touched) >= OVER_AFTER;
        let copies = Copies::of(&unit.model, run.clock);
        let sorted = sort(&unit.model, &self.classifier, &copies);
        let uses = Uses::new(&unit.model, &run, &sorted, &copies);
        let mut events = saves::saves(&unit.model, &uses).whole;
        durable::judge(&unit.model, &run, &uses, &copies, &mut events);
        let waiting = unit.decide_rows(id, &sorted, is_over, now, &mut self.decided);
        let (saves, go_on) = unit.complete(&events, &waiting, &run, is_over);
        self.saves.extend(saves.into_iter().map(|save| (id, save)));
        let before = unit.rows.len();
        unit.forget(now);
        self.rows -= before - unit.rows.len();
        let pause = MIN_PAUSE.max(begun.elapsed() * PAUSE_PER_COST);
        unit.due = (!waiting.is_empty() || go_on).then_some(now + pause);
        if unit.due.is_none() {
            unit.losses.clone_from(&self.losses);
        }
    }

    /// What was decided since the last time.
    pub fn take(&mut self) -> (Vec<Decided>, Vec<(UnitId, Saved)>) {
        (
            std::mem::take(&mut self.decided),
            std::mem::take(&mut self.saves),
        )
    }

    /// Copies the uses of a unit's files into a part of the whole model.
    pub fn copy_spans(&self, unit: UnitId, part: &mut Model) {
        let Some(unit) = self.units.get(&unit) else {
            return;
        };
        let known: HashSet<ProcessId> = part.processes().iter().map(|process| process.id).collect();
        for span in unit.model.spans().map_or(&[][..], |spans| spans.all()) {
            let process = unit.model.processes()[span.process as usize].id;
            let file = unit.model.file(span.file).id;
            // What the whole model has forgotten is left out.
            if part.find_file(file).is_some() && known.contains(&process) {
                part.add_span(process, file, span.number, &span.cell.total());
            }
        }
    }

    /// Units with something that waits.
    pub fn waiting(&self) -> impl Iterator<Item = UnitId> {
        let units = self.units.iter();
        units.filter_map(|(id, unit)| unit.due.map(|_| *id))
    }

    /// Forgets the units that are gone and of which nothing waits.
    pub fn retain(&mut self, is_there: impl Fn(UnitId) -> bool) {
        self.units
            .retain(|id, unit| unit.due.is_some() || is_there(*id));
        self.rows = self.units.values().map(|unit| unit.rows.len()).sum();
    }

    /// Processes x files that are kept, of all units.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Uses of files that are kept, of all units.
    pub fn spans(&self) -> usize {
        let spans = self.units.values().filter_map(|unit| unit.model.spans());
        spans.map(|spans| spans.all().len()).sum()
    }

    /// Counts that found no room, and were counted as their path says.
    pub fn crowded_out(&self) -> u64 {
        self.crowded_out
    }
}

impl Unit {
    fn new(losses: Losses, now: Instant) -> Self {
        Self {
            model: Model::with_spans(),
            rows: HashMap::new(),
            counted_to: i64::MIN,
            losses,
            touched: now,
            due: None,
        }
    }

    /// Takes the newest names of its files.
    fn take_names(&mut self, model: &Model) {
        let ids: Vec<FileId> = (0..self.model.file_count() as u32)
            .map(|index| self.model.file(index).id)
            .collect();
        for id in ids {
            if let Some(file) = model.find_file(id) {
                name(&mut self.model, model, &file);
            }
        }
    }

    /// The checkpoints that are complete and were not counted, and whether others are not complete. What was written to
    /// the files that are `waiting` may turn out to be no checkpoint.
    fn complete(
        &mut self,
        events: &[saves::Event],
        waiting: &HashSet<u32>,
        run: &Run,
        is_over: bool,
    ) -> (Vec<Saved>, bool) {
        let mut complete = Vec::new();
        let now = i64::try_from(run.duration_ns).unwrap_or(i64::MAX);
        for event in events {
            if event.start <= self.counted_to {
                continue;
            }
            let may_go_on = event.end + event.longest_pause() > now;
            if !is_over && (may_go_on || event.files.iter().any(|file| waiting.contains(file))) {
                return (complete, true);
            }
            self.counted_to = event.start;
            let monotonic = |at: i64| run.clock.monotonic_ns(run.start_unix_ns + at);
            complete.push(Saved {
                bytes: event.bytes,
                unsynced_bytes: match event.durability.is_copied {
                    true => 0,
                    false => event.durability.unsynced_bytes,
                },
                first: monotonic(event.start),
                last: monotonic(event.end),
            });
        }
        (complete, false)
    }

    /// Decides the counts that have waited for long enough; the files of those that wait on.
    fn decide_rows(
        &mut self,
        id: UnitId,
        sorted: &[Sorted],
        is_over: bool,
        now: Instant,
        decided: &mut Vec<Decided>,
    ) -> HashSet<u32> {
        let mut waiting_files = HashSet::new();
        for row in self.model.rows() {
            let process = self.model.processes()[row.process as usize].id;
            let file = self.model.file(row.file);
            let Some(state) = self.rows.get_mut(&(process, file.id)) else {
                continue;
            };
            if state.waiting.is_empty() {
                continue;
            }
            let sorted = sorted[row.file as usize];
            if !is_over && !state.is_ready(&state.waiting.unpack(), &sorted, now) {
                waiting_files.insert(row.file);
                continue;
            }
            let counters = std::mem::take(&mut state.waiting);
            let (mount_point, fs_type) = self.model.mount_of(&file);
            decided.push(Decided {
                unit: id,
                file: file.id,
                path: file.path.to_vec(),
                is_directory: file.is_directory(),
                size: file.size,
                mount: (mount_point.to_vec(), fs_type.to_owned()),
                sorted,
                used: Used::new(&row.cell.total(), &sorted),
                counters,
            });
        }
        waiting_files
    }

    /// Forgets what was decided long ago, where there is much of it.
    fn forget(&mut self, now: Instant) {
        self.model.keep_newest_spans(MAX_SPANS);
        if self.rows.len() < FORGET_FROM {
            return;
        }
        let is_old = |state: &State| {
            state.waiting.is_empty() && now.saturating_duration_since(state.touched) >= FORGET_AFTER
        };
        self.rows.retain(|_, state| !is_old(state));
        let files: HashSet<FileId> = self.rows.keys().map(|(_, file)| *file).collect();
        let kept: Vec<bool> = (0..self.model.file_count() as u32)
            .map(|index| files.contains(&self.model.file(index).id))
            .collect();
        let processes: HashSet<ProcessId> = self.rows.keys().map(|(process, _)| *process).collect();
        self.model.settle(Bounds { start: 0, end: 0 });
        self.model.forget(
            |process| process.about.end.is_none() || processes.contains(&process.id),
            |file| kept[file as usize],
        );
    }
}

impl State {
    /// Whether counts have waited for long enough.
    fn is_ready(&self, waiting: &Counters, sorted: &Sorted, now: Instant) -> bool {
        let (read, written) = (waiting.v[BYTES_READ] > 0, waiting.v[BYTES_WRITTEN] > 0);
        let is_load = read && sorted.phase(Direction::Read) == Phase::Restore;
        // Data that are made look like weights until they are read.
        let may_be_data = written
            && sorted.phase(Direction::Write) == Phase::Checkpoint
            && sorted.phase(Direction::Read) == Phase::Training;
        let (quiet, longest) = if is_load || may_be_data {
            (MIN_QUIET_OF_LOADS, MAX_WAIT_OF_LOADS)
        } else if sorted.phase(Direction::Write) == Phase::Checkpoint {
            (MIN_QUIET, MAX_WAIT_OF_SAVES)
        } else {
            (MIN_QUIET, MAX_WAIT)
        };
        now.saturating_duration_since(self.touched) >= quiet
            || now.saturating_duration_since(self.since) >= longest
    }
}

/// Takes over what a model knows of a file, and its mount.
fn name(to: &mut Model, from: &Model, file: &File<'_>) {
    if to
        .find_file(file.id)
        .is_some_and(|known| known.path == file.path && known.size == file.size)
    {
        return;
    }
    to.restore_file(&file.name(), file.opened_as, file.phases);
    if let Some(mount) = from.mount_record(file) {
        to.restore_mount(mount.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_wait_take_few_bytes() {
        let mut counters = Counters::ZERO;
        for (index, value) in [(OPENS, 1), (READS, 2), (CLOSES, 1), (BYTES_READ, 110_000)] {
            counters.v[index] = value;
        }
        let waiting = Packed::from(&counters);
        // Not packed, the counters alone would take 1,800 bytes.
        let bytes = size_of::<State>() + waiting.bytes().len();
        assert!(bytes <= 80, "{bytes} bytes");
        assert!(
            size_of::<Decided>() <= 160,
            "{} bytes",
            size_of::<Decided>()
        );
    }
}
