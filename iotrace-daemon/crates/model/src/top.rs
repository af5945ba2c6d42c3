//! A small table of the commonest values (access sizes, strides) of one file: which value, how many calls.

use smallvec::SmallVec;

/// Distinct values kept per process and file, first come; Darshan keeps as many.
pub const SLOTS: usize = 32;
/// Of those, as many as most files have: they are within the counters, and more are on the heap. Counters are made, moved and
/// set to 0 for each row that is read.
const INLINE_SLOTS: usize = 2;

/// Up to [`SLOTS`] distinct values with their counts, in order of arrival.
#[derive(Clone, Debug)]
pub struct Top(SmallVec<[(u64, u64); INLINE_SLOTS]>);

impl Top {
    /// No values.
    pub const EMPTY: Self = Self(SmallVec::new_const());

    /// The values and their counts, in order of arrival.
    pub fn entries(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Adds `count` calls of `value`, and returns the calls that found no slot.
    pub fn add(&mut self, value: u64, count: u64) -> u64 {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.0 == value) {
            entry.1 = entry.1.saturating_add(count);
        } else if self.0.len() < SLOTS {
            self.0.push((value, count));
        } else {
            return count;
        }
        0
    }
}

/// The `n` values with the highest counts, ties by the larger value, as Darshan ranks them.
pub fn commonest(entries: impl IntoIterator<Item = (u64, u64)>, n: usize) -> Vec<(u64, u64)> {
    let mut sorted: Vec<_> = entries
        .into_iter()
        .filter(|entry| entry.0 != 0 && entry.1 != 0)
        .collect();
    let by_rank = |a: &(u64, u64), b: &(u64, u64)| b.1.cmp(&a.1).then(b.0.cmp(&a.0));
    if n > 0 && sorted.len() > n {
        sorted.select_nth_unstable_by(n - 1, by_rank);
    }
    sorted.truncate(n);
    sorted.sort_unstable_by(by_rank);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_first_values_and_returns_the_rest() {
        let mut top = Top::EMPTY;
        for value in 1..=SLOTS as u64 {
            assert_eq!(top.add(value, 1), 0);
        }
        assert_eq!(top.add(1, 5), 0);
        assert_eq!(top.add(99, 7), 7);
        assert_eq!(top.entries().len(), SLOTS);
        assert_eq!(top.entries()[0], (1, 6));
    }

    #[test]
    fn ranks_by_count_then_by_larger_value() {
        let ranked = commonest(
            [(0, 100), (512, 3), (4096, 9), (8192, 9), (1, 1), (7, 0)],
            3,
        );
        assert_eq!(ranked, [(8192, 9), (4096, 9), (512, 3)]);
        assert!(commonest([(5, 1)], 0).is_empty());
    }
}
