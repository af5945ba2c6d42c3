//! Merges equal states of an automaton (Hopcroft's partition refinement): in n log n steps, however long it takes to tell two
//! states apart.

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

/// Merges the states of `next`, rows of `stride`, that no input tells apart by their `labels`. Blocks are numbered in the
/// order of their first states.
pub fn minimize(next: &[u32], stride: usize, labels: &[u32]) -> Blocks {
    let mut partition = Partition::new(&number(labels.iter().copied()));
    let sources = Sources::new(next, stride, labels.len());
    let mut splitters: Vec<u32> = (0..partition.ranges.len() as u32).collect();
    let mut is_waiting = vec![true; splitters.len()];
    let mut splitter = Vec::new();
    while let Some(block) = splitters.pop() {
        is_waiting[block as usize] = false;
        splitter.clear();
        splitter.extend_from_slice(partition.states(block));
        for class in 0..stride {
            for state in &splitter {
                for source in sources.of(class, *state) {
                    partition.mark(*source);
                }
            }
            partition.split(|old, new, is_new_smaller| {
                is_waiting.push(false);
                let next = match is_waiting[old as usize] || is_new_smaller {
                    true => new,
                    false => old,
                };
                is_waiting[next as usize] = true;
                splitters.push(next);
            });
        }
    }
    let of = number(partition.block_of.iter().copied());
    let count = of.iter().max().map_or(0, |last| *last as usize + 1);
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

/// Which states lead to a state.
struct Sources {
    states: usize,
    /// By class and state, where its sources begin in `all`.
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Sources {
    fn new(next: &[u32], stride: usize, states: usize) -> Self {
        let mut starts = vec![0; stride * states + 1];
        let place = |index: usize, to: u32| index % stride * states + to as usize;
        for (index, to) in next.iter().enumerate() {
            starts[place(index, *to) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut free = starts.clone();
        let mut all = vec![0; next.len()];
        for (index, to) in next.iter().enumerate() {
            let free = &mut free[place(index, *to)];
            all[*free as usize] = (index / stride) as u32;
            *free += 1;
        }
        Self {
            states,
            starts,
            all,
        }
    }

    fn of(&self, class: usize, state: u32) -> &[u32] {
        let place = class * self.states + state as usize;
        &self.all[self.starts[place] as usize..self.starts[place + 1] as usize]
    }
}

/// States in blocks, each a range of `order` whose first `marked` are marked.
struct Partition {
    order: Vec<u32>,
    place: Vec<u32>,
    block_of: Vec<u32>,
    ranges: Vec<std::ops::Range<u32>>,
    marked: Vec<u32>,
    /// Blocks with a marked state.
    touched: Vec<u32>,
}

impl Partition {
    /// `of`: numbers of blocks from 0 on.
    fn new(of: &[u32]) -> Self {
        let mut order: Vec<u32> = (0..of.len() as u32).collect();
        order.sort_by_key(|state| of[*state as usize]);
        let mut place = vec![0; of.len()];
        let mut ranges: Vec<std::ops::Range<u32>> = Vec::new();
        for (at, state) in (0..).zip(&order) {
            place[*state as usize] = at;
            match ranges.get_mut(of[*state as usize] as usize) {
                Some(range) => range.end = at + 1,
                None => ranges.push(at..at + 1),
            }
        }
        Self {
            order,
            place,
            block_of: of.to_vec(),
            marked: vec![0; ranges.len()],
            ranges,
            touched: Vec::new(),
        }
    }

    fn states(&self, block: u32) -> &[u32] {
        let range = &self.ranges[block as usize];
        &self.order[range.start as usize..range.end as usize]
    }

    fn mark(&mut self, state: u32) {
        let block = self.block_of[state as usize];
        let marked = &mut self.marked[block as usize];
        let (from, to) = (
            self.place[state as usize],
            self.ranges[block as usize].start + *marked,
        );
        if from < to {
            return;
        }
        if *marked == 0 {
            self.touched.push(block);
        }
        *marked += 1;
        let other = self.order[to as usize];
        self.order.swap(from as usize, to as usize);
        (self.place[state as usize], self.place[other as usize]) = (to, from);
    }

    /// Makes the marked states of each block a block of their own, unless all are; says of which block, the new one, and
    /// whether that is the smaller one.
    fn split(&mut self, mut is_split: impl FnMut(u32, u32, bool)) {
        for block in std::mem::take(&mut self.touched) {
            let marked = std::mem::take(&mut self.marked[block as usize]);
            let range = self.ranges[block as usize].clone();
            let middle = range.start + marked;
            if middle == range.end {
                continue;
            }
            let new = self.ranges.len() as u32;
            for state in &self.order[range.start as usize..middle as usize] {
                self.block_of[*state as usize] = new;
            }
            self.ranges[block as usize] = middle..range.end;
            self.ranges.push(range.start..middle);
            self.marked.push(0);
            is_split(block, new, marked <= range.end - middle);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by refining all blocks until nothing changes (Moore).
    fn slowly(next: &[u32], stride: usize, labels: &[u32]) -> Vec<u32> {
        let mut of = number(labels.iter().copied());
        loop {
            let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
            let refined: Vec<u32> = (0..of.len())
                .map(|state| {
                    let row = next[state * stride..][..stride].iter();
                    let row = row.map(|to| of[*to as usize]);
                    let key: Vec<u32> = row.chain([of[state]]).collect();
                    let fresh = known.len() as u32;
                    *known.entry(key).or_insert(fresh)
                })
                .collect();
            if refined == of {
                return of;
            }
            of = refined;
        }
    }

    #[test]
    fn blocks_are_those_of_the_slow_way() {
        let mut seed = 1_u64;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u32 % below
        };
        for _ in 0..2000 {
            let (states, stride) = (random(40) + 1, random(4) + 1);
            // Few targets, so that many are equal.
            let targets = random(states) + 1;
            let next: Vec<u32> = (0..states * stride).map(|_| random(targets)).collect();
            let labels: Vec<u32> = (0..states).map(|_| random(3)).collect();
            let blocks = minimize(&next, stride as usize, &labels);
            assert_eq!(blocks.of, slowly(&next, stride as usize, &labels));
            for (block, first) in blocks.first.iter().enumerate() {
                let row = &next[(first * stride) as usize..][..stride as usize];
                let row: Vec<u32> = row.iter().map(|to| blocks.of[*to as usize]).collect();
                assert_eq!(
                    blocks.next[block * stride as usize..][..stride as usize],
                    row
                );
            }
        }
    }
}
