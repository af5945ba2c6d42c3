//! Uses of files that may be the source of a copy, found by time.

use std::ops::Range;

/// Uses that are the source of no copy yet.
///
/// A k-d tree over the times of the first and of the last operation, as a slice: the root of a slice is its middle, and its
/// subtrees are the two halves around it. A search takes time in the order of the logarithm of their number if few are in
/// use at a time, and of its square root at worst.
#[derive(Debug, Default)]
pub struct Sources(Vec<Node>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Of several candidates the lowest rank is chosen.
    rank: u32,
    file: u32,
    /// Index of its node.
    node: u32,
}

#[derive(Debug)]
struct Node {
    own: Option<Candidate>,
    first: u64,
    last: u64,
    /// Earliest and latest first operation of the subtree, and last operation.
    firsts: (u64, u64),
    lasts: (u64, u64),
    /// First candidate of the subtree, and the first of another file than that.
    best: [Option<Candidate>; 2],
}

impl Sources {
    /// Adds a use of a file that lasted from `first` to `last`.
    pub fn push(&mut self, rank: u32, file: u32, (first, last): (u64, u64)) {
        self.0.push(Node {
            own: Some(Candidate {
                rank,
                file,
                node: 0,
            }),
            first,
            last,
            firsts: (first, first),
            lasts: (last, last),
            best: [None; 2],
        });
    }

    /// Prepares the searches, after the last use was added.
    pub fn build(&mut self) {
        build(&mut self.0, 0, true);
    }

    /// Takes the use of lowest rank that began at `until` or before, ended at `from` or after, and is not of `file`.
    pub fn take(&mut self, file: u32, from: u64, until: u64) -> Option<u32> {
        let found = self.search(file, from, until)?;
        remove(&mut self.0, found.node as usize);
        Some(found.rank)
    }

    /// The same, and leaves it.
    pub fn find(&self, file: u32, from: u64, until: u64) -> Option<u32> {
        self.search(file, from, until).map(|found| found.rank)
    }

    fn search(&self, file: u32, from: u64, until: u64) -> Option<Candidate> {
        let mut search = Search {
            file,
            from,
            until,
            found: None,
        };
        search.visit(&self.0);
        search.found
    }
}

fn build(nodes: &mut [Node], offset: u32, by_first: bool) {
    if nodes.is_empty() {
        return;
    }
    let middle = nodes.len() / 2;
    nodes.select_nth_unstable_by_key(middle, |node| if by_first { node.first } else { node.last });
    let (before, rest) = nodes.split_at_mut(middle);
    let Some((root, after)) = rest.split_first_mut() else {
        return;
    };
    let at = offset + middle as u32;
    root.own = root.own.map(|own| Candidate { node: at, ..own });
    build(before, offset, !by_first);
    build(after, at + 1, !by_first);
    for subtree in [&*before, &*after] {
        if let Some(node) = subtree.get(subtree.len() / 2) {
            root.firsts = union(root.firsts, node.firsts);
            root.lasts = union(root.lasts, node.lasts);
        }
    }
    rank(nodes);
}

fn union(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Finds the best candidates of a tree, of which those of its subtrees are known.
fn rank(nodes: &mut [Node]) {
    let middle = nodes.len() / 2;
    let best = |half: Range<usize>| {
        let half = &nodes[half];
        half.get(half.len() / 2).map_or([None; 2], |node| node.best)
    };
    let candidates = [
        best(0..middle),
        best(middle + 1..nodes.len()),
        [nodes[middle].own, None],
    ];
    let candidates = || candidates.iter().flatten().flatten().copied();
    let first = candidates().min();
    let other = candidates().filter(|one| Some(one.file) != first.map(|first| first.file));
    nodes[middle].best = [first, other.min()];
}

fn remove(nodes: &mut [Node], at: usize) {
    let middle = nodes.len() / 2;
    match at.cmp(&middle) {
        std::cmp::Ordering::Less => remove(&mut nodes[..middle], at),
        std::cmp::Ordering::Equal => nodes[middle].own = None,
        std::cmp::Ordering::Greater => remove(&mut nodes[middle + 1..], at - middle - 1),
    }
    rank(nodes);
}

struct Search {
    file: u32,
    from: u64,
    until: u64,
    found: Option<Candidate>,
}

impl Search {
    fn visit(&mut self, nodes: &[Node]) {
        let middle = nodes.len() / 2;
        let Some(node) = nodes.get(middle) else {
            return;
        };
        let best = node.best.into_iter().flatten();
        let Some(best) = best.into_iter().find(|one| one.file != self.file) else {
            return;
        };
        let is_worse = self.found.is_some_and(|found| found < best);
        if is_worse || node.firsts.0 > self.until || node.lasts.1 < self.from {
            return;
        }
        if node.firsts.1 <= self.until && node.lasts.0 >= self.from {
            self.found = Some(best);
            return;
        }
        if node.first <= self.until && node.last >= self.from {
            self.offer(node.own);
        }
        self.visit(&nodes[..middle]);
        self.visit(&nodes[middle + 1..]);
    }

    fn offer(&mut self, candidate: Option<Candidate>) {
        let candidate = candidate.filter(|one| one.file != self.file);
        if let Some(one) = candidate
            && self.found.is_none_or(|found| one < found)
        {
            self.found = candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As [`Sources::take`], by looking at all of them.
    fn take_naively(
        all: &mut Vec<(u32, u32, (u64, u64))>,
        (file, from, until): (u32, u64, u64),
    ) -> Option<u32> {
        let at = all.iter().position(|(_, other, (first, last))| {
            *other != file && *first <= until && *last >= from
        })?;
        Some(all.remove(at).0)
    }

    #[test]
    fn takes_what_a_search_of_all_finds() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for count in (0..200).step_by(7) {
            let (files, time) = (1 + random(5), 1 + random(300));
            let mut all = Vec::new();
            let mut sources = Sources::default();
            for rank in 0..count {
                let file = (u64::from(rank) * files / u64::from(count)) as u32;
                let first = random(time);
                let times = (first, first + random(40));
                all.push((rank, file, times));
                sources.push(rank, file, times);
            }
            sources.build();
            for _ in 0..2 * count + 5 {
                let from = random(time);
                let query = (random(files + 1) as u32, from, from + random(20));
                assert_eq!(
                    sources.take(query.0, query.1, query.2),
                    take_naively(&mut all, query),
                    "{query:?} of {all:?}"
                );
            }
        }
    }
}
