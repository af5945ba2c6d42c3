//! Findings on which data are read, by whom, and in which order: they cost a model's quality before they cost time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    Confidence, Data, Finding, MAYBE_COMPUTING, Saving, Subject, Value, largest, seconds,
    thresholds::*,
};
use crate::{
    epochs::{Epoch, MAPPED},
    evaluation::{is_named_for_evaluation, is_of_evaluation},
    order::Order,
    passes::{WHOLE_SHARE, whole_passes},
    uses::Visit,
};
use iotrace_common::diag;
use iotrace_model::{
    counters::{BYTES_READ, BYTES_WRITTEN, MMAPS, saturating_add, saturating_sum},
    groups::{Groups, programs},
    paths::{name, parent, suffix},
};
use iotrace_phases::phase::Phase;

/// Share of changes of the directory from which on files are mixed. A walk over a tree reads one directory after the other.
const MIN_DIRECTORY_CHANGES: f64 = 0.25;

/// Epochs that read shuffled files in the order of the epoch before.
///
/// Workers interleave by chance, so the order of each process is compared; or that over all, in which files may have moved a little.
/// Files that all lie in one directory may be in the order of its listing, which is not known: nothing is said of them.
///
/// Nor of an evaluation, which loads a model for each pass and saves none: it needs no other order.
pub fn same_order(data: &Data<'_>) -> Option<Finding> {
    let analysis = data.analysis;
    let is_evaluation =
        analysis.checkpoints.is_empty() && analysis.restores.len() >= analysis.epochs.epochs.len();
    if is_evaluation {
        return None;
    }
    let is_shuffled = |epoch: &&Epoch| {
        epoch.is_complete()
            && epoch.order == Some(Order::Shuffled)
            && epoch.directory_changes >= MIN_DIRECTORY_CHANGES
            && epoch.files as f64 >= data.limit(AUDITED_FILES)
    };
    let epochs = &data.analysis.epochs.epochs;
    let shuffled: Vec<&Epoch> = epochs.iter().filter(is_shuffled).collect();
    if shuffled.len() < 2 {
        return None;
    }
    let programs = programs(data.model);
    let follow = |pair: &&[&Epoch]| {
        let is_known = pair.iter().all(|epoch| epoch.sequences.is_some());
        is_known
            && pair[1].number == pair[0].number + 1
            && pair[1].stage == pair[0].stage
            && are_of_one_training(data, &programs, pair[0], pair[1])
    };
    let pairs: Vec<&[&Epoch]> = shuffled.windows(2).filter(follow).collect();
    let is_same =
        |pair: &&&[&Epoch]| pair[0].sequences == pair[1].sequences || pair[1].is_in_last_order;
    let same = pairs.iter().filter(is_same).count();
    let first = pairs.first()?;
    // One that is the same by chance has one file.
    if same == 0 || same * 2 < pairs.len() {
        return None;
    }
    let processes = first[0].by_process.len();
    Some(Finding {
        code: "epochs-in-the-same-order",
        saving: data.saving(0, Confidence::Medium, &["whether the order is meant to stay"]),
        title: "Shuffled training files are read in the same order in each epoch".into(),
        evidence: vec![
            ("files", Value::Count(first[0].files)),
            ("epochs_compared", Value::Count(pairs.len() as u64)),
            ("epochs_in_the_same_order", Value::Count(same as u64)),
            ("processes", Value::Count(processes as u64)),
        ],
        subjects: Vec::new(),
        advice: "Shuffle anew in each epoch: call sampler.set_epoch(epoch) of DistributedSampler, set reshuffle_each_iteration in \
                 tf.data, and take the seed from the epoch."
            .into(),
        also: Vec::new(),
    })
}

/// Whether an epoch is of the training of the one before: the same programs read in it, or they have loaded something meanwhile.
/// Trainings that run one after the other may all begin with one seed.
fn are_of_one_training(data: &Data<'_>, programs: &[u32], one: &Epoch, next: &Epoch) -> bool {
    let of = |epoch: &Epoch| -> BTreeSet<u32> {
        let processes = epoch.by_process.keys();
        processes
            .map(|process| programs[*process as usize])
            .collect()
    };
    let of_next = of(next);
    let goes_on = |process: &u32| of_next.contains(&programs[*process as usize]);
    let mut loads = data.analysis.restores.iter();
    !of(one).is_disjoint(&of_next)
        || loads.any(|load| load.start < next.end && load.processes.iter().any(goes_on))
}

/// Mean size of files from which on they hold many samples, bytes: ranks may take different ones of the same file.
const MIN_SHARD_BYTES: u64 = 16 << 20;
/// Minimum number of other reads of a rank before it reads a file again in another epoch.
const MIN_READS_BETWEEN: usize = 32;
/// Share of the reads of a rank that read files again from which on its first epoch is over.
const AGAIN_SHARE: f64 = 0.05;
/// Maximum number of reads of one file that are told apart in one interval.
const MAX_PASSES: i64 = 100;
/// Share of all files that several ranks have read, from which on they have no parts of their own: all of them may evaluate on the
/// same files.
const MIN_SEVERAL_SHARE: f64 = 0.5;
/// Share of the files of the rank that has the most from which on a rank takes part.
const MIN_PART: f64 = 0.1;
/// Share of all files that is nearly all of them: a right sampler may leave some out of an epoch.
const NEARLY_ALL_SHARE: f64 = 0.9;
/// Minimum share of a rank's files that any other rank has read too, once nearly all files have been read, for ranks without
/// parts of their own. Eight ranks that read all files, each in another order, share a quarter at that time.
const MIN_SHARED_BEFORE_ALL: f64 = 0.1;

/// The first epoch of one rank.
#[derive(Default)]
struct FirstEpoch {
    files: HashSet<u32>,
    start: i64,
    end: i64,
    /// Whether the rank reads on after it.
    has_another: bool,
}

impl FirstEpoch {
    /// `reads`: when one rank read which file, in order. The epoch ends before files are read again.
    fn new(reads: &[(i64, u32)]) -> Self {
        let mut epoch = Self::default();
        let mut last_read: HashMap<u32, usize> = HashMap::new();
        let mut again = 0;
        // Turn and moment of the first read that is one again.
        let mut first_again = None;
        epoch.start = reads.first().map_or(0, |(at, _)| *at);
        for (turn, (at, file)) in reads.iter().enumerate() {
            let before = last_read.insert(*file, turn);
            if before.is_some_and(|before| turn - before >= MIN_READS_BETWEEN) {
                again += 1;
                first_again.get_or_insert((turn, *at));
            }
            if again as f64 > epoch.files.len() as f64 * AGAIN_SHARE {
                epoch.has_another = true;
                break;
            }
            epoch.files.insert(*file);
            epoch.end = *at;
        }
        if let Some((turn, at)) = first_again.filter(|_| epoch.has_another) {
            // The next one has begun with files that are new to the rank.
            epoch.files = reads[..turn].iter().map(|(_, file)| *file).collect();
            epoch.end = at;
        }
        epoch
    }
}

/// When the file of a visit was read: where it was read several times in one interval, evenly between the first and the
/// last time.
fn reads_of(visit: &Visit, size: u64) -> impl Iterator<Item = (i64, u32)> {
    let passes = (visit.bytes as f64 / size.max(1) as f64).round();
    let passes = (passes as i64).clamp(1, MAX_PASSES);
    let (start, file) = (visit.start, visit.file);
    let step = (visit.end - start) / (passes - 1).max(1);
    (0..passes).map(move |pass| (start + pass * step, file))
}

/// Ranks that read the same files in one epoch: nobody has given each its part.
///
/// Only the first epoch is compared, from the start until a rank begins to read files again: with a right sampler any two
/// ranks read the same file sooner or later, but not before all files were read. So nothing is said where ranks exchange
/// their parts, and each reads what is new to it for some epochs. Nor is anything said of shards, whose samples may be
/// divided; of files that ranks read for evaluation; and of what they load once to keep it in memory.
pub fn ranks_read_the_same(data: &Data<'_>) -> Option<Finding> {
    let epochs = &data.analysis.epochs;
    if epochs.untold == Some(MAPPED) || shares_layers(data) {
        return None;
    }
    let groups = Groups::new(data.model);
    let of_all: BTreeSet<u32> = data
        .uses
        .visits
        .iter()
        .map(|visit| groups.of(visit.process))
        .collect();
    if of_all.len() < 2 {
        return None;
    }
    let mut by_rank: BTreeMap<u32, Vec<(i64, u32)>> = BTreeMap::new();
    let mut read_ns = 0;
    let mut is_evaluation = vec![None; data.model.file_count()];
    for visit in &data.uses.visits {
        let is_evaluation = is_evaluation[visit.file as usize]
            .get_or_insert_with(|| is_of_evaluation(data.model.file(visit.file).path));
        if !*is_evaluation {
            let reads = by_rank.entry(groups.of(visit.process)).or_default();
            reads.extend(reads_of(visit, data.uses.sizes[visit.file as usize]));
            saturating_add(&mut read_ns, visit.read_ns);
        }
    }
    let mut ranks: Vec<FirstEpoch> = Vec::new();
    for reads in by_rank.values_mut() {
        reads.sort_unstable();
        ranks.push(FirstEpoch::new(reads));
    }
    let most = ranks.iter().map(|rank| rank.files.len()).max()?;
    ranks.retain(|rank| rank.files.len() as f64 >= most as f64 * MIN_PART);
    // In step: what ends for the first one is over for all.
    let (start, end) = (
        ranks.iter().map(|rank| rank.start).max()?,
        ranks.iter().map(|rank| rank.end).min()?,
    );
    let longest = ranks.iter().map(|rank| rank.end - rank.start).max()?;
    let is_at_one_time = (end - start) * 2 >= longest;
    let has_another = ranks.iter().any(|rank| rank.has_another);
    let begin = ranks.iter().map(|rank| rank.start).min()?;
    let run = data.run.duration_ns as i64;
    let is_loaded_once = !has_another && (end - begin) * 2 < run - begin;
    let mut readers: HashMap<u32, u64> = HashMap::new();
    for file in ranks.iter().flat_map(|rank| &rank.files) {
        *readers.entry(*file).or_default() += 1;
    }
    let bytes = saturating_sum(readers.keys().map(|file| data.uses.sizes[*file as usize]));
    let others = ranks.len().saturating_sub(1) as u64;
    let share = shared(&readers, others);
    let files = readers.len() as u64;
    let of_several = readers.values().filter(|ranks| **ranks > 1).count() as u64;
    let ever: HashSet<u32> = by_rank.values().flatten().map(|(_, file)| *file).collect();
    if others == 0
        || !is_at_one_time
        || is_loaded_once
        || (ever.len() as f64) < data.limit(AUDITED_FILES)
        || bytes / files.max(1) > MIN_SHARD_BYTES
        || share < data.limit(SHARED_FILES)
        || (of_several as f64) < files as f64 * MIN_SEVERAL_SHARE
        || are_trials(data, &groups, by_rank.keys())
        || shared_before_all(&by_rank) < MIN_SHARED_BEFORE_ALL
    {
        return None;
    }
    let again = read_ns as f64 * share * others as f64 / ranks.len() as f64;
    let saved = data.wall(Phase::Training, again as u64);
    Some(Finding {
        code: "ranks-read-the-same",
        saving: Saving {
            // Ranks train on the same also where none waits for its reads.
            is_hidden: false,
            ..data.saving(
                saved,
                Confidence::Medium,
                &[
                    MAYBE_COMPUTING,
                    "whether the processes are ranks of one training",
                    "whether ranks take different parts of the same file",
                    "whether they share the layers of one model, and so its samples",
                ],
            )
        },
        title: format!("{} ranks read the same training files in one epoch", ranks.len()),
        evidence: vec![
            ("ranks", Value::Count(ranks.len() as u64)),
            ("files", Value::Count(files)),
            ("files_read_by_several", Value::Count(of_several)),
            ("shared_files", Value::Share(share)),
            ("read_seconds", seconds(read_ns)),
        ],
        subjects: Vec::new(),
        advice: "Give each rank its part of the samples: DistributedSampler(dataset) for the loader, split_by_node, shard(), or the \
                 launcher's own preparation of the loader (accelerate.prepare)."
            .into(),
        also: Vec::new(),
    })
}

/// Whether these are trainings of their own, as a search for parameters runs them: none has the number of a rank, and each saves a
/// model under the same name in its own directory.
fn are_trials<'a>(
    data: &Data<'_>,
    groups: &Groups,
    programs: impl Iterator<Item = &'a u32> + Clone,
) -> bool {
    let has_number = |program: &u32| {
        let processes = data.model.processes();
        processes[*program as usize].about.role.rank.is_some() || groups.is_spawned_rank(*program)
    };
    if programs.clone().any(has_number) {
        return false;
    }
    // Who saves in which directory, by the name of the file.
    let mut names: BTreeMap<&[u8], BTreeMap<&[u8], BTreeSet<u32>>> = BTreeMap::new();
    for touch in data.uses.saved.iter().filter(|touch| touch.bytes > 0) {
        let path = data.uses.path(data.model, touch.file);
        let directories = names.entry(name(path)).or_default();
        let savers = directories.entry(parent(path)).or_default();
        savers.insert(groups.of(touch.process));
    }
    names.into_values().any(|directories| {
        let savers: BTreeSet<u32> = directories.values().flatten().copied().collect();
        let are_own = directories.values().all(|savers| savers.len() == 1);
        are_own && directories.len() > 1 && programs.clone().all(|program| savers.contains(program))
    })
}

/// Whether ranks save different parts of the same layers, by the names of Megatron and DeepSpeed: they must read the same samples.
fn shares_layers(data: &Data<'_>) -> bool {
    let saved = data
        .uses
        .saved
        .iter()
        .map(|touch| data.uses.path(data.model, touch.file));
    let components = saved.flat_map(|path| path.split(|byte| *byte == b'/'));
    let ranks = components.filter_map(|name| {
        let rest = name.strip_prefix(b"mp_rank_")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        Some(&rest[..digits.count()])
    });
    ranks.collect::<HashSet<_>>().len() > 1
}

/// Of the files that each rank had read when nearly all files had been read by any: the share that any other rank had read, too,
/// on average. `by_rank`: when each rank read which file, in order.
fn shared_before_all(by_rank: &BTreeMap<u32, Vec<(i64, u32)>>) -> f64 {
    let mut first_reads: HashMap<u32, i64> = HashMap::new();
    for (at, file) in by_rank.values().flatten() {
        let first = first_reads.entry(*file).or_insert(*at);
        *first = (*first).min(*at);
    }
    let mut moments: Vec<i64> = first_reads.into_values().collect();
    moments.sort_unstable();
    let nearly_all = (moments.len() as f64 * NEARLY_ALL_SHARE) as usize;
    let Some(until) = moments.get(nearly_all) else {
        return 0.0;
    };
    let mut readers: HashMap<u32, u64> = HashMap::new();
    for reads in by_rank.values() {
        let before = reads.iter().take_while(|(at, _)| at <= until);
        let files: HashSet<u32> = before.map(|(_, file)| *file).collect();
        for file in files {
            *readers.entry(file).or_default() += 1;
        }
    }
    shared(&readers, by_rank.len().saturating_sub(1) as u64)
}

/// Of the files that a rank has read: the share that any other one has read too. `readers`: how many ranks have read each file.
fn shared(readers: &HashMap<u32, u64>, others: u64) -> f64 {
    let reads: u64 = readers.values().sum();
    let met: u64 = readers.values().map(|ranks| ranks * (ranks - 1)).sum();
    met as f64 / (reads * others).max(1) as f64
}

/// Minimum number of files of one directory and suffix that are read whole to judge those that are not.
const MIN_SIBLINGS: usize = 7;
/// Share of these files that are read whole; of fewer it is usual that they are not.
const MIN_SIBLINGS_SHARE: f64 = 0.75;
/// Share of the siblings that may be read in part.
const MAX_PARTS: f64 = 0.1;
/// Share of the bytes that nine in ten siblings have from which on a file counts as read for a purpose: as a clip of a
/// recording, or as a picture with something after it.
const MIN_PURPOSE: f64 = 0.5;

/// Bytes that were read at most of files that were not read whole, by file; without files that were mapped or written, of
/// which it is not known how much was read, or of how much.
fn read_in_part(data: &Data<'_>) -> HashMap<u32, u64> {
    let mut bytes = vec![Some(0_u64); data.model.file_count()];
    for row in data.model.rows() {
        let of_file = &mut bytes[row.file as usize];
        if row.cell.has(MMAPS) || row.cell.has(BYTES_WRITTEN) {
            *of_file = None;
        } else if let Some(bytes) = of_file {
            saturating_add(bytes, row.cell.total().v[BYTES_READ]);
        }
    }
    let at_most = (0..).zip(bytes).filter_map(|(file, bytes)| {
        let at_most = match data.uses.reached[file as usize] {
            0 => bytes?,
            reached => bytes?.min(reached),
        };
        // What was read of it over and over is no whole.
        let whole = data.uses.sizes[file as usize] as f64 * WHOLE_SHARE;
        ((at_most as f64) < whole).then_some((file, at_most))
    });
    at_most.collect()
}

/// A training file and its reads.
struct Read<'a> {
    file: u32,
    size: u64,
    /// By start.
    visits: Vec<&'a Visit>,
    /// Start and end of each whole pass over it.
    passes: Vec<(i64, i64)>,
}

/// Files that the job opens in each epoch and of which it reads next to nothing, although it reads their siblings whole: a
/// reader gives them up, and goes on.
///
/// What was not read by anybody in the run cannot be in a cache of the program, and what it opens in each epoch is not held
/// out. Files of which neither can be said (read in one epoch and not again, or never opened) are left alone.
pub fn samples_never_read(data: &Data<'_>) -> Option<Finding> {
    if is_lossy(data) {
        return None;
    }
    let parts = read_in_part(data);
    let directory_of = |file: u32| {
        let path = data.model.file(file).path;
        (parent(path), suffix(path))
    };
    let visited = data.uses.visits.iter().map(|visit| visit.file);
    let visited = visited.filter(|file| parts.contains_key(file));
    let mut directories: BTreeMap<(&[u8], &[u8]), Vec<Read<'_>>> = visited
        .map(|file| (directory_of(file), Vec::new()))
        .collect();
    let visits = data.uses.visits.iter();
    let mut visits: Vec<&Visit> = visits
        .filter(|visit| directories.contains_key(&directory_of(visit.file)))
        .collect();
    visits.sort_by_key(|visit| (visit.file, visit.start, visit.process));
    for visits in visits.chunk_by(|a, b| a.file == b.file) {
        let file = visits[0].file;
        let size = data.uses.sizes[file as usize];
        let of_directory = directories.entry(directory_of(file)).or_default();
        of_directory.push(Read {
            file,
            size,
            visits: visits.to_vec(),
            passes: whole_passes(visits, size),
        });
    }
    let mut given_up: Vec<(u32, u64)> = Vec::new();
    let (mut siblings, mut epochs) = (0, 0);
    for reads in directories.values() {
        let found = given_up_in(reads, &parts);
        if let Some(found) = found.filter(|found| !found.files.is_empty()) {
            given_up.extend(found.files);
            siblings += found.siblings;
            epochs = epochs.max(found.epochs);
        }
    }
    if given_up.is_empty() {
        return None;
    }
    let unread = saturating_sum(given_up.iter().map(|(_, unread)| *unread));
    let sizes = given_up
        .iter()
        .map(|(file, _)| data.uses.sizes[*file as usize]);
    Some(Finding {
        code: "samples-never-read",
        saving: data.saving(0, Confidence::Medium, &["what the program does with these files"]),
        title: format!(
            "{} training files are opened in each epoch and hardly read, unlike others of their directory",
            given_up.len()
        ),
        evidence: vec![
            ("files", Value::Count(given_up.len() as u64)),
            ("files_read_whole", Value::Count(siblings as u64)),
            ("epochs", Value::Count(epochs as u64)),
            ("bytes_of_the_files", Value::Bytes(saturating_sum(sizes))),
            ("bytes_never_read", Value::Bytes(unread)),
        ],
        subjects: largest(
            data,
            &given_up,
            |(_, unread)| *unread,
            |(file, _)| Subject::File(*file),
        ),
        advice: "Check whether a filter leaves them out on purpose, as by a maximum length. If not, they may be damaged: \
                 warn_and_continue, ignore_errors, or an exception that is caught leave their samples out without a word."
            .into(),
        also: Vec::new(),
    })
}

/// Whether reads of files may be missing in the counters.
fn is_lossy(data: &Data<'_>) -> bool {
    let mut losses = data.run.losses.iter();
    let mut processes = data.model.processes().iter();
    losses.any(|(name, lost)| *lost > 0 && diag::is_loss(name))
        || processes.any(|process| process.overflow.total().operations() > 0)
}

/// Files of one directory that are given up in each epoch.
struct GivenUp {
    /// Files, and how many bytes of each were never read.
    files: Vec<(u32, u64)>,
    /// How many others are read whole, and how often.
    siblings: usize,
    epochs: usize,
}

/// `None` if the others are not read whole in at least two epochs. `parts`: as [`read_in_part`] found them.
fn given_up_in(reads: &[Read<'_>], parts: &HashMap<u32, u64>) -> Option<GivenUp> {
    let at_most = |read: &Read<'_>| parts.get(&read.file).copied();
    let is_whole = |read: &&Read<'_>| !read.passes.is_empty() && at_most(read).is_none();
    let whole: Vec<&Read<'_>> = reads.iter().filter(is_whole).collect();
    let mut sizes: Vec<u64> = whole.iter().map(|read| read.size).collect();
    sizes.sort_unstable();
    let usual = *sizes.get(sizes.len() / 10)?;
    // The epochs are those of the files that were read as often as most were.
    let mut by_passes: BTreeMap<usize, Vec<&Read<'_>>> = BTreeMap::new();
    for read in &whole {
        by_passes.entry(read.passes.len()).or_default().push(read);
    }
    let (epochs, most) = by_passes.iter().max_by_key(|(_, reads)| reads.len())?;
    let spans = (0..*epochs).filter_map(|epoch| {
        let passes = most.iter().map(|read| read.passes[epoch]);
        let (starts, ends): (Vec<i64>, Vec<i64>) = passes.unzip();
        starts.into_iter().min().zip(ends.into_iter().max())
    });
    let spans: Vec<(i64, i64)> = spans.collect();
    let unread = |read: &Read<'_>| {
        let at_most = at_most(read)?;
        let is_given_up =
            at_most as f64 <= usual as f64 * MIN_PURPOSE && is_read_in_each(&read.visits, &spans);
        is_given_up.then(|| (read.file, read.size - at_most))
    };
    let files: Vec<(u32, u64)> = reads.iter().filter_map(unread).collect();
    let parts = reads.len() - whole.len() - files.len();
    let is_usual = *epochs >= 2
        && whole.len() >= MIN_SIBLINGS
        && most.len() * 2 >= whole.len()
        && whole.len() as f64 >= reads.len() as f64 * MIN_SIBLINGS_SHARE
        && parts as f64 <= whole.len() as f64 * MAX_PARTS;
    is_usual.then_some(GivenUp {
        files,
        siblings: whole.len(),
        epochs: *epochs,
    })
}

/// Whether there is a visit in each epoch, of which the others have these spans: after the epoch before, and before the next
/// one. `visits` are in order.
fn is_read_in_each(visits: &[&Visit], spans: &[(i64, i64)]) -> bool {
    let mut visits = visits.iter().peekable();
    let mut opens = 0;
    (0..spans.len()).all(|epoch| {
        let after = epoch
            .checked_sub(1)
            .map_or(i64::MIN, |before| spans[before].1);
        let before = spans.get(epoch + 1).map_or(i64::MAX, |next| next.0);
        while let Some(visit) = visits.peek() {
            // Several reads in one interval are one visit.
            let is_used_up = opens >= visit.opens.max(1);
            let last = if visit.opens > 1 {
                visit.end
            } else {
                visit.start
            };
            if !is_used_up && last > after {
                opens += 1;
                return visit.start < before;
            }
            visits.next();
            opens = 0;
        }
        false
    })
}

/// Maximum number of validation files that one process reads one after the other while it reads training files at random.
const MAX_MIXED_RUN: usize = 8;
/// Minimum number of validation files that one process reads one after the other in a pass over them alone.
const MIN_APART_RUN: usize = 16;
/// Factor by which validation files may follow each other more often than if all are mixed.
const MIXED_FACTOR: f64 = 2.0;
/// Minimum number of runs of training files between validation files whose lengths tell whether all are mixed.
const MIN_RUNS: usize = 8;
/// Standard deviation of these lengths, as a share of their mean, below which a loop reads a validation file after each step. If all
/// files are mixed, it is 0.45 or more even where one in five is for training.
const MAX_LOOP_SPREAD: f64 = 0.3;
/// Share of the training passes in which a file is read to count as one of theirs.
const MIN_PASSES_SHARE: f64 = 0.75;

/// How often a validation file was read.
#[derive(Default)]
struct Trials {
    /// Between training files.
    mixed: u64,
    /// Among other validation files.
    apart: u64,
}

/// Validation files, by their names, that one pass over the training files reads too: mixed with them by a process that
/// shuffles both, and besides in passes over validation files alone.
///
/// A model that is trained on all data and not validated has only the former, and validation has only the latter, whoever
/// else reads at the time.
pub fn validation_in_training(data: &Data<'_>) -> Option<Finding> {
    let splits = splits(data)?;
    let mut by_process: BTreeMap<u32, Vec<(i64, u32, bool)>> = BTreeMap::new();
    let mut passes: HashMap<u32, u64> = HashMap::new();
    for visit in &data.uses.visits {
        let Some(is_validation) = splits.get(&visit.file).copied() else {
            continue;
        };
        if !is_validation {
            *passes.entry(visit.file).or_default() += 1;
        } else if !visit.is_exact {
            // When it was read for the second time is not known.
            continue;
        }
        let of_process = by_process.entry(visit.process).or_default();
        of_process.push((visit.start, visit.file, is_validation));
    }
    let mut trials: HashMap<u32, Trials> = HashMap::new();
    let (mut mixed_runs, mut mixed, mut training) = (0_u64, 0_u64, 0_u64);
    let mut lengths: Vec<f64> = Vec::new();
    for reads in by_process.values_mut() {
        reads.sort_unstable();
        let runs: Vec<&[(i64, u32, bool)]> = reads.chunk_by(|a, b| a.2 == b.2).collect();
        let before = mixed_runs;
        let between = runs.iter().skip(1).rev().skip(1).filter(|run| !run[0].2);
        lengths.extend(between.map(|run| run.len() as f64));
        for (turn, run) in runs.iter().enumerate().filter(|(_, run)| run[0].2) {
            let is_between = turn > 0 && turn + 1 < runs.len();
            let is_mixed = is_between && run.len() <= MAX_MIXED_RUN;
            let is_apart = runs.len() == 1 || run.len() >= MIN_APART_RUN;
            for (_, file, _) in *run {
                let trials = trials.entry(*file).or_default();
                trials.mixed += u64::from(is_mixed);
                trials.apart += u64::from(is_apart);
            }
            if is_mixed {
                mixed_runs += 1;
                mixed += run.len() as u64;
            }
        }
        if mixed_runs > before {
            training += reads.iter().filter(|read| !read.2).count() as u64;
        }
    }
    let mut passes: Vec<u64> = passes.into_values().collect();
    passes.sort_unstable();
    let epochs = *passes.get(passes.len() / 2)?;
    let is_leaked = |trials: &Trials| {
        trials.apart > 0 && trials.mixed as f64 >= epochs as f64 * MIN_PASSES_SHARE
    };
    let leaked: Vec<u32> = trials
        .iter()
        .filter_map(|(file, trials)| is_leaked(trials).then_some(*file))
        .collect();
    // Of two kinds in random order, one follows the other so often on average.
    let expected = 1.0 + mixed as f64 / training.max(1) as f64;
    if (passes.len() as f64) < data.limit(AUDITED_FILES)
        || epochs < 2
        || (leaked.len() as f64) < data.limit(LEAKED_FILES)
        || mixed as f64 > mixed_runs as f64 * expected * MIXED_FACTOR
        || is_loop(&lengths)
    {
        return None;
    }
    let mut directories: BTreeMap<&[u8], u64> = BTreeMap::new();
    for file in &leaked {
        let directory = parent(data.model.file(*file).path);
        *directories.entry(directory).or_default() += 1;
    }
    let validation = splits.values().filter(|is_validation| **is_validation);
    Some(Finding {
        code: "validation-in-training",
        saving: data.saving(0, Confidence::Medium, &["whether the names of the files say what they are for"]),
        title: format!("Training reads {} of the files that validation reads", leaked.len()),
        evidence: vec![
            ("files", Value::Count(leaked.len() as u64)),
            ("validation_files", Value::Count(validation.count() as u64)),
            ("training_files", Value::Count(passes.len() as u64)),
            ("epochs", Value::Count(epochs)),
        ],
        subjects: largest(
            data,
            directories,
            |(_, files)| *files,
            |(directory, _)| Subject::Directory(directory.to_vec()),
        ),
        advice: "Leave the validation files out of the training set: check its patterns and lists of files. Scores on files that \
                 a model was trained on are too good."
            .into(),
        also: Vec::new(),
    })
}

/// Whether a loop reads a validation file after each step: the runs of training files between them have about one length.
fn is_loop(lengths: &[f64]) -> bool {
    let count = lengths.len() as f64;
    let mean = lengths.iter().sum::<f64>() / count;
    let spread = lengths.iter().map(|length| (length - mean).powi(2));
    let spread = (spread.sum::<f64>() / count).sqrt();
    lengths.len() >= MIN_RUNS && spread < mean * MAX_LOOP_SPREAD
}

/// Which of the files that were read are for validation, and which for training, as one component of their paths says where
/// all before it is the same; of several such places, the one with the most files. `None` if there is no such place.
fn splits(data: &Data<'_>) -> Option<HashMap<u32, bool>> {
    let mut files: Vec<u32> = data.uses.visits.iter().map(|visit| visit.file).collect();
    files.sort_unstable();
    files.dedup();
    let path = |file: &u32| data.model.file(*file).path;
    let mut of_directories: HashMap<&[u8], Vec<(&[u8], bool)>> = HashMap::new();
    for file in &files {
        let directory = parent(path(file));
        let named = of_directories.entry(directory);
        named.or_insert_with(|| named_directories(directory));
    }
    let of_files = files.iter().filter_map(|file| named_file(path(file)));
    let mut named = of_directories.values().flatten().copied().chain(of_files);
    if !named.any(|(_, is_validation)| is_validation) {
        return None;
    }
    let mut places: BTreeMap<&[u8], HashMap<u32, bool>> = BTreeMap::new();
    for file in files {
        let of_directory = of_directories[parent(path(&file))].iter().copied();
        for (place, is_validation) in of_directory.chain(named_file(path(&file))) {
            places.entry(place).or_default().insert(file, is_validation);
        }
    }
    let has_both = |files: &HashMap<u32, bool>| {
        files.values().any(|is_validation| *is_validation)
            && files.values().any(|is_validation| !is_validation)
    };
    let places = places.into_values().filter(has_both);
    places.max_by_key(HashMap::len)
}

/// What the components of a directory's path say, each with all that is before it.
fn named_directories(directory: &[u8]) -> Vec<(&[u8], bool)> {
    let mut start = 0;
    let components = directory.split(|byte| *byte == b'/');
    let named = components.filter_map(|component| {
        let place = &directory[..start];
        start += component.len() + 1;
        Some((place, is_named_for_evaluation(component)?))
    });
    named.collect()
}

/// What the first word of a file's name says, with all that is before it: other words may be of what is in it.
fn named_file(path: &[u8]) -> Option<(&[u8], bool)> {
    let name = name(path);
    let place = &path[..path.len() - name.len()];
    let word = name.split(|byte| b"._-".contains(byte)).next()?;
    Some((place, is_named_for_evaluation(word)?))
}
