//! Automata that say which rules match while they read a path backwards, and their products.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::{MAX_STATES, MAX_TRANSITIONS, TooLarge, Verdict, minimize::minimize, unit::Unit};

/// Maximum number of states of a machine whose equal states are merged.
const MAX_MERGED_STATES: usize = 1_000;

/// What one state says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// Of every path that comes through it.
    pub sure: Verdict,
    /// Of a path that ends in it; what it is sure of is in here too.
    pub last: Verdict,
}

impl State {
    const SILENT: Self = Self {
        sure: Verdict::NONE,
        last: Verdict::NONE,
    };

    /// The same on the kinds of filesystems that `is_on` tells, and nothing on the others.
    fn on(self, is_on: &[bool]) -> Box<[Self]> {
        let said = |is_on: &bool| if *is_on { self } else { Self::SILENT };
        is_on.iter().map(said).collect()
    }

    fn with(self, other: Self) -> Self {
        Self {
            sure: self.sure.first(other.sure),
            last: self.last.first(other.last),
        }
    }
}

/// An automaton whose states say something.
///
/// It forgets what it has said, or every pattern that can match anywhere in a path would double its states. Whoever
/// walks it remembers.
#[derive(Clone, Debug)]
pub struct Machine {
    pub classes: [u8; 256],
    pub stride: usize,
    pub next: Vec<u32>,
    /// By state: its place in `says`.
    pub labels: Vec<u32>,
    /// What states say, by the kinds of filesystems that all machines agree on. No two are equal.
    pub says: Vec<Box<[State]>>,
    pub start: u32,
}

impl Machine {
    /// A machine that says nothing.
    pub fn silent(kinds: usize) -> Self {
        Self {
            classes: [0; 256],
            stride: 1,
            next: vec![0],
            labels: vec![0],
            says: vec![vec![State::SILENT; kinds].into()],
            start: 0,
        }
    }

    /// A machine that says `verdict` where `unit` matches, on the kinds of filesystems that `is_on` tells.
    ///
    /// Where the unit is sure, the machine says so once, and goes on from where the unit rests.
    pub fn of_unit(unit: &Unit, verdict: Verdict, is_on: &[bool]) -> Self {
        let silent = unit.accepts.len() as u32;
        let mut machine = Self {
            classes: unit.classes,
            stride: unit.stride,
            next: unit.next.clone(),
            labels: unit.accepts.iter().map(|a| u32::from(*a)).collect(),
            says: [
                State::SILENT,
                State {
                    sure: Verdict::NONE,
                    last: verdict,
                },
                State {
                    sure: verdict,
                    last: verdict,
                },
            ]
            .map(|state| state.on(is_on))
            .into(),
            start: unit.start,
        };
        machine.next.extend(vec![silent; unit.stride]);
        machine.labels.push(0);
        if let Some(sure) = unit.sure {
            // After a slash and within a component.
            let said = [b'/', b'a'].map(|byte| machine.say(unit.rest(byte).unwrap_or(silent)));
            let slash = usize::from(unit.classes[usize::from(b'/')]);
            for (index, to) in machine.next.iter_mut().enumerate() {
                if *to == sure {
                    *to = said[usize::from(index % unit.stride != slash)];
                }
            }
            if unit.start == sure {
                machine.start = said[0];
            }
        }
        machine
    }

    /// Adds a state that is sure and goes on as `like`.
    fn say(&mut self, like: u32) -> u32 {
        let row = like as usize * self.stride;
        self.next.extend_from_within(row..row + self.stride);
        self.labels.push(2);
        self.labels.len() as u32 - 1
    }

    /// The machine that says what the two say. One that is too large ends the work: joined with others it only grows, since
    /// only small ones are merged.
    pub fn join(&self, other: &Self) -> Result<Self, TooLarge> {
        let (classes, pairs) = common_classes(self, other);
        let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
        let mut order = Vec::new();
        let mut intern = |order: &mut Vec<(u32, u32)>, pair| {
            *numbers.entry(pair).or_insert_with(|| {
                order.push(pair);
                order.len() as u32 - 1
            })
        };
        let start = intern(&mut order, (self.start, other.start));
        let mut next = Vec::new();
        let mut at = 0;
        while at < order.len() {
            let (a, b) = order[at];
            let rows = (self.row(a), other.row(b));
            for (class_a, class_b) in &pairs {
                let to = (rows.0[usize::from(*class_a)], rows.1[usize::from(*class_b)]);
                next.push(intern(&mut order, to));
            }
            at += 1;
            if order.len() > MAX_STATES || next.len() > MAX_TRANSITIONS {
                return Err(TooLarge::Table);
            }
        }
        let (labels, says) = self.labels_with(other, &order);
        let machine = Self {
            classes,
            stride: pairs.len(),
            next,
            labels,
            says,
            start,
        };
        // Machines of small ones that are merged have hardly any equal states, and looking for them takes long.
        if machine.labels.len() > MAX_MERGED_STATES {
            return Ok(machine);
        }
        Ok(machine.merged())
    }

    /// What the pairs of `order` say together: the label of each, and what labels say.
    fn labels_with(&self, other: &Self, order: &[(u32, u32)]) -> (Vec<u32>, Vec<Box<[State]>>) {
        let mut pairs: HashMap<(u32, u32), u32> = HashMap::new();
        let mut known: HashMap<Box<[State]>, u32> = HashMap::new();
        let mut says = Vec::new();
        let mut label = |pair: (u32, u32)| {
            let both = self.says[pair.0 as usize]
                .iter()
                .zip(&other.says[pair.1 as usize]);
            let said: Box<[State]> = both.map(|(a, b)| a.with(*b)).collect();
            *known.entry(said).or_insert_with_key(|said| {
                says.push(said.clone());
                says.len() as u32 - 1
            })
        };
        let mut label_of = |(a, b): &(u32, u32)| {
            let pair = (self.labels[*a as usize], other.labels[*b as usize]);
            *pairs.entry(pair).or_insert_with(|| label(pair))
        };
        let labels = order.iter().map(&mut label_of).collect();
        (labels, says)
    }

    /// The same with equal states merged. Where the start is state 0, it stays that.
    fn merged(self) -> Self {
        let blocks = minimize(&self.next, self.stride, &self.labels);
        let first = blocks.first.iter();
        Self {
            next: blocks.next,
            labels: first.map(|state| self.labels[*state as usize]).collect(),
            start: blocks.of[self.start as usize],
            ..self
        }
    }

    fn row(&self, state: u32) -> &[u32] {
        &self.next[state as usize * self.stride..][..self.stride]
    }
}

/// Classes of bytes that neither machine tells apart, and each as a pair of theirs.
fn common_classes(a: &Machine, b: &Machine) -> ([u8; 256], Vec<(u8, u8)>) {
    let mut classes = [0; 256];
    let mut pairs: Vec<(u8, u8)> = Vec::new();
    for (class, pair) in classes.iter_mut().zip(a.classes.into_iter().zip(b.classes)) {
        let known = pairs.iter().position(|known| *known == pair);
        *class = known.unwrap_or_else(|| {
            pairs.push(pair);
            pairs.len() - 1
        }) as u8;
    }
    (classes, pairs)
}
