//! Which process is which rank of a Darshan log.
//!
//! Ranks that a launcher gave out keep their numbers where they are all there: a process's rank in the log is its rank
//! in the job. Of the processes of one such rank (a loader's workers inherit it) the first one is it. All others that
//! used a file follow in order of their start.

use std::collections::BTreeMap;

use crate::Export;
use iotrace_model::environ::{RANKS, Rank};

/// The ranks of a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    /// By rank, the process's place among the export's.
    places: Vec<usize>,
    /// By place, the rank.
    ranks: Vec<Option<usize>>,
    /// The variable that the first ranks are told by, with the numbers that it gives them.
    pub told: Option<(&'static str, Vec<u32>)>,
}

impl Ranks {
    /// The ranks of an export; `used` says by place which processes used a file.
    pub fn new(export: &Export<'_>, used: &[bool]) -> Self {
        let told: Vec<_> = export
            .processes()
            .map(|process| process.about.role.rank)
            .collect();
        Self::of(&told, used)
    }

    fn of(told: &[Option<Rank>], used: &[bool]) -> Self {
        let variable = RANKS
            .into_iter()
            .find(|variable| told.iter().flatten().any(|rank| rank.variable == *variable));
        let mut first: BTreeMap<u32, usize> = BTreeMap::new();
        for (place, rank) in told.iter().enumerate() {
            if let Some(rank) = rank.filter(|rank| Some(rank.variable) == variable) {
                first.entry(rank.number).or_insert(place);
            }
        }
        // A rank that used no file stays, or the others would have other numbers; unless they have them anyway.
        if !first.keys().copied().eq(0..first.len() as u32) {
            first.retain(|_, place| used[*place]);
        }
        let mut ranks = vec![None; told.len()];
        let mut places: Vec<usize> = first.values().copied().collect();
        for (rank, place) in places.iter().enumerate() {
            ranks[*place] = Some(rank);
        }
        for (place, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            if ranks[place].is_none() {
                ranks[place] = Some(places.len());
                places.push(place);
            }
        }
        let numbers: Vec<u32> = first.into_keys().collect();
        Self {
            places,
            ranks,
            told: variable.zip((!numbers.is_empty()).then_some(numbers)),
        }
    }

    /// Number of ranks.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The places of the processes, by rank.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// The rank of the process at `place`, if it is one.
    pub fn of_place(&self, place: usize) -> Option<usize> {
        self.ranks[place]
    }
}

/// Numbers as ranges: `0-3,8`.
pub fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts = ranges.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(number: u32, variable: &'static str) -> Option<Rank> {
        Some(Rank { number, variable })
    }

    #[test]
    fn ranks_of_the_job_are_those_of_the_log() {
        // A launcher, its ranks in another order, a worker of the first, a helper; rank 2 used no file.
        let torch = |number| rank(number, "RANK");
        let slurm = rank(0, "SLURM_PROCID");
        let told = [slurm, torch(1), torch(0), torch(0), torch(2), None];
        let used = [true, true, true, true, false, true];
        let ranks = Ranks::of(&told, &used);
        assert_eq!(ranks.places(), [2, 1, 4, 0, 3, 5]);
        assert_eq!(ranks.of_place(4), Some(2));
        assert_eq!(ranks.told, Some(("RANK", vec![0, 1, 2])));
    }

    #[test]
    fn what_is_not_all_there_keeps_the_order_alone() {
        let torch = |number| rank(number, "RANK");
        let ranks = Ranks::of(
            &[None, torch(9), torch(8), torch(5)],
            &[true, true, true, false],
        );
        assert_eq!(ranks.places(), [2, 1, 0]);
        assert_eq!((ranks.of_place(3), ranks.count()), (None, 3));
        assert_eq!(ranks.told, Some(("RANK", vec![8, 9])));
        assert_eq!(Ranks::of(&[None, None], &[false, true]).places(), [1]);
        assert_eq!(Ranks::of(&[], &[]), Ranks::default());
    }

    #[test]
    fn numbers_are_shortened() {
        assert_eq!(ranges([0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges([]), "");
    }
}
