//! Automata that say which rules match while they read a path backwards, and their products.

use hashbrown::HashMap;

use super::{TooLarge, Verdict, minimize::minimize, unit::Unit};

/// Most states of a product.
const MAX_UNMERGED: usize = 1 << 18;

/// States up to which equal ones are merged.
const MERGED: usize = 1_000;

/// What one state says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub states: Vec<State>,
    /// First states: by the filesystem types that all machines agree on.
    pub starts: Vec<u32>,
}

impl Machine {
    /// A machine that says nothing.
    pub fn silent(fs_types: usize) -> Self {
        Self {
            classes: [0; 256],
            stride: 1,
            next: vec![0],
            states: vec![State::SILENT],
            starts: vec![0; fs_types],
        }
    }

    /// A machine that says `verdict` where `unit` matches, on the filesystem types that `is_on` tells.
    ///
    /// Where the unit is sure, the machine says so once, and goes on from where the unit rests.
    pub fn of_unit(unit: &Unit, verdict: Verdict, is_on: &[bool]) -> Self {
        let silent = unit.accepts.len() as u32;
        let mut machine = Self {
            classes: unit.classes,
            stride: unit.stride,
            next: unit.next.clone(),
            states: unit
                .accepts
                .iter()
                .map(|accepts| State {
                    sure: Verdict::NONE,
                    last: if *accepts { verdict } else { Verdict::NONE },
                })
                .collect(),
            starts: Vec::new(),
        };
        machine.next.extend(vec![silent; unit.stride]);
        machine.states.push(State::SILENT);
        let start = match unit.sure {
            Some(sure) => {
                // Behind a slash and within a component.
                let said = [b'/', b'a']
                    .map(|byte| machine.say(unit.rest(byte).unwrap_or(silent), verdict));
                let slash = usize::from(unit.classes[usize::from(b'/')]);
                for (index, to) in machine.next.iter_mut().enumerate() {
                    if *to == sure {
                        *to = said[usize::from(index % unit.stride != slash)];
                    }
                }
                if unit.start == sure {
                    said[0]
                } else {
                    unit.start
                }
            }
            None => unit.start,
        };
        machine.starts = is_on
            .iter()
            .map(|is_on| if *is_on { start } else { silent })
            .collect();
        machine
    }

    /// Adds a state that is `verdict` for sure and goes on as `like`.
    fn say(&mut self, like: u32, verdict: Verdict) -> u32 {
        let row = like as usize * self.stride;
        self.next.extend_from_within(row..row + self.stride);
        self.states.push(State {
            sure: verdict,
            last: verdict,
        });
        self.states.len() as u32 - 1
    }

    /// The machine that says what the two say.
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
        let starts = self.starts.iter().zip(&other.starts);
        let starts = starts.map(|(a, b)| intern(&mut order, (*a, *b))).collect();
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
            if order.len() > MAX_UNMERGED {
                return Err(TooLarge::Unmerged(MAX_UNMERGED));
            }
        }
        let said = |(a, b): &(u32, u32)| self.states[*a as usize].with(other.states[*b as usize]);
        let machine = Self {
            classes,
            stride: pairs.len(),
            next,
            states: order.iter().map(said).collect(),
            starts,
        };
        // Machines of small ones that are merged have hardly any equal states, and looking for them takes long.
        if machine.states.len() > MERGED {
            return Ok(machine);
        }
        Ok(machine.merged())
    }

    /// The same with equal states merged. The first start is state 0.
    fn merged(self) -> Self {
        let blocks = minimize(&self.next, self.stride, &self.labels());
        let starts = self.starts.iter();
        Self {
            next: blocks.next,
            states: blocks
                .first
                .iter()
                .map(|state| self.states[*state as usize])
                .collect(),
            starts: starts.map(|state| blocks.of[*state as usize]).collect(),
            ..self
        }
    }

    fn row(&self, state: u32) -> &[u32] {
        &self.next[state as usize * self.stride..][..self.stride]
    }

    /// Numbers that tell states apart by what they say.
    fn labels(&self) -> Vec<u32> {
        let mut known: HashMap<State, u32> = HashMap::new();
        let number = |state: &State| {
            let fresh = known.len() as u32;
            *known.entry(*state).or_insert(fresh)
        };
        self.states.iter().map(number).collect()
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
