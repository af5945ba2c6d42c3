//! Which of the processes that read training data train: ranks run one program at one time, with their workers. A program that
//! checks or caches the data does not.

use std::collections::{BTreeMap, HashSet};

use super::uses::{Uses, Visit};
use iotrace_model::{About, Model, groups::Groups, run::Run};

/// Whether two processes may be ranks of one job: they run one program, at one time or as ranks of other numbers. What is
/// not known of a process excludes nothing.
pub fn are_beside(model: &Model, run: &Run, one: u32, other: u32) -> bool {
    let [one, other] = [one, other].map(|process| about(model, process));
    let began = |about: &About| match about.start_boottime {
        0 => i64::MIN,
        start => run.clock.unix_ns_of_boottime(start),
    };
    let ended = |about: &About| about.end.map_or(i64::MAX, |end| run.clock.unix_ns(end));
    let number = |about: &About| about.role.rank.map(|rank| rank.number);
    let are_told_apart = number(one)
        .zip(number(other))
        .is_some_and(|(one, other)| one != other);
    let is_at_one_time = began(other) < ended(one) && began(one) < ended(other);
    run_the_same(one, other) && (is_at_one_time || are_told_apart)
}

/// First processes of ranks that run another program than the one that reads most, and read only before or after it.
pub fn strangers(model: &Model, uses: &Uses, groups: &Groups) -> HashSet<u32> {
    let mut readers: BTreeMap<u32, (u64, i64, i64)> = BTreeMap::new();
    for Visit {
        process,
        start,
        end,
        bytes,
        ..
    } in &uses.visits
    {
        let first = (0, *start, *end);
        let reader = readers.entry(groups.of(*process)).or_insert(first);
        *reader = (reader.0 + bytes, reader.1.min(*start), reader.2.max(*end));
    }
    // Of those that read as much, the one that came last: data are cached and checked before.
    let most = readers
        .iter()
        .max_by_key(|(_, (bytes, start, _))| (*bytes, *start));
    let Some((trainer, (_, begin, end))) = most.map(|(trainer, read)| (*trainer, *read)) else {
        return HashSet::new();
    };
    let trainer = about(model, trainer);
    let is_stranger = |(process, (_, start, last)): (&u32, &(u64, i64, i64))| {
        let is_apart = *last <= begin || *start >= end;
        (is_apart && !run_the_same(trainer, about(model, *process))).then_some(*process)
    };
    readers.iter().filter_map(is_stranger).collect()
}

fn about(model: &Model, process: u32) -> &About {
    &model.processes()[process as usize].about
}

/// Whether both run the same program: on each node it may have another place.
fn run_the_same(one: &About, other: &About) -> bool {
    let name = |about: &About| {
        about
            .exe
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1)
    };
    one.exe.is_empty() || other.exe.is_empty() || one.exe[name(one)..] == other.exe[name(other)..]
}
