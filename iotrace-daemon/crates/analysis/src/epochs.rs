//! Epochs: passes over the training files, detected by files that are read again.
//!
//! A file has been passed over once when as many bytes of it were read as it has, or when it was opened and about all of
//! it was read. The k-th epoch is the k-th pass over the files, from its first read to its last. Where every rank reads all
//! the data, passes are counted by rank. Files of validation and test are left out where there are others, and so are reads
//! of other programs before and after the training.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::{
    page_cache,
    passes::{
        Clips, FileReads, Jumps, Pass, TOLERATED_SHARE, WHOLE_SHARE, is_in_equal_parts,
        is_in_odd_parts, is_part_read_again, passes, read_in_jumps, shares, whole_number,
    },
    preparation,
    ranks::strangers,
    saves::Event,
    uses::{Uses, Visit},
};
use iotrace_model::{
    Model,
    counters::{BYTES_READ, MMAPS, saturating_add, saturating_sum},
    groups::Groups,
    paths::parent,
    run::Run,
};
use iotrace_phases::{
    context::Sorted,
    phase::{Direction, Phase},
};

/// Maximum number of passes among which the place of one over some files is looked for.
const MAX_PLACES: u32 = 64;
/// Minimum number of files in a pass whose order is meaningful.
const MIN_ORDERED_FILES: usize = 8;
const EVALUATION_NAMES: [&str; 7] = [
    "val",
    "valid",
    "validation",
    "test",
    "testing",
    "eval",
    "dev",
];

const TRAINING_NAMES: [&str; 2] = ["train", "training"];
/// Names of a path, from the file's on, that may say what data are for: further out are projects and machines.
const DATA_LEVELS: usize = 4;

/// Shortest time from the end of a pass to the last save after it in which a job may have trained on what it keeps in memory.
const MIN_KEPT_NS: i64 = 1_000_000_000;

/// How the files of an epoch were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Sequential,
    Shuffled,
}

impl Order {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Shuffled => "shuffled",
        }
    }
}

/// One pass.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// From 1.
    pub number: u32,
    /// Nanoseconds since the start of the run.
    pub start: i64,
    pub end: i64,
    /// Distinct files.
    pub files: u64,
    pub bytes: u64,
    /// Of those, or ahead of them, what was fetched from storage.
    pub fetched: u64,
    /// Nanoseconds in reads, summed.
    pub read_ns: u64,
    /// Of the bytes of all files, the share that this pass read.
    pub coverage: f64,
    pub order: Option<Order>,
    /// Whether start and end are known, not put between known ones.
    pub is_exact: bool,
    /// Bytes by process.
    pub by_process: BTreeMap<u32, u64>,
    /// In which order each process read its files, hashed, and sorted over the processes; `None` where that is not known of
    /// every file.
    pub sequences: Option<Vec<u64>>,
    /// Of the pairs of files that a process read one after the other, the share that lie in different directories.
    pub directory_changes: f64,
}

impl Epoch {
    /// Whether it read all there is.
    pub fn is_complete(&self) -> bool {
        self.coverage >= 1.0 - TOLERATED_SHARE
    }

    /// Bytes that were in the page cache already; at least, where readahead fetched more than was read.
    pub fn cached(&self) -> u64 {
        self.bytes.saturating_sub(self.fetched)
    }

    /// Bytes per second inside reads; `None` without any.
    pub fn speed(&self) -> Option<f64> {
        (self.read_ns > 0).then(|| self.bytes as f64 * 1e9 / self.read_ns as f64)
    }
}

/// The epochs of a run, or why there are none.
#[derive(Clone, Debug, Default)]
pub struct Epochs {
    pub epochs: Vec<Epoch>,
    /// Training files that were read, and their bytes.
    pub files: u64,
    pub bytes: u64,
    /// Ranks that each read everything; 1 where they share the data.
    pub copies: u32,
    /// Why no passes were detected although files were read.
    pub untold: Option<&'static str>,
    /// Whether page-cache hits are known from what was fetched from storage.
    pub knows_cache: bool,
}

/// Finds the epochs.
pub fn epochs(model: &Model, run: &Run, sorted: &[Sorted], uses: &Uses, groups: &Groups) -> Epochs {
    let mut visits: Vec<&Visit> = uses.visits.iter().collect();
    visits.sort_by_key(|visit| (visit.file, visit.start, visit.process));
    let sources = preparation::sources(model, run, sorted, uses, groups, &visits);
    let is_source = |file: u32| {
        sources
            .as_ref()
            .is_some_and(|sources| sources.contains(&file))
    };
    visits.retain(|visit| !is_source(visit.file));
    let strangers = strangers(model, &visits, groups);
    visits.retain(|visit| !strangers.contains(&groups.of(visit.process)));
    let mut files: Vec<&[&Visit]> = visits.chunk_by(|a, b| a.file == b.file).collect();
    let is_evaluation = |reads: &&[&Visit]| is_of_evaluation(model.file(reads[0].file).path);
    if files.iter().any(|reads| !is_evaluation(reads)) {
        files.retain(|reads| !is_evaluation(reads));
    }
    let clips = clips(&files, uses);
    let size = |reads: &&&[&Visit]| {
        let of_clip = clips.as_ref().and_then(|clips| clips.get(&reads[0].file));
        of_clip
            .copied()
            .unwrap_or(uses.sizes[reads[0].file as usize])
    };
    let mut found = Epochs {
        files: files.len() as u64,
        bytes: saturating_sum(files.iter().map(|reads| size(&reads))),
        copies: 1,
        knows_cache: page_cache::is_known_of(model, files.iter().map(|reads| reads[0].file)),
        ..Epochs::default()
    };
    if files.is_empty() {
        return found;
    }
    if uses.is_coarse {
        found.untold =
            Some("files were read more often than there is room for the time of each read");
        return found;
    }
    if sources.is_none() {
        found.untold =
            Some("some of the files were made from others, which may have been trained on too");
        return found;
    }
    let in_parts = files
        .iter()
        .filter(|reads| is_in_equal_parts(reads, size(reads)));
    if clips.is_none() || saturating_sum(in_parts.map(|reads| size(&reads))) > found.bytes / 2 {
        found.untold = Some(
            "the files were opened again and again for a part, which may be the same or the next",
        );
        return found;
    }
    let reached = |reads: &[&Visit]| uses.reached[reads[0].file as usize];
    let again = files
        .iter()
        .filter(|reads| is_part_read_again(reads, size(reads), reached(reads)));
    if saturating_sum(again.map(|reads| size(&reads))) > found.bytes / 2 {
        found.untold = Some(
            "only a part of the files was read, and some of it again: it may be all that is used",
        );
        return found;
    }
    let jumped = read_in_jumps(model);
    let at_random = files.iter().filter(|reads| {
        let is_random = jumped.get(&reads[0].file) == Some(&Jumps::Random);
        is_random && whole_number(reads, size(reads)).is_none()
    });
    if saturating_sum(at_random.map(|reads| size(&reads))) > found.bytes / 2 {
        found.untold = Some(
            "the files were read in random order, and not in whole passes: some parts may have been read again and again",
        );
        return found;
    }
    let ranks: BTreeSet<u32> = files
        .iter()
        .flat_map(|reads| reads.iter().map(|visit| groups.of(visit.process)))
        .collect();
    let of_all = files
        .iter()
        .map(|reads| FileReads::new(reads.to_vec(), size(&reads), &jumped));
    let shared = Sum::of(&of_all.collect::<Vec<_>>());
    // Ranks that each read everything do so at one time: passes over what they share would lie in each other.
    let is_copied = ranks.len() > 1
        && are_copies(&files, uses, groups, ranks.len())
        && !shared.is_one_behind_the_other();
    if !is_copied {
        shared.finish(model, &mut found);
        return found;
    }
    found.copies = ranks.len() as u32;
    let (jumped, ranks) = (&jumped, &ranks);
    let of_ranks = files.iter().flat_map(|reads| {
        ranks.iter().map(move |rank| {
            let of_rank = |visit: &&Visit| groups.of(visit.process) == *rank;
            let visits = reads.iter().copied().filter(of_rank).collect();
            FileReads::new(visits, size(&reads), jumped)
        })
    });
    Sum::of(&of_ranks.collect::<Vec<_>>()).finish(model, &mut found);
    found
}

impl Epochs {
    /// Drops the epochs if later passes may have made no call: the training files were mapped (`mapped` bytes of them), or the saves
    /// show that the job may keep the data in memory.
    pub fn doubt(&mut self, mapped: u64, saves: &[Event]) {
        let is_mapped = mapped as f64 > self.bytes as f64 * MAPPED_SHARE;
        let reason = match (is_mapped, self.is_followed_by(saves)) {
            (true, _) => MAPPED,
            (false, true) => KEPT_IN_MEMORY,
            (false, false) => return,
        };
        self.epochs.clear();
        self.untold = Some(reason);
    }

    /// Whether passes may have made no call ([`Self::doubt`]).
    pub fn may_be_unseen(&self) -> bool {
        matches!(self.untold, Some(MAPPED | KEPT_IN_MEMORY))
    }

    /// Whether there was one pass over all data, and at most a part of another one, and saves after it for longer than it took.
    fn is_followed_by(&self, saves: &[Event]) -> bool {
        let (whole, rest) = match &self.epochs[..] {
            [whole] => (whole, None),
            [whole, rest] => (whole, Some(rest)),
            _ => return false,
        };
        let mut later = saves.iter().filter(|save| save.start >= whole.end);
        let last = later.clone().map(|save| save.start).max();
        let lasted = last.map_or(0, |last| last - whole.end);
        whole.is_complete()
            && !rest.is_some_and(Epoch::is_complete)
            && later.nth(1).is_some()
            && lasted > MIN_KEPT_NS.max(whole.end - whole.start)
    }
}

/// Bytes of a clip, by file, if each pass over the files reads one of each: there the clips are the data. Empty where files are read
/// otherwise; `None` if they are read in parts of which passes are not known.
fn clips(files: &[&[&Visit]], uses: &Uses) -> Option<HashMap<u32, u64>> {
    let about = |reads: &&[&Visit]| {
        let file = reads[0].file;
        (file, uses.sizes[file as usize], uses.reached[file as usize])
    };
    let of_file = |reads: &&[&Visit]| {
        let (file, size, reached) = about(reads);
        Some((file, Clips::of(reads, size, reached)?))
    };
    let are_most = |number: usize| {
        number >= MIN_ORDERED_FILES && number as f64 >= files.len() as f64 * (1.0 - TOLERATED_SHARE)
    };
    let found = files.iter().filter_map(of_file);
    let (known, clips): (Vec<u32>, Vec<Clips>) = found.unzip();
    let may_follow = clips.iter().filter(|clips| clips.may_follow).count();
    if are_most(known.len()) && may_follow <= known.len() / 2 && Clips::are_in_rounds(&clips) {
        let bytes = clips.into_iter().map(|clips| clips.bytes);
        return Some(known.into_iter().zip(bytes).collect());
    }
    let is_odd = |reads: &&&[&Visit]| is_in_odd_parts(reads, about(reads).1);
    let is_unknown = are_most(files.iter().filter(is_odd).count());
    (!is_unknown).then(HashMap::new)
}

/// Why one pass is not known to be the only epoch.
const KEPT_IN_MEMORY: &str = "the files were read once, and saves followed for longer than that took: the job may keep the data in memory";

/// Why passes over mapped files are not detected.
pub const MAPPED: &str = "the training files were mapped, and a second pass over mapped pages makes no call and no fault";

/// Share of the bytes of the training files that were read from which on mapped ones make passes unknown.
const MAPPED_SHARE: f64 = 0.1;

/// Bytes of the training files that were mapped, and not read as a whole too.
pub fn mapped_bytes(model: &Model, uses: &Uses, sorted: &[Sorted]) -> u64 {
    let mut mapped: BTreeMap<u32, u64> = BTreeMap::new();
    for row in model.rows() {
        let phase = sorted[row.file as usize].phase(Direction::Read);
        let total = row.cell.total();
        let size = uses.sizes[row.file as usize];
        if phase == Phase::Training && total.v[MMAPS] > 0 && total.v[BYTES_READ] < size {
            mapped.insert(row.file, size);
        }
    }
    saturating_sum(mapped.into_values())
}

/// Whether the path is of data that a model is only tried on: the innermost name that says what data are for decides.
pub fn is_of_evaluation(path: &[u8]) -> bool {
    let names = below_home(path).rsplit(|byte| *byte == b'/');
    let mut names = names.take(DATA_LEVELS);
    names.find_map(is_named_for_evaluation) == Some(true)
}

/// A path without its first directories where these have the names of users or filesystems, not of data: `/home/test`,
/// `/dev/shm`.
fn below_home(path: &[u8]) -> &[u8] {
    if let Some(rest) = path.strip_prefix(b"/dev/") {
        return rest;
    }
    let homes: [&[u8]; 3] = [b"/home/", b"/users/", b"/Users/"];
    let Some(rest) = homes.iter().find_map(|home| path.strip_prefix(*home)) else {
        return path;
    };
    let user = rest.iter().position(|byte| *byte == b'/');
    &rest[user.unwrap_or(rest.len())..]
}

/// Whether one of these words is in a name, in lower or upper case, with or without digits after it.
fn has_word(name: &[u8], words: &[&str]) -> bool {
    let mut parts = name.split(|byte| b"._-".contains(byte));
    parts.any(|part| {
        let digits = part.iter().rev().take_while(|byte| byte.is_ascii_digit());
        let word = &part[..part.len() - digits.count()];
        let mut words = words.iter();
        words.any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
    })
}

/// What a name says that data are for: `Some(true)` for validation, `Some(false)` for training, `None` for neither or both.
pub fn is_named_for_evaluation(name: &[u8]) -> Option<bool> {
    let is_evaluation = has_word(name, &EVALUATION_NAMES);
    (is_evaluation != has_word(name, &TRAINING_NAMES)).then_some(is_evaluation)
}

/// Whether every rank read every file in full, and equally often.
fn are_copies(files: &[&[&Visit]], uses: &Uses, groups: &Groups, ranks: usize) -> bool {
    let is_copied = |reads: &&&[&Visit]| {
        let size = uses.sizes[reads[0].file as usize];
        let mut passes: HashMap<u32, f64> = HashMap::new();
        for (visit, share) in reads.iter().zip(shares(reads, size)) {
            *passes.entry(groups.of(visit.process)).or_default() += share;
        }
        let mut rounded = passes.values().map(|passes| passes.round() as u64);
        let first = rounded.next().unwrap_or(0);
        let is_whole = passes
            .values()
            .all(|passes| (passes - passes.round()).abs() < TOLERATED_SHARE);
        passes.len() == ranks && first > 0 && is_whole && rounded.all(|passes| passes == first)
    };
    let copied = files.iter().filter(is_copied).count();
    copied as f64 >= files.len() as f64 * (1.0 - TOLERATED_SHARE)
}

/// What a number of passes over files sums up to.
#[derive(Default)]
struct Sum {
    /// Bytes of all files, for all ranks.
    bytes: f64,
    epochs: BTreeMap<u32, Filling>,
    /// Visits of whole files by epoch and process: when, and which file.
    order: BTreeMap<u32, BTreeMap<u32, Vec<(i64, u32)>>>,
    /// Files that were left out, with their bytes.
    evaluated: BTreeMap<u32, u64>,
}

struct Filling {
    start: i64,
    end: i64,
    files: BTreeSet<u32>,
    bytes: f64,
    fetched: f64,
    read_ns: f64,
    /// Bytes of the files that were passed over, at most once each.
    covered: f64,
    is_exact: bool,
    by_process: BTreeMap<u32, f64>,
}

impl Filling {
    /// Adds what was read in a pass.
    fn take(&mut self, file: u32, pass: &Pass) {
        self.files.insert(file);
        self.bytes += pass.bytes;
        self.fetched += pass.fetched;
        self.read_ns += pass.read_ns;
        *self.by_process.entry(pass.process).or_default() += pass.bytes;
    }
}

/// Which epoch the k-th pass over a file belongs to.
enum Numbering<'a> {
    /// The k-th.
    AsCounted,
    /// Some of the files were passed over before the last epoch, in this one; the others have one pass fewer.
    Partial {
        number: u32,
        files: &'a BTreeSet<u32>,
    },
    /// The epoch of that time, by when each one starts: an epoch leaves some files out, others each time.
    ByTime(&'a [i64]),
}

impl Numbering<'_> {
    /// Numbers the passes over one file by their epochs.
    fn number(&self, file: u32, passes: &mut [Pass]) {
        match self {
            Self::AsCounted => {}
            Self::Partial { number, files } => {
                let is_fewer = !files.contains(&file);
                for pass in passes {
                    pass.number += u32::from(is_fewer && pass.number >= *number);
                }
            }
            Self::ByTime(epochs) => number_by_time(epochs, passes),
        }
    }
}

/// Numbers the passes over one file by the epochs in which they begin. It is passed over once at most in each. `epochs`: when
/// each begins, in order.
fn number_by_time(epochs: &[i64], passes: &mut [Pass]) {
    let mut starts: BTreeMap<u32, i64> = BTreeMap::new();
    for pass in passes.iter() {
        let start = starts.entry(pass.number).or_insert(pass.start);
        *start = pass.start.min(*start);
    }
    // By how many epochs a pass and all behind it can be later.
    let mut later = u32::MAX;
    let laters = starts.iter().rev().map(|(number, start)| {
        let begun = epochs.partition_point(|epoch| epoch <= start) as u32;
        later = later.min(begun.saturating_sub(number + 1));
        (*number, later)
    });
    let laters: BTreeMap<u32, u32> = laters.collect();
    for pass in passes {
        pass.number += laters[&pass.number];
    }
}

impl Sum {
    /// Sums up passes. Files that the training was tried on between its epochs are left out. A few files that were read more often
    /// than the others, as in a trial, are of the epoch of that time.
    fn of(all: &[FileReads<'_>]) -> Self {
        let all: Vec<&FileReads<'_>> = all.iter().collect();
        let sum = Self::with(&all, &Numbering::AsCounted);
        if sum.epochs.values().any(|epoch| sum.is_partial(epoch))
            && let Some(trained) = Self::without_evaluation(&all)
        {
            return trained;
        }
        let usual = sum.usual_passes();
        if usual == sum.epochs.len() {
            return sum.in_order(&all);
        }
        let is_usual = |reads: &&FileReads<'_>| {
            let passes = passes(reads);
            passes.iter().all(|pass| (pass.number as usize) < usual)
        };
        let (rest, often): (Vec<_>, Vec<_>) = all.into_iter().partition(is_usual);
        let mut sum = Self::with(&rest, &Numbering::AsCounted).in_order(&rest);
        often.into_iter().for_each(|reads| sum.add_by_time(reads));
        sum
    }

    /// The sum of the files that most bytes are of, if these were all read equally often, and the others, with less than half as many
    /// bytes, more or less often, by other processes, and before, between and after the passes over those. Processes that read both
    /// may stop in an epoch, or resume in one.
    fn without_evaluation(all: &[&FileReads<'_>]) -> Option<Self> {
        let passed: Vec<(&FileReads<'_>, Vec<Pass>)> =
            all.iter().map(|reads| (*reads, passes(reads))).collect();
        let count = |passes: &[Pass]| passes.iter().map(|pass| pass.number).max();
        let mut by_count: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for (reads, passes) in &passed {
            saturating_add(by_count.entry(count(passes)).or_default(), reads.size);
        }
        let bytes = saturating_sum(by_count.values().copied());
        let (usual, trained) = by_count.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        if bytes - trained >= trained / 2 {
            return None;
        }
        let is_trained = |(_, passes): &(&FileReads<'_>, Vec<Pass>)| count(passes) == usual;
        let (training, others): (Vec<_>, Vec<_>) = passed.into_iter().partition(is_trained);
        let training: Vec<&FileReads<'_>> = training.into_iter().map(|(reads, _)| reads).collect();
        let mut sum = Self::with(&training, &Numbering::AsCounted);
        let visits = training.iter().flat_map(|reads| &reads.visits);
        let trainers: BTreeSet<u32> = visits.map(|visit| visit.process).collect();
        let spans: Vec<(i64, i64)> = sum.epochs.values().map(|e| (e.start, e.end)).collect();
        let (mut is_apart, mut is_between) = (true, false);
        for pass in others.iter().flat_map(|(_, passes)| passes) {
            let before = spans.partition_point(|(_, end)| *end <= pass.start);
            let next = spans.get(before);
            is_apart &= next.is_none_or(|(start, _)| pass.end <= *start);
            is_apart &= !trainers.contains(&pass.process);
            is_between |= (1..spans.len()).contains(&before);
        }
        let evaluated = others
            .iter()
            .map(|(reads, _)| Some((reads.file()?, reads.size)));
        sum.evaluated = evaluated.collect::<Option<_>>()?;
        (is_apart && is_between && sum.is_one_behind_the_other()).then_some(sum)
    }

    /// Of the bytes of all files, the share that an epoch has.
    fn coverage(&self, epoch: &Filling) -> f64 {
        epoch.covered / self.bytes
    }

    /// Whether an epoch has a part of the data only.
    fn is_partial(&self, epoch: &Filling) -> bool {
        (TOLERATED_SHARE..1.0 - TOLERATED_SHARE).contains(&self.coverage(epoch))
    }

    /// How often nearly all files were passed over at most.
    fn usual_passes(&self) -> usize {
        let epochs = self.epochs.values().rev();
        let few = epochs.take_while(|epoch| self.coverage(epoch) < TOLERATED_SHARE);
        match self.epochs.len() - few.count() {
            0 => self.epochs.len(),
            usual => usual,
        }
    }

    /// Adds what was read of a file to the epochs of that time, which begin and end as they do without it.
    fn add_by_time(&mut self, reads: &FileReads<'_>) {
        let Some(file) = reads.file() else {
            return;
        };
        self.bytes += reads.weight();
        let mut covered = BTreeSet::new();
        for pass in passes(reads) {
            let mut epochs = self.epochs.iter_mut().rev();
            let Some((number, epoch)) = epochs.find(|(_, epoch)| epoch.start <= pass.start) else {
                continue;
            };
            epoch.take(file, &pass);
            let number = *number;
            if covered.insert(number) {
                epoch.covered += reads.weight();
                self.note(number, &pass, file);
            }
        }
    }

    /// The sum itself, unless its passes overlap and do not with other numbers. Files that were read once more than the others were
    /// so before the last pass if that puts one pass after the other: a trial, or an epoch that was broken off. Files that were
    /// read once less were left out by one of the epochs if that does.
    fn in_order(self, all: &[&FileReads<'_>]) -> Self {
        if !self.is_one_behind_the_other() {
            let mut latest = i64::MIN;
            let starts = self.epochs.values().map(|epoch| {
                latest = latest.max(epoch.start);
                latest
            });
            let starts: Vec<i64> = starts.collect();
            let by_time = Self::with(all, &Numbering::ByTime(&starts));
            if by_time.is_one_behind_the_other() {
                return by_time;
            }
        }
        let Some((last, partial)) = self.epochs.last_key_value() else {
            return self;
        };
        if partial.covered >= self.bytes * (1.0 - TOLERATED_SHARE)
            || *last > MAX_PLACES
            || self.is_one_behind_the_other()
        {
            return self;
        }
        let files = &partial.files;
        let earlier = (0..*last)
            .rev()
            .map(|number| Self::with(all, &Numbering::Partial { number, files }));
        let ordered = earlier.into_iter().find(Self::is_one_behind_the_other);
        ordered.unwrap_or(self)
    }

    fn with(all: &[&FileReads<'_>], numbering: &Numbering<'_>) -> Self {
        let mut sum = Self::default();
        all.iter().for_each(|reads| sum.add(reads, numbering));
        sum
    }

    fn add(&mut self, reads: &FileReads<'_>, numbering: &Numbering<'_>) {
        let Some(file) = reads.file() else {
            return;
        };
        let mut passes = passes(reads);
        numbering.number(file, &mut passes);
        let weight = reads.weight();
        self.bytes += weight;
        let mut covered: BTreeMap<u32, f64> = BTreeMap::new();
        for pass in passes {
            *covered.entry(pass.number).or_default() += pass.bytes;
            let epoch = self.epochs.entry(pass.number).or_insert(Filling {
                start: pass.start,
                end: pass.end,
                files: BTreeSet::new(),
                bytes: 0.0,
                fetched: 0.0,
                read_ns: 0.0,
                covered: 0.0,
                is_exact: true,
                by_process: BTreeMap::new(),
            });
            epoch.start = epoch.start.min(pass.start);
            epoch.end = epoch.end.max(pass.end);
            epoch.is_exact &= pass.is_exact;
            epoch.take(file, &pass);
            self.note(pass.number, &pass, file);
        }
        for (number, bytes) in covered {
            if let Some(epoch) = self.epochs.get_mut(&number) {
                let share = if reads.size == 0 { 1.0 } else { bytes / weight };
                let share = if share > WHOLE_SHARE { 1.0 } else { share };
                epoch.covered += weight * share;
            }
        }
    }

    /// Keeps when a process read a file in an epoch.
    fn note(&mut self, epoch: u32, pass: &Pass, file: u32) {
        if pass.is_exact {
            let of_process = self.order.entry(epoch).or_default();
            let visits = of_process.entry(pass.process).or_default();
            visits.push((pass.start, file));
        }
    }

    /// Whether each pass begins when the one before is, nearly, over.
    fn is_one_behind_the_other(&self) -> bool {
        let epochs: Vec<&Filling> = self.epochs.values().collect();
        epochs.windows(2).all(|pair| {
            let length = pair[0].end - pair[0].start;
            pair[1].start >= pair[0].end - length / 10
        })
    }

    /// Whether a complete pass is hardly half over when the next one begins, as of data for two trainings, one after the other.
    /// Passes in one interval, which have no times of their own, may lie in each other by chance; behind one that is exact,
    /// the next has its start from the first read of each file.
    fn is_nested(&self) -> bool {
        let is_complete = |epoch: &&Filling| epoch.covered >= self.bytes * (1.0 - TOLERATED_SHARE);
        let complete: Vec<&Filling> = self.epochs.values().filter(is_complete).collect();
        complete.windows(2).any(|pair| {
            let is_early = pair[1].start - pair[0].start < (pair[0].end - pair[0].start) / 20 * 11;
            is_early && pair[0].is_exact
        })
    }

    fn finish(mut self, model: &Model, found: &mut Epochs) {
        found.files -= self.evaluated.len() as u64;
        found.bytes -= saturating_sum(self.evaluated.values().copied()).min(found.bytes);
        let epochs = self.epochs.values();
        let partial = epochs.filter(|epoch| self.is_partial(epoch));
        if partial.count() > 1 {
            found.untold = Some("the files were read unevenly, some often and some seldom");
            return;
        }
        if self.is_nested() {
            found.untold = Some("some files were read again before others were read at all");
            return;
        }
        let has_whole = self
            .epochs
            .values()
            .any(|epoch| self.coverage(epoch) >= 1.0 - TOLERATED_SHARE);
        for (number, epoch) in std::mem::take(&mut self.epochs) {
            let coverage = self.coverage(&epoch);
            // The little that was read before the first pass belongs to none.
            if has_whole && found.epochs.is_empty() && coverage < TOLERATED_SHARE {
                continue;
            }
            // The little that was read after the last pass belongs to it.
            if let Some(last) = found
                .epochs
                .last_mut()
                .filter(|_| coverage < TOLERATED_SHARE)
            {
                last.end = last.end.max(epoch.end);
                saturating_add(&mut last.bytes, epoch.bytes.round() as u64);
                saturating_add(&mut last.fetched, epoch.fetched.round() as u64);
                saturating_add(&mut last.read_ns, epoch.read_ns.round() as u64);
                for (process, bytes) in epoch.by_process {
                    saturating_add(
                        last.by_process.entry(process).or_default(),
                        bytes.round() as u64,
                    );
                }
                continue;
            }
            let mut order = self.order.remove(&number).unwrap_or_default();
            sort_visits(&mut order);
            found.epochs.push(Epoch {
                number: found.epochs.len() as u32 + 1,
                start: epoch.start,
                end: epoch.end,
                files: epoch.files.len() as u64,
                bytes: epoch.bytes.round() as u64,
                fetched: epoch.fetched.round() as u64,
                read_ns: epoch.read_ns.round() as u64,
                coverage: coverage.min(1.0),
                sequences: sequences(&order, epoch.files.len()),
                directory_changes: directory_changes(model, &order),
                order: order_of(model, &order),
                is_exact: epoch.is_exact,
                by_process: epoch
                    .by_process
                    .into_iter()
                    .map(|(p, b)| (p, b.round() as u64))
                    .collect(),
            });
        }
    }
}

/// Files that each process visited, by when.
pub(crate) type Visited = BTreeMap<u32, Vec<(i64, u32)>>;

/// Puts visits in order; of those of one file that follow each other, the first stays.
pub(crate) fn sort_visits(visited: &mut Visited) {
    for visits in visited.values_mut() {
        visits.sort_unstable();
        visits.dedup_by_key(|(_, file)| *file);
    }
}

/// A hash of the files of each process in their order; `None` where not all `files` were visited.
fn sequences(order: &Visited, files: usize) -> Option<Vec<u64>> {
    let visited = order.values().flatten().map(|(_, file)| *file);
    if visited.collect::<BTreeSet<u32>>().len() < files {
        return None;
    }
    let hash = |visits: &Vec<(i64, u32)>| {
        let mut hasher = DefaultHasher::new();
        visits.iter().for_each(|(_, file)| file.hash(&mut hasher));
        hasher.finish()
    };
    let mut hashes: Vec<u64> = order.values().map(hash).collect();
    hashes.sort_unstable();
    Some(hashes)
}

/// Of the pairs of files that a process read one after the other, the share that lie in different directories.
fn directory_changes(model: &Model, order: &Visited) -> f64 {
    let directory = |file: u32| parent(model.file(file).path);
    let (mut pairs, mut changes) = (0_u64, 0_u64);
    for pair in order.values().flat_map(|visits| visits.windows(2)) {
        pairs += 1;
        changes += u64::from(directory(pair[0].1) != directory(pair[1].1));
    }
    changes as f64 / pairs.max(1) as f64
}

/// Whether the processes read files in the order of their names.
pub(crate) fn order_of(model: &Model, order: &Visited) -> Option<Order> {
    let (mut pairs, mut ascending, mut files) = (0_usize, 0_usize, 0_usize);
    for visits in order.values() {
        files += visits.len();
        for pair in visits.windows(2) {
            pairs += 1;
            ascending += usize::from(model.file(pair[0].1).path < model.file(pair[1].1).path);
        }
    }
    if files < MIN_ORDERED_FILES || pairs < MIN_ORDERED_FILES / 2 {
        return None;
    }
    match ascending as f64 / pairs as f64 {
        share if share >= 0.9 => Some(Order::Sequential),
        share if (0.25..=0.75).contains(&share) => Some(Order::Shuffled),
        _ => None,
    }
}
