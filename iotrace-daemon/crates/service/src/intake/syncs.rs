//! What tells whether saves were synced, and is of none of their files.

use iotrace_model::{Model, input::Place};

use super::Intake;

impl Intake {
    /// Takes the syncs of the interval, of units with files whose counts wait; comes after these.
    pub(super) fn take_syncs(&mut self, model: &Model) {
        let rows = model.dirty_rows().map(|row| {
            let file = Place::File(model.file(row.file).id);
            (row.process, file, &row.cell)
        });
        let others = (0..).zip(model.processes()).flat_map(|(index, process)| {
            let places = [
                (Place::PathOnly, &process.path_only),
                (Place::Overflow, &process.overflow),
            ];
            let unsettled = places.into_iter().filter(|(_, cell)| !cell.is_settled());
            unsettled.map(move |(place, cell)| (index, place, cell))
        });
        for (index, place, cell) in rows.chain(others) {
            let process = model.processes()[index as usize].id;
            let unit = self.processes.known_unit(process);
            if let Some(unit) = unit.filter(|unit| self.undecided.has_unit(*unit)) {
                let interval = cell.interval();
                self.undecided.take_syncs(unit, process, place, &interval);
            }
        }
    }
}
