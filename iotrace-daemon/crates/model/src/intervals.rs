//! The interval since the last flush and its steps, and those before it.

use super::{
    Model, Row,
    counters::Counters,
    history::{Bounds, Delta, Key},
    input::Place,
    steps::{Step, Steps},
};

impl Model {
    /// Rows that counted something since the last step or flush.
    pub fn dirty_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .dirty()
            .iter()
            .map(|index| &self.rows()[*index as usize])
    }

    /// The steps of the interval that have ended.
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Ends a step, which had these bounds. False: it goes on, because no time has passed, or because the steps since the last
    /// flush have too many rows already.
    pub fn end_step(&mut self, bounds: Bounds) -> bool {
        let ends = bounds.start < bounds.end && self.steps.has_room(self.rows.dirty().len());
        if ends {
            let step = Step::new(bounds, self.pending());
            self.steps.push(step);
            self.global_merged.step(bounds);
            self.settle_counts();
        }
        ends
    }

    /// Ends a step that a recording has.
    pub fn restore_step(&mut self, bounds: Bounds) {
        self.keep_pending(bounds);
        self.settle_counts();
    }

    /// Keeps what was counted since the last step, which had these bounds.
    fn keep_pending(&mut self, bounds: Bounds) {
        if let Some(mut history) = self.history.take() {
            history.push(bounds, self.pending());
            self.history = Some(history);
        }
    }

    /// Ends the interval, which had these bounds: what it held is settled, and the next one is empty.
    pub fn settle(&mut self, bounds: Bounds) {
        let steps = std::mem::take(&mut self.steps);
        let rest = steps.rest(bounds);
        if let Some(history) = &mut self.history {
            for step in steps.ended() {
                history.push(step.bounds, step.counts());
            }
        }
        self.keep_pending(rest);
        self.global_merged.settle(rest);
        self.computing.settle(bounds);
        self.waits.settle(bounds);
        self.timeline.settle();
        self.lines.settle();
        self.sources.settle();
        self.latencies.settle();
        self.settle_sums();
        self.block.settle();
        self.files.settle();
        self.settle_counts();
        for process in self.processes.all_mut() {
            process.phases.settle();
            process.changed = false;
        }
    }

    /// Settles what steps are of.
    fn settle_counts(&mut self) {
        self.rows.settle();
        for process in self.processes.all_mut() {
            process.path_only.settle();
            process.overflow.settle();
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

    /// Whose counters a key stands for: the index of the process, and where it counted.
    pub fn place_of(&self, key: Key) -> (u32, Place<u32>) {
        match key {
            Key::Row(index) => {
                let row = &self.rows()[index as usize];
                (row.process, Place::File(row.file))
            }
            Key::PathOnly(process) => (process, Place::PathOnly),
            Key::Overflow(process) => (process, Place::Overflow),
        }
    }

    /// Goes over the steps in order, those that are not settled yet included. Without a history the whole run, which had
    /// the bounds `run`, is one step.
    pub fn each_step(&self, run: Bounds, mut visit: impl FnMut(Bounds, Delta)) {
        let delta = |(key, counters)| {
            let (process, place) = self.place_of(key);
            let row = match key {
                Key::Row(index) => Some(index),
                Key::PathOnly(_) | Key::Overflow(_) => None,
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
        for step in self.steps.ended() {
            let counts = step.counts();
            counts.for_each(|count| visit(step.bounds, delta(count)));
        }
        let rest = self.steps.rest(Bounds {
            start: history.end().unwrap_or(run.start),
            end: run.end,
        });
        self.pending().for_each(|entry| visit(rest, delta(entry)));
    }

    /// What was counted since the last step or flush.
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
