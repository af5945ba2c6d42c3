//! Small files beside the samples: lists of them that are read before all, and notes that the run keeps.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    passes::{TOLERATED_SHARE, share},
    uses::{Uses, Visit},
};
use iotrace_model::{
    Model,
    counters::{FIRST_READ, LAST_WRITE, saturating_add, saturating_sum},
};

/// Files of few bytes that are no samples, by index. Without them epochs begin and end with the samples.
pub(crate) fn beside(model: &Model, files: &[&[&Visit]], uses: &Uses) -> BTreeSet<u32> {
    let size = |reads: &&[&Visit]| uses.sizes[reads[0].file as usize];
    let all = saturating_sum(files.iter().map(size));
    let is_little = |bytes: u64| bytes as f64 <= all as f64 * TOLERATED_SHARE;
    let rewritten = rewritten(model);
    let (notes, rest): (Vec<_>, Vec<_>) = files
        .iter()
        .copied()
        .partition(|reads| rewritten.contains(&reads[0].file));
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

/// Files that the run wrote in place after it had read them.
fn rewritten(model: &Model) -> BTreeSet<u32> {
    let mut moments: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in model.rows() {
        let total = row.cell.total();
        let (read, written) = moments.entry(row.file).or_insert((u64::MAX, 0));
        if total.v[FIRST_READ] > 0 {
            *read = total.v[FIRST_READ].min(*read);
        }
        *written = total.v[LAST_WRITE].max(*written);
    }
    let rewritten = moments
        .into_iter()
        .filter(|(_, (read, written))| read < written);
    rewritten.map(|(file, _)| file).collect()
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
            .entry(extension(model.file(reads[0].file).path))
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

/// What follows the last dot of a name.
fn extension(path: &[u8]) -> &[u8] {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let dot = name.iter().rposition(|byte| *byte == b'.');
    dot.map_or(&[], |dot| &name[dot + 1..])
}
