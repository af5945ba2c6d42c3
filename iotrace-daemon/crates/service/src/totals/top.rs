//! The few of many that do the most, each with series of its own, and all others in one.
//!
//! A member counts what it does from the moment it is one. What leaves takes nothing away: its counts go to the rest,
//! which therefore never falls, and the sum over members and rest is what was counted.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use iotrace_model::IoTotals;

/// What is left of a score at each turn: activity of a minute ago counts an eighth.
const DECAY: f64 = 0.7;
/// How much more than the least of the members who replaces it must have done.
const CLEARLY: f64 = 2.0;
/// Candidates remembered, for each member and at least.
const CANDIDATES: (usize, usize) = (16, 1024);

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    sums: IoTotals,
    score: f64,
}

/// At most so many members as was asked for; none where that is 0, and nothing is counted then.
#[derive(Debug)]
pub struct Top<K> {
    limit: usize,
    members: BTreeMap<K, Member>,
    /// Time of those that are no members, lately.
    candidates: HashMap<K, f64>,
    rest: IoTotals,
    replaced: u64,
}

impl<K: Clone + Ord + Hash> Top<K> {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            members: BTreeMap::new(),
            candidates: HashMap::new(),
            rest: IoTotals::default(),
            replaced: 0,
        }
    }

    /// Whether anything is counted.
    pub fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Changes the number of members; those that find no room leave at the next turn.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Counts.
    pub fn add(&mut self, key: K, sums: IoTotals) {
        if self.limit == 0 || sums.is_zero() {
            return;
        }
        let room = self.members.len() < self.limit;
        if room || self.members.contains_key(&key) {
            let member = self.members.entry(key).or_default();
            member.sums.add(&sums);
            member.score += sums.ns as f64;
            return;
        }
        self.rest.add(&sums);
        *self.candidates.entry(key).or_default() += sums.ns as f64;
        let (each, least) = CANDIDATES;
        if self.candidates.len() > (each * self.limit).max(least) {
            self.thin();
        }
    }

    /// Lets candidates that clearly do more than members take their places.
    pub fn turn(&mut self) {
        while self.members.len() > self.limit {
            self.drop_least();
        }
        let mut ranked: Vec<(K, f64)> = self.candidates.drain().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut rest = ranked.into_iter();
        for (key, score) in rest.by_ref() {
            let least = self.members.values().map(|member| member.score);
            let least = least.min_by(f64::total_cmp).unwrap_or(f64::INFINITY);
            if self.members.len() >= self.limit {
                if score <= least * CLEARLY {
                    self.candidates.insert(key, score);
                    break;
                }
                self.drop_least();
            }
            let sums = IoTotals::default();
            self.members.insert(key, Member { sums, score });
        }
        self.candidates.extend(rest);
        self.candidates
            .values_mut()
            .for_each(|score| *score *= DECAY);
        self.candidates.retain(|_, score| *score >= 1.0);
        self.members
            .values_mut()
            .for_each(|member| member.score *= DECAY);
    }

    /// Lets those go that are no longer there.
    pub fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        let rest = &mut self.rest;
        self.members.retain(|key, member| {
            let keep = keep(key);
            if !keep {
                rest.add(&member.sums);
            }
            keep
        });
        self.candidates.retain(|key, _| keep(key));
    }

    /// The members, with what they did since they are some.
    pub fn members(&self) -> impl Iterator<Item = (&K, IoTotals)> {
        self.members.iter().map(|(key, member)| (key, member.sums))
    }

    /// Members and candidates.
    pub fn entries(&self) -> usize {
        self.members.len() + self.candidates.len()
    }

    /// What all others did.
    pub fn rest(&self) -> IoTotals {
        self.rest
    }

    /// Members that had to leave for others.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    fn drop_least(&mut self) {
        let least = self
            .members
            .iter()
            .min_by(|a, b| a.1.score.total_cmp(&b.1.score));
        if let Some(key) = least.map(|(key, _)| key.clone()) {
            let member = self.members.remove(&key).unwrap_or_default();
            self.rest.add(&member.sums);
            self.replaced += 1;
        }
    }

    /// Forgets the lower half of the candidates.
    fn thin(&mut self) {
        let mut scores: Vec<f64> = self.candidates.values().copied().collect();
        let middle = scores.len() / 2;
        let (_, median, _) = scores.select_nth_unstable_by(middle, f64::total_cmp);
        let median = *median;
        self.candidates.retain(|_, score| *score > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(ns: u64) -> IoTotals {
        IoTotals {
            operations: 1,
            bytes_read: 10,
            bytes_written: 1,
            ns,
            merged_ns: ns,
        }
    }

    fn all(top: &Top<u32>) -> u64 {
        top.members().map(|(_, sums)| sums.operations).sum::<u64>() + top.rest().operations
    }

    #[test]
    fn members_are_few_and_nothing_is_lost_or_falls() {
        let mut top = Top::new(3);
        let mut before = IoTotals::default();
        for round in 0..50_u32 {
            for key in 0..5000 {
                // Another ten do the most every ten rounds.
                let is_busy = key / 10 == round / 10;
                top.add(key, one(if is_busy { 1_000_000 } else { 10 }));
            }
            top.turn();
            assert!(top.members().count() <= 3);
            assert!(top.candidates.len() <= 1024);
            assert_eq!(all(&top), 5000 * u64::from(round + 1));
            assert!(top.rest().operations >= before.operations && top.rest().ns >= before.ns);
            before = top.rest();
        }
        assert!(top.members().all(|(key, _)| key / 10 == 4));
        assert!(top.replaced() > 0);
        top.retain(|_| false);
        assert_eq!((top.members().count(), all(&top)), (0, 250_000));
    }

    #[test]
    fn equals_do_not_take_turns() {
        let mut top = Top::new(2);
        for _ in 0..20 {
            (0..4).for_each(|key| top.add(key, one(1000)));
            top.turn();
        }
        assert_eq!(top.replaced(), 0);
        top.set_limit(1);
        top.turn();
        assert_eq!((top.members().count(), all(&top)), (1, 80));
        top.set_limit(0);
        top.turn();
        top.add(1, one(1));
        assert_eq!((top.members().count(), all(&top)), (0, 80));
    }
}
