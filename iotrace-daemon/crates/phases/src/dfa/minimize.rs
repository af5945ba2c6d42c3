//! Merges equal states of an automaton (Moore's partition refinement).

use hashbrown::HashMap;

/// The automaton of merged states.
pub struct Blocks {
    /// New number of each state.
    pub of: Vec<u32>,
    /// Some state of each block, the first.
    pub first: Vec<u32>,
    /// Transitions between blocks.
    pub next: Vec<u32>,
}

/// Merges the states of `next`, rows of `stride`, that no input tells apart by their `labels`.
pub fn minimize(next: &[u32], stride: usize, labels: &[u32]) -> Blocks {
    let mut of: Vec<u32> = number(labels.iter().copied());
    let mut count = blocks_in(&of);
    loop {
        let refined = refine(next, stride, &of);
        let refined_count = blocks_in(&refined);
        of = refined;
        if refined_count == count {
            break;
        }
        count = refined_count;
    }
    let mut first = vec![u32::MAX; count];
    for (state, block) in of.iter().enumerate().rev() {
        first[*block as usize] = state as u32;
    }
    let rows = first
        .iter()
        .flat_map(|state| &next[*state as usize * stride..][..stride]);
    let next = rows.map(|to| of[*to as usize]).collect();
    Blocks { of, first, next }
}

/// Splits blocks by the blocks that their states lead to.
fn refine(next: &[u32], stride: usize, of: &[u32]) -> Vec<u32> {
    let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
    let mut row = Vec::with_capacity(stride + 1);
    let mut refined = Vec::with_capacity(of.len());
    for (state, block) in of.iter().enumerate() {
        row.clear();
        row.push(*block);
        row.extend(
            next[state * stride..][..stride]
                .iter()
                .map(|to| of[*to as usize]),
        );
        let fresh = known.len() as u32;
        let number = match known.get(&row) {
            Some(number) => *number,
            None => {
                known.insert(row.clone(), fresh);
                fresh
            }
        };
        refined.push(number);
    }
    refined
}

/// Numbers distinct values in order of their first appearance.
fn number(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut known = HashMap::new();
    values
        .map(|value| {
            let fresh = known.len() as u32;
            *known.entry(value).or_insert(fresh)
        })
        .collect()
}

fn blocks_in(of: &[u32]) -> usize {
    of.iter().max().map_or(0, |last| *last as usize + 1)
}
