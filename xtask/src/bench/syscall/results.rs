//! The figures of all rounds. Differences and ratios are taken within a round, before the median.

use std::collections::HashMap;

use crate::bench::call::Call;
use crate::bench::stats::Spread;
use crate::bench::tracer::Tracer;

/// Nanoseconds a call by tracer and call, in the order of the rounds.
#[derive(Default)]
pub struct Results {
    figures: HashMap<(Tracer, Call), Vec<f64>>,
}

impl Results {
    /// Adds the figures of a tracer's next round.
    pub fn add(&mut self, tracer: Tracer, figures: &[(Call, f64)]) {
        for (call, ns) in figures {
            self.figures.entry((tracer, *call)).or_default().push(*ns);
        }
    }

    /// Nanoseconds a call.
    pub fn ns(&self, tracer: Tracer, call: Call) -> Option<Spread> {
        Spread::of(self.of(tracer, call))
    }

    /// Nanoseconds more than untraced.
    pub fn added(&self, tracer: Tracer, call: Call) -> Option<Spread> {
        Spread::of(&self.added_by_round(tracer, call))
    }

    /// What a tracer adds to a call, over what another adds to one.
    pub fn ratio(&self, over: (Tracer, Call), under: (Tracer, Call)) -> Option<Spread> {
        let rounds = self.added_by_round(over.0, over.1);
        let under = self.added_by_round(under.0, under.1);
        let ratios: Vec<_> = rounds
            .iter()
            .zip(&under)
            .map(|(over, under)| over / under)
            .collect();
        Spread::of(&ratios)
    }

    fn of(&self, tracer: Tracer, call: Call) -> &[f64] {
        self.figures.get(&(tracer, call)).map_or(&[], Vec::as_slice)
    }

    fn added_by_round(&self, tracer: Tracer, call: Call) -> Vec<f64> {
        let untraced = self.of(Tracer::Untraced, call);
        self.of(tracer, call)
            .iter()
            .zip(untraced)
            .map(|(traced, untraced)| traced - untraced)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_taken_within_a_round() {
        let mut results = Results::default();
        for (untraced, floor, basic) in [(100.0, 200.0, 250.0), (1000.0, 1200.0, 1300.0)] {
            for (tracer, ns) in [
                (Tracer::Untraced, untraced),
                (Tracer::Floor, floor),
                (Tracer::Basic, basic),
            ] {
                results.add(tracer, &[(Call::Read, ns)]);
            }
        }
        let (floor, basic) = ((Tracer::Floor, Call::Read), (Tracer::Basic, Call::Read));
        assert_eq!(results.added(basic.0, basic.1).unwrap().median, 225.0);
        assert_eq!(results.ratio(basic, floor).unwrap().median, 1.5);
        assert_eq!(results.added(Tracer::Full, Call::Read), None);
    }
}
