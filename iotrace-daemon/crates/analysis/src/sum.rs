//! Counters summed over many files, with exact tables of sizes and strides.

use std::collections::HashMap;

use iotrace_model::counters::{Counters, Merge, TABLE, saturating_add};

/// A sum of counters. The tables of one file hold 32 values; those of a sum hold all that its files' tables hold.
pub struct Sum {
    /// The tables in here stay empty.
    pub counters: Counters,
    pub sizes: HashMap<u64, u64>,
    pub strides: HashMap<u64, u64>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            counters: Counters::ZERO,
            sizes: HashMap::new(),
            strides: HashMap::new(),
        }
    }
}

impl Sum {
    /// Adds the counters of one place.
    pub fn add(&mut self, counters: &Counters) {
        self.absorb_values(counters);
        count(&mut self.sizes, counters.sizes.entries().iter().copied());
        count(
            &mut self.strides,
            counters.strides.entries().iter().copied(),
        );
    }

    /// Adds another sum.
    pub fn absorb(&mut self, other: &Self) {
        self.absorb_values(&other.counters);
        count(
            &mut self.sizes,
            other.sizes.iter().map(|(value, calls)| (*value, *calls)),
        );
        count(
            &mut self.strides,
            other.strides.iter().map(|(value, calls)| (*value, *calls)),
        );
    }

    fn absorb_values(&mut self, counters: &Counters) {
        let mut values = Counters {
            v: counters.v,
            ..Counters::ZERO
        };
        for (value, descriptor) in values.v.iter_mut().zip(&TABLE) {
            if descriptor.merge == Merge::Newest {
                *value = 0; // says something of one file only
            }
        }
        self.counters.absorb(&values);
    }
}

fn count(into: &mut HashMap<u64, u64>, from: impl Iterator<Item = (u64, u64)>) {
    for (value, calls) in from {
        saturating_add(into.entry(value).or_default(), calls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrace_model::counters::{CREATE_MODE, READS};

    #[test]
    fn sums_hold_every_size() {
        let mut total = Sum::default();
        for size in 1..=100 {
            let mut sum = Sum::default();
            let mut counters = Counters::ZERO;
            counters.v[READS] = 1;
            counters.v[CREATE_MODE] = 0o644;
            counters.sizes.add(size, 1);
            sum.add(&counters);
            total.absorb(&sum);
        }
        assert_eq!(total.sizes.len(), 100);
        assert_eq!(total.counters.v[READS], 100);
        assert_eq!(total.counters.v[CREATE_MODE], 0);
    }
}
