//! What main threads waited for, of the units that the configuration names.

use std::collections::HashMap;

use iotrace_analysis::{
    waits::{Spent, name},
    workers::Workers,
};
use iotrace_model::{
    Model,
    counters::{saturating_add, saturating_sum},
    groups::Groups,
    input::ProcessId,
    waits::{Leaf, Waited},
};
use iotrace_phases::phase::Phase;

use super::Intake;
use crate::{
    metrics::out::phase_name,
    totals::{Totals, UnitId},
};

impl Intake {
    /// Whether waits of a process are kept.
    pub fn keeps_waits(&self, process: ProcessId, totals: &Totals) -> bool {
        let unit = self.processes.known_unit(process);
        let unit = unit.and_then(|unit| totals.units().get(unit));
        unit.is_some_and(|unit| self.waits.has(unit))
    }

    /// Takes what main threads waited for: of programs, as reports judge runs by them, and not of workers. What launchers
    /// wait for is what their programs do.
    pub fn take_waits(&mut self, waited: &[Waited], model: &Model, totals: &mut Totals) {
        let mut spent: HashMap<ProcessId, Spent> = HashMap::new();
        for one in waited {
            let of_process = spent.entry(one.process).or_default();
            of_process.add(one.leaf, one.ns);
        }
        if waited.is_empty() {
            return;
        }
        let groups = Groups::new(model);
        let workers = Workers::new(model, &groups);
        let is_judged = |process: ProcessId| {
            let is_launcher = spent.get(&process).is_some_and(Spent::is_launcher);
            let is_first = |index| groups.of(index) == index && !groups.is_launcher(index);
            !is_launcher && model.process_index(process).is_none_or(is_first)
        };
        let mut by_unit: HashMap<UnitId, Vec<&Waited>> = HashMap::new();
        for one in waited {
            let Some(unit) = self.processes.known_unit(one.process) else {
                continue;
            };
            if let Some(jobs) = &mut self.jobs {
                let of_unit = |by: &ProcessId| self.processes.known_unit(*by) == Some(unit);
                let by = one.by.filter(of_unit);
                jobs.waited(unit, Waited { by, ..*one });
            }
            if is_judged(one.process) && !one.leaf.is_of_others() {
                by_unit.entry(unit).or_default().push(one);
            }
        }
        for (unit, waited) in by_unit {
            totals.set_beside(unit, |beside| {
                let all = saturating_sum(waited.iter().map(|one| one.ns));
                saturating_add(beside.main_threads.get_or_insert(0), all);
                for one in waited.iter().filter(|one| one.leaf != Leaf::Running) {
                    let phase = match one.leaf {
                        Leaf::Storage => phase_name(Phase::from_code(one.phase)),
                        _ => "",
                    };
                    let by = one.by.and_then(|by| model.process_index(by));
                    let process = model.process_index(one.process);
                    let leaf =
                        process.map_or(one.leaf, |process| workers.reported(process, one.leaf, by));
                    let sum = beside.waits.entry((name(leaf), phase)).or_default();
                    saturating_add(sum, one.ns);
                }
            });
        }
    }
}
