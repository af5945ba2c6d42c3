//! What the whole run shows and a path alone does not: whether files that may be weights or data were data.
//!
//! Only the built-in rules that are named here are second-guessed. `docs/guide/phases.md` has the
//! framework behind each case, and what remains unknown.

use std::collections::{HashMap, HashSet};

use super::{
    Classifier,
    copies::Copies,
    data_names::{is_named_as_data, is_named_as_sample},
    dfa::Verdict,
    made_once,
    phase::{Class, Direction, Phase},
};
use iotrace_model::{
    Cell, File, Model,
    counters::{
        BYTES_READ, BYTES_WRITTEN, FIRST_READ, LAST_WRITE, MAPPED_BYTES_DIRTIED, MMAPS,
        saturating_add, saturating_sum,
    },
    groups::Groups,
    paths::{parent, stem, suffix},
};

/// Rules that take a read for a load of weights, or for one of anything.
const TAKEN_FOR_WEIGHTS: [&str; 2] = ["weights-loaded", "containers"];
/// Rules that take what lies in a place of weights, or has a word of theirs in its name, for weights.
const PLACES_OF_WEIGHTS: [&str; 3] = ["pretrained", "step-directories", "checkpoint-names"];
/// How many times over a file of [`DATA_ENDINGS`] in such a place is read at least that is none: two models may begin as the
/// same one.
const MIN_PASSES_IN_PLACE: u64 = 3;
/// Formats of data, in which weights are seldom kept.
const DATA_ENDINGS: [&[u8]; 6] = [b".npy", b".npz", b".h5", b".hdf5", b".bin", b".tar"];
/// Rules that take a read for a load of weights by the format alone, which data of one file have too.
const TAKEN_FOR_WEIGHTS_BY_FORMAT: [&str; 1] = ["weights-loaded"];
/// Rules that take a write for a save of weights.
const WRITTEN_FOR_WEIGHTS: [&str; 1] = ["weights-saved"];
/// The rule for what is below a directory that is named for data.
const DATA_DIRECTORIES: &str = "data-directories";
/// The rule for data that were copied to memory.
const STAGED_DATA: &str = "staged-data";
/// Rules that take a file for a part of a TensorFlow checkpoint, which a cache of samples looks like.
const TAKEN_FOR_TENSORFLOW: [&str; 1] = ["tensorflow"];
/// Rules that take a read for one of data.
const TAKEN_FOR_DATA: [&str; 2] = ["hdf5-netcdf-root", "numpy"];
/// Minimum number of files of one kind in a directory that makes them data; weights in as many parts have other names.
const MIN_FAMILY_FILES: usize = 16;
/// Minimum size of files of one kind in a directory that are data under names which no rule knows, bytes: many small files of a
/// program are read again, too.
const MIN_UNMATCHED_BYTES: u64 = 1 << 20;
/// Minimum number of files of one kind in a directory that are called as what was read, and so were made of it.
const MIN_SAME_STEMS: usize = 4;

/// Why a read is sorted otherwise than by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// One rank, workers included, read it at least twice over, as epochs do, and this run did not write it; or this run wrote
    /// it once and then read it again and again.
    ReadAgain,
    /// Many of its kind in its directory were read: a sample per file.
    Family,
    /// It is called as data, and this run wrote it at most once; or it is called as samples are.
    Name,
    /// Its index (`.idx` for `.bin`) was used too.
    Index,
    /// TensorFlow locked it as it does a cache of samples.
    SampleCache,
    /// It was saved in this run.
    SavedHere,
    /// It was written as data are made: its reads are of data.
    Prepared,
    /// All that was read of it, or written to it, was one end of a copy.
    Copied,
    /// All that was read of it had been written before by the same process, or by another program alone.
    ReadBack,
}

impl Reason {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadAgain => "read_again",
            Self::Family => "family",
            Self::Name => "name",
            Self::Index => "index",
            Self::SampleCache => "sample_cache",
            Self::SavedHere => "saved_here",
            Self::Prepared => "prepared",
            Self::Copied => "copied",
            Self::ReadBack => "read_back",
        }
    }

    const fn phase(self) -> Phase {
        match self {
            Self::ReadAgain | Self::Family | Self::Name | Self::Index | Self::SampleCache => {
                Phase::Training
            }
            Self::SavedHere => Phase::Restore,
            Self::Prepared => Phase::Other(Some(Class::Cache)),
            Self::Copied | Self::ReadBack => Phase::UNMATCHED,
        }
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorted {
    pub verdict: Verdict,
    /// Whether its first name says what was written, and its newest name nothing.
    pub is_by_first_name: bool,
    /// Whether it was renamed, and its first name is that of a checkpoint.
    pub is_saved_as_first: bool,
    /// By [`Direction::index`]: why it is of another phase than the verdict's.
    pub reasons: [Option<Reason>; 2],
}

impl Sorted {
    /// What the rules say of it.
    pub const fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            is_by_first_name: false,
            is_saved_as_first: false,
            reasons: [None; 2],
        }
    }

    /// The phase of the file used in `direction`.
    pub fn phase(&self, direction: Direction) -> Phase {
        match self.reasons[direction.index()] {
            Some(reason) => reason.phase(),
            None => self.verdict.phase(direction),
        }
    }
}

/// Sorts a file by its newest name, or by its first if no rule matches that: a checkpoint that is set aside as `ck.pt.bak`
/// stays one.
pub fn by_names(model: &Model, classifier: &Classifier, file: &File<'_>) -> Sorted {
    let (_, fs_type) = model.mount_of(file);
    let of = |path: &[u8]| match path.is_empty() {
        true => Verdict::NONE,
        false => classifier.verdict(path, file.is_directory(), fs_type),
    };
    let newest = of(file.path);
    let first = file.opened_as.map(of);
    let verdict = first.map_or(newest, |first| newest.or(first));
    let is_saved = |first: Verdict| first.phase(Direction::Write) == Phase::Checkpoint;
    let is_by = |verdict: Verdict| verdict.rule(Direction::Write).is_some();
    Sorted {
        is_by_first_name: is_by(verdict) && !is_by(newest),
        is_saved_as_first: first.is_some_and(is_saved),
        ..Sorted::of(verdict)
    }
}

/// Sorts all files of a run, by their index in the model, given its copies.
pub fn sort(model: &Model, classifier: &Classifier, copies: &Copies) -> Vec<Sorted> {
    let mut sorted: Vec<Sorted> = (0..model.file_count() as u32)
        .map(|index| by_names(model, classifier, &model.file(index)))
        .collect();
    sort_written(model, classifier, copies, &mut sorted);
    let found = Ambiguous::of(model, &sorted, classifier).reasons(model, copies);
    for (file, reason) in found {
        sorted[file as usize].reasons[Direction::Read.index()] = Some(reason);
    }
    for file in sample_caches(model, &sorted, classifier) {
        let reasons = &mut sorted[file as usize].reasons;
        reasons[Direction::Read.index()] = Some(Reason::SampleCache);
        reasons[Direction::Write.index()] = Some(Reason::Prepared);
    }
    for file in caches(model, &sorted, classifier) {
        sorted[file as usize].reasons[Direction::Read.index()] = Some(Reason::Name);
    }
    for file in prepared(model, &sorted, classifier) {
        sorted[file as usize].reasons[Direction::Write.index()] = Some(Reason::Prepared);
    }
    apply_copies(model, copies, &mut sorted);
    sorted
}

/// Whether a built-in rule of one of these names sorts what is done with a file in a direction.
fn is_by(classifier: &Classifier, verdict: &Verdict, direction: Direction, names: &[&str]) -> bool {
    let rule = verdict.rule(direction);
    rule.is_some_and(|rule| classifier.rules().all()[rule].is_builtin_of(names))
}

/// Whether a built-in rule takes a file for weights where it is written.
fn is_written_for_weights(classifier: &Classifier, verdict: &Verdict) -> bool {
    is_by(classifier, verdict, Direction::Write, &WRITTEN_FOR_WEIGHTS)
}

/// Sorts what the run wrote again, where the place of a file says too much. In memory it is scratch, or what processes hand to each
/// other, unless it was copied there. Weights are no data for the first directory of their path alone: `/data` may be all that a
/// machine has of storage.
fn sort_written(model: &Model, classifier: &Classifier, copies: &Copies, sorted: &mut [Sorted]) {
    let is_read_by = |verdict: &Verdict, rule| is_by(classifier, verdict, Direction::Read, &[rule]);
    for row in model.rows_with(BYTES_WRITTEN) {
        let verdict = &mut sorted[row.file as usize].verdict;
        let file = model.file(row.file);
        if is_read_by(verdict, STAGED_DATA) && !copies.are_all_writes(row.process, row.file) {
            *verdict = classifier.verdict(file.path, false, "");
        } else if is_read_by(verdict, DATA_DIRECTORIES)
            && is_written_for_weights(classifier, verdict)
        {
            let first = file.path.iter().skip(1).position(|byte| *byte == b'/');
            let rest = first.map(|length| &file.path[length + 1..]);
            let (_, fs_type) = model.mount_of(&file);
            let of_rest = rest.map(|rest| classifier.verdict(rest, false, fs_type));
            if let Some(found) = of_rest.filter(|found| !is_read_by(found, DATA_DIRECTORIES)) {
                *verdict = found;
            }
        }
    }
}

/// What happened to a file in one direction, over all processes.
#[derive(Clone, Copy, Default)]
struct Ends {
    /// Whether anything was read, or written, at all.
    any: bool,
    /// Whether a process did so otherwise than to copy it.
    other: bool,
    /// Whether a process read it otherwise than back, and than to copy it.
    foreign: bool,
}

/// Takes out of training, checkpoints and restores what was copied, and what was read back.
fn apply_copies(model: &Model, copies: &Copies, sorted: &mut [Sorted]) {
    let mut ends = vec![[Ends::default(); 2]; sorted.len()];
    for row in model.rows() {
        let (process, file) = (row.process, row.file);
        let [read, written] = &mut ends[file as usize];
        if is_read(&row.cell) {
            let is_copied = copies.are_all_reads(process, file);
            read.any = true;
            read.other |= !is_copied;
            read.foreign |= !is_copied && !copies.is_only_read_back(process, file);
        }
        if row.cell.has(BYTES_WRITTEN) {
            written.any = true;
            written.other |= !copies.are_all_writes(process, file);
        }
    }
    // What was saved under a name that is no checkpoint's becomes one by its copy.
    let is_saved = |file: u32, sorted: &[Sorted]| {
        !ends[file as usize][Direction::Write.index()].any
            || sorted[file as usize].phase(Direction::Write) == Phase::Checkpoint
    };
    let is_second: HashSet<u32> = copies
        .all
        .iter()
        .filter(|copy| is_saved(copy.source, sorted))
        .map(|copy| copy.target)
        .collect();
    let archives = archives(model, copies, sorted);
    for (index, (file, [read, written])) in sorted.iter_mut().zip(&ends).enumerate() {
        let is_restore = file.phase(Direction::Read) == Phase::Restore;
        if read.any && !read.other {
            file.reasons[Direction::Read.index()] = Some(Reason::Copied);
        } else if read.any && !read.foreign && is_restore {
            file.reasons[Direction::Read.index()] = Some(Reason::ReadBack);
        }
        let index = index as u32;
        let is_copied = written.any && !written.other && is_second.contains(&index);
        if is_copied || archives.contains(&index) {
            file.reasons[Direction::Write.index()] = Some(Reason::Copied);
        }
    }
}

/// Checkpoints that a process made of others, which it read back, by their names: `ck_1.tar` of the files in `ck_1`, `ck.pt.gz` of
/// `ck.pt`.
fn archives(model: &Model, copies: &Copies, sorted: &[Sorted]) -> HashSet<u32> {
    let mut read_back: HashMap<u32, Vec<&[u8]>> = HashMap::new();
    for row in model.rows() {
        let is_saved = sorted[row.file as usize].phase(Direction::Write) == Phase::Checkpoint;
        if is_saved && copies.is_only_read_back(row.process, row.file) {
            let paths = read_back.entry(row.process).or_default();
            paths.push(model.file(row.file).path);
        }
    }
    let is_archive = |process: u32, file: u32| {
        let path = model.file(file).path;
        let (directory, ending) = family(path);
        let stem = &path[..path.len() - ending.len()];
        let is_of = |source: &&[u8]| {
            let rest = source.strip_prefix(stem);
            let is_whole = rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
            is_whole && *source != path && stem.len() > directory.len() + 1
        };
        let sources = read_back.get(&process);
        sources.is_some_and(|sources| sources.iter().any(is_of))
    };
    let written = model.rows().iter().filter(|row| {
        let is_saved = sorted[row.file as usize].phase(Direction::Write) == Phase::Checkpoint;
        is_saved && row.cell.has(BYTES_WRITTEN) && is_archive(row.process, row.file)
    });
    written.map(|row| row.file).collect()
}

/// Whether a process read or mapped a file, and did not store to the mapping.
fn is_read(cell: &Cell) -> bool {
    cell.has(BYTES_READ) || cell.has(MMAPS) && !cell.has(MAPPED_BYTES_DIRTIED)
}

/// Files that were taken for saves of weights, and whose reads are of data; and their siblings that were not read: what is
/// written to a replay buffer last. Also samples, and what a model made of them, one in each of many files that nobody reads, and
/// what is called as data.
fn prepared(model: &Model, sorted: &[Sorted], classifier: &Classifier) -> HashSet<u32> {
    let is_guess = |file: &Sorted| is_written_for_weights(classifier, &file.verdict);
    let guessed: Vec<bool> = sorted.iter().map(is_guess).collect();
    if !guessed.contains(&true) {
        return HashSet::new();
    }
    let rows = model.rows().iter().filter(|row| guessed[row.file as usize]);
    let read: HashSet<u32> = rows
        .filter(|row| is_read(&row.cell))
        .map(|row| row.file)
        .collect();
    let is_data = |file: &u32| sorted[*file as usize].phase(Direction::Read) == Phase::Training;
    let mut prepared: HashSet<u32> = read.iter().copied().filter(is_data).collect();
    let read_reason = |file: &u32| sorted[*file as usize].reasons[Direction::Read.index()];
    let written = (0..model.file_count() as u32).filter(|file| guessed[*file as usize]);
    prepared.extend(written.filter(|file| read_reason(file) == Some(Reason::Name)));
    let large: HashSet<(&[u8], &[u8])> =
        families(model, prepared.iter().copied(), MIN_FAMILY_FILES)
            .map(|members| family(model.file(members[0]).path))
            .collect();
    let unread = (0..model.file_count() as u32)
        .filter(|file| guessed[*file as usize] && !read.contains(file));
    let (siblings, others): (Vec<u32>, Vec<u32>) =
        unread.partition(|file| large.contains(&family(model.file(*file).path)));
    prepared.extend(siblings);
    prepared.extend(made_of_read(model, sorted, &others));
    let is_sample = |file: &u32| is_named_as_sample(model.file(*file).path);
    prepared.extend(
        families(
            model,
            others.into_iter().filter(is_sample),
            MIN_FAMILY_FILES,
        )
        .flatten(),
    );
    prepared
}

/// Files that were taken for saves of weights and for loads of them, and are called as samples: what the first pass made of each.
fn caches(model: &Model, sorted: &[Sorted], classifier: &Classifier) -> Vec<u32> {
    let is_taken = |file: &u32| {
        let file = &sorted[*file as usize];
        file.phase(Direction::Read) == Phase::Restore
            && is_written_for_weights(classifier, &file.verdict)
    };
    let with = |counter| -> HashSet<u32> {
        let files = model.rows_with(counter).map(|row| row.file);
        files.filter(is_taken).collect()
    };
    let read_back: Vec<u32> = with(BYTES_WRITTEN)
        .intersection(&with(BYTES_READ))
        .copied()
        .collect();
    made_of_read(model, sorted, &read_back)
}

/// Of these files those that are called as training data that were read, but for their endings, where several of one kind are:
/// `mels/a.pt` of `wavs/a.wav`.
fn made_of_read(model: &Model, sorted: &[Sorted], written: &[u32]) -> Vec<u32> {
    let stem = |file: u32| stem(model.file(file).path);
    let several = families(model, written.iter().copied(), MIN_SAME_STEMS).flatten();
    let mut wanted: HashMap<&[u8], Vec<u32>> = HashMap::new();
    for file in several {
        wanted.entry(stem(file)).or_default().push(file);
    }
    if wanted.is_empty() {
        return Vec::new();
    }
    let is_sample = |file: &u32| sorted[*file as usize].phase(Direction::Read) == Phase::Training;
    let samples = model
        .rows_with(BYTES_READ)
        .map(|row| row.file)
        .filter(is_sample);
    let made: HashSet<u32> = samples
        .filter_map(|file| wanted.get(stem(file)))
        .flatten()
        .copied()
        .collect();
    families(model, made.into_iter(), MIN_SAME_STEMS)
        .flatten()
        .collect()
}

/// Files whose reads may be of another phase.
struct Ambiguous {
    /// By index: taken for weights, and how many times over it is read at least if it is none.
    weights: HashMap<u32, u64>,
    /// By index: taken for data, and a checkpoint where written.
    data: HashSet<u32>,
    /// By index: called as data, and taken for weights where read or written.
    named: HashSet<u32>,
    /// By index: no rule matches it.
    unmatched: HashSet<u32>,
}

/// Files, by index, whose reads built-in rules of these names sort.
fn taken<'a>(
    sorted: &'a [Sorted],
    classifier: &'a Classifier,
    names: &'a [&str],
) -> impl Iterator<Item = u32> + 'a {
    let files = sorted.iter().enumerate();
    let taken =
        files.filter(|(_, sorted)| is_by(classifier, &sorted.verdict, Direction::Read, names));
    taken.map(|(index, _)| index as u32)
}

/// Files of the caches of samples that `tf.data` makes: by their names checkpoints. While it writes the cache `NAME`, by way of
/// `NAME_0`, it has a lock, `NAME_0.lockfile` (TensorFlow's `cache_dataset_ops.cc`).
fn sample_caches(model: &Model, sorted: &[Sorted], classifier: &Classifier) -> Vec<u32> {
    let candidates: Vec<u32> = taken(sorted, classifier, &TAKEN_FOR_TENSORFLOW).collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    let mut names: HashSet<&[u8]> = HashSet::new();
    for index in 0..model.file_count() as u32 {
        if let Some(shard) = model.file(index).path.strip_suffix(b".lockfile") {
            let digits = shard.iter().rev().take_while(|byte| byte.is_ascii_digit());
            let name = &shard[..shard.len() - digits.count()];
            names.extend(name.strip_suffix(b"_").into_iter().chain([shard]));
        }
    }
    let is_of_cache = |file: &u32| {
        let path = model.file(*file).path;
        let end = path
            .windows(6)
            .rposition(|part| part == b".data-" || part == b".index");
        end.is_some_and(|end| names.contains(&path[..end]))
    };
    candidates.into_iter().filter(is_of_cache).collect()
}

impl Ambiguous {
    fn of(model: &Model, sorted: &[Sorted], classifier: &Classifier) -> Self {
        let mut data: HashSet<u32> = taken(sorted, classifier, &TAKEN_FOR_DATA).collect();
        data.retain(|file| {
            sorted[*file as usize].verdict.phase(Direction::Write) == Phase::Checkpoint
        });
        let is_data = |file: &u32| DATA_ENDINGS.contains(&suffix(model.file(*file).path));
        let mut weights: HashMap<u32, u64> = taken(sorted, classifier, &TAKEN_FOR_WEIGHTS)
            .map(|file| (file, 2))
            .collect();
        let by_format = taken(sorted, classifier, &TAKEN_FOR_WEIGHTS_BY_FORMAT);
        let is_named = |file: &u32| is_named_as_data(model.file(*file).path);
        let named = by_format.chain(data.iter().copied()).filter(is_named);
        let named = named.collect();
        let in_place = taken(sorted, classifier, &PLACES_OF_WEIGHTS).filter(is_data);
        weights.extend(in_place.map(|file| (file, MIN_PASSES_IN_PLACE)));
        let is_unmatched = |file: &u32| {
            let verdict = &sorted[*file as usize].verdict;
            Direction::ALL
                .iter()
                .all(|direction| verdict.rule(*direction).is_none())
                && !model.file(*file).is_directory()
        };
        let unmatched = (0..sorted.len() as u32).filter(is_unmatched);
        let unmatched = families(model, unmatched, MIN_FAMILY_FILES).flatten();
        Self {
            weights,
            data,
            named,
            unmatched: unmatched.collect(),
        }
    }

    /// Of the files that are called as data those that were written under names which differ in numbers, and of which one was not
    /// read: a save after each epoch.
    fn saved_in_rounds(&self, model: &Model, written: &HashSet<u32>) -> HashSet<u32> {
        let rows = model.rows().iter();
        let read = rows.filter(|row| self.named.contains(&row.file) && is_read(&row.cell));
        let read: HashSet<u32> = read.map(|row| row.file).collect();
        let mut rounds: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
        for file in self.named.intersection(written) {
            let path = model.file(*file).path.iter();
            let path = path.filter(|byte| !byte.is_ascii_digit()).copied();
            rounds.entry(path.collect()).or_default().push(*file);
        }
        let are_saves =
            |files: &Vec<u32>| files.len() > 1 && files.iter().any(|file| !read.contains(file));
        rounds.into_values().filter(are_saves).flatten().collect()
    }

    fn reasons(&self, model: &Model, copies: &Copies) -> HashMap<u32, Reason> {
        let mut reasons = HashMap::new();
        if self.weights.is_empty() && self.data.is_empty() && self.unmatched.is_empty() {
            return reasons;
        }
        let groups = Groups::new(model);
        let unmatched = self.unmatched_data(model, &groups);
        reasons.extend(unmatched.map(|file| (file, Reason::ReadAgain)));
        let mut read: HashMap<(u32, u32), u64> = HashMap::new();
        let mut written: HashSet<u32> = HashSet::new();
        for row in model.rows() {
            let is_data = self.data.contains(&row.file);
            if !is_data && !self.weights.contains_key(&row.file) {
                continue;
            }
            let total = row.cell.total();
            if total.v[BYTES_WRITTEN] > 0 {
                written.insert(row.file);
            }
            if !is_data && total.v[BYTES_READ] > 0 {
                *read.entry((row.file, groups.of(row.process))).or_default() += total.v[BYTES_READ];
            }
        }
        for ((file, _), bytes) in &read {
            let passes = self.weights[file];
            if !written.contains(file) && is_again(model, *file, *bytes, passes) {
                reasons.insert(*file, Reason::ReadAgain);
            }
        }
        let saved = written.intersection(&self.data).copied();
        reasons.extend(saved.map(|file| (file, Reason::SavedHere)));
        for sample in samples(model, &written) {
            reasons.remove(&sample);
        }
        let made = made_once::Files::new(model, copies, &groups, &written);
        for file in made.data() {
            if self.data.contains(&file) {
                reasons.remove(&file);
            } else {
                reasons.insert(file, Reason::ReadAgain);
            }
        }
        let read: HashSet<u32> = read.into_keys().map(|(file, _)| file).collect();
        for file in families(model, read.iter().copied(), MIN_FAMILY_FILES).flatten() {
            reasons.entry(file).or_insert(Reason::Family);
        }
        self.indexed(model, &read, &mut reasons);
        for file in made.parts() {
            if self.data.contains(&file) {
                reasons.remove(&file);
            } else {
                reasons.entry(file).or_insert(Reason::ReadAgain);
            }
        }
        let saved = self.saved_in_rounds(model, &written);
        let is_at_most_once = |file: &&u32| {
            !written.contains(file) || made.is_written_once(**file) && !saved.contains(file)
        };
        for file in self.named.iter().filter(is_at_most_once) {
            let reason = reasons.entry(*file).or_insert(Reason::Name);
            if *reason == Reason::SavedHere {
                *reason = Reason::Name;
            }
        }
        reasons
    }

    /// Of files that no rule matches those that epochs read: many of one kind in a directory, each of which a rank read twice over and
    /// this run did not write.
    fn unmatched_data(&self, model: &Model, groups: &Groups) -> impl Iterator<Item = u32> {
        let mut read: HashMap<(u32, u32), u64> = HashMap::new();
        let mut written: HashSet<u32> = HashSet::new();
        let rows = model.rows().iter();
        for row in rows.filter(|row| self.unmatched.contains(&row.file)) {
            let v = row.cell.total().v;
            if v[BYTES_WRITTEN] > 0 {
                written.insert(row.file);
            }
            let of_rank = read.entry((row.file, groups.of(row.process)));
            saturating_add(of_rank.or_default(), v[BYTES_READ]);
        }
        let again = read
            .iter()
            .filter(|((file, _), bytes)| {
                !written.contains(file) && is_again(model, *file, **bytes, 2)
            })
            .map(|((file, _), _)| *file)
            .collect::<HashSet<u32>>();
        let size =
            |members: &Vec<u32>| saturating_sum(members.iter().map(|file| model.file(*file).size));
        let families = families(model, again.into_iter(), MIN_FAMILY_FILES);
        families
            .filter(move |members| size(members) >= MIN_UNMATCHED_BYTES)
            .flatten()
    }

    /// Data with an index in the same directory, as Megatron's.
    fn indexed(&self, model: &Model, read: &HashSet<u32>, reasons: &mut HashMap<u32, Reason>) {
        let stem = |path: &'_ [u8], ending: &[u8]| path.strip_suffix(ending).map(<[u8]>::to_vec);
        let wanted: HashMap<Vec<u8>, u32> = read
            .iter()
            .filter_map(|file| Some((stem(model.file(*file).path, b".bin")?, *file)))
            .collect();
        if wanted.is_empty() {
            return;
        }
        for index in 0..model.file_count() as u32 {
            let stem = stem(model.file(index).path, b".idx");
            if let Some(file) = stem.and_then(|stem| wanted.get(&stem)) {
                reasons.entry(*file).or_insert(Reason::Index);
            }
        }
    }
}

/// Of these files, which this run wrote, the arrays that have many siblings, all of them written before the first is read:
/// samples that were made before they are trained on.
fn samples(model: &Model, written: &HashSet<u32>) -> Vec<u32> {
    let is_array = |file: &u32| model.file(*file).path.ends_with(b".npz");
    let mut times: HashMap<u32, (u64, u64)> = HashMap::new();
    for row in model
        .rows()
        .iter()
        .filter(|row| written.contains(&row.file))
    {
        let v = row.cell.total().v;
        let (last_write, first_read) = times.entry(row.file).or_insert((0, u64::MAX));
        *last_write = v[LAST_WRITE].max(*last_write);
        if v[FIRST_READ] > 0 {
            *first_read = v[FIRST_READ].min(*first_read);
        }
    }
    let is_made_before = |members: &Vec<u32>| {
        let times = || members.iter().map(|file| times[file]);
        let last_write = times().map(|(last_write, _)| last_write).max();
        last_write.is_some_and(|last| {
            times().all(|(_, first_read)| (last..u64::MAX).contains(&first_read))
        })
    };
    let families = families(
        model,
        written.iter().copied().filter(is_array),
        MIN_FAMILY_FILES,
    );
    families.filter(is_made_before).flatten().collect()
}

/// Groups of files with one directory and extension, each with at least this many.
pub(crate) fn families(
    model: &Model,
    files: impl Iterator<Item = u32>,
    least: usize,
) -> impl Iterator<Item = Vec<u32>> {
    let mut families: HashMap<(&[u8], &[u8]), Vec<u32>> = HashMap::new();
    for file in files {
        let family = family(model.file(file).path);
        families.entry(family).or_default().push(file);
    }
    let families = families.into_values();
    families.filter(move |members| members.len() >= least)
}

/// Whether this number of bytes is at least `times` the size of the file.
fn is_again(model: &Model, file: u32, bytes: u64, times: u64) -> bool {
    let size = model.file(file).size;
    size > 0 && bytes >= size.saturating_mul(times)
}

/// Directory and extension of a path.
fn family(path: &[u8]) -> (&[u8], &[u8]) {
    (parent(path), suffix(path))
}
