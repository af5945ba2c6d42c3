//! What the passes over many files sum up to.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    order::{are_in_one_order, directory_changes, merged, order_of, sequences, sort_visits},
    passes::{FileReads, Pass, TOLERATED_SHARE, WHOLE_SHARE, passes},
};
use iotrace_model::{
    Model,
    counters::{saturating_add, saturating_sum},
};

use super::{Epoch, Epochs};

/// Maximum number of passes among which the place of one over some files is looked for.
const MAX_PLACES: u32 = 64;

/// Minimum number of files of a stage.
const MIN_STAGE_FILES: usize = 8;

/// What a number of passes over files sums up to.
#[derive(Default)]
pub(super) struct Sum {
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
    /// As of a pass: [`Pass::known`].
    known: (i64, i64),
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

/// Where the pass over some of the files, which have one pass more than the others, can be so that one pass follows the other:
/// its number, the last ones first, and how long all passes are then, summed. `last`: the number of passes before it.
fn places(all: &[&FileReads<'_>], last: u32, files: &BTreeSet<u32>) -> Vec<(u32, i64)> {
    // Of the passes over those files, and over the others: from when to when.
    let mut spans: [BTreeMap<u32, (i64, i64)>; 2] = Default::default();
    for reads in all {
        let is_fewer = reads.file().is_some_and(|file| !files.contains(&file));
        for pass in passes(reads) {
            let span = spans[usize::from(is_fewer)].entry(pass.number);
            let (start, end) = span.or_insert((pass.start, pass.end));
            *start = pass.start.min(*start);
            *end = pass.end.max(*end);
        }
    }
    let [more, fewer] = spans;
    let place = |number: u32| {
        let spans = (0..=last).filter_map(|pass| {
            let of_fewer = match pass.cmp(&number) {
                Ordering::Less => fewer.get(&pass),
                Ordering::Equal => None,
                Ordering::Greater => fewer.get(&(pass - 1)),
            };
            let both = more.get(&pass).into_iter().chain(of_fewer).copied();
            both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        });
        let spans: Vec<(i64, i64)> = spans.collect();
        are_one_behind_the_other(&spans).then(|| (number, length_of(&spans)))
    };
    (0..last).rev().filter_map(place).collect()
}

/// How long these spans are, summed.
fn length_of(spans: &[(i64, i64)]) -> i64 {
    let lengths = spans.iter().map(|(start, end)| end - start);
    lengths.fold(0, i64::saturating_add)
}

/// Whether each span begins when the one before is over, but for a small share of the shorter one: the longer one may be long by a
/// pause.
fn are_one_behind_the_other(spans: &[(i64, i64)]) -> bool {
    let length = |(start, end): (i64, i64)| end - start;
    spans.windows(2).all(|pair| {
        let shorter = length(pair[0]).min(length(pair[1]));
        pair[1].0 >= pair[0].1 - shorter / 10
    })
}

impl Sum {
    /// Sums up passes. Files that the training was tried on between its epochs are left out. A few files that were read more often
    /// than the others, as in a trial, are of the epoch of that time.
    ///
    /// `last_save`: when a checkpoint was written last.
    pub fn of(all: &[FileReads<'_>], last_save: Option<i64>) -> Self {
        let all: Vec<&FileReads<'_>> = all.iter().collect();
        let sum = Self::with(&all, &Numbering::AsCounted);
        let has_partial = sum.epochs.values().any(|epoch| sum.is_partial(epoch));
        if (has_partial || !sum.is_one_behind_the_other())
            && let Some(trained) = Self::without_evaluation(&all, last_save)
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

    /// Finds the stages of a training. Each passes over files of its own at least twice, begins after the one before has ended, and
    /// saves after each pass; a test saves nothing. `None` if there is one stage, or if that is not known. `saves`: when they began.
    pub fn stages(all: &[FileReads<'_>], saves: &[i64]) -> Option<Vec<Self>> {
        let span = |reads: &FileReads<'_>| {
            let visits = reads.visits.iter();
            let start = visits.clone().map(|visit| visit.start).min()?;
            Some((start, visits.map(|visit| visit.end).max()?))
        };
        let files = all.iter().filter_map(|reads| Some((span(reads)?, reads)));
        let mut files: Vec<((i64, i64), &FileReads<'_>)> = files.collect();
        files.sort_unstable_by_key(|(span, _)| *span);
        // Each with its start.
        let mut stages: Vec<(i64, Vec<&FileReads<'_>>)> = Vec::new();
        let mut reached = i64::MIN;
        for ((start, end), reads) in files {
            match stages.last_mut() {
                Some((_, files)) if start < reached => files.push(reads),
                _ => stages.push((start, vec![reads])),
            }
            reached = reached.max(end);
        }
        if stages.len() < 2
            || stages
                .iter()
                .any(|(_, files)| files.len() < MIN_STAGE_FILES)
        {
            return None;
        }
        let ends = stages.iter().skip(1).map(|(start, _)| *start);
        let sums = stages.iter().zip(ends.chain([i64::MAX]));
        let sums = sums.map(|((_, files), end)| {
            let sum = Self::with(files, &Numbering::AsCounted).in_order(files);
            sum.is_stage(saves, end).then_some(sum)
        });
        sums.collect()
    }

    /// Whether there are whole passes alone, and a save begins after the start of each, before the next pass or the end.
    fn is_stage(&self, saves: &[i64], end: i64) -> bool {
        let starts = self.epochs.values().map(|epoch| epoch.start);
        let starts: Vec<i64> = starts.chain([end]).collect();
        let is_saved = |pair: &[i64]| saves.iter().any(|save| (pair[0]..pair[1]).contains(save));
        self.epochs.len() > 1 && self.is_of_whole_passes() && starts.windows(2).all(is_saved)
    }

    /// The sum of the files that most bytes are of, if these were all read equally often, and the others, with less than half as many
    /// bytes, more or less often, by other processes, and before, between and after the passes over those. Processes that read both
    /// may stop in an epoch, or resume in one. Or the others were read once, after the last save, which followed the training: a test.
    fn without_evaluation(all: &[&FileReads<'_>], last_save: Option<i64>) -> Option<Self> {
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
        let visits = training.iter().flat_map(|reads| reads.visits.iter());
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
        let is_test = || {
            let last = spans.last().filter(|_| spans.len() > 1).zip(last_save);
            last.is_some_and(|((start, end), saved)| {
                let mut passes = others.iter().flat_map(|(_, passes)| passes);
                passes.all(|pass| pass.number == 0 && pass.start >= saved.max(*end))
                    && *start < saved
            })
        };
        let is_evaluation = is_apart && is_between || is_test();
        (is_evaluation && sum.is_one_behind_the_other()).then_some(sum)
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

    /// The sum itself, unless its passes overlap, or are far longer than with other numbers, as with a pause in them. Files that were
    /// read once more than the others were so before the last pass if that puts one pass after the other: a trial, or an epoch that
    /// was broken off. Files that were read once less were left out by one of the epochs if that does.
    fn in_order(self, all: &[&FileReads<'_>]) -> Self {
        let is_ordered = self.is_one_behind_the_other();
        let by_time = (!is_ordered).then(|| {
            let mut latest = i64::MIN;
            let starts = self.epochs.values().map(|epoch| {
                latest = latest.max(epoch.start);
                latest
            });
            let starts: Vec<i64> = starts.collect();
            Self::with(all, &Numbering::ByTime(&starts))
        });
        let by_time = by_time.filter(Self::is_one_behind_the_other);
        let Some((last, partial)) = self.epochs.last_key_value() else {
            return self;
        };
        let is_whole = partial.covered >= self.bytes * (1.0 - TOLERATED_SHARE);
        let places = match is_whole || *last > MAX_PLACES {
            true => Vec::new(),
            false => places(all, *last, &partial.files),
        };
        let files = &partial.files;
        let counted = [is_ordered.then_some(&self), by_time.as_ref()];
        let counted = counted.into_iter().flatten().next();
        let counted = counted.map(|sum| length_of(&sum.spans()));
        let lengths = places.iter().map(|(_, length)| *length);
        let shortest = lengths.chain(counted).min().unwrap_or(0);
        let is_short = |length: i64| length <= shortest.saturating_add(shortest / 10);
        if counted.is_some_and(is_short) {
            return by_time.unwrap_or(self);
        }
        let place = places.into_iter().find(|(_, length)| is_short(*length));
        match place {
            Some((number, _)) => Self::with(all, &Numbering::Partial { number, files }),
            None => self,
        }
    }

    /// Start and end of each pass.
    fn spans(&self) -> Vec<(i64, i64)> {
        let epochs = self.epochs.values();
        epochs.map(|epoch| (epoch.start, epoch.end)).collect()
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
                known: (i64::MAX, i64::MIN),
                by_process: BTreeMap::new(),
            });
            epoch.start = epoch.start.min(pass.start);
            epoch.end = epoch.end.max(pass.end);
            epoch.is_exact &= pass.is_exact;
            let (begun, under_way) = epoch.known;
            epoch.known = (begun.min(pass.known.0), under_way.max(pass.known.1));
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
    pub fn is_one_behind_the_other(&self) -> bool {
        are_one_behind_the_other(&self.spans())
    }

    /// Whether a complete pass is known to be hardly half over when the next one begins, as of data for two trainings, one after
    /// the other, or of files that are read twice each time. Passes that were put between others may lie in each other by chance.
    pub fn is_nested(&self) -> bool {
        let is_complete = |epoch: &&Filling| epoch.covered >= self.bytes * (1.0 - TOLERATED_SHARE);
        let complete: Vec<&Filling> = self.epochs.values().filter(is_complete).collect();
        complete.windows(2).any(|pair| {
            let ((begun, under_way), next) = (pair[0].known, pair[1].known.0);
            let length = under_way.saturating_sub(begun);
            // Where an epoch that was broken off misnumbers the passes over some files, the next may begin before this one.
            length > 0 && next >= begun && next.saturating_sub(begun) < length / 20 * 11
        })
    }

    /// Whether there are passes over nearly all files, one after the other, and nothing else.
    pub fn is_of_whole_passes(&self) -> bool {
        let mut epochs = self.epochs.values();
        let is_whole = |epoch: &Filling| self.coverage(epoch) >= 1.0 - TOLERATED_SHARE;
        epochs.all(is_whole) && self.is_one_behind_the_other()
    }

    pub fn finish(mut self, model: &Model, found: &mut Epochs) {
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
        let stage = found.epochs.last().map_or(1, |epoch| epoch.stage + 1);
        let mut before: Vec<u32> = Vec::new();
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
            let files = merged(model, &order);
            let is_in_last_order = are_in_one_order(model, &before, &files);
            before = files;
            found.epochs.push(Epoch {
                number: found.epochs.len() as u32 + 1,
                stage,
                start: epoch.start,
                end: epoch.end,
                files: epoch.files.len() as u64,
                bytes: epoch.bytes.round() as u64,
                fetched: epoch.fetched.round() as u64,
                read_ns: epoch.read_ns.round() as u64,
                coverage: coverage.min(1.0),
                sequences: sequences(&order, epoch.files.len()),
                is_in_last_order,
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
