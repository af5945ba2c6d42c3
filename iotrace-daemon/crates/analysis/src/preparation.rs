//! Preparation: files that were read to make the training data, such as text that is tokenized or an archive that is
//! unpacked. They belong to no epoch.

use std::collections::{HashMap, HashSet};

use super::{
    evaluation::is_of_evaluation,
    naming::is_description,
    order::{Order, Visited, order_of, sort_visits},
    passes::{TOLERATED_SHARE, WHOLE_SHARE},
    saves::MAX_DESCRIPTION_BYTES,
    uses::{Uses, Visit},
};
use iotrace_model::{Model, Row, counters::*, groups::Groups, paths::stem, run::Run};
use iotrace_phases::{
    context::{Reason, Sorted},
    phase::Direction,
};

/// Passes over a file from which on it is read again.
const MIN_PASSES_OF_DATA: f64 = 1.5;

/// Minimum number of files of a cache that has one for each sample.
const MIN_CACHE_FILES: usize = 16;

/// A file that this run wrote whole.
#[derive(Default)]
struct Made {
    bytes: u64,
    /// End of the last write, nanoseconds since the start of the run.
    end: i64,
    /// Who wrote it, by the first process of the rank.
    by: HashSet<u32>,
}

/// The sources of the training data: files that were read in order before any of the data that a process of the same rank had
/// made since are read, again and again. `None` if they may have been trained on too: they were read in random order, or a model
/// was saved meanwhile, or data were made again and again, or the first pass may have filled a cache. `visits`: by file, and by
/// their start.
pub fn sources(
    model: &Model,
    run: &Run,
    sorted: &[Sorted],
    uses: &Uses,
    groups: &Groups,
    visits: &[&Visit],
) -> Option<HashSet<u32>> {
    let files = visits.chunk_by(|a, b| a.file == b.file);
    let files = files.filter(|reads| !is_of_evaluation(model.file(reads[0].file).path));
    let file = |reads: &[&Visit]| reads[0].file;
    let passes = |reads: &[&Visit]| {
        let bytes = saturating_sum(reads.iter().map(|visit| visit.bytes));
        bytes as f64 / uses.sizes[file(reads) as usize].max(1) as f64
    };
    let files: Vec<&[&Visit]> = files.collect();
    let made = made(
        model,
        run,
        groups,
        &files.iter().map(|reads| file(reads)).collect(),
    );
    let is_made_before = |reads: &&[&Visit]| {
        let made = made.get(&file(reads));
        made.is_some_and(|made| made.end <= reads[0].start)
    };
    let is_again = |reads: &&[&Visit]| passes(reads) >= MIN_PASSES_OF_DATA;
    let bytes = |files: &[&[&Visit]]| -> f64 {
        let bytes = files
            .iter()
            .map(|reads| uses.sizes[file(reads) as usize] as f64);
        bytes.sum()
    };
    if are_made_one_of_each(model, groups, &files, &made) {
        return None;
    }
    let (once, given): (Vec<&[&Visit]>, Vec<_>) = files
        .iter()
        .filter(|reads| !is_again(reads))
        .partition(|reads| is_made_before(reads));
    if is_made_anew(&once, &made) && bytes(&given) > bytes(&once) * TOLERATED_SHARE {
        return None;
    }
    let (mut data, mut others): (Vec<&[&Visit]>, Vec<_>) = files
        .into_iter()
        .partition(|reads| is_again(reads) && is_made_before(reads));
    let made_of = |reads: &&[&Visit]| &made[&file(reads)];
    let Some(first_read) = data.iter().map(|reads| reads[0].start).min() else {
        return Some(HashSet::new());
    };
    data.retain(|reads| made_of(reads).end <= first_read);
    let last_made = data.iter().map(|reads| made_of(reads).end).max();
    let makers: HashSet<u32> = data
        .iter()
        .flat_map(|reads| &made_of(reads).by)
        .copied()
        .collect();
    others.retain(|reads| {
        let is_before = reads.iter().all(|visit| visit.end <= first_read);
        let is_of_maker = |visit: &&Visit| makers.contains(&groups.of(visit.process));
        is_before && Some(reads[0].start) < last_made && reads.iter().all(is_of_maker)
    });
    let began = others.iter().map(|reads| reads[0].start).min();
    let is_saved = began.is_some_and(|began| is_saved(model, uses, began, first_read));
    let are_few = bytes(&others) < bytes(&data) * TOLERATED_SHARE;
    let is_filled = data.iter().any(|reads| {
        sorted[file(reads) as usize].reasons[Direction::Read.index()] == Some(Reason::SampleCache)
    });
    let is_known = are_few || !is_saved && !is_filled && !is_shuffled(model, &others);
    is_known.then(|| others.iter().map(|reads| file(reads)).collect())
}

/// Whether most of the data that this run made are called as what it read, but for their endings, were made by who read them
/// (`a.npy` of `a.jpg`), and are read in order: the first pass may have made one of each sample that it trained on. A training
/// that shuffles its samples does so in the first pass, too.
fn are_made_one_of_each(
    model: &Model,
    groups: &Groups,
    files: &[&[&Visit]],
    made: &HashMap<u32, Made>,
) -> bool {
    let stem = |reads: &&[&Visit]| stem(model.file(reads[0].file).path);
    let (data, given): (Vec<_>, Vec<_>) = files.iter().copied().partition(|reads: &&[&Visit]| {
        made.get(&reads[0].file)
            .is_some_and(|made| made.end <= reads[0].start)
    });
    let given: HashSet<&[u8]> = given.iter().map(stem).collect();
    let is_of_one = |reads: &&&[&Visit]| {
        let by = &made[&reads[0].file].by;
        let mut readers = reads.iter().map(|visit| groups.of(visit.process));
        given.contains(stem(reads)) && readers.any(|reader| by.contains(&reader))
    };
    let count = data.iter().filter(is_of_one).count();
    count >= MIN_CACHE_FILES && count > data.len() / 2 && !is_shuffled(model, &data)
}

/// Whether some of these files were made when others of them had been read: data that are shuffled for each epoch.
fn is_made_anew(files: &[&[&Visit]], made: &HashMap<u32, Made>) -> bool {
    let first_read = files.iter().map(|reads| reads[0].start).min();
    let last_made = files.iter().map(|reads| made[&reads[0].file].end).max();
    last_made > first_read
}

/// Of these files, those that this run wrote whole.
fn made(model: &Model, run: &Run, groups: &Groups, files: &HashSet<u32>) -> HashMap<u32, Made> {
    let mut made: HashMap<u32, Made> = HashMap::new();
    let is_written = |row: &&Row| row.cell.has(BYTES_WRITTEN) && row.cell.has(LAST_WRITE);
    let rows = model.rows().iter().filter(is_written);
    for row in rows.filter(|row| files.contains(&row.file)) {
        let v = row.cell.total().v;
        let end = run.clock.unix_ns(v[LAST_WRITE]) - run.start_unix_ns;
        let made = made.entry(row.file).or_default();
        saturating_add(&mut made.bytes, v[BYTES_WRITTEN]);
        made.end = made.end.max(end);
        made.by.insert(groups.of(row.process));
    }
    made.retain(|file, made| made.bytes as f64 >= model.file(*file).size as f64 * WHOLE_SHARE);
    made
}

/// Whether each process read these files in an order that is not that of their names, as training does.
fn is_shuffled(model: &Model, files: &[&[&Visit]]) -> bool {
    let mut visited = Visited::new();
    for visit in files.iter().flat_map(|reads| reads.iter()) {
        let of_process = visited.entry(visit.process).or_default();
        of_process.push((visit.start, visit.file));
    }
    sort_visits(&mut visited);
    order_of(model, &visited) == Some(Order::Shuffled)
}

/// Whether more than a description of a model was saved between two moments.
fn is_saved(model: &Model, uses: &Uses, from: i64, to: i64) -> bool {
    uses.saved.iter().any(|touch| {
        let is_meanwhile = touch.start >= from && touch.start < to;
        let is_large = touch.bytes > MAX_DESCRIPTION_BYTES;
        is_meanwhile && is_large && !is_description(uses.path(model, touch.file))
    })
}
