//! Builds the table of a rule set: machines of small units, joined two by two.

use std::collections::BTreeSet;

use super::{CpuTime, MAX_SAYS, Table, TooLarge, Verdict, machine::Machine, unit::of_rule};
use crate::{
    phase::Direction,
    rules::{MAX_RULES, Rule},
};

/// Builds the table of `rules`, which may come from anyone.
pub fn build(rules: &[Rule]) -> Result<Table, TooLarge> {
    build_within(rules, &CpuTime::start())
}

/// Builds the table of `rules` within this time.
pub fn build_within(rules: &[Rule], time: &CpuTime) -> Result<Table, TooLarge> {
    if rules.len() > MAX_RULES {
        return Err(TooLarge::Rules(rules.len()));
    }
    let kinds = Kinds::new(rules);
    let mut machines = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let is_on = kinds.examples.iter().map(|name| rule.is_on(name));
        let is_on: Vec<bool> = is_on.collect();
        let units = of_rule(rule, time)?;
        let verdict = verdict_of(number as u16, rule);
        machines.extend(
            units
                .iter()
                .map(|unit| Machine::of_unit(unit, verdict, &is_on)),
        );
    }
    table(join(machines, kinds.examples.len(), time)?, kinds)
}

/// Kinds of filesystems: those that the same rules are for.
struct Kinds {
    /// A type of each kind; the first is the empty one, which represents all types that no rule names.
    examples: Vec<String>,
    /// Types that rules name, with their kind.
    named: Vec<(String, usize)>,
}

impl Kinds {
    fn new(rules: &[Rule]) -> Self {
        let on = |name: &str| -> Vec<bool> { rules.iter().map(|rule| rule.is_on(name)).collect() };
        let mut known = vec![on("")];
        let mut kinds = Self {
            examples: vec![String::new()],
            named: Vec::new(),
        };
        let names: BTreeSet<&String> = rules.iter().flat_map(|rule| &rule.fs_types).collect();
        for name in names {
            let own = on(name);
            let kind = known.iter().position(|known| *known == own);
            let kind = kind.unwrap_or_else(|| {
                known.push(own);
                kinds.examples.push(name.clone());
                known.len() - 1
            });
            kinds.named.push((name.clone(), kind));
        }
        kinds
    }
}

fn verdict_of(number: u16, rule: &Rule) -> Verdict {
    Verdict::new(Direction::ALL.map(|direction| {
        rule.directions[direction.index()].then(|| (number, rule.phase.used(direction)))
    }))
}

/// Joins neighbours until one machine is left, so that most joins are of small ones.
fn join(mut machines: Vec<Machine>, kinds: usize, time: &CpuTime) -> Result<Machine, TooLarge> {
    while machines.len() > 1 {
        machines = machines
            .chunks(2)
            .map(|pair| match pair {
                [a, b] => time.check().and_then(|()| a.join(b)),
                _ => Ok(pair[0].clone()),
            })
            .collect::<Result<_, _>>()?;
    }
    let silent = Machine::silent(kinds);
    match machines.pop() {
        Some(machine) => machine.join(&silent),
        None => Ok(silent),
    }
}

fn table(machine: Machine, kinds: Kinds) -> Result<Table, TooLarge> {
    let labels = machine.says.len();
    let count = kinds.examples.len();
    if labels * count > MAX_SAYS {
        return Err(TooLarge::Says {
            labels,
            kinds: count,
        });
    }
    let speaks: Vec<bool> = machine
        .says
        .iter()
        .map(|said| said.iter().any(|state| state.sure != Verdict::NONE))
        .collect();
    let entry = |state: &u32| {
        let speaks = speaks[machine.labels[*state as usize] as usize];
        (*state as u16) << 1 | u16::from(speaks)
    };
    let says = (0..count).flat_map(|kind| machine.says.iter().map(move |said| said[kind]));
    let bases = kinds.named.into_iter();
    let bases = bases.map(|(name, kind)| (name, (kind * labels) as u16));
    Ok(Table {
        classes: machine.classes,
        stride: machine.stride as u32,
        next: machine.next.iter().map(entry).collect(),
        says: says.collect(),
        bases: bases.collect(),
        labels: machine.labels.iter().map(|label| *label as u16).collect(),
    })
}
