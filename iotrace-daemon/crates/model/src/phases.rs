//! What a process did by phase, as the kernel side sorted it while it was done.
//!
//! A report may sort files otherwise: by other rules, by what the whole run shows, or by a later name. Then it moves the
//! counters of files. Merged time cannot be moved: it is exact for the phases that the kernel side knew, which are here.

use iotrace_common::phases::COUNT;

use super::io_totals::IoTotals;

/// What one process did, by the number of the phase (`Phase::code`); 0: calls that named no open file, and files that
/// could not be sorted.
#[derive(Clone, Debug, Default)]
pub struct ByPhase {
    settled: [IoTotals; COUNT],
    interval: [IoTotals; COUNT],
}

impl ByPhase {
    /// Adds to the interval. A phase that there is not counts as 0.
    pub fn add(&mut self, phase: u32, done: &IoTotals) {
        let phase = phase as usize;
        self.interval[if phase < COUNT { phase } else { 0 }].add(done);
    }

    /// All that was done in a phase.
    pub fn total(&self, phase: u16) -> IoTotals {
        let phase = usize::from(phase);
        let mut total = self.settled.get(phase).copied().unwrap_or_default();
        total.add(&self.interval.get(phase).copied().unwrap_or_default());
        total
    }

    /// What was done since the last [`ByPhase::settle`], by phase, where there was anything.
    pub fn interval(&self) -> impl Iterator<Item = (u16, &IoTotals)> {
        let phases = self.interval.iter().enumerate();
        phases
            .filter(|(_, done)| !done.is_zero())
            .map(|(phase, done)| (phase as u16, done))
    }

    /// Ends the interval.
    pub fn settle(&mut self) {
        for (settled, interval) in self.settled.iter_mut().zip(&mut self.interval) {
            settled.add(&std::mem::take(interval));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(merged_ns: u64) -> IoTotals {
        IoTotals {
            operations: 1,
            merged_ns,
            ..IoTotals::default()
        }
    }

    #[test]
    fn intervals_add_up() {
        let mut phases = ByPhase::default();
        phases.add(2, &done(5));
        phases.settle();
        phases.add(2, &done(7));
        phases.add(99, &done(1));
        assert_eq!(
            phases.total(2),
            IoTotals {
                operations: 2,
                ..done(12)
            }
        );
        let interval = phases
            .interval()
            .map(|(phase, done)| (phase, done.merged_ns));
        let interval: Vec<_> = interval.collect();
        assert_eq!(interval, [(0, 1), (2, 7)]);
    }
}
