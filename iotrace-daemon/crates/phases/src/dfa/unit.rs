//! Small automata, of globs of one form each: what the table is the product of.

use std::collections::{BTreeMap, HashMap};

use regex_automata::{
    Anchored, Input, MatchKind,
    dfa::{Automaton, StartKind, dense},
    nfa::thompson,
    util::{primitives::StateID, syntax},
};

use super::{CpuTime, TooLarge, minimize::minimize};
use crate::{
    glob::{Form, Glob},
    rules::Rule,
};

/// Largest automaton of one unit while it is built, bytes; of the sets of states that it is made from, which bound the time;
/// and of what those are states of. The largest of the built-in rules have a hundredth.
const MAX_DFA_BYTES: usize = 16 << 20;
const MAX_SET_BYTES: usize = 4 << 20;
const MAX_NFA_BYTES: usize = 8 << 20;

/// A byte that hardly any glob asks for.
const ORDINARY_BYTE: u8 = 1;

/// A small minimal automaton over reversed paths.
#[derive(Clone, Debug)]
pub struct Unit {
    pub classes: [u8; 256],
    pub stride: usize,
    pub next: Vec<u32>,
    pub accepts: Vec<bool>,
    pub start: u32,
    /// The state that nothing is accepted from any more.
    pub dead: Option<u32>,
    /// The state that everything is accepted from.
    pub sure: Option<u32>,
    /// Where to go on once it was sure, within a component and after one.
    rest: [Option<u32>; 2],
}

impl Unit {
    /// The state after `byte`.
    pub fn step(&self, state: u32, byte: u8) -> u32 {
        let class = usize::from(self.classes[usize::from(byte)]);
        self.next[state as usize * self.stride + class]
    }

    /// Where to go on once `byte` made it sure, if anywhere. Since it said then what it has to say, anything is right;
    /// this is where it would be had it not matched, so that states of the product are alike.
    pub fn rest(&self, byte: u8) -> Option<u32> {
        self.rest[usize::from(byte == b'/')].filter(|state| self.sure != Some(*state))
    }

    /// Whether `path` is matched.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let slash = is_directory.then_some(&b'/');
        let last = slash
            .into_iter()
            .chain(path.iter().rev())
            .fold(self.start, |state, byte| self.step(state, *byte));
        self.accepts[last as usize]
    }

    fn new(form: Form, cores: &[&str], ignore_case: bool) -> Option<Self> {
        let mut unit = Self::compile(&form.regex(cores), ignore_case)?;
        if !form.crosses {
            unit.rest[0] = Some(unit.step(unit.start, ORDINARY_BYTE));
            unit.rest[1] = form.beneath.then(|| unit.step(unit.start, b'/'));
        }
        Some(unit)
    }

    fn compile(regex: &str, ignore_case: bool) -> Option<Self> {
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(MAX_DFA_BYTES))
            .determinize_size_limit(Some(MAX_SET_BYTES));
        let syntax = syntax::Config::new()
            .unicode(false)
            .utf8(false)
            .dot_matches_new_line(true)
            .case_insensitive(ignore_case);
        let dfa = dense::Builder::new()
            .configure(config)
            .syntax(syntax)
            .thompson(
                thompson::Config::new()
                    .reverse(true)
                    .utf8(false)
                    .nfa_size_limit(Some(MAX_NFA_BYTES)),
            )
            .build(regex)
            .ok()?;
        let start = dfa
            .start_state_forward(&Input::new("").anchored(Anchored::Yes))
            .ok()?;
        Some(flatten(&dfa, start))
    }
}

/// Numbers the states in order of their distance from the start, and merges those that are equal.
fn flatten(dfa: &dense::DFA<Vec<u32>>, start: StateID) -> Unit {
    let mut classes = [0; 256];
    for byte in 0..=u8::MAX {
        classes[usize::from(byte)] = dfa.byte_classes().get(byte);
    }
    let stride = usize::from(classes.iter().copied().max().unwrap_or(0)) + 1;
    let mut first_byte = vec![0; stride];
    for byte in (0..=u8::MAX).rev() {
        first_byte[usize::from(classes[usize::from(byte)])] = byte;
    }
    let mut order = vec![start];
    let mut numbers = HashMap::from([(start, 0)]);
    let mut next = Vec::new();
    let mut at = 0;
    while at < order.len() {
        for byte in &first_byte {
            let to = dfa.next_state(order[at], *byte);
            let number = *numbers.entry(to).or_insert_with(|| {
                order.push(to);
                order.len() as u32 - 1
            });
            next.push(number);
        }
        at += 1;
    }
    let accepts: Vec<bool> = order
        .iter()
        .map(|state| dfa.is_match_state(dfa.next_eoi_state(*state)))
        .collect();
    merged(classes, stride, &next, &accepts)
}

fn merged(classes: [u8; 256], stride: usize, next: &[u32], accepts: &[bool]) -> Unit {
    let labels: Vec<u32> = accepts.iter().map(|accepts| u32::from(*accepts)).collect();
    let blocks = minimize(next, stride, &labels);
    let mut unit = Unit {
        classes,
        stride,
        next: blocks.next,
        accepts: blocks
            .first
            .iter()
            .map(|state| accepts[*state as usize])
            .collect(),
        start: blocks.of[0],
        dead: None,
        sure: None,
        rest: [None; 2],
    };
    for state in 0..unit.accepts.len() {
        let row = &unit.next[state * stride..][..stride];
        if row.iter().all(|to| *to as usize == state) {
            let place = if unit.accepts[state] {
                &mut unit.sure
            } else {
                &mut unit.dead
            };
            *place = Some(state as u32);
        }
    }
    unit
}

/// The automata of a rule. Globs of one form share one.
pub fn of_rule(rule: &Rule, time: &CpuTime) -> Result<Vec<Unit>, TooLarge> {
    let too_large = || TooLarge::Rule(rule.name.clone());
    let mut forms: BTreeMap<Form, Vec<&str>> = BTreeMap::new();
    let mut units = Vec::new();
    for glob in &rule.globs {
        if glob.form().crosses {
            time.check()?;
            units.push(of_glob(glob, rule.ignore_case).ok_or_else(too_large)?);
        } else {
            forms.entry(glob.form()).or_default().push(glob.core());
        }
    }
    for (form, cores) in forms {
        time.check()?;
        units.push(Unit::new(form, &cores, rule.ignore_case).ok_or_else(too_large)?);
    }
    Ok(units)
}

/// The automaton of one glob, or `None` where it grows too large.
pub fn of_glob(glob: &Glob, ignore_case: bool) -> Option<Unit> {
    Unit::new(glob.form(), &[glob.core()], ignore_case)
}
