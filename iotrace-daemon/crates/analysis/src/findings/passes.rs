//! Findings on how often the same bytes are read: a cold first epoch, by every rank, again within one open.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Confidence, Data, Finding, MAYBE_COMPUTING, Subject, Value, facts::Facts, largest, seconds,
    thresholds::*,
};
use crate::uses::{Uses, Visit, still_open};
use iotrace_model::counters::{saturating_add, saturating_sum};
use iotrace_phases::phase::Phase;

/// Share of an epoch's bytes from storage up to which it was served by the page cache.
const MAX_WARM_SHARE: f64 = 0.1;
/// The same from which on it was not.
const MIN_COLD_SHARE: f64 = 0.5;

/// A first epoch that waits for storage, where those behind it find the data in a cache. Where the kernel does not tell
/// what came from storage, the time in reads alone says so.
pub fn cold_first_epoch(data: &Data<'_>) -> Option<Finding> {
    let epochs = &data.analysis.epochs;
    let from_storage = |fetched: u64, bytes: u64| fetched as f64 / bytes.max(1) as f64;
    let of_first_stage = epochs.epochs.iter().filter(|epoch| epoch.stage == 1);
    let mut complete = of_first_stage.filter(|epoch| epoch.is_complete());
    let first = complete.next().filter(|epoch| epoch.number == 1)?;
    let (mut later, mut later_ns) = (0_u64, 0_u64);
    for epoch in complete {
        if epochs.knows_cache && from_storage(epoch.fetched, epoch.bytes) > MAX_WARM_SHARE {
            return None;
        }
        later += 1;
        saturating_add(&mut later_ns, epoch.read_ns);
    }
    let usual_ns = later_ns / later.max(1);
    let length = u64::try_from(first.end - first.start).unwrap_or(0);
    let excess = first.read_ns.saturating_sub(usual_ns);
    let excess = data.wall(Phase::Training, excess).min(length);
    let is_warm = epochs.knows_cache && from_storage(first.fetched, first.bytes) < MIN_COLD_SHARE;
    if later == 0
        || is_warm
        || (first.read_ns as f64) < usual_ns as f64 * data.limit(COLD_FACTOR)
        || (excess as f64) < data.limit(COLD_SECONDS) * 1e9
    {
        return None;
    }
    Some(Finding {
        code: "cold-first-epoch",
        saving: data.saving(
            excess,
            if epochs.knows_cache { Confidence::Medium } else { Confidence::Low },
            &[MAYBE_COMPUTING],
        ),
        title: "The first epoch waits for storage; later ones find the data in a cache".into(),
        evidence: vec![
            ("first_read_seconds", seconds(first.read_ns)),
            ("later_read_seconds_each", seconds(usual_ns)),
            ("later_epochs", Value::Count(later)),
            ("bytes", Value::Bytes(epochs.bytes)),
        ]
        .into_iter()
        .chain(epochs.knows_cache.then_some(("first_bytes_fetched", Value::Bytes(first.fetched))))
        .collect(),
        subjects: Vec::new(),
        advice: "Later epochs are fine. Where runs are short, read the files ahead of the run, or while the model is built, with as \
                 many readers as storage serves well."
            .into(),
        also: Vec::new(),
    })
}

/// Ranks that each read all of the data.
pub fn read_again_by_ranks(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let epochs = &data.analysis.epochs;
    let copies = u64::from(epochs.copies);
    let again = epochs.bytes.saturating_mul(copies.saturating_sub(1));
    let read_ns = saturating_sum(facts.of(Phase::Training).map(|fact| fact.read_ns));
    let saved = data.wall(Phase::Training, read_ns - read_ns / copies.max(1));
    if copies < 2
        || (again as f64) < data.limit(BALANCE_BYTES)
        || (saved as f64) < data.limit(SLOW_SECONDS) * 1e9
    {
        return None;
    }
    Some(Finding {
        code: "read-again-by-ranks",
        saving: data.saving(
            saved,
            Confidence::Medium,
            &[MAYBE_COMPUTING, "whether every rank is meant to see all of the data"],
        ),
        title: format!("Each of {copies} ranks reads all of the training data"),
        evidence: vec![
            ("ranks", Value::Count(copies)),
            ("files", Value::Count(epochs.files)),
            ("bytes", Value::Bytes(epochs.bytes)),
            ("bytes_read_again_per_epoch", Value::Bytes(again)),
            ("read_seconds", seconds(read_ns)),
        ],
        subjects: Vec::new(),
        advice: "Give each rank its part of the data (DistributedSampler, split_by_node, shard()), or read it once for each node and \
                 share it in memory."
            .into(),
        also: Vec::new(),
    })
}

/// What one process read of one file between an open and its close.
struct Reading {
    file: u32,
    process: u32,
    start: i64,
    end: i64,
    bytes: u64,
    read_ns: u64,
}

/// Files of which far more is read than they have, in one open.
///
/// A file that is kept open is read once in each epoch. So an open counts only where the process opened that file more than
/// once, or had none other of the data open meanwhile and opened others.
pub fn read_amplification(data: &Data<'_>) -> Option<Finding> {
    let is_amplified = |reading: &Reading| {
        let size = data.uses.sizes[reading.file as usize];
        size > 0 && reading.bytes as f64 >= size as f64 * data.limit(AMPLIFICATION)
    };
    let mut concerned = BTreeSet::new();
    each_reading(
        data.uses,
        |_| true,
        |reading| {
            if is_amplified(&reading) {
                concerned.insert(reading.process);
            }
        },
    );
    let mut readings = Vec::new();
    each_reading(
        data.uses,
        |process| concerned.contains(&process),
        |reading| readings.push(reading),
    );
    readings.sort_by_key(|reading| (reading.process, reading.start));
    let mut opens: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for reading in &readings {
        *opens.entry((reading.process, reading.file)).or_default() += 1;
    }
    let mut files: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let (mut bytes, mut distinct, mut ns) = (0_u64, 0_u64, 0_u64);
    for of_process in readings.chunk_by(|a, b| a.process == b.process) {
        let has_others = of_process.iter().any(|one| one.file != of_process[0].file);
        for (index, reading) in of_process.iter().enumerate() {
            let size = data.uses.sizes[reading.file as usize];
            let before = index.checked_sub(1).map(|before| &of_process[before]);
            let is_alone = before.is_none_or(|before| before.end <= reading.start)
                && of_process
                    .get(index + 1)
                    .is_none_or(|next| reading.end <= next.start);
            let is_told = opens[&(reading.process, reading.file)] > 1 || (has_others && is_alone);
            if !is_told || !is_amplified(reading) {
                continue;
            }
            saturating_add(&mut bytes, reading.bytes);
            saturating_add(&mut distinct, size);
            saturating_add(&mut ns, reading.read_ns);
            let file = files.entry(reading.file).or_default();
            saturating_add(&mut file.0, reading.bytes);
            file.1 += 1;
        }
    }
    let factor = bytes as f64 / distinct.max(1) as f64;
    let saved = data.wall(Phase::Training, ns - (ns as f64 / factor.max(1.0)) as u64);
    if (bytes as f64) < data.limit(MEASURED_BYTES)
        || (saved as f64) < data.limit(SLOW_SECONDS) * 1e9
    {
        return None;
    }
    let opens = files.values().map(|(_, opens)| opens).sum();
    Some(Finding {
        code: "read-amplification",
        saving: data.saving(saved, Confidence::Medium, &[MAYBE_COMPUTING]),
        title: format!("{factor:.1} times the bytes of a file are read in one open of it"),
        evidence: vec![
            ("files", Value::Count(files.len() as u64)),
            ("opens", Value::Count(opens)),
            ("bytes_read", Value::Bytes(bytes)),
            ("bytes_of_the_files", Value::Bytes(distinct)),
            ("read_seconds", seconds(ns)),
        ],
        subjects: largest(
            data,
            files,
            |(_, (bytes, _))| *bytes,
            |(file, _)| Subject::File(*file),
        ),
        advice: "Read the file once into memory and decode it there; in HDF5 or Zarr use chunks of a sample, or a larger chunk cache; \
                 a compressed stream that seeks back starts again."
            .into(),
        also: Vec::new(),
    })
}

/// Visits what was read between opens and their closes, by the processes for which `is_of` holds.
fn each_reading(uses: &Uses, is_of: impl Fn(u32) -> bool, mut take: impl FnMut(Reading)) {
    let visits = uses.visits.iter();
    let mut visits: Vec<&Visit> = visits.filter(|visit| is_of(visit.process)).collect();
    visits.sort_by_key(|visit| (visit.process, visit.file, visit.start));
    for of_file in visits.chunk_by(|a, b| (a.process, a.file) == (b.process, b.file)) {
        let mut current: Option<(Reading, u64)> = None;
        for visit in of_file {
            if current.is_none() && visit.opens != 1 {
                continue;
            }
            let (reading, open) = current.get_or_insert_with(|| {
                let reading = Reading {
                    file: visit.file,
                    process: visit.process,
                    start: visit.start,
                    end: visit.end,
                    bytes: 0,
                    read_ns: 0,
                };
                (reading, 0)
            });
            reading.end = reading.end.max(visit.end);
            saturating_add(&mut reading.bytes, visit.bytes);
            saturating_add(&mut reading.read_ns, visit.read_ns);
            *open = still_open(*open, visit.opens, visit.closes);
            if *open == 0 {
                current
                    .take()
                    .into_iter()
                    .for_each(|(reading, _)| take(reading));
            }
        }
    }
}
