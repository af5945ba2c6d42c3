//! The interval since the last flush, and those before it.

use super::{
    Model, Row,
    counters::Counters,
    history::{Bounds, Delta, Key},
    input::Place,
};

impl Model {
    /// Rows that counted something since the last flush.
    pub fn dirty_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .dirty()
            .iter()
            .map(|index| &self.rows()[*index as usize])
    }

    /// Ends the interval, which had these bounds: what it held is settled, and the next one is empty.
    pub fn settle(&mut self, bounds: Bounds) {
        if let Some(mut history) = self.history.take() {
            history.push(bounds, self.pending());
            self.history = Some(history);
        }
        self.global_merged.settle(bounds);
        self.computing.settle(bounds);
        self.waits.settle(bounds);
        self.timeline.settle();
        self.lines.settle();
        self.latencies.settle();
        self.settle_sums();
        self.block.settle();
        self.files.settle();
        for process in self.processes.all_mut() {
            process.path_only.settle();
            process.overflow.settle();
            process.phases.settle();
            process.changed = false;
        }
    }

    /// Settles what models of several nodes have together.
    pub(super) fn settle_sums(&mut self) {
        self.rows.settle();
        if let Some(spans) = &mut self.spans {
            spans.settle();
        }
        self.failures.settle();
        self.negative_lookups.settle();
        self.libraries.settle();
    }

    /// Goes over the intervals in order, the one that is not settled yet included. Without a history the whole run,
    /// which had the bounds `run`, is one interval.
    pub fn each_interval(&self, run: Bounds, mut visit: impl FnMut(Bounds, Delta)) {
        let delta = |(key, counters)| {
            let (process, place, row) = match key {
                Key::Row(index) => {
                    let row = &self.rows()[index as usize];
                    (row.process, Place::File(row.file), Some(index))
                }
                Key::PathOnly(process) => (process, Place::PathOnly, None),
                Key::Overflow(process) => (process, Place::Overflow, None),
            };
            Delta {
                process,
                place,
                row,
                counters,
            }
        };
        let Some(history) = &self.history else {
            self.totals().for_each(|total| visit(run, delta(total)));
            return;
        };
        for (bounds, deltas) in history.intervals() {
            deltas.for_each(|entry| visit(bounds, delta(entry)));
        }
        let rest = Bounds {
            start: history.end().unwrap_or(run.start),
            end: run.end,
        };
        self.pending().for_each(|entry| visit(rest, delta(entry)));
    }

    /// What was counted since the last flush.
    fn pending(&self) -> impl Iterator<Item = (Key, Counters)> {
        let rows = self.rows.dirty().iter().map(|index| {
            (
                Key::Row(*index),
                self.rows()[*index as usize].cell.interval(),
            )
        });
        let others = self
            .processes()
            .iter()
            .enumerate()
            .flat_map(|(index, process)| {
                let cells = [
                    (Key::PathOnly(index as u32), &process.path_only),
                    (Key::Overflow(index as u32), &process.overflow),
                ];
                cells.map(|(key, cell)| (key, cell.interval()))
            });
        rows.chain(others.filter(|(_, counters)| !counters.is_zero()))
    }

    /// Everything counted.
    fn totals(&self) -> impl Iterator<Item = (Key, Counters)> {
        let rows = self.rows().iter().enumerate();
        let rows = rows.map(|(index, row)| (Key::Row(index as u32), row.cell.total()));
        let others = self
            .processes()
            .iter()
            .enumerate()
            .flat_map(|(index, process)| {
                [
                    (Key::PathOnly(index as u32), process.path_only.total()),
                    (Key::Overflow(index as u32), process.overflow.total()),
                ]
            });
        rows.chain(others.filter(|(_, counters)| !counters.is_zero()))
    }

    /// Files whose name or state changed since the last flush.
    pub fn changed_files(&self) -> &[u32] {
        self.files.changed()
    }
}
