//! Exports: what a recording holds, in the formats of other tools.
//!
//! ```text
//! recordings -> job -> Part (which files) -> Export (what is selected, by which names) -> table (CSV, JSON) | darshan | chrome |
//!     tensorboard
//! ```
//!
//! Every number is the recording's own. [`Selection`] and [`Names`] are applied here, once for all formats.
//! `docs/guide/exports.md` describes what comes out.

pub mod chrome;
mod columns;
pub mod darshan;
mod names;
mod operations;
mod selection;
pub mod table;
pub mod tensorboard;

use std::{borrow::Cow, collections::BTreeMap};

pub use names::Names;
pub use selection::Selection;

use iotrace_analysis::phases::split;
use iotrace_analysis::{Analysis, part::Part, series::Flow};
use iotrace_model::{
    Model, Process, Row,
    counters::{Counters, FIRST_OPERATION, LAST_OPERATION},
    history::Bounds,
    run::Run,
};
use iotrace_phases::{Classifier, context::Sorted, phase::Phase, used::Used};
use iotrace_recording::{Job, Node};

/// A recording, or those of a job's nodes, ready to be exported.
pub struct Export<'a> {
    pub model: &'a Model,
    pub run: &'a Run,
    /// Those that were recorded, one or more.
    pub nodes: &'a [Node],
    /// Whether all recordings were ended well.
    pub complete: bool,
    pub names: &'a Names,
    selection: &'a Selection,
    /// Of which files.
    part: Part,
    /// Indices of the selected processes, in order of their start.
    processes: Vec<u32>,
}

/// What one process did in one phase in one interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Activity {
    pub flow: Flow,
    /// Start of the first operation and end of the last, nanoseconds since the start of the run.
    pub first: i64,
    pub last: i64,
    /// Whether both are known; else they are as far apart as the interval and the life of the process allow.
    is_timed: bool,
}

/// One interval: what was done by process (its place among [`Export::processes`]) and number of the phase, 0 for
/// calls that name no open file.
#[derive(Debug, Default)]
pub struct Interval {
    /// Nanoseconds since the start of the run.
    pub start: i64,
    pub end: i64,
    pub activities: BTreeMap<(usize, u16), Activity>,
}

impl<'a> Export<'a> {
    /// Prepares what `selection` leaves of a job, under `names`.
    pub fn new(
        job: &'a Job,
        classifier: &Classifier,
        selection: &'a Selection,
        names: &'a Names,
    ) -> Self {
        let part = Part::whole(&job.model, &job.run, classifier);
        Self::of_part(job, part, selection, names)
    }

    /// The same of the files that are left of a job.
    pub fn of_part(job: &'a Job, part: Part, selection: &'a Selection, names: &'a Names) -> Self {
        let model = &job.model;
        let all = model.processes();
        let selected = |index: &u32| selection.has_process(all[*index as usize].id.pid);
        let mut processes: Vec<u32> = (0..all.len() as u32).filter(selected).collect();
        processes.sort_by_key(|index| {
            let process = &all[*index as usize];
            (
                process.about.start_boottime,
                process.id.start,
                process.id.pid,
            )
        });
        Self {
            model,
            run: &job.run,
            nodes: &job.nodes,
            complete: job.nodes.iter().all(|node| node.is_complete()),
            names,
            selection,
            part,
            processes,
        }
    }

    /// The selected processes, in order of their start.
    pub fn processes(&self) -> impl ExactSizeIterator<Item = &'a Process> + '_ {
        let all = self.model.processes();
        self.processes.iter().map(|index| &all[*index as usize])
    }

    /// The host that a process ran on.
    pub fn host(&self, process: &Process) -> Cow<'a, str> {
        let node = self.nodes.get(process.node as usize);
        self.names
            .text(node.map_or(&self.run.host, |node| &node.run.host))
    }

    /// All hosts, with commas between them.
    pub fn hosts(&self) -> String {
        let hosts = self
            .nodes
            .iter()
            .map(|node| self.names.text(&node.run.host));
        hosts.collect::<Vec<_>>().join(", ")
    }

    /// Whether files are chosen: then what is of no file is left out.
    pub fn is_by_file(&self) -> bool {
        !self.part.is_whole
    }

    /// Whether what came from storage tells what the page cache had.
    pub fn knows_cache(&self) -> bool {
        self.part.knows_cache
    }

    /// Whether phases are selected: then what has none is left out.
    pub fn is_by_phase(&self) -> bool {
        self.selection.is_by_phase()
    }

    /// Whether a phase is selected.
    pub fn has_phase(&self, phase: Phase) -> bool {
        self.selection.has_phase(phase)
    }

    /// What a file is.
    pub fn sorted(&self, file: u32) -> &Sorted {
        &self.part.sorted[file as usize]
    }

    /// The rows of each selected process by path, with the process's place among [`Export::processes`].
    pub fn rows(&self) -> Vec<(usize, &'a Row)> {
        let places = self.places();
        let rows = self.model.rows().iter();
        let mut rows: Vec<_> = rows
            .filter_map(|row| Some((places[row.process as usize]?, row)))
            .collect();
        rows.sort_unstable_by(|(a, left), (b, right)| {
            let key = |row: &Row| {
                let file = self.model.file(row.file);
                (file.path, file.id)
            };
            a.cmp(b).then_with(|| key(left).cmp(&key(right)))
        });
        rows
    }

    /// What is selected of the counters of a row: nothing, or those of the selected phases.
    pub fn counters(&self, row: &Row) -> Option<Counters> {
        let total = row.cell.total();
        let sorted = self.sorted(row.file);
        self.selected_of(&total, Used::new(&total, sorted), sorted)
    }

    fn selected_of(&self, counters: &Counters, used: Used, sorted: &Sorted) -> Option<Counters> {
        let mut wanted = used
            .phases(sorted)
            .map(|(phase, _)| self.selection.has_phase(phase));
        let (main, reads) = (wanted.next()?, wanted.next());
        match (main, reads) {
            (main, None) => main.then(|| counters.clone()),
            (true, Some(true)) => Some(counters.clone()),
            (true, Some(false)) => Some(split(counters).1),
            (false, Some(true)) => Some(split(counters).0),
            (false, Some(false)) => None,
        }
    }

    /// What was done interval by interval. Reads that are of another phase than writes of the same file are apart.
    pub fn intervals(&self) -> Vec<Interval> {
        let places = self.places();
        let rows = self.model.rows();
        let used: Vec<Used> = rows
            .iter()
            .map(|row| Used::new(&row.cell.total(), self.sorted(row.file)))
            .collect();
        let mut intervals: Vec<Interval> = Vec::new();
        self.model.each_step(self.bounds(), |bounds, delta| {
            let Some(place) = places[delta.process as usize] else {
                return;
            };
            let (start, end) = (self.since_start(bounds.start), self.since_start(bounds.end));
            if intervals
                .last()
                .is_none_or(|last| (last.start, last.end) != (start, end))
            {
                intervals.push(Interval {
                    start,
                    end,
                    ..Interval::default()
                });
            }
            let Some(interval) = intervals.last_mut() else {
                return;
            };
            let Some(row) = delta.row else {
                if !self.is_by_phase() {
                    self.add(interval, (place, 0), &delta.counters);
                }
                return;
            };
            let sorted = self.sorted(rows[row as usize].file);
            for (phase, counters) in self.by_phase(&delta.counters, used[row as usize], sorted) {
                self.add(interval, (place, phase.code()), &counters);
            }
        });
        intervals.retain(|interval| !interval.activities.is_empty());
        intervals
    }

    /// What is selected of the counters of a row, by phase: apart where reads are of another one than writes.
    pub fn counters_by_phase(&self, row: &Row) -> Vec<(Phase, Counters)> {
        let total = row.cell.total();
        let sorted = self.sorted(row.file);
        self.by_phase(&total, Used::new(&total, sorted), sorted)
    }

    fn by_phase(&self, counters: &Counters, used: Used, sorted: &Sorted) -> Vec<(Phase, Counters)> {
        let phases: Vec<_> = used.phases(sorted).map(|(phase, _)| phase).collect();
        let mut parts = match phases[..] {
            [main, reads] => {
                let (read, rest) = split(counters);
                vec![(main, rest), (reads, read)]
            }
            _ => phases
                .iter()
                .map(|main| (*main, counters.clone()))
                .collect(),
        };
        parts.retain(|(phase, _)| self.selection.has_phase(*phase));
        parts
    }

    fn add(&self, interval: &mut Interval, key: (usize, u16), counters: &Counters) {
        let flow = Flow::of(counters);
        if flow == Flow::default() {
            return;
        }
        let moment = |index: usize| match counters.v[index] {
            0 => None,
            moment => Some(self.moment(moment)),
        };
        let known = moment(FIRST_OPERATION).zip(moment(LAST_OPERATION));
        let (first, last) = known.unwrap_or_else(|| {
            let began = self.began(key.0).max(interval.start);
            (began.min(interval.end), interval.end)
        });
        let is_timed = known.is_some();
        let activity = interval.activities.entry(key).or_insert(Activity {
            first,
            last,
            is_timed,
            ..Activity::default()
        });
        activity.flow.add(&flow);
        match (activity.is_timed, is_timed) {
            (false, true) => (activity.first, activity.last) = (first, last),
            (true, false) => {}
            _ => {
                activity.first = activity.first.min(first);
                activity.last = activity.last.max(last);
            }
        }
        activity.is_timed |= is_timed;
    }

    /// When the process at a place began, nanoseconds since the start of the run; 0 if that is not known.
    fn began(&self, place: usize) -> i64 {
        let process = &self.model.processes()[self.processes[place] as usize];
        match process.about.start_boottime {
            0 => 0,
            start => self.since_start(self.run.clock.unix_ns_of_boottime(start)),
        }
    }

    /// Checkpoints, epochs and the like, of all processes and phases.
    pub fn analysis(&self) -> Analysis {
        self.part.analysis(self.model, self.run)
    }

    /// A moment of the kernel's clock, nanoseconds since the start of the run.
    pub fn moment(&self, monotonic: u64) -> i64 {
        self.since_start(self.run.clock.unix_ns(monotonic))
    }

    /// Places of the processes by their index; none for those that are not selected.
    pub fn places(&self) -> Vec<Option<usize>> {
        let mut places = vec![None; self.model.processes().len()];
        for (place, index) in self.processes.iter().enumerate() {
            places[*index as usize] = Some(place);
        }
        places
    }

    fn since_start(&self, unix_ns: i64) -> i64 {
        unix_ns.saturating_sub(self.run.start_unix_ns)
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            start: self.run.start_unix_ns,
            end: self.run.end_unix_ns(),
        }
    }
}
