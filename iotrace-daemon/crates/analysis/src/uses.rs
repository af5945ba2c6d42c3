//! One pass over the intervals of a run: reads of training files, saves and loads as they are distinguished there, and the
//! series.
//!
//! An interval gives for each process and file how often it was opened, how many bytes moved, and when the first and the
//! last open, read, write and close were. So one or two uses of a file in one interval are known with their times, and of
//! more the number is known and the times of those between are not: [`Visit::is_exact`] says so.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use iotrace_common::op;
use iotrace_model::{
    Model, Process,
    counters::*,
    history::{Bounds, Delta},
    input::Place,
    run::Run,
};
use iotrace_phases::{
    context::Sorted,
    copies::Copies,
    phase::{Direction, Phase},
    used::Used,
};

use super::{
    renames::{Rename, Renames},
    series::{Filling, Series},
};

/// Descriptors of a file that are open after some were opened and closed. Those opened before it was watched may be closed, too.
pub fn still_open(before: u64, opens: u64, closes: u64) -> u64 {
    before.saturating_add(opens).saturating_sub(closes)
}

/// A read of a training file, as one process did it: one open with what was read, or all reads of one interval.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    pub file: u32,
    pub process: u32,
    /// Nanoseconds since the start of the run, as all moments here.
    pub start: i64,
    pub end: i64,
    pub bytes: u64,
    /// Bytes that were fetched from storage for it.
    pub fetched: u64,
    /// Nanoseconds in reads, summed.
    pub read_ns: u64,
    /// Opens and closes in it, and those of intervals in which nothing was read: an open before it, a close after it.
    pub opens: u64,
    pub closes: u64,
    /// Calls that read.
    pub reads: u32,
    /// Whether the times are known, not put between the known ones.
    pub is_exact: bool,
}

/// What one process did to one file of a save or a load in one interval.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    pub file: u32,
    pub process: u32,
    pub start: i64,
    pub end: i64,
    /// Where it was opened more than once: the end of the first use and the start of the last.
    pub between: Option<(i64, i64)>,
    pub bytes: u64,
    pub opens: u64,
    pub closes: u64,
    pub mmaps: u64,
    /// Calls that move data.
    pub calls: u64,
    pub data_ns: u64,
    pub meta_ns: u64,
    pub syncs: u64,
    pub sync_ns: u64,
    /// Bytes of the file that the run has reached.
    pub extent: u64,
    /// End of the last write.
    pub last_write: Option<i64>,
    /// Whether it was written again after a pause.
    pub has_pause: bool,
    /// Whether it was closed as often as it was opened, at the end at least.
    pub is_closed: bool,
}

impl Touch {
    /// Start and end.
    pub fn span(&self) -> (i64, i64) {
        (self.start, self.end)
    }

    /// A use that nothing goes on with.
    fn alone(self) -> Self {
        Self {
            between: None,
            opens: 1,
            closes: 1,
            ..self
        }
    }
}

/// What a process did in a directory around a sync of it.
#[derive(Clone, Copy, Debug)]
pub struct DirectorySync {
    /// The directory, by index.
    pub file: u32,
    pub process: u32,
    /// Nanoseconds since the start of the run.
    pub start: i64,
    pub end: i64,
    pub syncs: u64,
    /// Nanoseconds in syncs.
    pub ns: u64,
}

/// The last sync of a file or directory, in one use of it or by one process in one interval.
#[derive(Clone, Copy, Debug)]
pub struct FileSync {
    /// What was written before this is on storage, nanoseconds since the start of the run.
    pub at: i64,
    /// Whether there were others in that use or interval.
    pub has_others: bool,
}

/// A sync of all files, or of those of one filesystem.
#[derive(Clone, Copy, Debug)]
pub struct WideSync {
    /// Who called it, by index.
    pub process: u32,
    /// Of the filesystem; `None`: all.
    pub device: Option<u32>,
    /// Start, nanoseconds since the start of the run.
    pub at: i64,
}

/// Longest time from an open until the first write or read of the same save or load, but for what calls took, nanoseconds.
const OPEN_WITHIN_NS: u64 = 1_000_000_000;
/// Longest time after the last write, or read, until a close that is of the same save, or load, nanoseconds.
const CLOSE_WITHIN_NS: u64 = 1_000_000_000;
/// Longest pause in the writes of one save to a file that is kept open, nanoseconds.
const MAX_PAUSE_NS: u64 = 10_000_000_000;

/// Longest pause in writes behind which no other save of the file begins, nanoseconds.
const SHORT_PAUSE_NS: u64 = 250_000_000;

/// What the pass found.
#[derive(Default)]
pub struct Uses {
    pub visits: Vec<Visit>,
    pub saved: Vec<Touch>,
    pub loaded: Vec<Touch>,
    pub directory_syncs: Vec<DirectorySync>,
    /// By file or directory: all syncs of it, of whatever phase and process.
    pub file_syncs: BTreeMap<u32, Vec<FileSync>>,
    /// The last of each process in each interval.
    pub wide_syncs: Vec<WideSync>,
    /// Renames of files whose uses are known one by one.
    pub renames: Renames,
    /// By process: when it began, nanoseconds since the start of the run; `None` if unknown.
    pub began: Vec<Option<i64>>,
    /// By process: when a signal ended it, nanoseconds since the start of the run; `None` where none did.
    pub killed: Vec<Option<i64>>,
    pub series: Series,
    /// By file: the largest size that was seen, bytes.
    pub sizes: Vec<u64>,
    /// By file: bytes up to the highest offset that was read; 0 where that was not measured.
    pub reached: Vec<u64>,
    /// Files that the run wrote in place after it had read them.
    pub rewritten: BTreeSet<u32>,
    /// Whether intervals had to be merged ([`Model::has_coarse_history`]): uses of a file may have no times of their own.
    pub is_coarse: bool,
}

impl Uses {
    /// Goes over the intervals of a run.
    pub fn new(model: &Model, run: &Run, sorted: &[Sorted], copies: &Copies) -> Self {
        let bounds = Bounds {
            start: run.start_unix_ns,
            end: run.end_unix_ns(),
        };
        // What a process did with a file on the whole says what each interval's part of it is.
        let mut stored = HashSet::new();
        let mut files = Files::new(model);
        let rows = model.rows().iter().map(|row| {
            let total = row.cell.total();
            if total.v[MAPPED_BYTES_DIRTIED] > 0 {
                stored.insert((row.process, row.file));
            }
            files.add(row.file, &total);
            Used::new(&total, &sorted[row.file as usize])
        });
        let used: Vec<Used> = rows.collect();
        let mut pass = Pass {
            model,
            run,
            sorted,
            copies,
            spanned: spanned(model),
            stored,
            used,
            unread: Vec::new(),
            begun: HashMap::new(),
            uses: Self {
                rewritten: files.rewritten(),
                sizes: files.sizes,
                reached: files.reached,
                began: began(model, run),
                killed: killed(model, run),
                is_coarse: model.has_coarse_history(),
                ..Self::default()
            },
            filling: Filling::default(),
        };
        model.each_step(bounds, |bounds, delta| pass.take(bounds, &delta));
        pass.take_spans();
        add_unread(&mut pass.uses.visits, &pass.unread);
        let renamed = pass.renamed();
        let mut uses = pass.uses;
        uses.renames = Renames::new(model, sorted, &uses.saved, renamed);
        uses.series = pass.filling.finish();
        uses
    }

    /// The path under which a file was saved or loaded.
    pub fn path<'a>(&'a self, model: &'a Model, file: u32) -> &'a [u8] {
        let saved_as = self.renames.saved_as.get(&file);
        saved_as.map_or(model.file(file).path, |path| path)
    }
}

/// The writes of one use of a file for one save.
struct Round {
    counters: Counters,
    has_pause: bool,
}

/// Adds opens that were not closed before the next visit of the file by the process to that visit, and closes of others to the one
/// before them. `unread`: in the order of time.
fn add_unread(visits: &mut [Visit], unread: &[Visit]) {
    let mut unread_at: HashMap<(u32, u32), Vec<&Visit>> = HashMap::new();
    for one in unread {
        let of_place = unread_at.entry((one.process, one.file)).or_default();
        of_place.push(one);
    }
    let mut known: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    for (index, visit) in visits.iter().enumerate() {
        let place = (visit.process, visit.file);
        if unread_at.contains_key(&place) {
            known.entry(place).or_default().push(index);
        }
    }
    for (place, mut indices) in known {
        indices.sort_by_key(|index| visits[*index].start);
        let starts: Vec<i64> = indices.iter().map(|index| visits[*index].start).collect();
        let next_of = |one: &Visit| starts.partition_point(|start| *start <= one.start);
        for gap in unread_at[&place].chunk_by(|a, b| next_of(a) == next_of(b)) {
            let (mut open, mut of_before) = (0, 0);
            for one in gap {
                saturating_add(&mut open, one.opens);
                saturating_add(&mut of_before, one.closes.saturating_sub(open));
                open = open.saturating_sub(one.closes);
            }
            let next = next_of(gap[0]);
            if let Some(before) = next.checked_sub(1) {
                saturating_add(&mut visits[indices[before]].closes, of_before);
            }
            if let Some(next) = indices.get(next) {
                saturating_add(&mut visits[*next].opens, open);
            }
        }
    }
}

/// Processes and files whose uses are known one by one; none where there were too many to keep.
fn spanned(model: &Model) -> HashSet<(u32, u32)> {
    let spans = model.spans().filter(|spans| spans.are_complete());
    spans.map_or_else(HashSet::new, |spans| spans.places().collect())
}

/// When each process began, nanoseconds since the start of the run.
fn began(model: &Model, run: &Run) -> Vec<Option<i64>> {
    let began = |start| run.clock.unix_ns_of_boottime(start) - run.start_unix_ns;
    let starts = model.processes().iter().map(|one| one.about.start_boottime);
    starts
        .map(|start| (start > 0).then(|| began(start)))
        .collect()
}

/// When a signal ended each process, nanoseconds since the start of the run.
fn killed(model: &Model, run: &Run) -> Vec<Option<i64>> {
    let killed = |process: &Process| {
        let about = &process.about;
        let end = about.end.filter(|_| about.is_killed())?;
        Some(run.clock.unix_ns(end) - run.start_unix_ns)
    };
    model.processes().iter().map(killed).collect()
}

/// What is known of each file by the sums of all processes.
struct Files {
    /// At first sight, or as far as it was read and written since.
    sizes: Vec<u64>,
    /// [`Uses::reached`].
    reached: Vec<u64>,
    /// `CLOCK_MONOTONIC` nanoseconds; the last moment if there is none.
    first_reads: Vec<u64>,
    /// Of those that were written.
    last_writes: BTreeMap<u32, u64>,
}

impl Files {
    fn new(model: &Model) -> Self {
        let files = 0..model.file_count() as u32;
        let sizes: Vec<u64> = files.map(|index| model.file(index).size).collect();
        Self {
            reached: vec![0; sizes.len()],
            first_reads: vec![u64::MAX; sizes.len()],
            last_writes: BTreeMap::new(),
            sizes,
        }
    }

    /// What one process did to a file.
    fn add(&mut self, file: u32, counters: &Counters) {
        let (v, index) = (&counters.v, file as usize);
        let size = &mut self.sizes[index];
        *size = (*size).max(extent(counters));
        let reached = &mut self.reached[index];
        *reached = (*reached).max(bytes_up_to(v[MAX_BYTE_READ]));
        if v[FIRST_READ] > 0 {
            let first = &mut self.first_reads[index];
            *first = (*first).min(v[FIRST_READ]);
        }
        if v[LAST_WRITE] > 0 {
            let last = self.last_writes.entry(file).or_default();
            *last = (*last).max(v[LAST_WRITE]);
        }
    }

    /// [`Uses::rewritten`].
    fn rewritten(&self) -> BTreeSet<u32> {
        let written = self.last_writes.iter();
        let rewritten = written.filter(|(file, last)| self.first_reads[**file as usize] < **last);
        rewritten.map(|(file, _)| *file).collect()
    }
}

/// Bytes of the file up to the highest offset that was read or written.
pub fn extent(counters: &Counters) -> u64 {
    let v = &counters.v;
    bytes_up_to(v[MAX_BYTE_READ].max(v[MAX_BYTE_WRITTEN]))
}

/// Bytes up to a highest offset. That is not measured at detail basic: 0, as of a file of one byte.
fn bytes_up_to(highest: u64) -> u64 {
    match highest {
        0 => 0,
        highest => highest.saturating_add(1),
    }
}

struct Pass<'a> {
    model: &'a Model,
    run: &'a Run,
    sorted: &'a [Sorted],
    copies: &'a Copies,
    /// Processes and files whose uses are known one by one.
    spanned: HashSet<(u32, u32)>,
    /// Processes and files that were mapped and stored to.
    stored: HashSet<(u32, u32)>,
    /// By row.
    used: Vec<Used>,
    /// Intervals in which a training file was opened or closed, and nothing of it was read, and closes before anything was.
    unread: Vec<Visit>,
    /// By process and training file: bytes that were read since an open in an earlier interval, until the close.
    begun: HashMap<(u32, u32), u64>,
    uses: Uses,
    filling: Filling,
}

impl Pass<'_> {
    fn take(&mut self, bounds: Bounds, delta: &Delta) {
        let Delta {
            process,
            place,
            row,
            counters,
        } = delta;
        let start = self.run.start_unix_ns;
        let bounds = (bounds.start - start, bounds.end - start);
        let is_told_later =
            matches!(*place, Place::File(file) if self.spanned.contains(&(*process, file)));
        if !is_told_later {
            self.sync(*process, *place, counters);
        }
        let (Place::File(file), Some(row)) = (*place, *row) else {
            self.filling.add(bounds, *process, &[], counters);
            return;
        };
        let used = self.used[row as usize];
        let phases: Vec<_> = used.phases(&self.sorted[file as usize]).collect();
        let process = *process;
        self.filling.add(bounds, process, &phases, counters);
        let is_spanned = self.spanned.contains(&(process, file));
        if self.model.file(file).is_directory() {
            // Of more than one the times are not known.
            if !is_spanned && counters.calls(op::is_file_sync) == 1 {
                self.directory(file, process, counters);
            }
            return;
        }
        for phase in phases {
            match phase {
                (Phase::Training, Direction::Read) if !self.copies.are_all_reads(process, file) => {
                    self.visit(file, process, counters)
                }
                (Phase::Checkpoint, Direction::Write) if !is_spanned => {
                    let touch = self.written(file, process, counters);
                    self.uses.saved.extend(touch);
                }
                (Phase::Restore, Direction::Read) if !is_spanned => {
                    let touch = self.read(file, process, counters);
                    self.uses.loaded.extend(touch);
                }
                _ => {}
            }
        }
    }

    /// The renames of files whose uses are known one by one, whoever renamed them.
    fn renamed(&self) -> Vec<Rename> {
        let spans = self.model.spans().into_iter();
        let renames: Vec<_> = spans.flat_map(|spans| spans.renames()).collect();
        // There are far fewer of them than of uses.
        let files: HashSet<u32> = renames.iter().map(|(_, file, _)| *file).collect();
        let spanned = self.spanned.iter().map(|(_, file)| *file);
        let spanned: HashSet<u32> = spanned.filter(|file| files.contains(file)).collect();
        let of_spanned = renames
            .into_iter()
            .filter(|(_, file, _)| spanned.contains(file));
        of_spanned
            .map(|(process, file, at)| (file, process, self.at(at)))
            .collect()
    }

    /// Takes saves and loads from the uses that are known one by one.
    fn take_spans(&mut self) {
        let Some(spans) = self.model.spans() else {
            return;
        };
        for one in spans.uses() {
            if !self.spanned.contains(&(one.process, one.file)) {
                continue;
            }
            let pieces = one.pieces.iter();
            let pieces: Vec<Counters> = pieces
                .map(|index| spans.all()[*index as usize].cell.total())
                .collect();
            for piece in &pieces {
                self.sync(one.process, Place::File(one.file), piece);
            }
            if self.model.file(one.file).is_directory() {
                for piece in &pieces {
                    self.directory(one.file, one.process, piece);
                }
                continue;
            }
            let sorted = &self.sorted[one.file as usize];
            if sorted.phase(Direction::Write) == Phase::Checkpoint {
                for round in self.rounds((one.process, one.file), &pieces) {
                    let touch = self.written(one.file, one.process, &round.counters);
                    self.uses.saved.extend(touch.map(|touch| Touch {
                        has_pause: round.has_pause,
                        ..touch.alone()
                    }));
                }
            }
            // What its own writer reads back is no load, and neither is what is copied.
            let is_restore = sorted.phase(Direction::Read) == Phase::Restore;
            let first = one.pieces[0];
            if is_restore && !self.copies.is_read_back(first) && !self.copies.has_span(first) {
                let touch = self.read(one.file, one.process, &one.counters);
                self.uses.loaded.extend(touch.map(Touch::alone));
            }
        }
    }

    /// The writes of one use of a file, by save: a file that is kept open is written again for the next one, from its
    /// beginning or after a long while. What comes after the last write or sync is left out, but for a close soon after.
    fn rounds(&self, place: (u32, u32), pieces: &[Counters]) -> Vec<Round> {
        let is_stored = self.stored.contains(&place);
        let moves = |counters: &Counters| {
            counters.calls(op::is_write) > 0
                || counters.calls(op::is_file_sync) > 0
                || is_stored && counters.v[MMAPS] > 0
        };
        let size = self.uses.sizes[place.1 as usize];
        let written = saturating_sum(pieces.iter().map(|piece| piece.v[BYTES_WRITTEN]));
        let is_rewritten = size > 0 && written > size.saturating_add(size / 10);
        let mut rounds: Vec<Round> = Vec::new();
        // What came before the first write since the last round: an open, mostly.
        let mut before: Option<Counters> = None;
        for piece in pieces {
            let mut counters = piece.clone();
            if let Some(before) = before.take() {
                counters.absorb(&before);
            }
            if !moves(piece) {
                match rounds.last_mut() {
                    Some(last)
                        if !is_rewritten
                            && piece.v[CLOSES] > 0
                            && piece.v[FIRST_OPERATION]
                                < last.counters.v[LAST_OPERATION] + CLOSE_WITHIN_NS =>
                    {
                        counters.absorb(&last.counters);
                        last.counters = counters;
                    }
                    _ => before = Some(counters),
                }
                continue;
            }
            match rounds.last_mut() {
                Some(last)
                    if !is_rewritten
                        && piece.v[FIRST_OPERATION]
                            < last.counters.v[LAST_OPERATION].saturating_add(MAX_PAUSE_NS) =>
                {
                    let pause =
                        piece.v[FIRST_OPERATION].saturating_sub(last.counters.v[LAST_OPERATION]);
                    last.has_pause |= pause > SHORT_PAUSE_NS;
                    counters.absorb(&last.counters);
                    last.counters = counters;
                }
                _ => rounds.push(Round {
                    counters,
                    has_pause: false,
                }),
            }
        }
        rounds
    }

    fn at(&self, monotonic: u64) -> i64 {
        let unix = self.run.clock.unix_ns(monotonic);
        unix.saturating_sub(self.run.start_unix_ns)
    }

    /// When a save or a load begins: at its first open, or with its first write or read if the file was opened long before.
    fn begin(&self, counters: &Counters, first_moved: u64) -> i64 {
        let v = &counters.v;
        let opened = v[FIRST_OPEN];
        let is_long_before =
            first_moved.saturating_sub(opened) > v[META_NS].saturating_add(OPEN_WITHIN_NS);
        let opened = if is_long_before { 0 } else { opened };
        self.first_of([opened, first_moved, v[FIRST_OPERATION]])
    }

    /// The first of these moments that is one, in their order of preference.
    fn first_of(&self, moments: [u64; 3]) -> i64 {
        let moment = moments.into_iter().find(|moment| *moment != 0);
        self.at(moment.unwrap_or(self.run.clock.monotonic_ns(self.run.start_unix_ns)))
    }

    fn sync(&mut self, process: u32, place: Place<u32>, counters: &Counters) {
        let v = &counters.v;
        let Some(at) = self.moment(v[LAST_SYNC]) else {
            return;
        };
        let device = match place {
            Place::File(file) => {
                let has_others = counters.calls(op::makes_durable) > 1;
                let of_file = self.uses.file_syncs.entry(file).or_default();
                of_file.push(FileSync { at, has_others });
                Some(self.model.file(file).id.device).filter(|_| v[SYNCFS] > 0)
            }
            Place::PathOnly if v[SYNCS] > 0 => None,
            _ => return,
        };
        if v[SYNCFS] + v[SYNCS] > 0 {
            let wide = WideSync {
                process,
                device,
                at,
            };
            self.uses.wide_syncs.push(wide);
        }
    }

    /// A moment; `None` for 0.
    fn moment(&self, monotonic: u64) -> Option<i64> {
        (monotonic != 0).then(|| self.at(monotonic))
    }

    fn directory(&mut self, file: u32, process: u32, counters: &Counters) {
        let v = &counters.v;
        let syncs = counters.calls(op::is_file_sync);
        if syncs > 0 {
            self.uses.directory_syncs.push(DirectorySync {
                file,
                process,
                start: self.at(v[FIRST_OPERATION]),
                end: self.at(v[LAST_OPERATION]),
                syncs,
                ns: v[SYNC_NS],
            });
        }
    }

    fn visit(&mut self, file: u32, process: u32, counters: &Counters) {
        let v = &counters.v;
        let bytes = v[BYTES_READ];
        let start = self.first_of([v[FIRST_READ], v[FIRST_OPERATION], 0]);
        let end = self
            .first_of([v[LAST_READ], v[LAST_OPERATION], 0])
            .max(start);
        let size = self.uses.sizes[file as usize];
        let is_before_open = |moment: u64| v[OPENS] > 0 && (1..v[FIRST_OPEN]).contains(&moment);
        // The open that wrote the file, if it is of this interval, is none of those that read it, nor is its close. What is
        // written by sendfile has no first write.
        let written = match v[FIRST_WRITE] {
            0 => v[FIRST_CLOSE],
            first => first,
        };
        let is_of_writer = v[BYTES_WRITTEN] > 0 && v[OPENS] > 1 && !is_before_open(written);
        // Nor is the first one, if the file was closed before anything was read.
        let is_look = v[OPENS] > 1
            && (1..v[FIRST_READ]).contains(&v[FIRST_CLOSE])
            && !is_before_open(v[FIRST_CLOSE]);
        let others = u64::from(is_of_writer || is_look);
        let opens = v[OPENS] - others;
        let closes = v[CLOSES].saturating_sub(others);
        let has_rest = is_before_open(v[FIRST_READ]);
        // A close before the first open ends the use before, whose last reads are not here.
        let is_closed_before = is_before_open(v[FIRST_CLOSE]) && closes > 0 && !has_rest;
        let whole = Visit {
            file,
            process,
            start,
            end,
            bytes,
            fetched: counters.fetched_by_reads(),
            read_ns: v[READ_NS],
            opens,
            closes: closes - u64::from(is_closed_before),
            reads: u32::try_from(counters.calls(op::is_read)).unwrap_or(u32::MAX),
            is_exact: opens == 0 || opens == 1 && !has_rest,
        };
        if has_rest
            && opens == 1
            && let Some([rest, next]) = self.in_two(&whole, counters)
        {
            self.note_begun(&next);
            self.uses.visits.push(rest);
            match next.bytes {
                0 => self.unread.push(next),
                _ => self.uses.visits.push(next),
            }
            return;
        }
        self.note_begun(&whole);
        if is_closed_before {
            self.unread.push(Visit {
                start: self.at(v[FIRST_CLOSE]),
                opens: 0,
                closes: 1,
                ..whole
            });
        }
        if bytes == 0 {
            if opens > 0 || whole.closes > 0 {
                self.unread.push(whole);
            }
            return;
        }
        // One pass for each open, if an open read about the whole file. The bytes of a use that began before the interval, or
        // goes on after it, cannot be told from the others. Above 1,000 opens each pass would be too short to have a time.
        let is_each_whole = opens > 0 && size > 0 && bytes / opens >= size - size / 4;
        let goes_on = (1..opens).contains(&whole.closes);
        let is_one = opens < 2 || !is_each_whole || opens > 1_000 || has_rest || goes_on;
        if is_one || self.uses.is_coarse {
            self.uses.visits.push(whole);
            return;
        }
        let first_end = self.first_of([v[FIRST_CLOSE], 0, 0]).clamp(start, end);
        let last_start = self.first_of([v[LAST_OPEN], 0, 0]).clamp(first_end, end);
        let step = (last_start - first_end) / opens as i64;
        let mut fetched = whole.fetched;
        for index in 0..opens {
            // What the first one fetched the next one finds in the page cache.
            let part = match index {
                _ if index == opens - 1 => fetched,
                _ => fetched.min(size),
            };
            fetched -= part;
            let (from, to) = match index {
                0 => (start, first_end),
                _ if index == opens - 1 => (last_start, end),
                _ => (
                    first_end + step * index as i64,
                    first_end + step * (index as i64 + 1),
                ),
            };
            self.uses.visits.push(Visit {
                start: from,
                end: to,
                bytes: bytes / opens,
                fetched: part,
                read_ns: v[READ_NS] / opens,
                opens: 1,
                closes: 1,
                reads: whole.reads / u32::try_from(opens).unwrap_or(u32::MAX),
                is_exact: v[FIRST_CLOSE] != 0 && (index == 0 || index == opens - 1),
                ..whole
            });
        }
    }

    /// Notes how much was read of a use that goes on in the next interval.
    fn note_begun(&mut self, visit: &Visit) {
        let place = (visit.process, visit.file);
        match (visit.opens, visit.closes) {
            (0, 0) if self.begun.contains_key(&place) => {
                saturating_add(self.begun.entry(place).or_default(), visit.bytes);
            }
            (1, 0) => drop(self.begun.insert(place, visit.bytes)),
            _ if self.begun.is_empty() => {}
            _ => drop(self.begun.remove(&place)),
        }
    }

    /// The rest of a use that began in an earlier interval, and the next use, if the file was closed in between. How many bytes
    /// are of the rest is known if it was read whole; else they are divided as the time is.
    fn in_two(&self, whole: &Visit, counters: &Counters) -> Option<[Visit; 2]> {
        let v = &counters.v;
        let is_closed = (1..v[FIRST_OPEN]).contains(&v[FIRST_CLOSE]) && whole.closes > 0;
        if !is_closed {
            return None;
        }
        let has_next = v[LAST_READ] >= v[FIRST_OPEN];
        let rest_end = self.at(if has_next {
            v[FIRST_CLOSE]
        } else {
            v[LAST_READ]
        });
        let rest_end = rest_end.max(whole.start);
        let next_start = self
            .at(v[LAST_OPEN])
            .clamp(rest_end, whole.end.max(rest_end));
        let size = self.uses.sizes[whole.file as usize];
        let begun = self.begun.get(&(whole.process, whole.file));
        let lacks = begun.map(|begun| size.saturating_sub(*begun));
        let length = |from: i64, to: i64| u64::try_from(to - from).unwrap_or(0);
        let times = [length(whole.start, rest_end), length(next_start, whole.end)];
        let bytes = match lacks.filter(|lacks| (1..whole.bytes).contains(lacks)) {
            _ if !has_next => whole.bytes,
            Some(lacks) => lacks,
            None => scaled(whole.bytes, times[0], saturating_sum(times)),
        };
        let share = |value: u64| scaled(value, bytes, whole.bytes);
        let (read_ns, reads) = (share(whole.read_ns), share(whole.reads.into()) as u32);
        let rest = Visit {
            end: rest_end,
            bytes,
            fetched: share(whole.fetched),
            read_ns,
            opens: 0,
            closes: 1,
            reads,
            is_exact: true,
            ..*whole
        };
        let next = Visit {
            start: next_start,
            end: whole.end.max(next_start),
            bytes: whole.bytes - bytes,
            fetched: whole.fetched - rest.fetched,
            read_ns: whole.read_ns - read_ns,
            closes: whole.closes - 1,
            reads: whole.reads - reads,
            is_exact: true,
            ..*whole
        };
        Some([rest, next])
    }

    /// What was done to the file, begun with its first write or read.
    fn touch(&self, file: u32, process: u32, counters: &Counters, first_moved: u64) -> Touch {
        let v = &counters.v;
        let between = (v[OPENS] > 1 && v[FIRST_CLOSE] != 0)
            .then(|| (self.at(v[FIRST_CLOSE]), self.at(v[LAST_OPEN])));
        let start = self.begin(counters, first_moved);
        Touch {
            file,
            process,
            start,
            end: start,
            between,
            bytes: 0,
            opens: v[OPENS],
            closes: v[CLOSES],
            mmaps: v[MMAPS],
            calls: 0,
            data_ns: 0,
            meta_ns: v[META_NS],
            syncs: counters.calls(op::is_file_sync),
            sync_ns: v[SYNC_NS],
            extent: extent(counters),
            last_write: self.moment(v[LAST_WRITE]),
            has_pause: false,
            is_closed: v[CLOSES] > 0 && v[CLOSES] >= v[OPENS],
        }
    }

    /// A write of a checkpoint's file: from the first open, or from the first write where it was opened long before, to
    /// the last write, close, sync or rename.
    fn written(&self, file: u32, process: u32, counters: &Counters) -> Option<Touch> {
        let v = &counters.v;
        let calls = counters.calls(op::is_write);
        let (reads, syncs) = (
            counters.calls(op::is_read),
            counters.calls(op::is_file_sync),
        );
        let is_the_end = v[CLOSES] > 0 && [v[OPENS], reads, v[MMAPS]] == [0; 3];
        let is_stored = v[MMAPS] > 0 && self.stored.contains(&(process, file));
        if [calls, syncs, v[RENAMES]] == [0; 3] && !is_the_end && !is_stored {
            return None;
        }
        let touch = self.touch(file, process, counters, v[FIRST_WRITE]);
        // What else was done with the file since (it was read back, removed) is no part of the save.
        let is_only_saved = [reads, v[UNLINKS], v[STATS]] == [0; 3];
        let has_stamps = v[LAST_WRITE] != 0 || v[LAST_CLOSE] != 0;
        let end = if has_stamps && !is_only_saved {
            self.at(v[LAST_WRITE].max(v[LAST_CLOSE]))
        } else {
            self.at(v[LAST_OPERATION])
        };
        Some(Touch {
            end: end.max(touch.start),
            bytes: v[BYTES_WRITTEN],
            mmaps: if is_stored { v[MMAPS] } else { 0 },
            calls,
            data_ns: v[WRITE_NS],
            ..touch
        })
    }

    /// A load of a file: from its first open, or from the first read where it was opened long before, to its last read, or to a
    /// close soon after it; of a mapped file the last read is not known.
    fn read(&self, file: u32, process: u32, counters: &Counters) -> Option<Touch> {
        let v = &counters.v;
        let calls = counters.calls(op::is_read);
        // Nothing is loaded by a mapping that is stored to.
        let is_stored = self.stored.contains(&(process, file));
        if calls == 0 && (v[MMAPS] == 0 || is_stored) {
            return None;
        }
        let touch = self.touch(file, process, counters, v[FIRST_READ]);
        let is_kept_open = v[MMAPS] == 0
            && v[LAST_READ] > 0
            && v[LAST_CLOSE] > v[LAST_READ].saturating_add(CLOSE_WITHIN_NS);
        let closed = if is_kept_open { 0 } else { v[LAST_CLOSE] };
        let end = self.first_of([v[LAST_READ].max(closed), v[LAST_OPERATION], 0]);
        Some(Touch {
            end: end.max(touch.start),
            bytes: v[BYTES_READ],
            calls,
            data_ns: v[READ_NS],
            ..touch
        })
    }
}
