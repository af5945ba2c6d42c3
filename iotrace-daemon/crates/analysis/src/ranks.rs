//! Which of the processes that read training data train: ranks run one program at one time, with their workers. A program that
//! checks or caches the data does not.

use std::collections::{HashMap, HashSet};

use super::{
    balance::{Share, shares},
    uses::Visit,
};
use iotrace_model::{About, Model, groups::Groups, paths::name, run::Run};

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

/// First processes of ranks that run another program than the one that reads most, if that program reads only before or after
/// it.
pub fn strangers(model: &Model, visits: &[&Visit], groups: &Groups) -> HashSet<u32> {
    let readers = shares(visits.iter().copied(), |process| groups.of(process));
    // Of those that read as much, the one that came last: data are cached and checked before.
    let most = readers.values().max_by_key(|read| (read.bytes, read.start));
    let Some(trainer) = most else {
        return HashSet::new();
    };
    let program = about(model, trainer.process);
    let others = readers
        .values()
        .filter(|read| !run_the_same(program, about(model, read.process)));
    let mut by_program: HashMap<&[u8], Vec<&Share>> = HashMap::new();
    for read in others {
        by_program
            .entry(name(&about(model, read.process).exe))
            .or_default()
            .push(read);
    }
    let is_apart = |read: &&Share| read.end <= trainer.start || read.start >= trainer.end;
    let strangers = by_program
        .into_values()
        .filter(|reads| reads.iter().all(is_apart));
    strangers.flatten().map(|read| read.process).collect()
}

fn about(model: &Model, process: u32) -> &About {
    &model.processes()[process as usize].about
}

/// Whether both run the same program: on each node it may have another place.
fn run_the_same(one: &About, other: &About) -> bool {
    one.exe.is_empty() || other.exe.is_empty() || name(&one.exe) == name(&other.exe)
}
