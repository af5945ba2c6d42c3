//! Checkpoint events and loads: files that were written, or read, as one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    durable::{Durability, Written},
    mapped::Mapped,
    naming::{
        Choice, Key, StepAndRank, differ_in_numbers, is_description, is_of_state, is_resumption,
        is_unfinished, key, may_be_model, names_own_step, without_last_number, without_moment,
    },
    training::Training,
    uses::{FileSync, Touch, Uses, still_open},
};
use iotrace_model::{
    Model,
    counters::{saturating_add, scaled},
    paths::{name, parent},
};

const SECOND: i64 = 1_000_000_000;
/// Maximum time from the last write to the end of the process that a signal ended in a save.
const MAX_LAST_PAUSE_NS: i64 = SECOND;
/// Maximum pause within the save of one step.
pub const MAX_STEP_PAUSE_NS: i64 = 60 * SECOND;
/// Maximum pause within a load, and within a save whose names contain no step.
pub const MAX_PAUSE_NS: i64 = 10 * SECOND;
/// Files without a step (`latest`, `checkpoint`) belong to the step saved at most this long before or after them.
const MAX_DISTANCE_NS: i64 = 2 * SECOND;
/// Longest pause before what is written at once: a manifest in a step's directory is written again (there also after a quarter
/// of the save's time so far), and a second directory gets its part.
const AT_ONCE_NS: i64 = SECOND / 50;
/// Longest pause in which nobody trains, whatever is read meanwhile by threads that fetch the next samples.
const INSTANT_NS: i64 = SECOND / 200;
/// Longest pause that preparing the next file of one save takes, whatever the save took so far: weights are gathered for it.
const MAX_PREPARATION_NS: i64 = SECOND / 2;
/// Two whole states of one training differ in size by no more than this factor.
const MAX_STATE_RATIO: u64 = 2;
/// A file, or a write of it, is small compared with one that has this many times its bytes.
const SMALL_PART_RATIO: u64 = 16;
/// Maximum size of a file that describes a model and is not one itself.
pub const MAX_DESCRIPTION_BYTES: u64 = 1 << 20;
/// Maximum number of saves of one file in one interval that are told apart.
const MAX_SAVES: u64 = 1_000;
/// Maximum number of paths in the name of an event.
const MAX_NAMED_FILES: usize = 8;

/// From when to when something lasted, nanoseconds since the start of the run.
type Span = (i64, i64);

/// One save, or one load.
#[derive(Clone, Debug)]
pub struct Event {
    /// The step's directory, or the largest file.
    pub name: Vec<u8>,
    pub directory: Vec<u8>,
    /// Nanoseconds since the start of the run.
    pub start: i64,
    pub end: i64,
    /// Distinct files, by index.
    pub files: BTreeSet<u32>,
    /// By index.
    pub processes: BTreeSet<u32>,
    pub bytes: u64,
    /// Nanoseconds in calls that move data, summed, as below.
    pub data_ns: u64,
    pub meta_ns: u64,
    pub syncs: u64,
    pub sync_ns: u64,
    pub mmaps: u64,
    /// Of a load.
    pub mapped: Mapped,
    /// Bytes by process, for the balance over writers.
    pub by_process: BTreeMap<u32, u64>,
    /// Whether start and end are known, not put between known ones.
    pub is_exact: bool,
    /// Whether training stopped: no training file was read for half of the event at a time; `None` if unknown. Loader
    /// workers that fill their queue read on for a while, although who trains waits.
    pub training_stopped: Option<bool>,
    /// If so: nanoseconds from the last read before that time to the first one after it, if there is one of each.
    pub training_pause_ns: Option<u64>,
    /// Nanoseconds from the start of the save before.
    pub interval_ns: Option<u64>,
    /// Of a save: whether it survives a power cut; not judged by [`saves`].
    pub durability: Durability,
    /// What was written to each file, by index.
    pub(crate) written: BTreeMap<u32, Written>,
    is_step: bool,
    /// Whether the directory is that of one step.
    has_own_directory: bool,
    /// Of a step that the names of files tell: its number.
    number: Option<u64>,
}

impl Event {
    /// Nanoseconds from start to end.
    pub fn ns(&self) -> u64 {
        u64::try_from(self.end - self.start).unwrap_or(0)
    }

    /// Start and end.
    pub fn span(&self) -> Span {
        (self.start, self.end)
    }

    /// Nanoseconds from start to end.
    fn length(&self) -> i64 {
        self.end - self.start
    }

    /// Longest pause within the event, nanoseconds: after so long nothing comes to it.
    pub fn longest_pause(&self) -> i64 {
        if self.is_step {
            MAX_STEP_PAUSE_NS
        } else {
            MAX_PAUSE_NS
        }
    }

    /// Bytes per second from start to end; `None` for a moment, and where not all bytes are known.
    pub fn bandwidth(&self) -> Option<f64> {
        let is_known = self.ns() > 0 && self.mapped.files == 0;
        is_known.then(|| self.bytes as f64 * 1e9 / self.ns() as f64)
    }

    /// Takes which of a load's files were mapped: what was read of them, and until when, is not known.
    pub(crate) fn set_mapped(&mut self, mapped: &BTreeMap<u32, u64>) {
        let sizes = self.files.iter().filter_map(|file| mapped.get(file));
        self.mapped = Mapped::of(sizes.copied());
        self.is_exact &= self.mapped.files == 0;
    }

    fn of(part: &Part, key: &Key) -> Self {
        let touch = &part.touch;
        Self {
            name: Vec::new(),
            directory: key.directory.clone(),
            start: touch.start,
            end: touch.end,
            files: [touch.file].into(),
            processes: [touch.process].into(),
            bytes: touch.bytes,
            data_ns: touch.data_ns,
            meta_ns: touch.meta_ns,
            syncs: touch.syncs,
            sync_ns: touch.sync_ns,
            mmaps: touch.mmaps,
            mapped: Mapped::default(),
            by_process: [(touch.process, touch.bytes)].into(),
            is_exact: part.is_exact,
            training_stopped: None,
            training_pause_ns: None,
            interval_ns: None,
            durability: Durability::default(),
            written: [(touch.file, Written::new(touch, part.is_exact))].into(),
            is_step: key.is_step,
            has_own_directory: key.has_own_directory(),
            number: key.number.filter(|_| key.is_step),
        }
    }

    fn absorb(&mut self, other: Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.files.extend(other.files);
        self.processes.extend(other.processes);
        saturating_add(&mut self.bytes, other.bytes);
        saturating_add(&mut self.data_ns, other.data_ns);
        saturating_add(&mut self.meta_ns, other.meta_ns);
        saturating_add(&mut self.syncs, other.syncs);
        saturating_add(&mut self.sync_ns, other.sync_ns);
        saturating_add(&mut self.mmaps, other.mmaps);
        for (process, bytes) in other.by_process {
            saturating_add(self.by_process.entry(process).or_default(), bytes);
        }
        self.is_exact &= other.is_exact;
        for (file, written) in other.written {
            self.written.entry(file).or_default().absorb(&written);
        }
    }
}

/// When files that were loaded had been saved, by index, nanoseconds since the start of the run.
type SaveEnds = HashMap<u32, Vec<i64>>;

/// What one process did to one file, once.
#[derive(Clone, Copy)]
struct Part {
    touch: Touch,
    is_exact: bool,
}

/// The saves of a run.
#[derive(Default)]
pub struct Saves {
    /// In order.
    pub whole: Vec<Event>,
    /// Files of saves that a signal cut off.
    pub cut_off: BTreeSet<u32>,
}

/// The saves of a run.
pub fn saves(model: &Model, uses: &Uses) -> Saves {
    saves_by(model, uses, &Training::new(uses))
}

/// The saves of a run, and its loads, in order.
pub fn saves_and_loads(model: &Model, uses: &Uses) -> (Saves, Vec<Event>) {
    let training = Training::new(uses);
    (
        saves_by(model, uses, &training),
        loads(model, uses, &training),
    )
}

fn saves_by(model: &Model, uses: &Uses, training: &Training<'_>) -> Saves {
    let mut parts = parts(&uses.saved, true);
    remove_failed(model, uses, &mut parts);
    let cut_off = take_cut_off(model, uses, &mut parts);
    // A file that is kept open may have been written for several saves.
    for part in parts.iter_mut().filter(|part| part.touch.has_pause) {
        part.is_exact &= training.is_idle(part.touch.start, part.touch.end);
    }
    let mut events = group(model, uses, &parts, training, None);
    let is_state = |event: &Event| {
        let mut files = event.files.iter();
        files.all(|file| is_resumption(uses.path(model, *file)))
    };
    // A model and the state from which it resumes, or the parts of one step in directories of their own.
    let may_be_one = |a: &Event, b: &Event| {
        let is_one_step = a.number.is_some() && a.number == b.number;
        is_state(a) != is_state(b) || is_one_step && parent(&a.directory) == parent(&b.directory)
    };
    events = together(model, uses, events, training, may_be_one);
    attach(model, uses, training, &mut events);
    let times = times_of_paths(model, uses, &events);
    let last_start = events.iter().map(|event| event.start).max();
    let are_all = |event: &Event, is_such: fn(u32) -> bool| {
        let mut files = event.files.iter();
        files.all(|file| is_such(times[uses.path(model, *file)]))
    };
    let is_export = |last: &Event, event: &Event| {
        Some(event.start) == last_start
            && are_all(last, |times| times > 1)
            && are_all(event, |times| times == 1)
    };
    let have_no_step = |a: &Event, b: &Event| !a.is_step && !b.is_step && !is_export(a, b);
    events = together(model, uses, events, training, have_no_step);
    events.retain(|event| !is_of_descriptions(model, uses, event));
    let is_of = |event: &Event, touch: &Touch| {
        event.files.contains(&touch.file) && (event.start..=event.end).contains(&touch.start)
    };
    events.retain(|event| !cut_off.iter().any(|touch| is_of(event, touch)));
    add_renames(uses, &mut events);
    add_directory_syncs(model, uses, &mut events);
    finish(model, uses, &mut events);
    let mut before = None;
    for event in &mut events {
        event.interval_ns = before.map(|start| u64::try_from(event.start - start).unwrap_or(0));
        before = Some(event.start);
    }
    for event in &mut events {
        (event.training_stopped, event.training_pause_ns) = training.stopped(event);
    }
    Saves {
        whole: events,
        cut_off: cut_off.iter().map(|touch| touch.file).collect(),
    }
}

fn loads(model: &Model, uses: &Uses, training: &Training<'_>) -> Vec<Event> {
    let parts = parts(&uses.loaded, false);
    let loaded: HashSet<u32> = parts.iter().map(|part| part.touch.file).collect();
    let mut save_ends = SaveEnds::new();
    for touch in uses
        .saved
        .iter()
        .filter(|touch| loaded.contains(&touch.file))
    {
        save_ends.entry(touch.file).or_default().push(touch.end);
    }
    let mut events = group(model, uses, &parts, training, Some(&save_ends));
    events.retain(|event| !is_of_descriptions(model, uses, event));
    finish(model, uses, &mut events);
    events
}

/// Whether nothing but descriptions of a model moved, and so no model.
fn is_of_descriptions(model: &Model, uses: &Uses, event: &Event) -> bool {
    let mut files = event.files.iter();
    event.bytes <= MAX_DESCRIPTION_BYTES
        && files.all(|file| is_description(uses.path(model, *file)))
}

/// The uses of each file: what goes on in the next interval is one with the one before, unless the file was reopened.
fn parts(touches: &[Touch], is_save: bool) -> Vec<Part> {
    let mut order: Vec<&Touch> = touches.iter().collect();
    order.sort_by_key(|touch| (touch.file, touch.process, touch.start));
    let mut parts: Vec<Part> = Vec::new();
    let mut open = 0_u64;
    for touch in order {
        let is_same = parts.last().is_some_and(|part: &Part| {
            (part.touch.file, part.touch.process) == (touch.file, touch.process)
        });
        if !is_same {
            open = 0;
        }
        let goes_on = is_same && (open > 0 || touch.opens == 0);
        open = still_open(open, touch.opens, touch.closes);
        match parts.last_mut() {
            Some(part) if goes_on => part.go_on(touch),
            _ => parts.extend(split(touch, is_save)),
        }
    }
    parts
}

/// Removes attempts that failed: what was written under the name of an unfinished file, and written again from its beginning before
/// the file was renamed. `parts`: by file.
fn remove_failed(model: &Model, uses: &Uses, parts: &mut Vec<Part>) {
    let mut renames: HashMap<u32, Vec<i64>> = HashMap::new();
    for (file, _, at) in &uses.renames.ends {
        let first = model.file(*file).opened_as;
        if first.is_some_and(|path| is_unfinished(name(path))) {
            renames.entry(*file).or_default().push(*at);
        }
    }
    let mut failed: HashSet<(u32, i64)> = HashSet::new();
    for of_file in parts.chunk_by(|one, other| one.touch.file == other.touch.file) {
        let file = of_file[0].touch.file;
        let Some(renames) = renames.get(&file) else {
            continue;
        };
        let mut touches: Vec<&Touch> = of_file.iter().map(|part| &part.touch).collect();
        touches.sort_by_key(|touch| touch.start);
        for pair in touches.windows(2) {
            let (own, next) = (pair[0], pair[1]);
            let size = uses.sizes[file as usize];
            // Who renamed it wrote nothing.
            let is_whole = next.bytes > 0 && next.bytes >= size - size / SMALL_PART_RATIO;
            let is_renamed = renames
                .iter()
                .any(|at| (own.start..next.start).contains(at));
            let is_renamed_later = renames.iter().any(|at| *at >= next.start);
            if own.bytes > 0 && is_whole && !is_renamed && is_renamed_later {
                failed.insert((file, own.start));
            }
        }
    }
    parts.retain(|part| !failed.contains(&(part.touch.file, part.touch.start)));
}

impl Part {
    fn go_on(&mut self, touch: &Touch) {
        let own = &mut self.touch;
        own.end = own.end.max(touch.end);
        saturating_add(&mut own.bytes, touch.bytes);
        saturating_add(&mut own.calls, touch.calls);
        saturating_add(&mut own.data_ns, touch.data_ns);
        saturating_add(&mut own.meta_ns, touch.meta_ns);
        saturating_add(&mut own.syncs, touch.syncs);
        saturating_add(&mut own.sync_ns, touch.sync_ns);
        saturating_add(&mut own.mmaps, touch.mmaps);
        own.extent = own.extent.max(touch.extent);
        own.last_write = own.last_write.max(touch.last_write);
        own.is_closed = touch.is_closed;
    }
}

/// The saves in one interval of a file that was written over: as often as its bytes are there, if it was opened so often.
fn split(touch: &Touch, is_save: bool) -> Vec<Part> {
    // At detail basic it is not measured whether a file grew or was written over.
    let may_be_several =
        is_save && touch.extent == 0 && touch.bytes > 0 && (touch.has_pause || touch.opens > 1);
    let whole = Part {
        touch: *touch,
        is_exact: !may_be_several,
    };
    let times = if is_save && touch.extent > 0 {
        touch.bytes.saturating_add(touch.extent / 2) / touch.extent
    } else {
        1
    };
    let times = times.min(touch.opens);
    let Some((first_end, last_start)) = touch.between.filter(|_| (2..=MAX_SAVES).contains(&times))
    else {
        return vec![whole];
    };
    let step = (last_start - first_end) / times as i64;
    let upto = |value: u64, index: u64| scaled(value, index, times);
    let share = |value: u64, index: u64| upto(value, index + 1) - upto(value, index);
    let part = |index: u64| {
        let (start, end) = match index {
            0 => (touch.start, first_end),
            _ if index == times - 1 => (last_start, touch.end),
            _ => (
                first_end + step * index as i64,
                first_end + step * (index as i64 + 1),
            ),
        };
        Part {
            touch: Touch {
                start,
                end: end.max(start),
                between: None,
                bytes: share(touch.bytes, index),
                calls: share(touch.calls, index),
                data_ns: share(touch.data_ns, index),
                meta_ns: share(touch.meta_ns, index),
                syncs: share(touch.syncs, index),
                sync_ns: share(touch.sync_ns, index),
                mmaps: share(touch.mmaps, index),
                ..*touch
            },
            is_exact: false,
        }
    };
    (0..times).map(part).collect()
}

/// Puts parts with one key into events, in time. Of loads, `save_ends` has when the files had been saved.
fn group(
    model: &Model,
    uses: &Uses,
    parts: &[Part],
    training: &Training<'_>,
    save_ends: Option<&SaveEnds>,
) -> Vec<Event> {
    let is_save = save_ends.is_none();
    let mut by_key: BTreeMap<Key, Vec<&Part>> = BTreeMap::new();
    let mut keys: HashMap<u32, Key> = HashMap::new();
    for part in parts {
        let file = part.touch.file;
        keys.entry(file).or_insert_with(|| {
            let mut key = key(uses.path(model, file));
            if !is_save {
                // A load is of what lies together, whatever its names.
                (key.number, key.is_step) = (None, false);
            }
            key
        });
    }
    if is_save {
        let in_runs = steps_in_directories_of_runs(model, uses, parts, &keys);
        keys.extend(in_runs);
    }
    let of_parts = numbered_parts(model, uses, parts, &keys, training);
    let doubtful = of_parts.iter().filter(|(_, is_known)| !is_known);
    let doubtful: BTreeSet<u32> = doubtful.map(|(file, _)| *file).collect();
    let mut steps_of_files = steps_before_ranks(model, uses, parts, &keys);
    steps_of_files.extend(steps_of_one_moment(model, uses, parts, &keys));
    for (file, step) in steps_of_files {
        keys.entry(file).and_modify(|key| key.number = Some(step));
    }
    for (file, _) in of_parts {
        keys.entry(file)
            .and_modify(|key| (key.number, key.is_step) = (None, false));
    }
    for part in parts {
        let key = &keys[&part.touch.file];
        by_key.entry(key.clone()).or_default().push(part);
    }
    // By directory: start and end of each save of a step in it.
    let mut steps: HashMap<Vec<u8>, BTreeSet<Span>> = HashMap::new();
    let mut events: Vec<Event> = Vec::new();
    let (of_steps, rest): (Vec<_>, Vec<_>) = by_key.into_iter().partition(|(key, _)| key.is_step);
    for (key, mut parts) in of_steps.into_iter().chain(rest) {
        parts.sort_by_key(|part| (part.touch.start, part.touch.file));
        let (main, small) = divide(model, uses, &parts, is_save);
        let mut rounds = in_rounds(model, uses, &key, &main, training, save_ends);
        // A pointer belongs to the nearest save: of a step, or without a number.
        let near_steps = steps.get(&key.directory).filter(|_| !key.is_step);
        let is_nearest = |part: &Part, own: i64| {
            let to_step = near_steps.and_then(|steps| nearest(steps, &part.touch));
            own <= gap_of(&key) && to_step.is_none_or(|to_step| own <= to_step)
        };
        let (of_others, small) = apart(model, uses, &key, &rounds, small, training);
        if !of_others.is_empty() {
            rounds.extend(in_rounds(
                model, uses, &key, &of_others, training, save_ends,
            ));
        }
        // A manifest is written more than once in a save, before or after the data.
        for (part, is_exact) in small {
            let distance = |event: &Event| distance(part.touch.span(), event.span());
            match rounds.iter_mut().min_by_key(|event| distance(event)) {
                Some(event) if is_nearest(part, distance(event)) => {
                    event.absorb(Event::of(part, &key));
                    event.is_exact &= is_exact;
                }
                _ => rounds.push(Event::of(part, &key)),
            }
        }
        if key.is_step {
            let directory = match key.has_own_directory() {
                true => parent(&key.directory).to_vec(),
                false => key.directory.clone(),
            };
            let times = rounds.iter().map(|event| (event.start, event.end));
            steps.entry(directory).or_default().extend(times);
        }
        events.append(&mut rounds);
    }
    for event in &mut events {
        event.is_exact &= event.files.is_disjoint(&doubtful);
    }
    events.sort_by_key(|event| (event.start, event.end));
    events
}

/// The keys of files in directories whose number names a run, and not a step: `7/model_1.pt` and `7/model_2.pt`. Files with the
/// same number of their own are written at once, those with different numbers are not.
fn steps_in_directories_of_runs(
    model: &Model,
    uses: &Uses,
    parts: &[Part],
    keys: &HashMap<u32, Key>,
) -> Vec<(u32, Key)> {
    let mut directories: BTreeMap<&[u8], Vec<&Part>> = BTreeMap::new();
    for part in parts {
        let key = &keys[&part.touch.file];
        if key.has_bare_number() {
            directories.entry(&key.directory).or_default().push(part);
        }
    }
    let of_run = |parts: &Vec<&Part>| {
        let mut found = Vec::with_capacity(parts.len());
        let mut numbers: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
        for part in parts {
            let file = part.touch.file;
            let key = keys[&file].in_directory_of_run(uses.path(model, file))?;
            if let Some(number) = key.number {
                numbers.entry(number).or_default().push(part.touch.span());
            }
            found.push((file, key));
        }
        let whole = |spans: Vec<Span>| whole_at_once(spans.into_iter());
        let steps: Option<Vec<Span>> = numbers.into_values().map(whole).collect();
        let steps = steps?;
        (steps.len() > 1 && are_apart(steps)).then_some(found)
    };
    directories.values().filter_map(of_run).flatten().collect()
}

/// Whether none of these began while the one before lasted, nor at once behind it.
fn are_apart(mut spans: Vec<Span>) -> bool {
    spans.sort_unstable();
    let mut pairs = spans.windows(2);
    pairs.all(|pair| whole_at_once(pair.iter().copied()).is_none())
}

/// When a file with a number in its name was written, the number, and the file.
type Numbered = (Span, u64, u32);

/// Whether files were written in rounds of `count`: no pause within one is half as long as any between two, and no training data
/// were read in it. `None` if they were not, or only once; else whether training data are known to have been read between any two.
fn is_in_rounds(written: &[Numbered], count: usize, training: &Training<'_>) -> Option<bool> {
    let (mut within, mut between, mut is_known) = (0, i64::MAX, true);
    for (turn, pair) in (1..).zip(written.windows(2)) {
        let (one, next) = (pair[0].0, pair[1].0);
        let (pause, has_reads) = (next.0 - one.1, training.has_reads_between(one, next));
        if turn % count == 0 {
            between = between.min(pause);
            is_known &= has_reads;
        } else if has_reads {
            return None;
        } else {
            within = within.max(pause);
        }
    }
    let are_apart = between < i64::MAX && within <= MAX_PREPARATION_NS && within < between / 2;
    are_apart.then_some(is_known)
}

/// The files whose numbers are those of parts, and not of steps, each with whether that is known: `layer_0.pt` and `layer_1.pt`.
/// All of one name are written at once each time, or in rounds.
fn numbered_parts(
    model: &Model,
    uses: &Uses,
    parts: &[Part],
    keys: &HashMap<u32, Key>,
    training: &Training<'_>,
) -> Vec<(u32, bool)> {
    /// Files by directory and name without the number.
    type Names<'a> = BTreeMap<(&'a [u8], Vec<u8>), Vec<Numbered>>;
    let mut names = Names::new();
    for part in parts {
        let (file, span) = (part.touch.file, part.touch.span());
        let key = &keys[&file];
        if let Some((name, number)) = without_last_number(uses.path(model, file))
            && key.number == Some(number)
        {
            let of_name = names.entry((&key.directory, name)).or_default();
            of_name.push((span, number, file));
        }
    }
    let are_parts = |written: &mut Vec<Numbered>| {
        written.sort_unstable();
        let all: BTreeSet<u64> = written.iter().map(|(_, number, _)| *number).collect();
        let is_at_once = |(one, ..): &Numbered, (next, ..): &Numbered| {
            whole_at_once([*one, *next].into_iter()).is_some()
                && !training.has_reads_between(*one, *next)
        };
        let at_once: Vec<&[Numbered]> = written.chunk_by(is_at_once).collect();
        let in_rounds = match at_once.iter().all(|round| round.len() == all.len()) {
            true => None,
            false => is_in_rounds(written, all.len(), training),
        };
        let rounds = match in_rounds {
            Some(_) => written.chunks(all.len()).collect(),
            None => at_once,
        };
        let numbers = |round: &[Numbered]| round.iter().map(|(_, number, _)| *number).collect();
        let rounds: Vec<Vec<u64>> = rounds.into_iter().map(numbers).collect();
        let is_once_each = |round: &Vec<u64>| {
            let numbers: BTreeSet<u64> = round.iter().copied().collect();
            numbers.len() == round.len()
        };
        let is_whole = |round: &Vec<u64>| round.len() == all.len();
        // A job may have been killed in its last save.
        let are_whole = match &rounds[..] {
            [rest @ .., _] if !rest.is_empty() => rest.iter().all(is_whole),
            all => all.iter().all(is_whole),
        };
        // Steps may be saved in a row, once.
        let (first, last) = (all.first().copied(), all.last().copied());
        let are_counted = first.is_some_and(|first| first <= 1)
            && first
                .zip(last)
                .is_some_and(|(first, last)| last - first + 1 == all.len() as u64)
            && !names_own_step(uses.path(model, written[0].2));
        let are_parts = all.len() > 1
            && are_whole
            && rounds.iter().all(is_once_each)
            && (rounds.len() > 1 || are_counted);
        // What is written once may be steps if there are pauses.
        let has_pause = |pair: &[Numbered]| pair[1].0.0 - pair[0].0.1 > AT_ONCE_NS;
        let may_be_steps = rounds.len() == 1 && written.windows(2).any(has_pause);
        are_parts.then_some(in_rounds != Some(false) && !may_be_steps)
    };
    let of_parts = names
        .values_mut()
        .filter_map(|written| Some((are_parts(written)?, written)));
    of_parts
        .flat_map(|(is_known, written)| written.iter().map(move |(.., file)| (*file, is_known)))
        .collect()
}

/// The steps of files whose names end in the number of a rank, by file: `ckpt_100_0.pt` and `ckpt_100_1.pt`. All steps have files
/// with the same last numbers, what has one step is written at once, and what has different steps is not. A single rank has a
/// file of the same step: `model_100.bin` and `state_100_0.bin`.
fn steps_before_ranks(
    model: &Model,
    uses: &Uses,
    parts: &[Part],
    keys: &HashMap<u32, Key>,
) -> Vec<(u32, u64)> {
    #[derive(Default)]
    struct Step {
        ranks: BTreeSet<u64>,
        files: Vec<u32>,
        spans: Vec<Span>,
    }
    /// A directory, and a name without its numbers.
    type Name<'a> = (&'a [u8], Vec<u8>);
    /// A directory and a step.
    type OneStep<'a> = (&'a [u8], u64);
    let mut names: BTreeMap<Name<'_>, BTreeMap<u64, Step>> = BTreeMap::new();
    let mut without_rank: HashMap<OneStep<'_>, Vec<Span>> = HashMap::new();
    for part in parts {
        let key = &keys[&part.touch.file];
        let Some(number) = key.number else {
            continue;
        };
        match StepAndRank::new(uses.path(model, part.touch.file)) {
            Some(StepAndRank { rest, step, rank }) => {
                let steps = names.entry((&key.directory, rest)).or_default();
                let step = steps.entry(step).or_default();
                step.ranks.insert(rank);
                step.files.push(part.touch.file);
                step.spans.push(part.touch.span());
            }
            None => {
                let of_step = without_rank.entry((&key.directory, number)).or_default();
                of_step.push(part.touch.span());
            }
        }
    }
    let mut found = Vec::new();
    for ((directory, _), steps) in &names {
        let ranks = steps.values().next().map(|step| &step.ranks);
        let have_same_ranks = steps.values().all(|step| Some(&step.ranks) == ranks);
        let whole = |step: &Step| whole_at_once(step.spans.iter().copied());
        let is_one_save = |(number, step): (&u64, &Step)| {
            let others = without_rank.get(&(*directory, *number));
            let is_of_it =
                |other| whole_at_once(step.spans.iter().chain([other]).copied()).is_some();
            step.spans.len() == step.ranks.len()
                && whole(step).is_some()
                && (step.ranks.len() > 1 || others.into_iter().flatten().any(is_of_it))
        };
        let are_apart = are_apart(steps.values().filter_map(whole).collect());
        if steps.len() > 1 && have_same_ranks && steps.iter().all(is_one_save) && are_apart {
            for (number, step) in steps {
                found.extend(step.files.iter().map(|file| (*file, *number)));
            }
        }
    }
    found
}

/// The steps of files whose names have the moment of their save, by file: the second may end between `model_20260102-030405.pt`
/// and `optimizer_20260102-030406.pt`, which are written at once.
fn steps_of_one_moment(
    model: &Model,
    uses: &Uses,
    parts: &[Part],
    keys: &HashMap<u32, Key>,
) -> Vec<(u32, u64)> {
    /// When a file was written, its number, the file, and its name without the moment.
    type Named = (Span, u64, u32, Vec<u8>);
    let mut directories: BTreeMap<&[u8], Vec<Named>> = BTreeMap::new();
    for part in parts {
        let (file, span) = (part.touch.file, part.touch.span());
        let key = &keys[&file];
        if let Some(number) = key.number
            && let Some(name) = without_moment(uses.path(model, file))
        {
            let of_directory = directories.entry(&key.directory).or_default();
            of_directory.push((span, number, file, name));
        }
    }
    let mut found = Vec::new();
    for mut written in directories.into_values() {
        written.sort_unstable();
        let (mut span, mut step, ..) = written[0];
        let mut names: HashSet<Vec<u8>> = HashSet::new();
        for (own, number, file, name) in written {
            let whole = whole_at_once([span, own].into_iter());
            match whole.filter(|_| !names.contains(&name)) {
                Some(whole) => span = whole,
                None => {
                    (span, step) = (own, number);
                    names.clear();
                }
            }
            found.push((file, step));
            names.insert(name);
        }
    }
    found
}

/// From when to when all of this lasted, if each began while the ones before lasted, or at once behind them.
fn whole_at_once(spans: impl Iterator<Item = Span>) -> Option<Span> {
    let mut spans: Vec<_> = spans.collect();
    spans.sort_unstable();
    let mut spans = spans.into_iter();
    let first = spans.next()?;
    spans.try_fold(first, |(start, end), next| {
        let is_at_once = next.0 - end <= AT_ONCE_NS.max((end - start) / 4);
        is_at_once.then_some((start, end.max(next.1)))
    })
}

/// The time between what lasted from a start to an end each, nanoseconds; 0 if they overlap.
fn distance(one: Span, other: Span) -> i64 {
    (one.0 - other.1).max(other.0 - one.1).max(0)
}

/// The time between a touch and the nearest of the steps, by their starts and ends, nanoseconds.
fn nearest(steps: &BTreeSet<Span>, touch: &Touch) -> Option<i64> {
    let before = steps.range(..=(touch.end, i64::MAX)).next_back();
    let behind = steps.range((touch.end, i64::MAX)..).next();
    let near = before.into_iter().chain(behind);
    near.map(|step| distance(touch.span(), *step)).min()
}

/// Longest pause within an event.
fn gap_of(key: &Key) -> i64 {
    if key.is_step {
        MAX_STEP_PAUSE_NS
    } else {
        MAX_PAUSE_NS
    }
}

/// What was written to files until a signal ended the process, which had them open; not to those that it kept open from one save to
/// the next. Takes out of the parts of saves those that were made again under the same name; of the others, what is saved with them
/// is not whole.
fn take_cut_off(model: &Model, uses: &Uses, parts: &mut Vec<Part>) -> Vec<Touch> {
    if uses.killed.iter().all(Option::is_none) {
        return Vec::new();
    }
    let mut unclosed: HashMap<(u32, u32), u32> = HashMap::new();
    let mut last_starts: HashMap<&[u8], i64> = HashMap::new();
    for Part { touch, .. } in &*parts {
        *unclosed.entry((touch.process, touch.file)).or_default() += u32::from(!touch.is_closed);
        let last = last_starts.entry(uses.path(model, touch.file));
        let last = last.or_insert(touch.start);
        *last = touch.start.max(*last);
    }
    let is_cut_off = |touch: &Touch| {
        let killed = uses.killed[touch.process as usize];
        let was_killed = killed.is_some_and(|at| at - touch.end <= MAX_LAST_PAUSE_NS);
        let is_kept_open = unclosed[&(touch.process, touch.file)] > 1;
        was_killed && touch.bytes > 0 && !touch.is_closed && !is_kept_open
    };
    let mut cut_off = Vec::new();
    parts.retain(|Part { touch, .. }| {
        let is_cut_off = is_cut_off(touch);
        cut_off.extend(is_cut_off.then_some(*touch));
        !is_cut_off || last_starts[uses.path(model, touch.file)] == touch.start
    });
    cut_off
}

/// The parts that a save consists of, and those of files that are small beside them, or of a file that moved far more at
/// another time.
fn divide<'a>(
    model: &Model,
    uses: &Uses,
    parts: &[&'a Part],
    is_save: bool,
) -> (Vec<&'a Part>, Vec<&'a Part>) {
    if !is_save {
        return (parts.to_vec(), Vec::new());
    }
    let mut most: HashMap<(u32, &[u8]), u64> = HashMap::new();
    let key = |part: &Part| (part.touch.process, uses.path(model, part.touch.file));
    for part in parts {
        let most = most.entry(key(part)).or_default();
        *most = part.touch.bytes.max(*most);
    }
    let largest = most.values().copied().max().unwrap_or(0);
    parts.iter().copied().partition(|part| {
        let of_file = most[&key(part)];
        part.touch.bytes >= of_file / SMALL_PART_RATIO && of_file >= largest / SMALL_PART_RATIO
    })
}

/// Of the small parts of one key those that are saves of their own, and the rest, each with whether that is known. A model that
/// is small compared with another one, as an adapter with its base, is as much of a save as that is: what parts two states parts them,
/// too. A description is none, nor is what has the step of a save and is written once.
fn apart<'a>(
    model: &Model,
    uses: &Uses,
    key: &Key,
    saves: &[Event],
    small: Vec<&'a Part>,
    training: &Training<'_>,
) -> (Vec<&'a Part>, Vec<(&'a Part, bool)>) {
    if key.has_own_directory() {
        let rest = small.into_iter().map(|part| (part, true));
        return (Vec::new(), rest.collect());
    }
    let path = |part: &Part| uses.path(model, part.touch.file);
    let mut times: HashMap<&[u8], u32> = HashMap::new();
    for part in &small {
        *times.entry(path(part)).or_default() += 1;
    }
    let files: HashSet<u32> = saves.iter().flat_map(|save| &save.files).copied().collect();
    // Until when each save goes on with what is written at once.
    let mut spans: Vec<Span> = saves.iter().map(Event::span).collect();
    let (mut others, mut rest) = (Vec::new(), Vec::new());
    for part in small {
        let own = part.touch.span();
        let nearest = spans.iter_mut().zip(saves);
        let Some((span, save)) = nearest.min_by_key(|(span, _)| distance(own, **span)) else {
            rest.push((part, true));
            continue;
        };
        let is_next = match span.0 <= own.0 {
            true => is_next_save(*span, own, save.length(), training),
            false => is_next_save(own, *span, save.length(), training),
        };
        if is_next != Some(true) {
            *span = (span.0.min(own.0), span.1.max(own.1));
        }
        // Of a file that is large at another time this is a part, and so may be what another rank writes.
        let may_be_apart = !is_description(path(part))
            && (!key.is_step || times[path(part)] > 1)
            && !files.contains(&part.touch.file)
            && save.processes.contains(&part.touch.process);
        match is_next {
            Some(true) if may_be_apart => others.push(part),
            known => rest.push((part, known.is_some() || !may_be_apart)),
        }
    }
    (others, rest)
}

/// Puts the main parts of one key into events: a path that is saved again begins the next save, and a process that began
/// since the last load the next load, as does a file that was saved since. A pass over the training data lies between two
/// saves or loads, or one over the data for validation between saves whose names have the step.
fn in_rounds(
    model: &Model,
    uses: &Uses,
    key: &Key,
    parts: &[&Part],
    training: &Training<'_>,
    save_ends: Option<&SaveEnds>,
) -> Vec<Event> {
    let is_save = save_ends.is_none();
    let export = match is_save && !key.is_step {
        true => start_of_export(model, uses, parts),
        false => None,
    };
    let mut events: Vec<(Event, Pauses)> = Vec::new();
    let mut pauses = Pauses::default();
    // By path: who used it last in the event so far, as which file, and how many bytes it has of it.
    let mut used: HashMap<&[u8], (u32, u32, u64)> = HashMap::new();
    let mut event: Option<Event> = None;
    for part in parts {
        let Touch {
            process,
            file,
            bytes,
            ..
        } = part.touch;
        let path = uses.path(model, file);
        let earlier = used.get(path).copied();
        // Several processes may write parts of one file, and one may append to it; what is more than all of it is written again.
        let is_appended = || {
            let is_prompt = |event: &Event| !is_long(part.touch.start - event.end, event.length());
            event.as_ref().is_some_and(is_prompt)
        };
        let again = is_save
            && earlier.is_some_and(|(by, of, before)| {
                let size = uses.sizes[file as usize];
                (by == process && !is_appended())
                    || of != file
                    || bytes.saturating_add(before) > size.saturating_add(size / SMALL_PART_RATIO)
            });
        let is_at_once = |event: &Event| {
            let pause = part.touch.start - event.end;
            key.has_own_directory() && pause <= AT_ONCE_NS.max((event.end - event.start) / 4)
        };
        let again = again && !event.as_ref().is_some_and(is_at_once);
        let is_behind = |event: &Event| begins_behind(model, uses, process, event);
        // Files in the directory of one step are one save, whatever is read meanwhile. Data may be read between the loads of a
        // model and of the state to resume from.
        let is_whole = key.has_own_directory() || !is_save && is_of_state(path);
        let trained = event.as_ref().filter(|_| !again && !is_whole);
        let has_trained = match trained {
            // Of several ranks each may save when it is ready.
            Some(event) if key.is_step && !event.processes.contains(&process) => Some(false),
            Some(event) if key.is_step => {
                training.has_validation_between(model, event, &part.touch)
            }
            Some(event) => training.has_pass_between(event, &part.touch),
            None => Some(false),
        };
        let is_saved_since = |event: &Event| {
            let ends = save_ends.and_then(|ends| ends.get(&file));
            let mut ends = ends.into_iter().flatten();
            ends.any(|end| event.end < *end && *end <= part.touch.start)
        };
        let is_next_load = |event: &Event| !is_save && (is_behind(event) || is_saved_since(event));
        let again = again || event.as_ref().is_some_and(is_next_load) || has_trained == Some(true);
        // The best and the final model are whole states each, and so are those of two epochs with as many steps.
        let choice = Choice::new(path).filter(|_| !key.is_step);
        let is_other_state = |other: &[u8]| match &choice {
            Some(own) => Choice::new(other).is_some_and(|other| own.is_of_the_same(&other)),
            None => key.number.is_some() && differ_in_numbers(path, other),
        };
        let is_other = is_save
            && used.iter().any(|(other, (by, of, before))| {
                let written = [(*of, *before), (file, bytes)];
                *by == process && are_whole_states(uses, written) && is_other_state(other)
            });
        let of_next = event.as_ref().filter(|_| is_other);
        let is_next = of_next.map_or(Some(false), |event| {
            let is_next = is_next_save(event.span(), part.touch.span(), event.length(), training);
            // Parts of one save have numbers, too.
            is_next.or(choice.is_none().then_some(false))
        });
        let is_export = |event: &Event| {
            export.is_some_and(|export| event.start < export && export <= part.touch.start)
        };
        let again = again || is_next == Some(true) || event.as_ref().is_some_and(is_export);
        match &mut event {
            Some(event) if !again && part.touch.start - event.end <= gap_of(key) => {
                let is_at_once = whole_at_once([event.span(), part.touch.span()].into_iter());
                pauses.is_any |= is_at_once.is_none();
                // Of another model, perhaps, which was trained on what is in memory.
                let pause = part.touch.start - event.end;
                let is_model = |path: &[u8]| !is_of_state(path);
                let mut others = used.keys().filter(|other| is_model(other));
                let is_long = is_long(pause, event.length());
                let may_be_model = is_save && !key.is_step && is_model(path);
                let may_be_next = may_be_model && is_long && others.clone().next().is_some();
                // Weights in parts have names that differ in numbers.
                pauses.is_between_models |= may_be_model
                    && is_at_once.is_none()
                    && others.any(|other| !differ_in_numbers(path, other));
                // What leaves the file incomplete may be the next save in it.
                let may_be_in_it = is_save
                    && is_at_once.is_none()
                    && earlier.is_some_and(|(by, _, before)| {
                        let size = uses.sizes[file as usize];
                        let written = bytes.saturating_add(before);
                        by == process && written < size - size / SMALL_PART_RATIO
                    });
                event.absorb(Event::of(part, key));
                event.is_exact &=
                    has_trained.is_some() && is_next.is_some() && !may_be_next && !may_be_in_it;
            }
            _ => {
                let last = event.replace(Event::of(part, key));
                events.extend(last.map(|last| (last, std::mem::take(&mut pauses))));
                used.clear();
            }
        }
        let before = used.get(path).map_or(0, |(_, _, before)| *before);
        used.insert(path, (process, file, bytes.saturating_add(before)));
    }
    events.extend(event.map(|last| (last, pauses)));
    if is_save && !key.is_step {
        doubt_together(model, uses, &mut events);
    }
    events.into_iter().map(|(event, _)| event).collect()
}

/// When files were written that are saved once, after the last of saves that all have the same other files, if one may be a model:
/// the averaged weights of a training.
fn start_of_export(model: &Model, uses: &Uses, parts: &[&Part]) -> Option<i64> {
    let path = |part: &&&Part| uses.path(model, part.touch.file);
    let mut times: HashMap<&[u8], u32> = HashMap::new();
    for part in parts {
        *times.entry(path(&part)).or_default() += 1;
    }
    let (once, usual): (Vec<_>, Vec<_>) = parts.iter().partition(|part| times[path(part)] == 1);
    let mut times_of_usual = usual.iter().map(|part| times[path(part)]);
    let first = times_of_usual.next()?;
    let end = usual.iter().map(|part| part.touch.end).max()?;
    let start = once.iter().map(|part| part.touch.start).min()?;
    let is_export = start >= end && once.iter().map(path).any(may_be_model);
    (is_export && times_of_usual.all(|times| times == first)).then_some(start)
}

/// What pauses a save has that are longer than those of what is written at once.
#[derive(Clone, Copy, Default)]
struct Pauses {
    is_any: bool,
    /// Whether a model with another name than those before was written after one.
    is_between_models: bool,
}

/// Makes saves inexact, if they have a pause and some of their files were saved without others at another time: two models may be
/// saved each in its turn; or if another model was written after the pause, and no other save has the same files.
fn doubt_together(model: &Model, uses: &Uses, events: &mut [(Event, Pauses)]) {
    let files = events.iter().map(|(event, _)| {
        let files = event.files.iter();
        files.map(|file| uses.path(model, *file)).collect()
    });
    let files: Vec<BTreeSet<&[u8]>> = files.collect();
    let mut together: HashMap<&[u8], &BTreeSet<&[u8]>> = HashMap::new();
    let mut varied: HashSet<&[u8]> = HashSet::new();
    let mut times: HashMap<&BTreeSet<&[u8]>, u32> = HashMap::new();
    for of_event in &files {
        *times.entry(of_event).or_default() += 1;
        for path in of_event {
            if *together.entry(path).or_insert(of_event) != of_event {
                varied.insert(path);
            }
        }
    }
    for ((event, pauses), files) in events.iter_mut().zip(&files) {
        let are_varied = files.iter().any(|path| varied.contains(path));
        let is_single = pauses.is_between_models && times[files] == 1;
        event.is_exact &= !(pauses.is_any && are_varied || is_single);
    }
}

/// Whether two files may be whole states of one training, by their sizes and the bytes that were written.
fn are_whole_states(uses: &Uses, written: [(u32, u64); 2]) -> bool {
    let [one, other] = written.map(|(file, _)| uses.sizes[file as usize]);
    let is_whole =
        |(file, bytes): &(u32, u64)| *bytes >= uses.sizes[*file as usize] / MAX_STATE_RATIO;
    are_alike(one, other) && written.iter().all(is_whole)
}

/// Whether two states of one training may have these sizes.
fn are_alike(one: u64, other: u64) -> bool {
    one.max(other) / MAX_STATE_RATIO <= one.min(other)
}

/// Whether a pause is longer than preparing the next file of a save takes, which took so long itself; nanoseconds.
fn is_long(pause: i64, length: i64) -> bool {
    pause > MAX_PREPARATION_NS.max(length)
}

/// Whether what was written after a save, by start and end of both, is of the next save: training data were read between them and
/// during neither, or the pause is longer than the save's length. What is written at once is one save. `None` if that cannot be
/// known.
fn is_next_save(save: Span, next: Span, length: i64, training: &Training<'_>) -> Option<bool> {
    let pause = next.0 - save.1;
    if pause <= AT_ONCE_NS.max(length / 4) {
        return Some(false);
    }
    let is_next = is_long(pause, length) || training.has_reads_between(save, next);
    is_next.then_some(true)
}

/// Whether a process began when an event was over, and is none of the ranks that took part in it together.
fn begins_behind(model: &Model, uses: &Uses, process: u32, event: &Event) -> bool {
    let about = |process: u32| &model.processes()[process as usize];
    let own = about(process);
    let is_together = |other: &u32| {
        let other = about(*other);
        let ranks = own
            .about
            .role
            .rank
            .as_ref()
            .zip(other.about.role.rank.as_ref());
        other.node != own.node || ranks.is_some_and(|(own, other)| own != other)
    };
    uses.began[process as usize].is_some_and(|began| began > event.end)
        && !event.processes.iter().any(is_together)
}

/// Assigns events without a step to the steps that were saved at about the same time.
fn attach(model: &Model, uses: &Uses, training: &Training<'_>, events: &mut Vec<Event>) {
    let (mut steps, rest): (Vec<_>, Vec<_>) = events.drain(..).partition(|event| event.is_step);
    let rest_files = times_of_paths(model, uses, &rest);
    let is_single = |event: &Event| {
        let mut files = event.files.iter();
        files.all(|file| {
            let path = uses.path(model, *file);
            rest_files[path] == 1 || is_description(path)
        })
    };
    for event in rest {
        let last = steps.iter().max_by_key(|step| step.end);
        let is_after =
            steps.len() > 1 && last.is_some_and(|last| is_export(model, uses, &event, last));
        if is_after && is_single(&event) {
            events.push(event);
            continue;
        }
        let is_beside = |step: &&mut Event| {
            let near = distance(event.span(), step.span()) <= MAX_DISTANCE_NS;
            near && step.directory.starts_with(&event.directory)
                && !is_state_of_its_own(model, uses, training, &event, step)
                && training.has_pass_between_saves(&event, step) != Some(true)
        };
        match steps
            .iter_mut()
            .filter(is_beside)
            .min_by_key(|step| (step.end - event.start).abs())
        {
            Some(step) => {
                let directory = step.directory.clone();
                // The export of the trained model, perhaps.
                let is_late = event.start - step.end > MAX_PREPARATION_NS;
                let is_small = event.bytes < step.bytes / SMALL_PART_RATIO;
                step.is_exact &= !is_late || is_small || !is_single(&event);
                step.absorb(event);
                step.directory = directory;
            }
            None => events.push(event),
        }
    }
    events.append(&mut steps);
    events.sort_by_key(|event| (event.start, event.end));
}

/// How often each path was saved, by all these events.
fn times_of_paths(model: &Model, uses: &Uses, events: &[Event]) -> HashMap<Vec<u8>, u32> {
    let mut times: HashMap<Vec<u8>, u32> = HashMap::new();
    for file in events.iter().flat_map(|event| &event.files) {
        let path = uses.path(model, *file).to_vec();
        *times.entry(path).or_default() += 1;
    }
    times
}

/// Whether an event without a step is a save of its own, apart from that of a step: of a state as large, under a name by which a
/// training chose it, with training between them, or a long pause.
fn is_state_of_its_own(
    model: &Model,
    uses: &Uses,
    training: &Training<'_>,
    event: &Event,
    step: &Event,
) -> bool {
    let is_chosen = |file: &u32| Choice::new(uses.path(model, *file)).is_some();
    let longest = event.length().max(step.length());
    let (first, last) = match event.start < step.start {
        true => (event.span(), step.span()),
        false => (step.span(), event.span()),
    };
    are_alike(event.bytes, step.bytes)
        && is_next_save(first, last, longest, training) == Some(true)
        && event.files.iter().any(is_chosen)
}

/// Puts saves that `may_be_one` into one, which a process wrote one at once behind the other, into different directories, while
/// nobody trained: Keras saves a model, and the state from which it resumes. So is what it wrote into a directory while it wrote
/// what is above: the parts of TensorFlow's `variables`.
fn together(
    model: &Model,
    uses: &Uses,
    events: Vec<Event>,
    training: &Training<'_>,
    may_be_one: impl Fn(&Event, &Event) -> bool,
) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::new();
    for event in events {
        let paths = |event: &Event| -> BTreeSet<Vec<u8>> {
            let files = event.files.iter();
            files.map(|file| uses.path(model, *file).to_vec()).collect()
        };
        let is_one = |last: &Event| {
            let pause = event.start - last.end;
            let is_during = pause < 0 && event.directory.starts_with(&last.directory);
            let is_at_once = (0..=AT_ONCE_NS).contains(&pause)
                && (pause <= INSTANT_NS || training.is_idle(last.end, event.start));
            may_be_one(last, &event)
                && (is_during || is_at_once)
                && last.processes == event.processes
                && last.directory != event.directory
                && paths(last).is_disjoint(&paths(&event))
        };
        match joined.last_mut() {
            Some(last) if is_one(last) => {
                // The step is that of either.
                let mut event = event;
                if event.is_step && !last.is_step {
                    std::mem::swap(last, &mut event);
                }
                last.absorb(event);
            }
            _ => joined.push(event),
        }
    }
    joined
}

/// Whether an event without a step is a save of its own after the last step, as the export of the trained model is: it is not
/// small, and it began after a pause that is longer than the save of the step took, or after it if it may be a model, as averaged
/// weights are.
fn is_export(model: &Model, uses: &Uses, event: &Event, last: &Event) -> bool {
    let is_small = event.bytes < last.bytes / SMALL_PART_RATIO;
    let pause = event.start - last.end;
    let mut paths = event.files.iter().map(|file| uses.path(model, *file));
    let is_model = pause >= 0 && paths.any(may_be_model);
    !is_small && (is_model || pause > last.length())
}

/// Lets a save last until its files have their names: a rename over a file that was there writes out what is new first.
fn add_renames(uses: &Uses, events: &mut [Event]) {
    for (file, process, at) in &uses.renames.ends {
        let is_before = |event: &&mut Event| {
            let is_of = event.files.contains(file) && event.processes.contains(process);
            is_of && event.start <= *at && *at - event.end <= MAX_DISTANCE_NS
        };
        if let Some(event) = events.iter_mut().rev().find(is_before) {
            event.end = event.end.max(*at);
        }
    }
}

/// Adds the syncs of a save's directory that followed it closely, and those of the one above that of a step, which names it. What
/// syncs a directory after another file in it, as a database does, syncs it for that file, unless it follows the save at once.
fn add_directory_syncs(model: &Model, uses: &Uses, events: &mut [Event]) {
    let mut file_syncs: HashMap<&[u8], Vec<(u32, FileSync)>> = HashMap::new();
    let synced = uses.directory_syncs.iter();
    let synced: HashSet<&[u8]> = synced.map(|sync| model.file(sync.file).path).collect();
    for (file, syncs) in &uses.file_syncs {
        let directory = parent(model.file(*file).path);
        if synced.contains(directory) {
            let of_directory = file_syncs.entry(directory).or_default();
            of_directory.extend(syncs.iter().map(|sync| (*file, *sync)));
        }
    }
    for sync in &uses.directory_syncs {
        let path = model.file(sync.file).path;
        // Of several syncs of a file only the last is known.
        let is_of_other = |event: &Event| {
            let mut syncs = file_syncs.get(path).into_iter().flatten();
            syncs.any(|(file, own)| {
                let is_between = own.at > event.end && (own.at <= sync.end || own.has_others);
                is_between && !event.files.contains(file)
            })
        };
        let is_behind = |event: &&mut Event| {
            let is_above = event.has_own_directory && parent(&event.directory) == path;
            let is_place = event.directory == path || is_above;
            is_place && sync.start >= event.start && sync.start - event.end <= MAX_DISTANCE_NS
        };
        if let Some(event) = events.iter_mut().rev().find(is_behind)
            && (sync.start - event.end <= AT_ONCE_NS || !is_of_other(event))
        {
            event.end = event.end.max(sync.end);
            saturating_add(&mut event.syncs, sync.syncs);
            saturating_add(&mut event.sync_ns, sync.ns);
            event.processes.insert(sync.process);
        }
    }
}

/// Names the events, and leaves out those in which nothing moved.
fn finish(model: &Model, uses: &Uses, events: &mut Vec<Event>) {
    events.retain(|event| event.bytes > 0 || event.mmaps > 0);
    for event in events {
        let largest = event
            .files
            .iter()
            .max_by_key(|file| uses.sizes[**file as usize]);
        let largest = largest.map_or(&[][..], |file| uses.path(model, *file));
        let is_own = event.is_step && largest.starts_with(&event.directory);
        let in_step_directory = is_own && key(largest).number.is_none();
        event.name = if in_step_directory || event.files.len() > MAX_NAMED_FILES {
            event.directory.clone()
        } else {
            largest.to_vec()
        };
    }
}
