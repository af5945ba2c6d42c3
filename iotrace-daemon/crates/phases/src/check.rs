//! Rules that can never win, decided on their automata: every path that one matches has an earlier rule.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use super::{
    dfa::{CpuTime, Table, TooLarge, Unit, Verdict, build, of_rule},
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
    let table = build(rules)?;
    let time = CpuTime::start();
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate().skip(1) {
        let mut by = BTreeSet::new();
        let mut wins = false;
        for unit in &of_rule(rule, &time)? {
            let mut search = Search {
                place: index,
                rule,
                unit,
                bytes: distinct_bytes(unit, &table),
                table: &table,
                by: &mut by,
                time: &time,
            };
            wins = wins || search.wins()?;
        }
        if !wins {
            found.push(Unreachable {
                rule: index,
                by: by.into_iter().collect(),
            });
        }
    }
    Ok(found)
}

/// One byte of each class that the unit and the table both tell apart.
fn distinct_bytes(unit: &Unit, table: &Table) -> Vec<u8> {
    let class = |byte: u8| {
        let byte = usize::from(byte);
        (unit.classes[byte], table.classes()[byte])
    };
    let classes: BTreeMap<_, u8> = (0..=u8::MAX).map(|byte| (class(byte), byte)).collect();
    classes.into_values().collect()
}

/// Searches for a path that `unit` of `rule` matches and no earlier rule does. The table of all rules says so: it says the first
/// rule that matches, and that is an earlier one where there is one.
struct Search<'a> {
    place: usize,
    rule: &'a Rule,
    unit: &'a Unit,
    bytes: Vec<u8>,
    table: &'a Table,
    /// The rules that won.
    by: &'a mut BTreeSet<usize>,
    time: &'a CpuTime,
}

/// Nodes between two looks at the time.
const NODES_PER_CHECK: usize = 1_000;
/// Most nodes of one search, which stand in memory.
const MAX_NODES: usize = 4_000_000;

/// After some bytes: the states of both, and for each direction whether `rule` can still win.
type Node = (u32, u16, [bool; 2]);

impl Search<'_> {
    fn wins(&mut self) -> Result<bool, TooLarge> {
        for base in self.bases() {
            if self.wins_on(base)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether it wins on the filesystems of a kind.
    fn wins_on(&mut self, base: u16) -> Result<bool, TooLarge> {
        let mut seen: HashSet<Node> = HashSet::new();
        let mut queue = VecDeque::new();
        let mut count = 0;
        let sure = self.table.said(base, 0).sure;
        let open = self.still_open(self.rule.directions, sure);
        queue.extend(open.map(|open| (self.unit.start, 0, open)));
        while let Some((unit, state, open)) = queue.pop_front() {
            if self.unit.accepts[unit as usize] {
                let last = self.table.said(base, state).last;
                if self.still_open(open, last).is_some() {
                    return Ok(true);
                }
            }
            for byte in self.bytes.clone() {
                queue.extend(
                    self.step(base, (unit, state, open), byte)
                        .filter(|node| seen.insert(*node)),
                );
            }
            count += 1;
            if count % NODES_PER_CHECK == 0 {
                self.time.check()?;
            }
            if seen.len() > MAX_NODES {
                return Err(TooLarge::Time);
            }
        }
        Ok(false)
    }

    /// Where no filesystem is named, one that no rule names has the fewest earlier rules.
    fn bases(&self) -> BTreeSet<u16> {
        match self.rule.fs_types.as_slice() {
            [] => BTreeSet::from([self.table.base("")]),
            names => names.iter().map(|name| self.table.base(name)).collect(),
        }
    }

    fn step(&mut self, base: u16, (unit, state, open): Node, byte: u8) -> Option<Node> {
        let unit = self.unit.step(unit, byte);
        if self.unit.dead == Some(unit) {
            return None;
        }
        let (state, speaks) = self.table.step(state, byte);
        if !speaks {
            return Some((unit, state, open));
        }
        let sure = self.table.said(base, state).sure;
        self.still_open(open, sure).map(|open| (unit, state, open))
    }

    /// The directions of `open` that `verdict` leaves, if any.
    fn still_open(&mut self, open: [bool; 2], verdict: Verdict) -> Option<[bool; 2]> {
        let left = Direction::ALL.map(|direction| {
            let winner = verdict.rule(direction).filter(|rule| *rule < self.place);
            if open[direction.index()] {
                self.by.extend(winner);
            }
            open[direction.index()] && winner.is_none()
        });
        left.contains(&true).then_some(left)
    }
}
