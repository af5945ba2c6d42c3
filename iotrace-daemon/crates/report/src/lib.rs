//! What a run did, summed up: a pure function of the model and the run, written as text, as JSON or as a page.
//!
//! ```text
//! let report = Report::new(&model, &run);                  // or with_rules(&model, &run, &classifier)
//! report::text(&report, &Extent::Summary, layout, &mut out)?;    // for people
//! report::json(&report, &mut out)?;           // for programs: docs/reference/report-json.md
//! report::html(&report, complete, &mut out)?; // for a browser: docs/guide/html.md
//! ```

mod block;
pub mod diff;
mod file_counts;
mod global_merged;
mod html;
mod json;
mod library;
mod merged;
mod nodes;
mod overlapped;
mod programs;
pub mod scale;
mod sections;
mod selection;
pub mod staging;
mod text;
mod unseen;
mod verdict;
pub mod view;
pub mod whatif;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, thread};

use file_counts::{Share, SharedFiles, file_ns};
use global_merged::Moved;
pub use html::{
    comparison::{diff_html, scale_html},
    html,
};
use iotrace_analysis::phases::{PhaseSums, Phases};
use iotrace_analysis::sum::Sum;
pub use json::{diff_json, entries::hex, json, summary_json, view_json};
pub use programs::ShortCommand;
pub use sections::{SECTIONS, Section};
pub use selection::Selection;
pub use text::{Extent, Layout, diff_text, escape, scale_text, shorten, text, units, view_text};

use iotrace_analysis::{
    Analysis,
    findings::thresholds::{INPUT_SHARE, Thresholds},
    joined, uses,
};
use iotrace_model::{
    FailureCount, FailureKey, IoTotals, Model, Row,
    counters::{Counters, saturating_add},
    input::Place,
    run::Run,
    timeline::Segment,
};
use iotrace_phases::{
    Classifier,
    context::{Sorted, sort},
    copies::{Copies, Copy},
};
use iotrace_recording::Node;
use selection::Selected;

/// Version of the JSON report. It rises when a name or a meaning changes, not when a name is added.
pub const FORMAT_VERSION: u32 = 1;

/// One run, summed up.
pub struct Report<'a> {
    model: &'a Model,
    run: &'a Run,
    classifier: &'a Classifier,
    /// What each file is, by its index.
    sorted: Arc<[Sorted]>,
    /// Over all files.
    phases: PhaseSums,
    /// Over everything.
    totals: Sum,
    /// Calls that named no open file, over all processes.
    path_only: Counters,
    /// Operations whose own counter had no room, over all processes.
    overflow: Counters,
    /// By index of the process.
    processes: Vec<ProcessSum>,
    /// Indices of the processes, in order of their start.
    process_order: Vec<u32>,
    /// Regular files, over all processes.
    files: Vec<FileSum>,
    directories: Vec<FileSum>,
    /// By mount point and filesystem type.
    mounts: BTreeMap<(Vec<u8>, String), MountSum>,
    /// By operation class and errno.
    failures: BTreeMap<(u32, u32), FailureCount>,
    analysis: Analysis,
    /// Share of reads of training data from which a program is likely bound by them.
    input_share: f64,
    moved: Moved,
    shared: SharedFiles,
    /// Those that were read; none of a run that was not.
    nodes: &'a [Node],
    /// Whether the recording of a run that was not read could not be completed.
    is_cut: bool,
    /// What it is limited to, if it is of a part of the files.
    selection: Option<Selected>,
}

/// What one process did.
#[derive(Default)]
struct ProcessSum {
    sum: Sum,
    /// Over its files.
    phases: PhaseSums,
    /// Distinct regular files.
    files: u64,
    /// Time in calls on regular files: reads, writes and syncs, others; nanoseconds.
    file_ns: [u64; 3],
}

/// What was done to one file, by all processes.
#[derive(Clone)]
struct FileSum {
    file: u32,
    io: IoTotals,
    /// Processes that used it.
    processes: u32,
    /// Bytes to the end of the last access; at detail `basic` the size at first sight.
    size: u64,
}

/// What was done on one mount.
#[derive(Default)]
struct MountSum {
    files: u64,
    io: IoTotals,
}

impl<'a> Report<'a> {
    /// Sums up `model`, by the built-in rules.
    pub fn new(model: &'a Model, run: &'a Run) -> Self {
        Self::with_rules(model, run, Classifier::builtin())
    }

    /// Sums up `model`, by the rules of `classifier`.
    pub fn with_rules(model: &'a Model, run: &'a Run, classifier: &'a Classifier) -> Self {
        Self::with(model, run, classifier, &Thresholds::default())
    }

    /// Sums up `model`, by the rules of `classifier`; findings by `thresholds`.
    pub fn with(
        model: &'a Model,
        run: &'a Run,
        classifier: &'a Classifier,
        thresholds: &Thresholds,
    ) -> Self {
        let copies = Copies::of(model, run.clock);
        let sorted: Arc<[Sorted]> = sort(model, classifier, &copies).into();
        let (report, analysis) = thread::scope(|scope| {
            let analysis = scope.spawn(|| Analysis::new(model, run, &sorted, copies, thresholds));
            let report = Self::sum_up(model, run, classifier, Arc::clone(&sorted), None);
            (report, joined(analysis))
        });
        Self {
            analysis,
            input_share: thresholds[INPUT_SHARE],
            ..report
        }
    }

    /// Sums up what `selection` has left of `model`.
    pub fn of_selection(
        model: &'a Model,
        run: &'a Run,
        classifier: &'a Classifier,
        selection: Selection,
    ) -> Self {
        let Selection { about, part } = selection;
        let analysis = part.analysis(model, run);
        let report = Self::sum_up(model, run, classifier, part.sorted.into(), Some(about));
        Self { analysis, ..report }
    }

    /// All but the analysis.
    fn sum_up(
        model: &'a Model,
        run: &'a Run,
        classifier: &'a Classifier,
        sorted: Arc<[Sorted]>,
        selection: Option<Selected>,
    ) -> Self {
        let mut report = Self {
            analysis: Analysis::default(),
            model,
            run,
            classifier,
            sorted,
            phases: PhaseSums::default(),
            totals: Sum::default(),
            path_only: Counters::ZERO,
            overflow: Counters::ZERO,
            processes: Vec::new(),
            process_order: Vec::new(),
            files: Vec::new(),
            directories: Vec::new(),
            mounts: BTreeMap::new(),
            failures: BTreeMap::new(),
            nodes: &[],
            is_cut: false,
            selection,
            input_share: Thresholds::default()[INPUT_SHARE],
            moved: Moved::default(),
            shared: SharedFiles::default(),
        };
        report
            .processes
            .resize_with(model.processes().len(), ProcessSum::default);
        report.add_rows();
        report.add_processes();
        for (key, count) in model.failures().all() {
            *report.failures.entry((key.op, key.errno)).or_default() += count;
        }
        report.moved = report.find_moved();
        report.sort();
        report
    }

    /// What was counted.
    pub fn model(&self) -> &Model {
        self.model
    }

    /// The run itself.
    pub fn run(&self) -> &Run {
        self.run
    }

    /// The verdict, as the key `verdict.code` of the JSON report has it.
    pub fn verdict(&self) -> &'static str {
        self.judge().verdict.name()
    }

    /// What the counts say of the job.
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// Has findings quote predictions from the timeline, which is only read if they do ([`Analysis::quote`]).
    pub fn quote<E>(&mut self, read: impl FnOnce() -> Result<Vec<Segment>, E>) -> Result<(), E> {
        self.analysis.quote(self.model, self.run, read)
    }

    /// Rows, grouped by file so that each file is summed over its processes in passing.
    fn add_rows(&mut self) {
        let rows = self.model.rows();
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_unstable_by_key(|index| rows[*index as usize].file);
        for group in order.chunk_by(|a, b| rows[*a as usize].file == rows[*b as usize].file) {
            self.add_file(group.iter().map(|index| &rows[*index as usize]));
        }
    }

    fn add_file(&mut self, rows: impl Iterator<Item = &'a Row>) {
        let mut sum: Option<FileSum> = None;
        let mut phases = Phases::default();
        let mut shares: Vec<Share> = Vec::new();
        for row in rows {
            let counters = row.cell.total();
            let process = &mut self.processes[row.process as usize];
            let sorted = &self.sorted[row.file as usize];
            let of_row = self.phases.add(&counters, sorted);
            phases = phases.union(of_row);
            process.sum.add(&counters);
            process.phases.add(&counters, sorted);
            if !self.model.file(row.file).is_directory() {
                process.files += 1;
                for (all, own) in process.file_ns.iter_mut().zip(file_ns(&counters)) {
                    saturating_add(all, own);
                }
                shares.push(Share::of(row.process, &counters));
                process.phases.add_file(of_row);
            }
            sum.get_or_insert_with(|| FileSum::new(row.file))
                .add(&counters);
        }
        let Some(mut sum) = sum else { return };
        self.shared.add(sum.file, &shares);
        let file = self.model.file(sum.file);
        let (mount_point, fs_type) = self.model.mount_of(&file);
        let mount = self
            .mounts
            .entry((mount_point.to_vec(), fs_type.to_owned()))
            .or_default();
        mount.io.add(&sum.io);
        if file.is_directory() {
            self.directories.push(sum);
        } else {
            mount.files += 1;
            if sum.size == 0 && self.run.detail != "full" {
                sum.size = file.size;
            }
            self.phases.add_file(phases);
            self.files.push(sum);
        }
    }

    fn add_processes(&mut self) {
        for (process, sum) in self.model.processes().iter().zip(&mut self.processes) {
            let (path_only, overflow) = (process.path_only.total(), process.overflow.total());
            sum.sum.add(&path_only);
            sum.sum.add(&overflow);
            self.path_only.absorb(&path_only);
            self.overflow.absorb(&overflow);
            self.totals.absorb(&sum.sum);
        }
    }

    /// A moment of `CLOCK_MONOTONIC` as nanoseconds since the start of the run.
    fn moment(&self, monotonic: u64) -> i64 {
        self.run.clock.unix_ns(monotonic) - self.run.start_unix_ns
    }

    /// From the end of the save whose file was copied to the end of the copy, nanoseconds; `None` for copies of other files.
    fn lag_ns(&self, copy: &Copy) -> Option<u64> {
        let saves = self.analysis.checkpoints.iter();
        let saved = saves
            .filter(|save| save.files.contains(&copy.source) && save.end <= self.moment(copy.end));
        let end = saved.map(|save| save.end).max()?;
        u64::try_from(self.moment(copy.end) - end).ok()
    }

    /// Puts processes into an order that does not depend on the order of arrival.
    fn sort(&mut self) {
        let processes = self.model.processes();
        let mut has_rows = vec![!self.is_selection(); processes.len()];
        for row in self.model.rows() {
            has_rows[row.process as usize] = true;
        }
        let shown = (0..).zip(has_rows).filter(|(_, has_rows)| *has_rows);
        self.process_order = shown.map(|(index, _)| index).collect();
        self.process_order.sort_unstable_by_key(|index| {
            let process = &processes[*index as usize];
            (
                process.about.start_boottime,
                process.id.start,
                process.id.pid,
            )
        });
    }

    /// All rows, in the order of processes, and of one in that of paths.
    fn rows_in_order(&self) -> Vec<&Row> {
        let mut ranks = vec![0; self.processes.len()];
        for (rank, index) in self.process_order.iter().enumerate() {
            ranks[*index as usize] = rank;
        }
        let key = |row: &Row| {
            let file = self.model.file(row.file);
            (ranks[row.process as usize], file.path, file.id)
        };
        let mut rows: Vec<&Row> = self.model.rows().iter().collect();
        rows.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        rows
    }

    /// Failures of one process in one place.
    fn failures_at(
        &self,
        process: u32,
        place: Place<u32>,
    ) -> impl Iterator<Item = (&FailureKey, FailureCount)> {
        self.model.failures().at(process, place)
    }

    /// The first `n` of `files` by `key`, largest first, without those where it is 0.
    fn largest(&self, files: &[FileSum], n: usize, key: impl Fn(&FileSum) -> u64) -> Vec<FileSum> {
        let rank = |sum: &FileSum| {
            let file = self.model.file(sum.file);
            (Reverse(key(sum)), file.path, file.id)
        };
        let mut some: Vec<&FileSum> = files.iter().filter(|sum| key(sum) > 0).collect();
        if some.len() > n {
            some.select_nth_unstable_by(n, |a, b| rank(a).cmp(&rank(b)));
            some.truncate(n);
        }
        some.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
        some.into_iter().cloned().collect()
    }
}

impl FileSum {
    fn new(file: u32) -> Self {
        Self {
            file,
            io: IoTotals::default(),
            processes: 0,
            size: 0,
        }
    }

    fn add(&mut self, counters: &Counters) {
        self.size = self.size.max(uses::extent(counters));
        self.io.add(&IoTotals::of(counters));
        self.processes += 1;
    }
}

#[cfg(test)]
mod tests;
