//! Counters by phase: each row's go to the phase of its file, reads apart where they are another phase than writes.

use std::collections::BTreeMap;

use super::sum::Sum;
use iotrace_model::counters::*;
use iotrace_phases::{
    context::Sorted,
    phase::{Direction, Phase},
    used::Used,
};

/// What was done in one phase.
#[derive(Default)]
pub struct PhaseSum {
    pub sum: Sum,
    /// Distinct regular files.
    pub files: u64,
}

/// Counters by phase.
#[derive(Default)]
pub struct PhaseSums {
    phases: BTreeMap<Phase, PhaseSum>,
    /// Distinct regular files of [`Phase::Other`], of whatever class.
    other_files: u64,
}

impl PhaseSums {
    /// Adds the counters of one row, and returns the phases that they went to.
    pub fn add(&mut self, counters: &Counters, file: &Sorted) -> Phases {
        let used = Used::new(counters, file);
        let main = file.phase(used.main);
        let mut phases = Phases::default();
        phases.insert(main);
        if used.reads_apart {
            let (reads, rest) = split(counters);
            let read = file.phase(Direction::Read);
            phases.insert(read);
            self.phases.entry(read).or_default().sum.add(&reads);
            self.phases.entry(main).or_default().sum.add(&rest);
        } else {
            self.phases.entry(main).or_default().sum.add(counters);
        }
        phases
    }

    /// Counts a regular file that was used in `phases`.
    pub fn add_file(&mut self, phases: Phases) {
        let mut other = false;
        for phase in phases.iter() {
            self.phases.entry(phase).or_default().files += 1;
            other |= matches!(phase, Phase::Other(_));
        }
        self.other_files += u64::from(other);
    }

    /// What was done in one phase, or in one class of it.
    pub fn get(&self, phase: Phase) -> Option<&PhaseSum> {
        self.phases.get(&phase)
    }

    /// What was done in all phases of `name`, and its distinct files.
    pub fn named(&self, name: &str) -> Option<(Sum, u64)> {
        let mut of_name = self
            .phases
            .iter()
            .filter(|(phase, _)| phase.name() == name)
            .peekable();
        let other = matches!(of_name.peek()?.0, Phase::Other(_));
        let (mut sum, mut files) = (Sum::default(), 0);
        for (_, phase) in of_name {
            sum.absorb(&phase.sum);
            files += phase.files;
        }
        Some((sum, if other { self.other_files } else { files }))
    }
}

/// A set of phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Phases(u16);

impl Phases {
    pub fn insert(&mut self, phase: Phase) {
        self.0 |= 1 << phase.code();
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its members, in the order of [`Phase::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Phase> {
        Phase::ALL
            .into_iter()
            .filter(move |phase| self.0 >> phase.code() & 1 != 0)
    }
}

/// The counters of reads, and all others. Tables of sizes hold both kinds and stay with the others.
pub fn split(counters: &Counters) -> (Counters, Counters) {
    let mut reads = Counters::ZERO;
    let mut rest = counters.clone();
    for (index, descriptor) in TABLE.iter().enumerate() {
        match descriptor.part {
            Part::Reads => std::mem::swap(&mut reads.v[index], &mut rest.v[index]),
            Part::Both => reads.v[index] = rest.v[index],
            Part::Rest => {}
        }
    }
    (reads, rest)
}
