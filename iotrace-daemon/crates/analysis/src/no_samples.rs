//! Small files that are no samples: lists of them that are read before all, and notes that the run keeps.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    passes::{TOLERATED_SHARE, share},
    uses::{Uses, Visit},
};
use iotrace_model::{
    Model,
    counters::{saturating_add, saturating_sum},
    paths::suffix,
};

/// Files of few bytes that are no samples, by index. Without them epochs begin and end with the samples.
pub(crate) fn no_samples(model: &Model, files: &[&[&Visit]], uses: &Uses) -> BTreeSet<u32> {
    let size = |reads: &&[&Visit]| uses.sizes[reads[0].file as usize];
    let all = saturating_sum(files.iter().map(size));
    let is_little = |bytes: u64| bytes as f64 <= all as f64 * TOLERATED_SHARE;
    let (notes, rest): (Vec<_>, Vec<_>) = files
        .iter()
        .copied()
        .partition(|reads| uses.rewritten.contains(&reads[0].file));
    let notes = match is_little(saturating_sum(notes.iter().map(size))) {
        true => notes,
        false => Vec::new(),
    };
    let lists = lists(model, &rest, uses);
    let lists = match is_little(saturating_sum(lists.iter().map(size))) {
        true => lists,
        false => Vec::new(),
    };
    let found = notes.iter().chain(&lists);
    found.map(|reads| reads[0].file).collect()
}

/// What is known of the files with one extension.
struct Kind<'a> {
    start: i64,
    end: i64,
    bytes: u64,
    /// How often they were read, summed.
    passes: f64,
    files: Vec<&'a [&'a Visit]>,
}

impl Kind<'_> {
    fn passes_over_each(&self) -> f64 {
        self.passes / self.files.len() as f64
    }
}

/// Files with other extensions than the rest, of which all was read before it, and half as often at most.
fn lists<'a>(model: &Model, files: &[&'a [&'a Visit]], uses: &Uses) -> Vec<&'a [&'a Visit]> {
    let mut kinds: BTreeMap<&[u8], Kind<'a>> = BTreeMap::new();
    for reads in files {
        let size = uses.sizes[reads[0].file as usize];
        let kind = kinds
            .entry(suffix(model.file(reads[0].file).path))
            .or_insert(Kind {
                start: i64::MAX,
                end: i64::MIN,
                bytes: 0,
                passes: 0.0,
                files: Vec::new(),
            });
        for visit in *reads {
            kind.start = kind.start.min(visit.start);
            kind.end = kind.end.max(visit.end);
            kind.passes += share(visit, size);
        }
        saturating_add(&mut kind.bytes, size);
        kind.files.push(reads);
    }
    let Some(samples) = kinds.values().max_by_key(|kind| kind.bytes) else {
        return Vec::new();
    };
    let (begun, passes) = (samples.start, samples.passes_over_each());
    let (before, rest): (Vec<_>, Vec<_>) = kinds
        .into_values()
        .partition(|kind| kind.end <= begun && kind.passes_over_each() <= passes / 2.0);
    let begun = rest.iter().map(|kind| kind.start).min();
    let before = before.into_iter();
    let lists = before.filter(|kind| begun.is_some_and(|begun| kind.end <= begun));
    lists.flat_map(|kind| kind.files).collect()
}
