//! Findings on which data are read, and in which order: they cost a model's quality and no time.

use super::{Confidence, Data, Finding, Value, thresholds::*};
use crate::epochs::{Epoch, Order};

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
