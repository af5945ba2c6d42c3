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
    page_cache, preparation,
    ranks::strangers,
    uses::{Uses, Visit, still_open},
};
use iotrace_common::op;
use iotrace_model::{
    Model,
    counters::{BYTES_READ, MMAPS, OPENS, SEQUENTIAL_READS, saturating_add, saturating_sum},
    groups::Groups,
    paths::parent,
    run::Run,
};
use iotrace_phases::{
    context::Sorted,
    phase::{Direction, Phase},
};

/// Share of the bytes of a file, and of all files, that a complete pass may lack.
pub(crate) const TOLERATED_SHARE: f64 = 0.05;
/// Share of the bytes of a file from which on it counts as read whole.
pub const WHOLE_SHARE: f64 = 0.75;
/// Share of the bytes of a file from which on a part is no sample.
const MIN_PART_SHARE: f64 = 0.25;
/// Share of the reads that go back from which on a file is read in random order.
const MIN_BACKWARD_SHARE: f64 = 0.2;
/// Share of a file by which each of several passes over it may be longer or shorter than the file, by its header and footer.
const MAX_EXCESS: f64 = 0.1;
/// Maximum distance of what was read at random from a number of whole passes.
const MAX_DISTANCE: f64 = 0.2;
/// Maximum number of passes over one file in an interval; a file with more is not a data set.
const MAX_PASSES: f64 = 10_000.0;
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

/// One file's reads in one rank.
struct FileReads<'a> {
    visits: Vec<&'a Visit>,
    size: u64,
}

/// A pass over one file.
struct Pass {
    number: u32,
    start: i64,
    end: i64,
    bytes: f64,
    fetched: f64,
    read_ns: f64,
    process: u32,
    is_exact: bool,
}

/// Finds the epochs.
pub fn epochs(model: &Model, run: &Run, uses: &Uses, groups: &Groups) -> Epochs {
    let mut visits: Vec<&Visit> = uses.visits.iter().collect();
    visits.sort_by_key(|visit| (visit.file, visit.start, visit.process));
    let sources = preparation::sources(model, run, uses, groups, &visits);
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
    let mut found = Epochs {
        files: files.len() as u64,
        bytes: saturating_sum(files.iter().map(|reads| uses.sizes[reads[0].file as usize])),
        copies: 1,
        knows_cache: page_cache::is_known_of(model, files.iter().map(|reads| reads[0].file)),
        ..Epochs::default()
    };
    if files.is_empty() {
        return found;
    }
    if sources.is_none() {
        found.untold =
            Some("some of the files were made from others, which may have been trained on too");
        return found;
    }
    let size = |reads: &&&[&Visit]| uses.sizes[reads[0].file as usize];
    let in_parts = files
        .iter()
        .filter(|reads| is_in_equal_parts(reads, size(reads)));
    if saturating_sum(in_parts.map(|reads| size(&reads))) > found.bytes / 2 {
        found.untold = Some(
            "the files were opened again and again for an equal part, which may be the same or the next",
        );
        return found;
    }
    let random = read_at_random(model);
    let at_random = files
        .iter()
        .filter(|reads| random.contains(&reads[0].file) && !are_whole_passes(reads, size(reads)));
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
    let of_all = files.iter().map(|reads| FileReads {
        visits: reads.to_vec(),
        size: uses.sizes[reads[0].file as usize],
    });
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
    let of_ranks = files.iter().flat_map(|reads| {
        ranks.iter().map(|rank| {
            let of_rank = |visit: &&Visit| groups.of(visit.process) == *rank;
            FileReads {
                visits: reads.iter().copied().filter(of_rank).collect(),
                size: uses.sizes[reads[0].file as usize],
            }
        })
    });
    Sum::of(&of_ranks.collect::<Vec<_>>()).finish(model, &mut found);
    found
}

/// Why passes over mapped files are not detected.
pub const MAPPED: &str = "the training files were mapped, and a second pass over mapped pages makes no call and no fault";

/// Share of the bytes of the training files that were read from which on mapped ones make passes unknown.
pub const MAPPED_SHARE: f64 = 0.1;

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
    let text = String::from_utf8_lossy(name).to_ascii_lowercase();
    let mut parts = text.split(['.', '_', '-']);
    parts.any(|part| words.contains(&part.trim_end_matches(|c: char| c.is_ascii_digit())))
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

/// How often each visit passed over its file; at most so often as is worth a place each.
///
/// A header is read twice, a footer left out: what one process read of the file from an open to its close, over however
/// many intervals, passed over it once if it was about the file, and over a file that it opened several times so often as it
/// read about the whole of it.
fn shares(visits: &[&Visit], size: u64) -> Vec<f64> {
    let mut shares: Vec<f64> = visits.iter().map(|visit| share(visit, size)).collect();
    for chain in chains(visits) {
        let total: f64 = chain.iter().map(|index| shares[*index]).sum();
        let opens: u64 = saturating_sum(chain.iter().map(|index| visits[*index].opens));
        if let Some(passes) = whole_number(total, opens) {
            let factor = passes / total;
            chain.iter().for_each(|index| shares[*index] *= factor);
        }
    }
    shares
}

/// How often a file was passed over that was opened so often, where what was read of it is `total` times its size.
fn whole_number(total: f64, opens: u64) -> Option<f64> {
    let opens = opens as f64;
    let nearest = total.round().clamp(1.0, opens);
    if (total - nearest).abs() <= (nearest * MAX_EXCESS).min(MAX_DISTANCE) {
        return Some(nearest);
    }
    (WHOLE_SHARE..1.5)
        .contains(&(total / opens))
        .then_some(opens)
}

/// How often a visit read as many bytes as its file has; at most so often as is worth a place each.
fn share(visit: &Visit, size: u64) -> f64 {
    let share = match size {
        0 => 1.0,
        _ => visit.bytes as f64 / size as f64,
    };
    share.min(MAX_PASSES)
}

/// What a process read of a file from an open, or several, to the last close: visits, by index.
fn chains(visits: &[&Visit]) -> Vec<Vec<usize>> {
    let mut chains = Vec::new();
    // By process: the visits since an open, and how many opens are not closed.
    let mut begun: HashMap<u32, (Vec<usize>, u64)> = HashMap::new();
    for (index, visit) in visits.iter().enumerate() {
        let (chain, open) = begun.entry(visit.process).or_default();
        if chain.is_empty() && visit.opens == 0 {
            continue;
        }
        chain.push(index);
        *open = still_open(*open, visit.opens, visit.closes);
        if *open == 0 {
            chains.push(std::mem::take(chain));
        }
    }
    chains
}

/// Whether a process opened a file several times and read an equal part of it each time: the same part, as some columns of a
/// table, or the next.
fn is_in_equal_parts(visits: &[&Visit], size: u64) -> bool {
    let mut parts: HashMap<u32, Vec<f64>> = HashMap::new();
    let opened_once = |chain: &Vec<usize>| visits[chain[0]].opens == 1;
    for chain in chains(visits).into_iter().filter(opened_once) {
        let part = chain.iter().map(|index| share(visits[*index], size)).sum();
        parts
            .entry(visits[chain[0]].process)
            .or_default()
            .push(part);
    }
    let are_equal = |parts: &Vec<f64>| {
        let (least, most) = parts
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), part| {
                (least.min(*part), most.max(*part))
            });
        parts.len() > 1
            && least >= MIN_PART_SHARE
            && most < WHOLE_SHARE
            && most - least <= TOLERATED_SHARE
    };
    parts.values().any(are_equal)
}

/// Files that were read in random order, by index.
fn read_at_random(model: &Model) -> BTreeSet<u32> {
    let mut reads: BTreeMap<u32, [u64; 3]> = BTreeMap::new();
    for row in model.rows() {
        let total = row.cell.total();
        let calls = [
            total.calls(op::is_read),
            total.v[SEQUENTIAL_READS],
            total.v[OPENS],
        ];
        let of_file = reads.entry(row.file).or_default();
        for (sum, value) in of_file.iter_mut().zip(calls) {
            saturating_add(sum, value);
        }
    }
    // Of the first read after an open it is not known what it follows. Without sequential reads the order was not measured.
    let is_random = |[all, sequential, opens]: &[u64; 3]| {
        let backward = all.saturating_sub(*sequential).saturating_sub(*opens);
        *sequential > 0 && backward as f64 >= *all as f64 * MIN_BACKWARD_SHARE
    };
    let random = reads.into_iter().filter(|(_, calls)| is_random(calls));
    random.map(|(file, _)| file).collect()
}

/// Whether what was read of a file is about the file a number of times, or less than it. A reader of HDF5 reads more than it is
/// asked for, and samples may be drawn more than once.
fn are_whole_passes(visits: &[&Visit], size: u64) -> bool {
    let passes: f64 = shares(visits, size).iter().sum();
    let distance = (passes - passes.round()).abs();
    passes <= 1.0 || distance <= (passes * TOLERATED_SHARE).min(MAX_DISTANCE)
}

/// What a number of passes over files sums up to.
#[derive(Default)]
struct Sum {
    /// Bytes of all files, for all ranks.
    bytes: f64,
    epochs: BTreeMap<u32, Filling>,
    /// Visits of whole files by epoch and process: when, and which file.
    order: BTreeMap<u32, BTreeMap<u32, Vec<(i64, u32)>>>,
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

/// A pass over some of the files, before the last one: the others have one fewer.
struct Partial<'a> {
    number: u32,
    files: &'a BTreeSet<u32>,
}

impl Sum {
    /// Sums up passes. Files that were read once more than the others were so before the last pass if that puts one pass after the
    /// other: a trial, or an epoch that was broken off.
    fn of(all: &[FileReads<'_>]) -> Self {
        let sum = Self::with(all, None);
        let Some((last, partial)) = sum.epochs.last_key_value() else {
            return sum;
        };
        if partial.covered >= sum.bytes * (1.0 - TOLERATED_SHARE)
            || *last > MAX_PLACES
            || sum.is_one_behind_the_other()
        {
            return sum;
        }
        let files = &partial.files;
        let earlier = (0..*last)
            .rev()
            .map(|number| Self::with(all, Some(&Partial { number, files })));
        let ordered = earlier.into_iter().find(Self::is_one_behind_the_other);
        ordered.unwrap_or(sum)
    }

    fn with(all: &[FileReads<'_>], partial: Option<&Partial<'_>>) -> Self {
        let mut sum = Self::default();
        all.iter().for_each(|reads| sum.add(reads, partial));
        sum
    }

    fn add(&mut self, reads: &FileReads<'_>, partial: Option<&Partial<'_>>) {
        let Some(first) = reads.visits.first() else {
            return;
        };
        let left_out = partial.filter(|partial| !partial.files.contains(&first.file));
        let left_out = left_out.map_or(u32::MAX, |partial| partial.number);
        let weight = (reads.size.max(1)) as f64;
        self.bytes += weight;
        let mut covered: BTreeMap<u32, f64> = BTreeMap::new();
        for mut pass in passes(reads) {
            pass.number += u32::from(pass.number >= left_out);
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
            epoch.files.insert(first.file);
            epoch.bytes += pass.bytes;
            epoch.fetched += pass.fetched;
            epoch.read_ns += pass.read_ns;
            epoch.is_exact &= pass.is_exact;
            *epoch.by_process.entry(pass.process).or_default() += pass.bytes;
            if pass.is_exact {
                let of_process = self.order.entry(pass.number).or_default();
                of_process
                    .entry(pass.process)
                    .or_default()
                    .push((pass.start, first.file));
            }
        }
        for (number, bytes) in covered {
            if let Some(epoch) = self.epochs.get_mut(&number) {
                let share = if reads.size == 0 { 1.0 } else { bytes / weight };
                let share = if share > WHOLE_SHARE { 1.0 } else { share };
                epoch.covered += weight * share;
            }
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
        let coverage = |epoch: &Filling| epoch.covered / self.bytes;
        let partial = self
            .epochs
            .values()
            .filter(|epoch| (TOLERATED_SHARE..1.0 - TOLERATED_SHARE).contains(&coverage(epoch)));
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
            .any(|epoch| coverage(epoch) >= 1.0 - TOLERATED_SHARE);
        for (number, epoch) in std::mem::take(&mut self.epochs) {
            let coverage = epoch.covered / self.bytes;
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

/// Start and end of each whole pass over a file, nanoseconds since the start of the run. `visits`: all of the file, by their
/// start.
pub fn whole_passes(visits: &[&Visit], size: u64) -> Vec<(i64, i64)> {
    let reads = FileReads {
        visits: visits.to_vec(),
        size,
    };
    let mut by_number: BTreeMap<u32, (f64, i64, i64)> = BTreeMap::new();
    for pass in passes(&reads) {
        let known = by_number.entry(pass.number);
        let (bytes, start, end) = known.or_insert((0.0, pass.start, pass.end));
        *bytes += pass.bytes;
        *start = pass.start.min(*start);
        *end = pass.end.max(*end);
    }
    let whole = by_number.into_values();
    let whole = whole.filter(|(bytes, _, _)| *bytes >= size as f64 * WHOLE_SHARE);
    whole.map(|(_, start, end)| (start, end)).collect()
}

/// The passes over one file, in parts: one visit may end one pass and begin the next.
fn passes(reads: &FileReads<'_>) -> Vec<Pass> {
    let mut passes = Vec::new();
    let mut done = 0.0_f64;
    let shares = shares(&reads.visits, reads.size);
    for (visit, share) in reads.visits.iter().zip(shares) {
        let end = done + share;
        // What begins with an open may be the next pass where nearly all was read before; what goes on is not.
        let slack = if visit.opens > 0 {
            TOLERATED_SHARE
        } else {
            1e-9
        };
        let first = (done + slack).floor();
        let last = (end - TOLERATED_SHARE).floor().max(first);
        let span = (visit.end - visit.start) as f64;
        let mut number = first;
        // What the first pass fetched the next one finds in the page cache.
        let mut fetched = visit.fetched as f64;
        while number <= last {
            // The part of the visit that is of this pass.
            let from = if number == first { done } else { number };
            let to = if number == last { end } else { number + 1.0 };
            let part = if share > 0.0 {
                (to - from) / share
            } else {
                1.0
            };
            let at = |moment: f64| {
                visit.start + (span * (moment - done) / share.max(f64::MIN_POSITIVE)) as i64
            };
            let ahead = if number == last {
                fetched
            } else {
                fetched.min(visit.bytes as f64 * part)
            };
            fetched -= ahead;
            passes.push(Pass {
                number: number as u32,
                start: if number == first {
                    visit.start
                } else {
                    at(from)
                },
                end: if number == last { visit.end } else { at(to) },
                bytes: visit.bytes as f64 * part,
                fetched: ahead,
                read_ns: visit.read_ns as f64 * part,
                process: visit.process,
                is_exact: visit.is_exact && first == last,
            });
            number += 1.0;
        }
        done = end;
    }
    passes
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
