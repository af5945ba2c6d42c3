//! The operations of a recording's trace, each with what the model knows of its process and file.

use hashbrown::HashMap;
use iotrace_common::{key::FileId, op};

use super::Export;
use iotrace_model::{Row, counters::saturating_add, input::ProcessId};
use iotrace_phases::{phase::Phase, used::Used};
use iotrace_recording::{
    Error,
    trace::{self, Trace},
};

/// One operation of a selected process.
pub struct Operation<'a> {
    /// The process's place among [`Export::processes`].
    pub place: usize,
    /// The process on the file, where the recording has it.
    pub row: Option<&'a Row>,
    /// As it was traced.
    pub traced: &'a trace::Row,
    /// What the process used the file for, as its counters are sorted.
    pub phase: Option<Phase>,
    /// Nanoseconds since the start of the run.
    pub start: i64,
}

/// What traces say of what is not in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Operations of the selected processes, on whatever file, that were lost, or left out since the trace had reached its size.
    pub operations: u64,
    /// Whether a filter chose what was traced.
    pub filtered: bool,
}

/// Rows of the model by process and file.
struct Index<'a> {
    places: HashMap<(u32, ProcessId), usize>,
    rows: HashMap<(usize, FileId), &'a Row>,
    /// The same by inode, where that is enough: a shared file has the device of the node that was read first.
    by_inode: HashMap<(usize, u64), Option<&'a Row>>,
}

impl<'a> Index<'a> {
    fn new(export: &Export<'a>) -> Self {
        let processes = export.processes().enumerate();
        let mut index = Self {
            places: processes
                .map(|(place, process)| ((process.node, process.id), place))
                .collect(),
            rows: HashMap::new(),
            by_inode: HashMap::new(),
        };
        let places = export.places();
        for row in export.model.rows() {
            let Some(place) = places[row.process as usize] else {
                continue;
            };
            let id = export.model.file(row.file).id;
            index.rows.insert((place, id), row);
            if export.nodes.len() > 1 {
                let known = index.by_inode.entry((place, id.inode));
                known.and_modify(|row| *row = None).or_insert(Some(row));
            }
        }
        index
    }

    fn row(&self, place: usize, file: FileId) -> Option<&'a Row> {
        let same = self.rows.get(&(place, file)).copied();
        same.or_else(|| self.by_inode.get(&(place, file.inode)).copied().flatten())
    }
}

impl Export<'_> {
    /// Visits the selected operations of the traces: node by node, in the order of their starts. None where no recording
    /// has a trace.
    pub fn each_operation(
        &self,
        mut visit: impl FnMut(Operation<'_>),
    ) -> Result<Option<Missing>, Error> {
        let mut missing: Option<Missing> = None;
        let mut index = None;
        for (node, about) in (0..).zip(self.nodes) {
            let Some(trace) = Trace::open(&about.directory)? else {
                continue;
            };
            let index = index.get_or_insert_with(|| Index::new(self));
            let place = |pid, start| {
                let process = ProcessId { pid, start };
                index.places.get(&(node, process)).copied()
            };
            let missing = missing.get_or_insert_default();
            missing.filtered |= !trace.about.filter.is_empty();
            for of_process in &trace.about.missing {
                if place(of_process.pid, of_process.start_key).is_some() {
                    saturating_add(&mut missing.operations, of_process.lost);
                    saturating_add(&mut missing.operations, of_process.left_out);
                }
            }
            for traced in trace.rows() {
                let traced = traced?;
                let Some(place) = place(traced.pid, traced.start_key) else {
                    continue;
                };
                let file = trace.file(&traced);
                let row = file.and_then(|file| index.row(place, file));
                if self.is_by_file() && row.is_none() {
                    continue;
                }
                let phase = row.and_then(|row| self.phase_of(row, &traced));
                if !self.is_by_phase() || phase.is_some_and(|phase| self.has_phase(phase)) {
                    visit(Operation {
                        place,
                        row,
                        phase,
                        traced: &traced,
                        start: self.since_start(traced.start),
                    });
                }
            }
        }
        Ok(missing)
    }

    /// The phase of an operation, as that of its counters.
    fn phase_of(&self, row: &Row, traced: &trace::Row) -> Option<Phase> {
        let sorted = self.sorted(row.file);
        let used = Used::new(&row.cell.total(), sorted);
        let mut phases = used.phases(sorted).map(|(phase, _)| phase);
        let (main, reads) = (phases.next(), phases.next());
        if op::is_read(traced.op as usize) {
            reads.or(main)
        } else {
            main
        }
    }
}
