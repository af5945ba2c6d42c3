//! A part of the files: all else that was counted leaves.

use super::{
    Model, computing::Computing, forget::Moved, global_merged::GlobalMerged, io_totals::IoTotals,
    latencies::Latencies, lines::Lines, moves::Moves, negative_lookups::NegativeLookups,
    phases::ByPhase, rows::Cell, sources::Sources, timeline::Timeline, waits::Waits,
};

impl Model {
    /// Leaves what was done to the files that are chosen, by their indices. All indices of processes and files stay, those
    /// of spans move, and are returned. What is of no one file leaves: calls by path and overflow, negative look-ups,
    /// CPU time, waits, lines, latencies, marked ranges and merged time over all processes. The interval must be settled.
    pub fn select(&mut self, is_chosen: impl Fn(u32) -> bool) -> Moved {
        let processes = Moved::in_place(self.processes.all().iter().map(|_| true));
        let files = Moved::in_place((0..self.files.count() as u32).map(is_chosen));
        let is_kept = |file: u32| files.get(file).is_some();
        let rows = Moved::new(self.rows.all().iter().map(|row| is_kept(row.file)));
        let spans = self.spans.iter().flat_map(|spans| spans.all());
        let moved_spans = Moved::new(spans.map(|span| is_kept(span.file)));
        if let Some(history) = &mut self.history {
            history.select_rows(&rows);
        }
        if let Some(spans) = &mut self.spans {
            spans.forget(&processes, &files);
        }
        self.rows.forget(&processes, &files);
        self.failures.select_files(is_kept);
        self.libraries.select_files(is_kept);
        self.block.select_files(is_kept);
        for process in self.processes.all_mut() {
            process.path_only = Cell::default();
            process.overflow = Cell::default();
            process.phases = ByPhase::default();
        }
        self.negative_lookups = NegativeLookups::default();
        self.global_merged = GlobalMerged::default();
        self.computing = Computing::default();
        self.waits = Waits::default();
        self.timeline = Timeline::default();
        self.lines = Lines::default();
        self.sources = Sources::default();
        self.latencies = Latencies::default();
        self.moves = Moves::default();
        // Of calls of sync and of syncs of directories, which name other files, nothing is known any more.
        self.lacks_syncs = true;
        self.io_totals = IoTotals::default();
        for row in self.rows.all() {
            self.io_totals.add(&IoTotals::of(&row.cell.total()));
        }
        moved_spans
    }
}

#[cfg(test)]
mod tests {
    use iotrace_common::{key::FileId, op};

    use crate::{
        Model,
        counters::{BYTES_READ, Counters, LAST_OPERATION, OPENS, READS},
        history::Bounds,
        input::{Place, ProcessId},
    };

    fn file(inode: u64) -> FileId {
        FileId {
            device: 1,
            generation: 0,
            inode,
        }
    }

    /// Two processes that read four files in each of two intervals, look for others that do not exist, and have an overflow.
    fn filled() -> Model {
        let mut model = Model::with_history();
        let count = |counters: &[(usize, u64)]| {
            let mut all = Counters::ZERO;
            for (index, value) in counters {
                all.v[*index] = *value;
            }
            all
        };
        for interval in 0..2_u64 {
            for pid in [1, 2] {
                let process = ProcessId { pid, start: 1 };
                for inode in 0..4 {
                    let bytes = (inode + 1) * 100;
                    let read = [(READS, 1), (BYTES_READ, bytes), (OPENS, 1)];
                    model.add(process, Place::File(file(inode)), &count(&read));
                    let last = (LAST_OPERATION, interval + 5);
                    model.add_span(process, file(inode), 1, &count(&[read[1], read[2], last]));
                    let place = Place::File(file(inode));
                    model.add_failures(process, place, op::READ as u32, 5, 1, 1);
                }
                model.add(process, Place::PathOnly, &count(&[(OPENS, 7)]));
                model.add(process, Place::Overflow, &count(&[(READS, 9)]));
                model.add_failures(process, Place::PathOnly, op::STAT as u32, 2, 3, 1);
            }
            let bounds = Bounds {
                start: interval as i64,
                end: interval as i64 + 1,
            };
            model.settle(bounds);
        }
        model
    }

    /// Bytes read: of the rows, of the intervals, of the spans; and failed calls.
    fn sums(model: &Model) -> [u64; 4] {
        let run = Bounds { start: 0, end: 9 };
        let (mut of_intervals, mut failed) = (0, 0);
        model.each_step(run, |_, delta| {
            let row = &model.rows()[delta.row.expect("a file") as usize];
            assert_eq!(
                (Place::File(row.file), row.process),
                (delta.place, delta.process)
            );
            of_intervals += delta.counters.v[BYTES_READ];
        });
        model
            .failures()
            .all()
            .for_each(|(_, count)| failed += count.calls);
        let rows = model
            .rows()
            .iter()
            .map(|row| row.cell.total().v[BYTES_READ]);
        let spans = model.spans().expect("spans").all();
        let spans = spans.iter().map(|span| span.cell.total().v[BYTES_READ]);
        [rows.sum(), of_intervals, spans.sum(), failed]
    }

    #[test]
    fn both_parts_are_the_whole_of_what_is_of_files() {
        let (mut even, mut odd) = (filled(), filled());
        let moved = even.select(|file| file % 2 == 0);
        odd.select(|file| file % 2 != 0);
        // Two processes, two intervals, files of 100 and 300 bytes, and of 200 and 400.
        assert_eq!(sums(&even), [1600, 1600, 1600, 8]);
        assert_eq!(sums(&odd), [2400, 2400, 2400, 8]);
        assert_eq!(even.io_totals().bytes_read, 1600);
        assert_eq!(even.io_totals().operations, 16, "no overflow");
        // Files keep their indices, spans move.
        assert_eq!(even.file_count(), 4);
        let whole = filled();
        for (index, span) in (0..).zip(whole.spans().unwrap().all()) {
            let new = moved
                .get(index)
                .map(|new| &even.spans().unwrap().all()[new as usize]);
            let found = new.map(|new| (new.process, new.file));
            let is_chosen = span.file % 2 == 0;
            assert_eq!(found, is_chosen.then_some((span.process, span.file)));
        }
    }

    #[test]
    fn nothing_is_left_of_no_file() {
        let mut none = filled();
        none.select(|_| false);
        assert_eq!(sums(&none), [0; 4]);
        assert!(none.rows().is_empty() && none.io_totals().is_zero());
        assert_eq!(none.processes().len(), 2, "they keep their indices");
    }
}
