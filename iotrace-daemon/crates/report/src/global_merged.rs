//! Merged time over all processes as the kernel side kept it, where it did.
//!
//! It is exact for the phases that files had when they were used. A report may sort files otherwise; where it does, the
//! time of their calls is what the merged time may differ by, in the phases that they come from and go to.

use iotrace_common::{global_merged, phases::COUNT};

use super::{Report, merged::Merged};
use iotrace_analysis::phases::split;
use iotrace_analysis::series::Slice;
use iotrace_model::{
    IoTotals, PhaseSet,
    counters::{saturating_add, saturating_sum},
    history::Bounds,
};
use iotrace_phases::{phase::Phase, used::Used};

/// Time in calls that the report has in another phase than the kernel side, or may have; by the number of the phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    into: [u64; COUNT],
    out_of: [u64; COUNT],
}

impl Report<'_> {
    /// Finds what the report sorts otherwise than the kernel side did.
    pub(super) fn find_moved(&self) -> Moved {
        let mut moved = Moved::default();
        let apart: Vec<bool> = (0..self.processes.len() as u32)
            .map(|process| !self.is_sorted_alike(process))
            .collect();
        let rows = self.model.rows().iter();
        for row in rows.filter(|row| apart[row.process as usize]) {
            let counters = row.cell.total();
            let sorted = &self.sorted[row.file as usize];
            let known = self.model.file(row.file).phases;
            let used = Used::new(&counters, sorted);
            let ns = counters.nanoseconds();
            let reads = if used.reads_apart {
                split(&counters).0.nanoseconds()
            } else {
                0
            };
            let phases = used.phases(sorted).map(|(phase, _)| phase);
            let both = phases.clone().fold(PhaseSet::default(), |set, phase| {
                set.with(phase.code().into())
            });
            if both == known {
                continue;
            }
            for (phase, ns) in phases.zip([ns.saturating_sub(reads), reads]) {
                let code = phase.code();
                saturating_add(&mut moved.into[usize::from(code)], ns);
                for other in known.codes().filter(|other| *other != code) {
                    saturating_add(&mut moved.out_of[usize::from(other)], ns);
                }
            }
        }
        moved
    }

    /// Whether the report sorts what a process did as the kernel side sorted it.
    fn is_sorted_alike(&self, process: u32) -> bool {
        let known = &self.model.processes()[process as usize].phases;
        let sums = &self.processes[process as usize].phases;
        Phase::ALL.into_iter().all(|phase| {
            let sum = sums.get(phase);
            let done = sum.map_or_else(IoTotals::default, |sum| IoTotals::of(&sum.sum.counters));
            done == known.total(phase.code())
        })
    }

    /// What the kernel side kept of the phases that are chosen, within the bounds that are known anyway; these where it
    /// kept nothing.
    pub(super) fn measured(&self, known: Merged, is_chosen: impl Fn(Phase) -> bool) -> Merged {
        let known = self.bounded(known);
        let Some(group) = group(&is_chosen) else {
            return known;
        };
        let nodes = self.model.global_merged().of_nodes(group);
        if nodes.len() == 0 || nodes.len() < self.nodes.len() {
            return known;
        }
        // Nodes at one time: at least the one with the most, at most all of them one behind the other.
        let (mut most, mut sum, mut uncertain) = (0, 0, 0);
        for time in nodes {
            most = time.ns.max(most);
            saturating_add(&mut sum, time.ns);
            saturating_add(&mut uncertain, time.uncertain_ns);
        }
        let (into, out_of) = self.moved_between(&is_chosen);
        let doubt = if into > 0 || out_of > 0 { uncertain } else { 0 };
        let at_least = most.saturating_sub(out_of.saturating_add(doubt));
        let at_most = saturating_sum([sum, into, doubt]);
        if most == sum && into == 0 && out_of == 0 {
            return Merged {
                at_least,
                at_most,
                uncertain: Some(uncertain),
                ..known
            };
        }
        let at_least = at_least.max(known.at_least);
        Merged {
            at_least,
            at_most: at_most.min(known.at_most).max(at_least),
            uncertain: Some(uncertain),
            ..known
        }
    }

    /// The same of one interval.
    pub(super) fn measured_in(
        &self,
        slice: &Slice,
        known: (u64, u64),
        is_chosen: impl Fn(Phase) -> bool,
    ) -> (u64, u64) {
        let start = self.run.start_unix_ns;
        let bounds = Bounds {
            start: start + slice.start_ns,
            end: start + slice.end_ns,
        };
        let measured =
            group(&is_chosen).and_then(|group| self.model.global_merged().between(bounds, group));
        match measured {
            Some(time) if self.moved_between(&is_chosen) == (0, 0) => (time.ns, time.ns),
            _ => {
                let chosen = Phase::ALL.into_iter().zip(&slice.phases);
                let chosen = chosen.filter(|(phase, _)| is_chosen(*phase));
                let known = self.bounded(Merged {
                    at_least: known.0,
                    at_most: known.1,
                    in_calls: saturating_sum(chosen.map(|(_, flow)| flow.io.ns)),
                    uncertain: None,
                });
                (known.at_least, known.at_most)
            }
        }
    }

    /// Time in calls that may have come into the phases that are chosen, and gone out of them.
    fn moved_between(&self, is_chosen: impl Fn(Phase) -> bool) -> (u64, u64) {
        let codes = Phase::ALL.into_iter().filter(|phase| is_chosen(*phase));
        codes.fold((0, 0), |(into, out_of), phase| {
            let code = usize::from(phase.code());
            (
                into + self.moved.into[code],
                out_of + self.moved.out_of[code],
            )
        })
    }
}

/// The group of exactly these phases.
fn group(is_chosen: impl Fn(Phase) -> bool) -> Option<usize> {
    let is_member = |phase: Phase, group: u32| {
        (0..global_merged::GROUPS_PER_CALL)
            .any(|nth| global_merged::group(u32::from(phase.code()), nth) == group)
    };
    (0..global_merged::GROUPS).find(|group| {
        let mut all = Phase::ALL.into_iter();
        all.all(|phase| is_chosen(phase) == is_member(phase, *group as u32))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_their_phases() {
        assert_eq!(group(|phase| phase == Phase::Restore), Some(4));
        assert_eq!(
            group(|phase| phase.name() == "other"),
            Some(global_merged::OTHER as usize)
        );
        let either = |phase| matches!(phase, Phase::Training | Phase::Checkpoint);
        assert_eq!(
            group(either),
            Some(global_merged::TRAINING_OR_CHECKPOINT as usize)
        );
        assert_eq!(
            group(|phase| matches!(phase, Phase::Training | Phase::Restore)),
            None
        );
    }
}
