//! What processes did to files: the totals of a run and of the interval since the last flush.
//!
//! `drain` (or the reader of a recording) feeds a [`Model`]; `recording` and `report` read it.
//!
//! ```text
//! feed    add_sorted(process, place, phase, &Counters), add(process, place, &Counters), add_failures(process, place, op, errno, calls, ns), event(Event),
//!         describe_process(process, About), update_mounts(text)
//! ask     io_totals(), file_count(), undescribed(), rows(), processes(), file(index), failures(), mount_of(file)
//! restore restore_process, restore_file, restore_mount: what the reader of a recording knows already
//! forget  forget(...): what a run without end need not know any more
//! select  select(...): leaves what was done to the files that are chosen
//! flush   the recorder writes steps(), dirty_rows() and the like, then settle() ends the interval; without a
//!         recorder the whole run is one interval
//! step    end_step() ends a step of the interval, and writes nothing
//! series  with_history() keeps each step, each_step() goes over them
//! ```
//!
//! What arrives in which order does not matter: counters may come before the name of their file and before the
//! exec of their process. For every process the sum over its files, its calls by name and its overflow is what was
//! added for it.

mod arena;
pub mod block;
pub mod computing;
pub mod counters;
pub mod environ;
pub mod errno;
mod failures;
mod feed;
mod files;
mod forget;
pub mod global_merged;
pub mod groups;
pub mod history;
pub mod host;
pub mod input;
mod intervals;
mod io_totals;
pub mod latencies;
pub mod library;
pub mod lines;
mod merge;
pub mod mounts;
mod moves;
mod negative_lookups;
pub mod packed;
pub mod paths;
pub mod phases;
mod processes;
pub mod regular_file;
mod rows;
pub mod run;
mod select;
pub mod sources;
pub mod spans;
pub mod steps;
pub mod targets;
pub mod timeline;
pub mod top;
pub mod waits;

pub use failures::{FailureCount, FailureKey, Failures};
pub use files::{File, PhaseSet};
pub use forget::{Forgotten, Moved};
pub use io_totals::IoTotals;
pub use negative_lookups::NegativeLookups;
pub use processes::{About, Process};
pub use rows::{Cell, Row};

use block::Block;
use computing::Computing;
use counters::Counters;
use files::Files;
use global_merged::GlobalMerged;
use history::History;
use input::ProcessId;
use iotrace_common::key::FileId;
use latencies::{Histogram, Latencies, Operations};
use library::Libraries;
use lines::Lines;
use mounts::{Mount, Mounts};
use moves::Moves;
use processes::Processes;
use rows::Rows;
use sources::Sources;
use spans::{Span, Spans};
use steps::Steps;
use timeline::Timeline;
use waits::Waits;

/// Everything counted in one run.
#[derive(Debug, Default)]
pub struct Model {
    processes: Processes,
    files: Files,
    rows: Rows,
    failures: Failures,
    negative_lookups: NegativeLookups,
    libraries: Libraries,
    global_merged: GlobalMerged,
    computing: Computing,
    waits: Waits,
    timeline: Timeline,
    lines: Lines,
    sources: Sources,
    latencies: Latencies,
    block: Block,
    moves: Moves,
    /// By node; of one node where it is no job of several.
    mounts: Vec<Mounts>,
    /// Over all processes.
    io_totals: IoTotals,
    /// Settled intervals, where they are kept.
    history: Option<History>,
    /// Steps of the interval, where there are any.
    steps: Steps,
    /// Uses of files one by one, where intervals are kept.
    spans: Option<Spans>,
    /// Whether it is from a recording that does not have the times of syncs.
    lacks_syncs: bool,
}

impl Model {
    /// A model that keeps what was counted in each step, in as much memory as a recorder may take.
    pub fn with_history() -> Self {
        Self::with_history_of(history::RECORDING_BYTES)
    }

    /// A model of a recording that is read.
    pub fn read_back() -> Self {
        Self::with_history_of(history::READING_BYTES)
    }

    /// As [`Model::with_history`]; steps are merged where they take more than `most_bytes`.
    pub fn with_history_of(most_bytes: usize) -> Self {
        Self {
            history: Some(History::new(most_bytes)),
            spans: Some(Spans::default()),
            ..Self::default()
        }
    }

    /// A model that keeps the uses of files one by one, and no steps.
    pub fn with_spans() -> Self {
        Self {
            spans: Some(Spans::default()),
            ..Self::default()
        }
    }

    /// Whether steps had to be merged: then a step may hold what was done minutes apart, and the uses of a file in it have no
    /// times of their own.
    pub fn has_coarse_history(&self) -> bool {
        self.history.as_ref().is_some_and(History::is_coarse)
    }

    /// The times of syncs, and calls of sync and syncfs, were not recorded.
    pub fn lack_syncs(&mut self) {
        self.lacks_syncs = true;
    }

    /// Whether the times of syncs are known, and calls of sync and syncfs.
    pub fn knows_syncs(&self) -> bool {
        !self.lacks_syncs
    }

    /// Uses of files one by one, where they are kept.
    pub fn spans(&self) -> Option<&Spans> {
        self.spans.as_ref()
    }

    /// Takes the uses out: each with its process, its file and its number.
    pub fn take_spans(&mut self) -> impl Iterator<Item = (ProcessId, FileId, u32, Counters)> {
        let spans = self.spans.as_mut().map(std::mem::take);
        let (processes, files) = (&self.processes, &self.files);
        let of = |span: Span| {
            let process = processes.all()[span.process as usize].id;
            let file = files.get(span.file).id;
            (process, file, span.number, span.cell.total())
        };
        spans.unwrap_or_default().into_all().into_iter().map(of)
    }

    /// Takes out how long operations took since this was last called.
    pub fn take_latencies(&mut self) -> impl Iterator<Item = (ProcessId, Operations, Histogram)> {
        let latencies = std::mem::take(&mut self.latencies).into_all();
        let processes = &self.processes;
        latencies.map(|(process, of, done)| (processes.all()[process as usize].id, of, done))
    }

    /// Keeps the newest uses, and of the others only which processes and files they were of.
    pub fn keep_newest_spans(&mut self, count: usize) {
        if let Some(spans) = &mut self.spans {
            spans.keep_newest(count);
        }
    }

    /// Processes that nothing has described yet.
    pub fn undescribed(&self) -> impl Iterator<Item = ProcessId> {
        self.processes
            .all()
            .iter()
            .filter(|process| !process.described)
            .map(|process| process.id)
    }

    /// What was counted so far, over all processes.
    pub fn io_totals(&self) -> IoTotals {
        self.io_totals
    }

    /// Number of files and directories seen.
    pub fn file_count(&self) -> usize {
        self.files.count()
    }

    /// One row per process and file, in order of first appearance.
    pub fn rows(&self) -> &[Row] {
        self.rows.all()
    }

    /// Those of which a counter is not 0 ([`Cell::has`]).
    pub fn rows_with(&self, counter: usize) -> impl Iterator<Item = &Row> {
        let rows = self.rows().iter();
        rows.filter(move |row| row.cell.has(counter))
    }

    /// All processes, in order of first appearance.
    pub fn processes(&self) -> &[Process] {
        self.processes.all()
    }

    /// What is known of a process; `None` if nothing is.
    pub fn about(&self, process: ProcessId) -> Option<&About> {
        self.processes.find(process).map(|process| &process.about)
    }

    /// The index of a process; `None` if nothing is known of it.
    pub fn process_index(&self, process: ProcessId) -> Option<u32> {
        self.processes.index(process)
    }

    /// The file at `index`.
    pub fn file(&self, index: u32) -> File<'_> {
        self.files.get(index)
    }

    /// Index of the file of this identity, if it is known.
    pub fn find_file_index(&self, id: FileId) -> Option<u32> {
        self.files.of(id)
    }

    /// The file of this identity.
    pub fn find_file(&self, id: FileId) -> Option<File<'_>> {
        let index = self.files.of(id)?;
        Some(self.files.get(index))
    }

    /// The file that has this path now.
    pub fn find_path(&self, path: &[u8]) -> Option<File<'_>> {
        let index = self.files.find(path)?;
        Some(self.files.get(index))
    }

    /// Whether a file has this path now, or a path that was seen goes through it.
    pub fn has_name(&self, path: &[u8]) -> bool {
        self.files.has_name(path)
    }

    /// All failures.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Where files were looked for that are not there.
    pub fn negative_lookups(&self) -> &NegativeLookups {
        &self.negative_lookups
    }

    /// Calls of libraries, and what programs marked.
    pub fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// CPU time, and what was computed outside calls.
    pub fn computing(&self) -> &Computing {
        &self.computing
    }

    /// The same, to add to.
    pub fn computing_mut(&mut self) -> &mut Computing {
        &mut self.computing
    }

    /// What was counted of the block layer.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The same, to add to.
    pub fn block_mut(&mut self) -> &mut Block {
        &mut self.block
    }

    /// What main threads waited for.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// When threads were off the CPU, where that is kept.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The same, to add to.
    pub fn timeline_mut(&mut self) -> &mut Timeline {
        &mut self.timeline
    }

    /// What was done by line of a Python program.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Source text of lines, where it is known.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The same, to add to.
    pub fn sources_mut(&mut self) -> &mut Sources {
        &mut self.sources
    }

    /// How long operations took, where that is kept.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Merged time over all processes, where it is kept.
    pub fn global_merged(&self) -> &GlobalMerged {
        &self.global_merged
    }

    /// The same, to add to.
    pub fn global_merged_mut(&mut self) -> &mut GlobalMerged {
        &mut self.global_merged
    }

    /// All mounts seen.
    pub fn mounts(&self) -> &[Mount] {
        self.mounts.first().map_or(&[], |mounts| mounts.all())
    }

    /// Mount point and filesystem type of a file; empty where unknown.
    pub fn mount_of(&self, file: &File<'_>) -> (&[u8], &str) {
        let mounts = self.mounts.get(file.node as usize);
        match mounts.and_then(|mounts| mounts.find(file.id.device, file.path)) {
            Some(mount) => (&mount.mount_point, &mount.fs_type),
            None => (&[], mounts::fs_type_of(file.magic).unwrap_or_default()),
        }
    }

    /// Where a device of a node is mounted, the first place if there are several; empty where unknown.
    pub fn mount_point_of(&self, node: u32, device: u32) -> &[u8] {
        let mount = self.mount_of_device(node, device);
        mount.map_or(&[], |mount| &mount.mount_point)
    }

    /// The mount of a device of a node, the first one if there are several.
    pub fn mount_of_device(&self, node: u32, device: u32) -> Option<&Mount> {
        self.mounts.get(node as usize)?.find(device, &[])
    }

    /// The record of the mount that a file lies on.
    pub fn mount_record(&self, file: &File<'_>) -> Option<&Mount> {
        let mounts = self.mounts.get(file.node as usize)?;
        mounts.find(file.id.device, file.path)
    }

    /// The same of a path on a device of this host; empty where unknown.
    pub fn mount_at(&self, device: u32, path: &[u8]) -> (&[u8], &str) {
        let mounts = self.mounts.first();
        let mount = mounts.and_then(|mounts| mounts.find(device, path));
        mount.map_or((&[], ""), |mount| (&mount.mount_point, &mount.fs_type))
    }
}

#[cfg(test)]
mod tests;
