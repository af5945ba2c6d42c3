//! Epochs: passes over the training files, detected by files that are read again.
//!
//! A file has been passed over once when as many bytes of it were read as it has, or when it was opened and about all of
//! it was read. The k-th epoch is the k-th pass over the files, from its first read to its last. Where every rank reads all
//! the data, passes are counted by rank. Files of validation and test are left out where there are others, and so are reads
//! of other programs before and after the training.

mod sum;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    clips::clips,
    evaluation::is_of_evaluation,
    mapped::Mapped,
    naming::is_description,
    no_samples::no_samples,
    once::read_at_once,
    order::Order,
    page_cache,
    passes::{
        FileReads, TOLERATED_SHARE, has_columns, is_in_equal_parts, is_in_one_open,
        is_part_read_again, read_in_jumps, shares, whole_number,
    },
    preparation,
    ranks::strangers,
    saves::Event,
    uses::{Uses, Visit},
};
use iotrace_model::{Model, counters::saturating_sum, groups::Groups, run::Run};
use iotrace_phases::context::Sorted;
use sum::Sum;

/// Shortest time from the end of a pass to the last save after it in which a job may have trained on what it keeps in memory.
const MIN_KEPT_NS: i64 = 1_000_000_000;
/// The same as a factor of the length of the pass, where one save follows.
const MIN_KEPT_FACTOR: i64 = 3;

/// One pass.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// From 1.
    pub number: u32,
    /// From 1: of a training that goes on with other files.
    pub stage: u32,
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
    /// Whether all processes together read the files in about the same order as in the epoch before, and not by name.
    pub is_in_last_order: bool,
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
    pub mapped: Mapped,
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
    let no_samples = no_samples(model, &files, uses);
    files.retain(|reads| !no_samples.contains(&reads[0].file));
    let clips = clips(&files, uses);
    let size = |reads: &[&Visit]| {
        let of_clip = clips.as_ref().and_then(|clips| clips.get(&reads[0].file));
        of_clip
            .copied()
            .unwrap_or(uses.sizes[reads[0].file as usize])
    };
    let mut found = Epochs {
        files: files.len() as u64,
        bytes: saturating_sum(files.iter().map(|reads| size(reads))),
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
    let read = |reads: &&[&Visit]| saturating_sum(reads.iter().map(|visit| visit.bytes));
    let opens = |reads: &[&Visit]| saturating_sum(reads.iter().map(|visit| visit.opens));
    let unmeasured = files
        .iter()
        .filter(|reads| size(reads) == 0 && (reads.len() > 1 || opens(reads) > 1));
    if saturating_sum(unmeasured.map(read)) > saturating_sum(files.iter().map(read)) / 2 {
        found.untold =
            Some("the run made the files, and detail basic does not measure the sizes of such");
        return found;
    }
    // Whether more than half of the bytes are of such files.
    let are_most = |is_such: &dyn Fn(&[&Visit]) -> bool| {
        let such = files.iter().filter(|reads| is_such(reads));
        saturating_sum(such.map(|reads| size(reads))) > found.bytes / 2
    };
    if clips.is_none() || are_most(&|reads| is_in_equal_parts(reads, size(reads))) {
        found.untold = Some(
            "the files were opened again and again for a part, which may be the same or the next",
        );
        return found;
    }
    let is_again = |reads: &[&Visit]| {
        let reached = uses.reached[reads[0].file as usize];
        is_part_read_again(reads, size(reads), reached)
    };
    if are_most(&is_again) {
        found.untold = Some(
            "only a part of the files was read, and some of it again: it may be all that is used",
        );
        return found;
    }
    let jumped = read_in_jumps(model);
    let is_at_random = |reads: &[&Visit]| {
        let jumps = jumped.get(&reads[0].file);
        let jumps = jumps.filter(|jumps| jumps.is_random());
        jumps.is_some_and(|jumps| whole_number(reads, size(reads), *jumps).is_none())
    };
    if are_most(&is_at_random) {
        found.untold = Some(
            "the files were read in random order, and not in whole passes: some parts may have been read again and again",
        );
        return found;
    }
    let is_in_one_open = |reads: &[&Visit]| is_in_one_open(reads, size(reads));
    let is_in_columns = |reads: &[&Visit]| {
        let is_jumped = jumped.contains_key(&reads[0].file);
        is_jumped && has_columns(model.file(reads[0].file).path) && is_in_one_open(reads)
    };
    if are_most(&is_in_columns) {
        found.untold = Some("tables were kept open and read in jumps, maybe some columns alone");
        return found;
    }
    if run.detail != "full" && are_most(&is_in_one_open) {
        found.untold = Some(
            "files were kept open and read again, and detail basic does not measure in which order",
        );
        return found;
    }
    let ranks: BTreeSet<u32> = files
        .iter()
        .flat_map(|reads| reads.iter().map(|visit| groups.of(visit.process)))
        .collect();
    let saved = uses.saved.iter().filter(|touch| touch.bytes > 0);
    let last_save = saved.map(|touch| touch.end).max();
    let reads_of_all = |size: &dyn Fn(&[&Visit]) -> u64| -> Vec<FileReads<'_>> {
        let of_all = files
            .iter()
            .map(|reads| FileReads::new(*reads, size(reads), &jumped));
        of_all.collect()
    };
    let sum_of_all = |size: &dyn Fn(&[&Visit]) -> u64| Sum::of(&reads_of_all(size), last_save);
    let shared = sum_of_all(&size);
    // Ranks that each read everything do so at one time: passes over what they share would lie in each other.
    let is_copied = ranks.len() > 1
        && read_at_one_time(&files, groups)
        && are_copies(&files, uses, groups, ranks.len())
        && !shared.is_one_behind_the_other();
    if !is_copied {
        if !shared.is_of_whole_passes()
            && let Some(stages) = Sum::stages(&reads_of_all(&size), &starts_of_saves(model, uses))
        {
            for stage in stages {
                stage.finish(model, &mut found);
            }
            return found;
        }
        // Files of which more than their size is read each time are passed over once each time, if that puts one pass after
        // the other.
        let at_once = shared.is_nested().then(|| read_at_once(&files, uses));
        let again = at_once
            .flatten()
            .map(|bytes| sum_of_all(&|reads| bytes[&reads[0].file]))
            .filter(Sum::is_of_whole_passes);
        again.unwrap_or(shared).finish(model, &mut found);
        return found;
    }
    found.copies = ranks.len() as u32;
    let (jumped, ranks) = (&jumped, &ranks);
    let of_ranks = files.iter().flat_map(|reads| {
        ranks.iter().map(move |rank| {
            let of_rank = |visit: &&Visit| groups.of(visit.process) == *rank;
            let visits: Vec<&Visit> = reads.iter().copied().filter(of_rank).collect();
            FileReads::new(visits, size(reads), jumped)
        })
    });
    Sum::of(&of_ranks.collect::<Vec<_>>(), last_save).finish(model, &mut found);
    found
}

impl Epochs {
    /// Drops the epochs if later passes may have made no call: the training files were `mapped`, or the saves show that the job may
    /// keep the data in memory.
    pub fn doubt(&mut self, mapped: Mapped, saves: &[Event]) {
        self.mapped = mapped;
        let is_mapped = mapped.bytes as f64 > self.bytes as f64 * MAPPED_SHARE;
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
        // One save may have waited for the last step, or for what else ends a job.
        let factor = match later.nth(1) {
            Some(_) => 1,
            None => MIN_KEPT_FACTOR,
        };
        whole.is_complete()
            && !rest.is_some_and(Epoch::is_complete)
            && lasted > MIN_KEPT_NS.max((whole.end - whole.start) * factor)
    }
}

/// Why one pass is not known to be the only epoch.
const KEPT_IN_MEMORY: &str =
    "the files were read once, and a save came long after: the job may keep the data in memory";

/// Why passes over mapped files are not detected.
pub const MAPPED: &str = "the training files were mapped, and a second pass over mapped pages makes no call and no fault";

/// Share of the bytes of the training files that were read from which on mapped ones make passes unknown.
const MAPPED_SHARE: f64 = 0.1;

/// When models, or what training resumes from, began to be written.
fn starts_of_saves(model: &Model, uses: &Uses) -> Vec<i64> {
    let saved = uses.saved.iter().filter(|touch| touch.bytes > 0);
    let saved = saved.filter(|touch| !is_description(uses.path(model, touch.file)));
    saved.map(|touch| touch.start).collect()
}

/// Whether ranks read at one time: programs that run one after the other do not.
fn read_at_one_time(files: &[&[&Visit]], groups: &Groups) -> bool {
    let mut spans: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    for visit in files.iter().copied().flatten() {
        let of_rank = spans.entry(groups.of(visit.process));
        let (start, end) = of_rank.or_insert((visit.start, visit.end));
        *start = visit.start.min(*start);
        *end = visit.end.max(*end);
    }
    let (mut start, mut end, mut shortest) = (i64::MIN, i64::MAX, i64::MAX);
    for (first, last) in spans.into_values() {
        start = first.max(start);
        end = last.min(end);
        shortest = (last - first).min(shortest);
    }
    end.saturating_sub(start) >= shortest / 2
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
