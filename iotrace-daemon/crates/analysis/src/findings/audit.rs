//! Findings on which data are read, by whom, and in which order: they cost a model's quality before they cost time.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Confidence, Data, Finding, MAYBE_COMPUTING, Value, seconds, thresholds::*};
use crate::{
    epochs::{Epoch, MAPPED, Order, is_of_evaluation},
    uses::Visit,
};
use iotrace_model::groups::Groups;
use iotrace_phases::phase::Phase;

/// Share of changes of the directory from which on files are mixed. A walk over a tree reads one directory after the other.
const MIN_DIRECTORY_CHANGES: f64 = 0.25;

/// Epochs that read shuffled files in the order of the epoch before.
///
/// Workers interleave by chance, so the order of each process is compared, and not that over all. Files that all lie in one
/// directory may be in the order of its listing, which is not known: nothing is said of them.
pub fn same_order(data: &Data<'_>) -> Option<Finding> {
    let is_shuffled = |epoch: &&Epoch| {
        epoch.is_complete()
            && epoch.order == Some(Order::Shuffled)
            && epoch.directory_changes >= MIN_DIRECTORY_CHANGES
            && epoch.files as f64 >= data.limit(AUDITED_FILES)
    };
    let epochs = &data.analysis.epochs.epochs;
    let shuffled: Vec<&Epoch> = epochs.iter().filter(is_shuffled).collect();
    let follow = |pair: &&[&Epoch]| {
        let is_known = pair.iter().all(|epoch| epoch.sequences.is_some());
        is_known && pair[1].number == pair[0].number + 1
    };
    let pairs: Vec<&[&Epoch]> = shuffled.windows(2).filter(follow).collect();
    let is_same = |pair: &&&[&Epoch]| pair[0].sequences == pair[1].sequences;
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

/// Mean size of files from which on they hold many samples, bytes: ranks may take different ones of the same file.
const MIN_SHARD_BYTES: u64 = 16 << 20;
/// Minimum number of other reads of a rank before it reads a file again in another epoch.
const MIN_READS_BETWEEN: usize = 32;
/// Share of the reads of a rank that read files again from which on its first epoch is over.
const AGAIN_SHARE: f64 = 0.05;
/// Maximum number of reads of one file that are told apart in one interval.
const MAX_PASSES: i64 = 100;
/// Share of the files of the rank that has the most from which on a rank takes part.
const MIN_PART: f64 = 0.1;

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
        epoch.start = reads.first().map_or(0, |(at, _)| *at);
        for (turn, (at, file)) in reads.iter().enumerate() {
            let before = last_read.insert(*file, turn);
            again += usize::from(before.is_some_and(|before| turn - before >= MIN_READS_BETWEEN));
            if again as f64 > epoch.files.len() as f64 * AGAIN_SHARE {
                epoch.has_another = true;
                break;
            }
            epoch.files.insert(*file);
            epoch.end = *at;
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
/// ranks read the same file sooner or later, but not before all files were read. Nothing is said of shards, whose samples may
/// be divided; of files that ranks read for evaluation; and of what they load once to keep it in memory.
pub fn ranks_read_the_same(data: &Data<'_>) -> Option<Finding> {
    let epochs = &data.analysis.epochs;
    if epochs.untold == Some(MAPPED) {
        return None;
    }
    let groups = Groups::new(data.model);
    let mut by_rank: BTreeMap<u32, Vec<(i64, u32)>> = BTreeMap::new();
    let mut read_ns = 0;
    let mut is_evaluation: HashMap<u32, bool> = HashMap::new();
    for visit in &data.uses.visits {
        let is_tried = *is_evaluation
            .entry(visit.file)
            .or_insert_with(|| is_of_evaluation(data.model.file(visit.file).path));
        if !is_tried {
            let reads = by_rank.entry(groups.of(visit.process)).or_default();
            reads.extend(reads_of(visit, data.uses.sizes[visit.file as usize]));
            read_ns += visit.read_ns;
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
    let bytes: u64 = readers
        .keys()
        .map(|file| data.uses.sizes[*file as usize])
        .sum();
    // Of the files that a rank has read: the share that any other one has read too.
    let reads: u64 = readers.values().sum();
    let met: u64 = readers.values().map(|ranks| ranks * (ranks - 1)).sum();
    let others = ranks.len().saturating_sub(1) as u64;
    let share = met as f64 / (reads * others).max(1) as f64;
    let files = readers.len() as u64;
    let ever: HashSet<u32> = by_rank.values().flatten().map(|(_, file)| *file).collect();
    if others == 0
        || !is_at_one_time
        || is_loaded_once
        || (ever.len() as f64) < data.limit(AUDITED_FILES)
        || bytes / files.max(1) > MIN_SHARD_BYTES
        || share < data.limit(SHARED_FILES)
    {
        return None;
    }
    let again = read_ns as f64 * share * others as f64 / ranks.len() as f64;
    let saved = data.wall(Phase::Training, again as u64);
    let shared = readers.values().filter(|ranks| **ranks > 1).count() as u64;
    Some(Finding {
        code: "ranks-read-the-same",
        saving: data.saving(
            saved,
            Confidence::Medium,
            &[
                MAYBE_COMPUTING,
                "whether the processes are ranks of one training",
                "whether ranks take different parts of the same file",
            ],
        ),
        title: format!("{} ranks read the same training files in one epoch", ranks.len()),
        evidence: vec![
            ("ranks", Value::Count(ranks.len() as u64)),
            ("files", Value::Count(files)),
            ("files_read_by_several", Value::Count(shared)),
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
