//! In which order processes read the files of an epoch.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use iotrace_model::{Model, paths::parent};

/// Minimum number of files in a pass whose order is meaningful.
const MIN_ORDERED_FILES: usize = 8;

/// Of the files of a pass the part, as a divisor, by which a place may differ in another pass of the same order: what threads and
/// processes read at one time comes in any order.
const PLACE_DIVISOR: usize = 20;
/// Maximum number of places by which a file may be earlier or later in another pass of the same order.
const MAX_MOVE: usize = 128;
/// Share of files that have about their place in two passes of the same order.
const MIN_PLACED_SHARE: f64 = 0.95;

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

/// All files in the order in which any process visited them first.
pub(crate) fn merged(model: &Model, order: &Visited) -> Vec<u32> {
    let mut visits: Vec<(i64, u32)> = order.values().flatten().copied().collect();
    // Each process has its own in order: a stable sort puts such runs together.
    visits.sort();
    let mut seen = vec![false; model.file_count()];
    let files = visits.into_iter().map(|(_, file)| file);
    files
        .filter(|file| !std::mem::replace(&mut seen[*file as usize], true))
        .collect()
}

/// Whether two passes visit files in one order, but for what is read at one time, and that is not the order of their names, with
/// numbers as such or digit by digit.
pub(crate) fn are_in_one_order(model: &Model, one: &[u32], other: &[u32]) -> bool {
    let is_sorted_by = |key: fn(&[u8]) -> Vec<u8>| {
        let mut sorted = one.to_vec();
        sorted.sort_by_cached_key(|file| key(model.file(*file).path));
        have_same_places(model, &sorted, one)
    };
    have_same_places(model, one, other)
        && !is_sorted_by(<[u8]>::to_vec)
        && !is_sorted_by(with_wide_numbers)
}

/// A path whose numbers all have as many digits, so that they are in order.
fn with_wide_numbers(path: &[u8]) -> Vec<u8> {
    const NUMBER_WIDTH: usize = 20;
    let mut wide = Vec::new();
    for part in path.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()) {
        if part[0].is_ascii_digit() {
            wide.resize(wide.len() + NUMBER_WIDTH.saturating_sub(part.len()), b'0');
        }
        wide.extend(part);
    }
    wide
}

/// Whether nearly all files have about the same place in both.
fn have_same_places(model: &Model, one: &[u32], other: &[u32]) -> bool {
    let most = (other.len() / PLACE_DIVISOR).min(MAX_MOVE) as u32;
    // By file.
    let mut places: Vec<Option<u32>> = vec![None; model.file_count()];
    for (file, place) in other.iter().zip(0..) {
        places[*file as usize] = Some(place);
    }
    let is_placed = |(file, place): &(&u32, u32)| {
        let other = places[**file as usize];
        other.is_some_and(|other| place.abs_diff(other) <= most)
    };
    let placed = one.iter().zip(0..).filter(is_placed).count();
    placed as f64 >= other.len().max(one.len()) as f64 * MIN_PLACED_SHARE
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
