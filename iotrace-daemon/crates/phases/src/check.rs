//! Rules that can never win, decided on their automata: every path that one matches has an earlier rule.

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::{
    dfa::{Table, TooLarge, Unit, Verdict, build, of_rule},
    phase::Direction,
    rules::Rule,
};

/// A rule that never wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Its place.
    pub rule: usize,
    /// The places of the rules that win instead.
    pub by: Vec<usize>,
}

/// The rules of `rules` that never win.
pub fn unreachable(rules: &[Rule]) -> Result<Vec<Unreachable>, TooLarge> {
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate().skip(1) {
        let earlier = build(&rules[..index])?;
        let units = of_rule(rule).ok_or_else(|| TooLarge::Rule(rule.name.clone()))?;
        let mut by = BTreeSet::new();
        let wins = units.iter().any(|unit| {
            let mut search = Search {
                rule,
                unit,
                earlier: &earlier,
                by: &mut by,
            };
            search.wins()
        });
        if !wins {
            found.push(Unreachable {
                rule: index,
                by: by.into_iter().collect(),
            });
        }
    }
    Ok(found)
}

/// Looks for a path that `unit` of `rule` matches and no earlier rule does.
struct Search<'a> {
    rule: &'a Rule,
    unit: &'a Unit,
    earlier: &'a Table,
    /// The rules that won.
    by: &'a mut BTreeSet<usize>,
}

/// Behind some bytes: the states of both, and for each direction whether `rule` can still win.
type Node = (u32, u16, [bool; 2]);

impl Search<'_> {
    fn wins(&mut self) -> bool {
        let bases = self.bases();
        bases.into_iter().any(|base| self.wins_on(base))
    }

    /// Whether it wins on the filesystems of a kind.
    fn wins_on(&mut self, base: u16) -> bool {
        let mut seen: HashSet<Node> = HashSet::new();
        let mut queue = VecDeque::new();
        let sure = self.earlier.said(base, 0).sure;
        let open = self.still_open(self.rule.directions, sure);
        queue.extend(open.map(|open| (self.unit.start, 0, open)));
        while let Some((unit, state, open)) = queue.pop_front() {
            if self.unit.accepts[unit as usize] {
                let last = self.earlier.said(base, state).last;
                if self.still_open(open, last).is_some() {
                    return true;
                }
            }
            for byte in 0..=u8::MAX {
                queue.extend(
                    self.step(base, (unit, state, open), byte)
                        .filter(|node| seen.insert(*node)),
                );
            }
        }
        false
    }

    /// Where no filesystem is named, one that no rule names has the fewest earlier rules.
    fn bases(&self) -> BTreeSet<u16> {
        match self.rule.fs_types.as_slice() {
            [] => BTreeSet::from([self.earlier.base("")]),
            names => names.iter().map(|name| self.earlier.base(name)).collect(),
        }
    }

    fn step(&mut self, base: u16, (unit, state, open): Node, byte: u8) -> Option<Node> {
        let unit = self.unit.step(unit, byte);
        if self.unit.dead == Some(unit) {
            return None;
        }
        let (state, speaks) = self.earlier.step(state, byte);
        if !speaks {
            return Some((unit, state, open));
        }
        let sure = self.earlier.said(base, state).sure;
        self.still_open(open, sure).map(|open| (unit, state, open))
    }

    /// The directions of `open` that `verdict` leaves, if any.
    fn still_open(&mut self, open: [bool; 2], verdict: Verdict) -> Option<[bool; 2]> {
        let left = Direction::ALL.map(|direction| {
            let winner = verdict.rule(direction);
            if open[direction.index()] {
                self.by.extend(winner);
            }
            open[direction.index()] && winner.is_none()
        });
        left.contains(&true).then_some(left)
    }
}
