//! What a process reads of a file before it reads another one, which may be more than the file has: a decoder opens a file twice,
//! and headers are read again.

use std::collections::{BTreeMap, HashMap};

use crate::{
    passes::MAX_EXCESS,
    uses::{Uses, Visit},
};
use iotrace_model::counters::saturating_add;

/// Minimum number of files whose order tells one use of a file from the next.
const MIN_FILES: usize = 8;
/// Share of the uses of a file from which on what they have in common is its use.
const MIN_COMMON_SHARE: f64 = 0.9;

/// One use of a file.
struct Use {
    file: u32,
    end: i64,
    bytes: u64,
    /// Whether no other file was read meanwhile by the same process.
    is_alone: bool,
}

/// Bytes that are read of a file each time, by file; `None` where it is not known of most, or where it differs from time to time.
pub(crate) fn read_at_once(files: &[&[&Visit]], uses: &Uses) -> Option<HashMap<u32, u64>> {
    if files.len() < MIN_FILES {
        return None;
    }
    let mut by_process: BTreeMap<u32, Vec<&Visit>> = BTreeMap::new();
    for visit in files.iter().copied().flatten() {
        by_process.entry(visit.process).or_default().push(visit);
    }
    let mut at_once: HashMap<u32, Vec<u64>> = HashMap::new();
    let all = by_process.into_values().flat_map(one_by_one);
    for alone in all.filter(|one| one.is_alone) {
        at_once.entry(alone.file).or_default().push(alone.bytes);
    }
    let size = |file: u32| uses.sizes[file as usize];
    let usual: HashMap<u32, u64> = at_once
        .iter_mut()
        .map(|(file, bytes)| {
            bytes.sort_unstable();
            (*file, bytes[(bytes.len() - 1) / 2])
        })
        .collect();
    let is_usual = |(file, bytes): (&u32, &Vec<u64>)| {
        let usual = usual[file];
        let near = |bytes: &&u64| bytes.abs_diff(usual) as f64 <= usual as f64 * MAX_EXCESS;
        bytes.iter().filter(near).count()
    };
    let alike: usize = at_once.iter().map(is_usual).sum();
    let all: usize = at_once.values().map(Vec::len).sum();
    let is_more = |(file, bytes): &(&u32, &u64)| **bytes > size(**file);
    let more = usual.iter().filter(is_more).count() as f64;
    let are_most = |part: f64, all: usize| part >= all as f64 * MIN_COMMON_SHARE;
    (are_most(alike as f64, all) && are_most(more, files.len()) && usual.len() == files.len())
        .then_some(usual)
}

/// The uses of files by one process.
fn one_by_one(mut visits: Vec<&Visit>) -> Vec<Use> {
    visits.sort_by_key(|visit| (visit.start, visit.end));
    let mut found: Vec<Use> = Vec::new();
    // The latest end of all before the last one.
    let mut reached = i64::MIN;
    for visit in visits {
        if let Some(last) = found.last_mut() {
            if last.file == visit.file {
                last.end = last.end.max(visit.end);
                saturating_add(&mut last.bytes, visit.bytes);
                continue;
            }
            last.is_alone &= last.end <= visit.start;
            reached = reached.max(last.end);
        }
        found.push(Use {
            file: visit.file,
            end: visit.end,
            bytes: visit.bytes,
            is_alone: reached <= visit.start,
        });
    }
    found
}
