//! In which order processes read the files of an epoch.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use iotrace_model::{Model, paths::parent};

/// Minimum number of files in a pass whose order is meaningful.
const MIN_ORDERED_FILES: usize = 8;

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
pub(crate) fn sequences(order: &Visited, files: usize) -> Option<Vec<u64>> {
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
pub(crate) fn directory_changes(model: &Model, order: &Visited) -> f64 {
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
