//! Passes over one file: how often what was read of it makes the whole file, and when.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use super::uses::{Visit, still_open};
use iotrace_common::op;
use iotrace_model::{
    Model,
    counters::{
        BYTES_READ, CONSECUTIVE_READS, OPENS, SEQUENTIAL_READS, saturating_add, saturating_sum,
    },
    paths::suffix,
};

/// Share of the bytes of a file, and of all files, that a complete pass may lack.
pub(crate) const TOLERATED_SHARE: f64 = 0.05;
/// Share of the bytes of a file from which on it counts as read whole.
pub(crate) const WHOLE_SHARE: f64 = 0.75;
/// Share of the bytes of a file from which on a part is no sample.
const MIN_PART_SHARE: f64 = 0.25;
/// Maximum number of calls by which a process looks into a file.
const MAX_LOOK_READS: u64 = 4;
/// Share of the reads that jump, or go back, from which on a file is read so.
const MIN_JUMPS_SHARE: f64 = 0.2;
/// Share of a file by which each of several passes over it may be longer or shorter than the file, by its header and footer.
pub(crate) const MAX_EXCESS: f64 = 0.1;
/// Maximum distance of what was read in jumps from a number of whole passes.
const MAX_DISTANCE: f64 = 0.2;
/// The same of many passes in random order, times their number.
const MAX_DISTANCE_OF_MANY: f64 = 2.0;
/// Maximum number of passes over one file in an interval; a file with more is not a data set.
const MAX_PASSES: f64 = 10_000.0;

/// One file's reads in one rank.
pub(crate) struct FileReads<'a> {
    pub visits: Cow<'a, [&'a Visit]>,
    pub size: u64,
    /// Of a file that is read in jumps: the number of whole passes that all of it is.
    whole: Option<f64>,
}

impl<'a> FileReads<'a> {
    /// The file, by index; `None` if nobody read it.
    pub(crate) fn file(&self) -> Option<u32> {
        self.visits.first().map(|visit| visit.file)
    }

    /// How much it counts among others: its bytes.
    pub(crate) fn weight(&self) -> f64 {
        self.size.max(1) as f64
    }

    pub(crate) fn new(
        visits: impl Into<Cow<'a, [&'a Visit]>>,
        size: u64,
        jumped: &BTreeMap<u32, Jumps>,
    ) -> Self {
        let visits = visits.into();
        let jumps = visits.first().and_then(|visit| jumped.get(&visit.file));
        let whole = jumps.and_then(|jumps| whole_number(&visits, size, *jumps));
        Self {
            visits,
            size,
            whole: whole.filter(|number| *number > 1.0),
        }
    }
}

/// A pass over one file.
pub(crate) struct Pass {
    pub number: u32,
    pub start: i64,
    pub end: i64,
    pub bytes: f64,
    pub fetched: f64,
    pub read_ns: f64,
    pub process: u32,
    pub is_exact: bool,
    /// The first moment at which it is known to have begun, and the last one at which it is known to have been under way; the
    /// last and the first possible moment where neither is known.
    pub known: (i64, i64),
}

impl Visit {
    /// Whether it was put between known ones.
    fn is_placed(&self) -> bool {
        !self.is_exact && self.opens == 1
    }
}

/// How often each visit passed over its file; at most so often as is worth a place each.
///
/// A header is read twice, a footer left out: what one process read of the file from an open to its close, over however
/// many intervals, passed over it once if it was about the file, and over a file that it opened several times so often as it
/// read about the whole of it.
pub(crate) fn shares(visits: &[&Visit], size: u64) -> Vec<f64> {
    let mut shares: Vec<f64> = visits.iter().map(|visit| share(visit, size)).collect();
    let chains = chains(visits);
    for chain in &chains {
        let total: f64 = chain.iter().map(|index| shares[*index]).sum();
        let opens = saturating_sum(chain.iter().map(|index| visits[*index].opens));
        if let Some(passes) = passes_of_opens(total, opens) {
            let factor = passes / total;
            chain.iter().for_each(|index| shares[*index] *= factor);
        }
    }
    leave_out_looks(&mut shares, visits, chains);
    shares
}

/// Leaves out small parts that a process read by few calls from an open to its close, where the rest is whole passes and with
/// them is not: a footer, of which the schema of a table is known.
fn leave_out_looks(shares: &mut [f64], visits: &[&Visit], mut chains: Vec<Vec<usize>>) {
    let read = |chain: &[usize]| chain.iter().map(|index| shares[*index]).sum::<f64>();
    chains.retain(|chain| {
        let reads = chain.iter().map(|index| u64::from(visits[*index].reads));
        read(chain) < MIN_PART_SHARE && saturating_sum(reads) <= MAX_LOOK_READS
    });
    let parts: f64 = chains.iter().map(|chain| read(chain)).sum();
    let all: f64 = shares.iter().sum();
    let rest = all - parts;
    let from_whole = |passes: f64| (passes - passes.round()).abs();
    if parts <= rest.floor() * MIN_PART_SHARE && from_whole(rest) < from_whole(all) {
        let parts = chains.into_iter().flatten();
        parts.for_each(|index| shares[index] = 0.0);
    }
}

/// How often a file was passed over that was opened so often, where what was read of it is `total` times its size.
fn passes_of_opens(total: f64, opens: u64) -> Option<f64> {
    let opens = opens as f64;
    let nearest = total.round().clamp(1.0, opens);
    if (total - nearest).abs() <= (nearest * MAX_EXCESS).min(MAX_DISTANCE) {
        return Some(nearest);
    }
    (WHOLE_SHARE..1.5)
        .contains(&(total / opens))
        .then_some(opens)
}

/// How often a visit read as many bytes as its file has; at most so often as is worth a place each.
pub(crate) fn share(visit: &Visit, size: u64) -> f64 {
    let share = match size {
        0 => 1.0,
        _ => visit.bytes as f64 / size as f64,
    };
    share.min(MAX_PASSES)
}

/// What a process read of a file from an open, or several, to the last close: visits, by index.
pub(crate) fn chains(visits: &[&Visit]) -> Vec<Vec<usize>> {
    let mut chains = Vec::new();
    // By process: the visits since an open, and how many opens are not closed.
    let mut begun: HashMap<u32, (Vec<usize>, u64)> = HashMap::new();
    for (index, visit) in visits.iter().enumerate() {
        let (chain, open) = begun.entry(visit.process).or_default();
        if chain.is_empty() && visit.opens == 0 {
            continue;
        }
        chain.push(index);
        *open = still_open(*open, visit.opens, visit.closes);
        if *open == 0 {
            chains.push(std::mem::take(chain));
        }
    }
    chains
}

/// Whether a process opened a file several times and read an equal part of it each time: the same part, as some columns of a
/// table, or the next.
pub(crate) fn is_in_equal_parts(visits: &[&Visit], size: u64) -> bool {
    let mut parts: HashMap<u32, Vec<f64>> = HashMap::new();
    let opened_once = |chain: &Vec<usize>| visits[chain[0]].opens == 1;
    for chain in chains(visits).into_iter().filter(opened_once) {
        let part = chain.iter().map(|index| share(visits[*index], size)).sum();
        parts
            .entry(visits[chain[0]].process)
            .or_default()
            .push(part);
    }
    let are_equal = |parts: &Vec<f64>| {
        let (least, most) = parts
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), part| {
                (least.min(*part), most.max(*part))
            });
        parts.len() > 1
            && least >= MIN_PART_SHARE
            && most < WHOLE_SHARE
            && most - least <= TOLERATED_SHARE
    };
    parts.values().any(are_equal)
}

/// Extensions of tables that are stored by columns.
const COLUMN_EXTENSIONS: [&[u8]; 4] = [b".parquet", b".orc", b".arrow", b".feather"];

/// Whether the path is of a table of which some columns can be read alone.
pub(crate) fn has_columns(path: &[u8]) -> bool {
    COLUMN_EXTENSIONS.contains(&suffix(path))
}

/// Whether a file was read for more than one pass, and more passes than it was opened: of parts of it that are read again it is
/// not known how often each was.
pub(crate) fn is_in_one_open(visits: &[&Visit], size: u64) -> bool {
    let passes: f64 = visits.iter().map(|visit| share(visit, size)).sum();
    let opens = saturating_sum(visits.iter().map(|visit| visit.opens));
    passes > 1.0 + MAX_EXCESS && passes.round() > opens as f64
}

/// Whether a file was read up to a place far from its end, and some of that again. `reached`: [`super::uses::Uses::reached`].
pub(crate) fn is_part_read_again(visits: &[&Visit], size: u64, reached: u64) -> bool {
    let read = saturating_sum(visits.iter().map(|visit| visit.bytes));
    reached > 0
        && (reached as f64) < size as f64 * WHOLE_SHARE
        && read as f64 > reached as f64 * (1.0 + MAX_EXCESS)
}

/// Makes shares add up to a number of passes: what a process read of a file from an open to its close is left out if it is a small
/// part that is too much, as the headers of an archive; else there is a little too much or too little in each.
fn fit(shares: &mut [f64], visits: &[&Visit], whole: f64) {
    let mut excess = shares.iter().sum::<f64>() - whole;
    for chain in chains(visits) {
        let part: f64 = chain.iter().map(|index| shares[*index]).sum();
        if part <= excess.min(MIN_PART_SHARE) {
            excess -= part;
            chain.iter().for_each(|index| shares[*index] = 0.0);
        }
    }
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share *= whole / sum);
}

/// Where most reads that jump go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jumps {
    /// Ahead, as to the next header of an archive.
    Forward,
    /// Back, too: samples in random order.
    Random,
    /// As [`Self::Random`], by reads that are larger than a sample, or of what was read before: their bytes are of no number of
    /// passes.
    Overlapping,
}

impl Jumps {
    /// Whether they go back, too.
    pub(crate) fn is_random(self) -> bool {
        self != Self::Forward
    }
}

/// Extensions of files of HDF5.
const HDF5_EXTENSIONS: [&[u8]; 8] = [
    b".h5", b".hdf5", b".hdf", b".he5", b".h5ad", b".loom", b".nc", b".nc4",
];
/// How much HDF5 reads at once where less is asked for of an array without chunks.
const HDF5_BUFFER: u64 = 64 << 10;
/// Number of reads in each open from which on a file of HDF5 is read by samples.
const MIN_SAMPLE_READS: u64 = 32;
/// Share of the bytes read from which on the most frequent size of a read is that of a sample.
const MIN_SAMPLE_SHARE: f64 = 0.75;
/// Share of the reads from which on the samples are of one size.
const MIN_EQUAL_SHARE: f64 = 0.25;

/// Whether the reads of a file of HDF5 overlap: most of its bytes were read by its buffer, or the samples are of one size and
/// much else was read, as of the labels from one to the end of the buffer. `sizes`: of the reads, and how many were of each.
fn is_overlapping(sizes: &BTreeMap<u64, u64>, reads: u64, opens: u64, bytes: u64) -> bool {
    let bytes_of = |(size, calls): (&u64, &u64)| size.saturating_mul(*calls);
    let most = sizes.iter().max_by_key(|of_size| bytes_of(*of_size));
    let Some((size, calls)) = most.filter(|_| reads >= MIN_SAMPLE_READS * opens.max(1)) else {
        return false;
    };
    let share = bytes_of((size, calls)) as f64 / bytes.max(1) as f64;
    let are_equal = *calls as f64 >= reads as f64 * MIN_EQUAL_SHARE;
    (*size == HDF5_BUFFER && share >= 0.5) || (are_equal && share < MIN_SAMPLE_SHARE)
}

/// Files of which many reads did not begin where the one before had ended, by index.
pub(crate) fn read_in_jumps(model: &Model) -> BTreeMap<u32, Jumps> {
    let is_hdf5 = |file: u32| HDF5_EXTENSIONS.contains(&suffix(model.file(file).path));
    let mut reads = vec![[0; 5]; model.file_count()];
    let mut sizes: BTreeMap<u32, BTreeMap<u64, u64>> = BTreeMap::new();
    for row in model.rows() {
        let total = row.cell.total();
        let calls = [
            total.calls(op::is_read),
            total.v[SEQUENTIAL_READS],
            total.v[CONSECUTIVE_READS],
            total.v[OPENS],
            total.v[BYTES_READ],
        ];
        let of_file = &mut reads[row.file as usize];
        for (sum, value) in of_file.iter_mut().zip(calls) {
            saturating_add(sum, value);
        }
        if is_hdf5(row.file) {
            let sizes = sizes.entry(row.file).or_default();
            for (size, calls) in total.sizes.entries() {
                saturating_add(sizes.entry(*size).or_default(), *calls);
            }
        }
    }
    let jumped = (0..).zip(reads).filter_map(|(file, of_file)| {
        let [all, sequential, consecutive, opens, bytes] = of_file;
        let jumps = jumps([all, sequential, consecutive, opens])?;
        let is_overlapping = |sizes: &BTreeMap<u64, u64>| is_overlapping(sizes, all, opens, bytes);
        let jumps = match jumps {
            Jumps::Random if sizes.get(&file).is_some_and(is_overlapping) => Jumps::Overlapping,
            jumps => jumps,
        };
        Some((file, jumps))
    });
    jumped.collect()
}

/// How a file is read, by its reads: all, those at or after the end of the one before, and those right there; and by its opens.
fn jumps([all, sequential, consecutive, opens]: [u64; 4]) -> Option<Jumps> {
    // Of the first read after an open it is not known what it follows. Without sequential reads the order was not measured.
    let are_many = |others: u64| {
        let jumps = all.saturating_sub(others).saturating_sub(opens);
        sequential > 0 && jumps as f64 >= all as f64 * MIN_JUMPS_SHARE
    };
    // Members of an archive take several reads each, and half of the jumps between them go ahead.
    let jumps = all.saturating_sub(consecutive).saturating_sub(opens);
    let back = all.saturating_sub(sequential).saturating_sub(opens);
    let is_back = back as f64 >= jumps as f64 * MIN_JUMPS_SHARE;
    match (are_many(sequential), are_many(consecutive)) {
        (true, _) => Some(Jumps::Random),
        (false, true) if is_back => Some(Jumps::Random),
        (false, true) => Some(Jumps::Forward),
        (false, false) => None,
    }
}

/// How often a file was passed over whose parts were read in jumps: the whole number that its bytes are about, or what they are if
/// they are less than the file; `None` if they are about none. Samples may be drawn more than once, and the headers of an archive
/// are read before its members. Of many passes in random order, any number of bytes would be about a whole number.
pub(crate) fn whole_number(visits: &[&Visit], size: u64, jumps: Jumps) -> Option<f64> {
    if jumps == Jumps::Overlapping {
        return None;
    }
    let of_bytes: f64 = visits.iter().map(|visit| share(visit, size)).sum();
    let of_opens: f64 = shares(visits, size).iter().sum();
    if of_opens <= 1.0 {
        return Some(of_opens);
    }
    let is_about = |passes: &f64| {
        let distance = (passes - passes.round()).abs();
        let most = (passes * TOLERATED_SHARE).min(MAX_DISTANCE);
        match jumps.is_random() {
            true => distance <= most.min(MAX_DISTANCE_OF_MANY / passes),
            false => distance <= most,
        }
    };
    let chains = chains(visits);
    let is_whole = |chain: &Vec<usize>| {
        let shares = chain.iter().map(|index| share(visits[*index], size));
        shares.sum::<f64>() >= 1.0 - TOLERATED_SHARE
    };
    let order = match chains.iter().all(is_whole) {
        true => [of_opens, of_bytes],
        false => [of_bytes, of_opens],
    };
    order.into_iter().find(is_about).map(f64::round)
}

/// Start and end of each whole pass over a file, nanoseconds since the start of the run. `visits`: all of the file, by their
/// start.
pub(crate) fn whole_passes(visits: &[&Visit], size: u64) -> Vec<(i64, i64)> {
    let reads = FileReads {
        visits: visits.into(),
        size,
        whole: None,
    };
    let mut by_number: BTreeMap<u32, (f64, i64, i64)> = BTreeMap::new();
    for pass in passes(&reads) {
        let known = by_number.entry(pass.number);
        let (bytes, start, end) = known.or_insert((0.0, pass.start, pass.end));
        *bytes += pass.bytes;
        *start = pass.start.min(*start);
        *end = pass.end.max(*end);
    }
    let whole = by_number.into_values();
    let whole = whole.filter(|(bytes, _, _)| *bytes >= size as f64 * WHOLE_SHARE);
    whole.map(|(_, start, end)| (start, end)).collect()
}

/// The passes over one file, in parts: one visit may end one pass and begin the next.
pub(crate) fn passes(reads: &FileReads<'_>) -> Vec<Pass> {
    let mut passes = Vec::new();
    let mut done = 0.0_f64;
    let mut shares = shares(&reads.visits, reads.size);
    if let Some(whole) = reads.whole {
        fit(&mut shares, &reads.visits, whole);
    }
    for (visit, share) in reads.visits.iter().zip(shares) {
        let end = done + share;
        // What begins with an open may be the next pass where nearly all was read before; what goes on is not.
        let slack = if visit.opens > 0 {
            TOLERATED_SHARE
        } else {
            1e-9
        };
        let first = (done + slack).floor();
        let last = (end - TOLERATED_SHARE).floor().max(first);
        let span = (visit.end - visit.start) as f64;
        let mut number = first;
        // What the first pass fetched the next one finds in the page cache.
        let mut fetched = visit.fetched as f64;
        while number <= last {
            // The part of the visit that is of this pass.
            let from = if number == first { done } else { number };
            let to = if number == last { end } else { number + 1.0 };
            let part = if share > 0.0 {
                (to - from) / share
            } else {
                1.0
            };
            let at = |moment: f64| {
                visit.start + (span * (moment - done) / share.max(f64::MIN_POSITIVE)) as i64
            };
            let ahead = if number == last {
                fetched
            } else {
                fetched.min(visit.bytes as f64 * part)
            };
            fetched -= ahead;
            passes.push(Pass {
                number: number as u32,
                start: if number == first {
                    visit.start
                } else {
                    at(from)
                },
                end: if number == last { visit.end } else { at(to) },
                bytes: visit.bytes as f64 * part,
                fetched: ahead,
                read_ns: visit.read_ns as f64 * part,
                process: visit.process,
                is_exact: visit.is_exact && first == last,
                known: match visit.is_placed() {
                    true => (i64::MAX, i64::MIN),
                    false => (
                        if number == first {
                            visit.start
                        } else {
                            visit.end
                        },
                        if number == last {
                            visit.end
                        } else {
                            visit.start
                        },
                    ),
                },
            });
            number += 1.0;
        }
        done = end;
    }
    passes
}
