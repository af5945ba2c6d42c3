//! Children under their parents. Pure.

use std::collections::HashMap;

use iotrace_model::input::ProcessId;

use super::lines::Line;

/// Puts each line under the one of its nearest ancestor that has a line, and says how deep it is. What has none is at
/// the top. Trees, and the branches of each, are in the order of their first line in `lines`; no line is lost.
pub fn order(lines: Vec<Line>) -> Vec<Line> {
    let ids = lines.iter().enumerate();
    let ids: HashMap<ProcessId, usize> = ids.map(|(index, line)| (line.process, index)).collect();
    let parent = |index: usize| {
        let mut ancestors = lines[index].about.ancestors.iter();
        ancestors.find_map(|ancestor| ids.get(ancestor).copied())
    };
    let mut children = vec![Vec::new(); lines.len()];
    let mut roots = Vec::new();
    let mut is_placed = vec![false; lines.len()];
    for first in 0..lines.len() {
        let mut index = first;
        while !is_placed[index] {
            is_placed[index] = true;
            match parent(index) {
                Some(parent) => {
                    children[parent].push(index);
                    index = parent;
                }
                None => roots.push(index),
            }
        }
    }
    let mut lines: Vec<Option<Line>> = lines.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(lines.len());
    // Roots come first. The others are left only if pids went round and made a circle of ancestors.
    for root in roots.into_iter().chain(0..lines.len()) {
        let mut next = vec![(root, 0)];
        while let Some((index, depth)) = next.pop() {
            if let Some(line) = lines[index].take() {
                ordered.push(Line { depth, ..line });
                let branches = children[index].iter().rev();
                next.extend(branches.map(|child| (*child, depth + 1)));
            }
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use iotrace_model::latencies::Histogram;

    use super::{super::lines::About, *};

    fn line(pid: u32, ancestors: &[u32]) -> Line {
        let id = |pid| ProcessId { pid, start: 1 };
        Line {
            process: id(pid),
            about: Rc::new(About {
                ancestors: ancestors.iter().copied().map(id).collect(),
                ..About::default()
            }),
            path: None,
            by_phase: [].into(),
            fetched: None,
            latencies: Histogram::default(),
            depth: 0,
        }
    }

    fn ordered(lines: Vec<Line>) -> Vec<(u32, usize)> {
        let lines = order(lines).into_iter();
        lines.map(|line| (line.process.pid, line.depth)).collect()
    }

    #[test]
    fn children_are_under_their_nearest_ancestor_that_is_shown() {
        let lines = vec![
            line(30, &[90]),        // an orphan
            line(13, &[11, 10, 1]), // the first line of 10's tree
            line(12, &[99, 10, 1]), // its parent has ended, its grandparent has not
            line(10, &[1]),
            line(11, &[10, 1]),
        ];
        let expected = [(30, 0), (10, 0), (11, 1), (13, 2), (12, 1)];
        assert_eq!(ordered(lines), expected);
    }

    #[test]
    fn no_line_is_lost_in_a_circle() {
        let circle = vec![line(1, &[2]), line(2, &[3]), line(3, &[1]), line(4, &[3])];
        let mut pids: Vec<u32> = ordered(circle).iter().map(|(pid, _)| *pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [1, 2, 3, 4]);
    }
}
