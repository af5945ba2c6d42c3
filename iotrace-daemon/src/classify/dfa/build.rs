//! Builds the table of a rule set: machines of small units, joined two by two.

use super::{
    MAX_STATES, MAX_TRANSITIONS, Table, TooLarge, Verdict, machine::Machine, unit::of_rule,
};
use crate::classify::{
    phase::Direction,
    rules::{MAX_RULES, Rule},
};

/// Builds the table of `rules`.
pub fn build(rules: &[Rule]) -> Result<Table, TooLarge> {
    if rules.len() > MAX_RULES {
        return Err(TooLarge::Rules(rules.len()));
    }
    let fs_types = fs_types(rules);
    let mut machines = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let is_on: Vec<bool> = fs_types.iter().map(|name| rule.is_on(name)).collect();
        let units = of_rule(rule).ok_or_else(|| TooLarge::Rule(rule.name.clone()))?;
        let verdict = verdict_of(number as u16, rule);
        machines.extend(
            units
                .iter()
                .map(|unit| Machine::of_unit(unit, verdict, &is_on)),
        );
    }
    table(join(machines, fs_types.len())?, fs_types)
}

/// Every filesystem type that a rule names, behind the empty one, which stands for all others.
fn fs_types(rules: &[Rule]) -> Vec<String> {
    let named = rules.iter().flat_map(|rule| rule.fs_types.iter().cloned());
    let mut fs_types: Vec<String> = std::iter::once(String::new()).chain(named).collect();
    fs_types.sort_unstable();
    fs_types.dedup();
    fs_types
}

fn verdict_of(number: u16, rule: &Rule) -> Verdict {
    Verdict::new(Direction::ALL.map(|direction| {
        rule.directions[direction.index()].then(|| (number, rule.phase.used(direction)))
    }))
}

/// Joins neighbours until one machine is left, so that most joins are of small ones.
fn join(mut machines: Vec<Machine>, fs_types: usize) -> Result<Machine, TooLarge> {
    while machines.len() > 1 {
        machines = machines
            .chunks(2)
            .map(|pair| match pair {
                [a, b] => a.join(b),
                _ => Ok(pair[0].clone()),
            })
            .collect::<Result<_, _>>()?;
    }
    let silent = Machine::silent(fs_types);
    match machines.pop() {
        Some(machine) => machine.join(&silent),
        None => Ok(silent),
    }
}

fn table(machine: Machine, fs_types: Vec<String>) -> Result<Table, TooLarge> {
    let (states, transitions) = (machine.states.len(), machine.next.len());
    if states > MAX_STATES || transitions > MAX_TRANSITIONS {
        return Err(TooLarge::Table {
            states,
            transitions,
        });
    }
    let entry = |state: &u32| {
        let speaks = machine.states[*state as usize].sure != Verdict::NONE;
        (*state as u16) << 1 | u16::from(speaks)
    };
    let starts = machine.starts.iter().map(|state| *state as u16);
    Ok(Table {
        classes: machine.classes,
        stride: machine.stride as u32,
        next: machine.next.iter().map(entry).collect(),
        starts: fs_types.into_iter().zip(starts).skip(1).collect(),
        states: machine.states,
    })
}
