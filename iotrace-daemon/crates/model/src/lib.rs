//! What processes did to files: the totals of a run and of the interval since the last flush.
//!
//! `drain` (or the reader of a recording) feeds a [`Model`]; `recording` and `report` read it.
//!
//! ```text
//! feed    add_sorted(process, place, phase, &Counters), add(process, place, &Counters), add_failures(process, place, op, errno, calls, ns), event(Event),
//!         describe_process(process, About), update_mounts(text)
//! ask     tally(), file_count(), undescribed(), rows(), processes(), file(index), failures(), mount_of(file)
//! restore restore_process, restore_file, restore_mount: what the reader of a recording knows already
//! forget  forget(...): what a run without end need not know any more
//! flush   the recorder writes dirty_rows() and the like, then settle() ends the interval; without a
//!         recorder the whole run is one interval
//! series  with_history() keeps each interval, each_interval() goes over them
//! ```
//!
//! What arrives in which order does not matter: counters may come before the name of their file and before the
//! exec of their process. For every process the sum over its files, its calls by name and its overflow is what was
//! added for it ([`Model::check`]).

mod arena;
pub mod block;
pub mod computing;
pub mod counters;
pub mod environ;
pub mod errno;
mod failures;
mod files;
mod forget;
pub mod global_merged;
pub mod groups;
pub mod history;
pub mod host;
pub mod input;
pub mod library;
mod merge;
pub mod mounts;
mod moves;
mod negative_lookups;
mod packed;
pub mod phases;
mod processes;
pub mod regular_file;
mod rows;
pub mod run;
pub mod spans;
pub mod targets;
pub mod top;
pub mod waits;

use block::{Block, Owner};
use computing::{Computing, CpuTime};
use counters::{Counters, FIRST, LAST, RENAMES, UNLINKS};
use environ::Role;
pub use failures::{FailureCount, FailureKey, Failures};
use files::Files;
pub use files::{File, PhaseSet};
pub use forget::{Forgotten, Moved};
use global_merged::GlobalMerged;
use history::{Bounds, Delta, History, Key};
use input::{Event, FileName, Place, ProcessId, Searched};
use iotrace_common::{
    block::Transfers,
    key::FileId,
    library::{CallKey, Calls},
    nobtf::STATUS_UNKNOWN,
};
use library::Libraries;
use mounts::{Mount, Mounts};
use moves::Moves;
pub use negative_lookups::NegativeLookups;
use phases::{Done, Merged};
use processes::Processes;
pub use processes::{About, Process, Tally};
use rows::Rows;
pub use rows::{Cell, Row};
use spans::{Span, Spans};
use waits::{Waited, Waits};

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
    block: Block,
    moves: Moves,
    /// By node; of one node where it is no job of several.
    mounts: Vec<Mounts>,
    tally: Tally,
    /// Settled intervals, where they are kept.
    history: Option<History>,
    /// Uses of files one by one, where intervals are kept.
    spans: Option<Spans>,
}

impl Model {
    /// A model that keeps what was counted in each interval.
    pub fn with_history() -> Self {
        Self {
            history: Some(History::default()),
            spans: Some(Spans::default()),
            ..Self::default()
        }
    }

    /// A model that keeps the uses of files one by one, and no intervals.
    pub fn with_spans() -> Self {
        Self {
            spans: Some(Spans::default()),
            ..Self::default()
        }
    }

    /// Adds one sample: what `process` did at `place` since the sample before, in a phase that the kernel side sorted it
    /// into ([`phases::ByPhase`]).
    pub fn add_sorted(
        &mut self,
        process: ProcessId,
        place: Place,
        phase: u32,
        counters: &Counters,
    ) {
        let index = self.processes.intern(process);
        let by_phase = &mut self.processes.get_mut(index).phases;
        by_phase.add(phase, &Done::of(counters));
        let file = self.add_at(index, place, counters);
        if let Some(file) = file {
            self.files.sorted(file, phase);
        }
    }

    /// Adds to one use of a file by a process ([`spans`]), where they are kept.
    pub fn add_span(&mut self, process: ProcessId, file: FileId, number: u32, counters: &Counters) {
        let Some(spans) = &mut self.spans else { return };
        let (process, file) = (self.processes.intern(process), self.files.intern(file));
        spans.add(process, file, number, counters);
    }

    /// Uses of files one by one, where they are kept.
    pub fn spans(&self) -> Option<&Spans> {
        self.spans.as_ref()
    }

    /// Takes the uses out: each with its process, its file and its number.
    pub fn take_spans(&mut self) -> Vec<(ProcessId, FileId, u32, Counters)> {
        let spans = self.spans.as_mut().map(std::mem::take);
        let spans = spans.unwrap_or_default().into_all();
        let of = |span: Span| {
            let process = self.processes()[span.process as usize].id;
            let file = self.file(span.file).id;
            (process, file, span.number, span.cell.total())
        };
        spans.into_iter().map(of).collect()
    }

    /// Keeps the newest uses, and of the others only which processes and files they were of.
    pub fn keep_newest_spans(&mut self, count: usize) {
        if let Some(spans) = &mut self.spans {
            spans.keep_newest(count);
        }
    }

    /// As [`Model::add_sorted`], of a sample whose phases stand elsewhere.
    pub fn add(&mut self, process: ProcessId, place: Place, counters: &Counters) {
        let index = self.processes.intern(process);
        self.add_at(index, place, counters);
    }

    /// Adds what a process did in a phase, and nothing else.
    pub fn add_done(&mut self, process: ProcessId, phase: u32, done: &Done) {
        let index = self.processes.intern(process);
        self.processes.get_mut(index).phases.add(phase, done);
    }

    /// Adds a sample of the process at `index`; its file.
    fn add_at(&mut self, index: u32, place: Place, counters: &Counters) -> Option<u32> {
        self.tally.add(counters);
        let entry = self.processes.get_mut(index);
        entry.tally.add(counters);
        match place {
            Place::File(file) => {
                let file = self.files.intern(file);
                self.rows.add(index, file, counters);
                return Some(file);
            }
            Place::PathOnly => {
                entry.path_only.add(counters);
                self.apply_moves(index, RENAMES);
                self.apply_moves(index, UNLINKS);
            }
            Place::Overflow => entry.overflow.add(counters),
        }
        None
    }

    /// Merged time in a phase (`Phase::code`) over all processes, as the kernel side sorted it.
    pub fn merged(&self, phase: u16) -> Merged {
        let each = self.processes().iter();
        Merged::of(each.map(|process| process.merged(phase)))
    }

    /// Adds failed calls: of operation class `op`, with error `errno`; they stand in the counters as failures too.
    pub fn add_failures(
        &mut self,
        process: ProcessId,
        place: Place,
        op: u32,
        errno: u32,
        calls: u64,
        ns: u64,
    ) {
        let process = self.processes.intern(process);
        let place = place.map(|file| {
            let file = self.files.intern(file);
            self.rows.intern(process, file);
            file
        });
        self.failures.add(
            FailureKey {
                process,
                place,
                op,
                errno,
            },
            FailureCount { calls, ns },
        );
    }

    /// Adds look-ups of a process in a directory that found nothing; they stand among the failures, too.
    pub fn add_negative_lookups(
        &mut self,
        process: ProcessId,
        searched: Searched,
        count: FailureCount,
    ) {
        let process = self.processes.intern(process);
        self.negative_lookups.add(process, searched, count);
    }

    /// The same of a directory's path; the empty one is not known.
    pub fn add_negative_lookups_at(
        &mut self,
        process: ProcessId,
        path: &[u8],
        count: FailureCount,
    ) {
        let process = self.processes.intern(process);
        self.negative_lookups.add_at(process, path, count);
    }

    /// Adds calls of a library, by a thread.
    pub fn add_library_calls(&mut self, key: &CallKey, calls: &Calls) {
        let process = self.processes.intern(ProcessId {
            pid: key.tgid,
            start: key.start,
        });
        let file = (!key.file.is_none()).then(|| self.files.intern(key.file));
        self.libraries
            .add(process, key.function as u16, file, key.object, calls);
    }

    /// The same as a recording has it: with the name of the file, as the library was given it, and that of the object.
    pub fn restore_library_calls(
        &mut self,
        process: ProcessId,
        function: u16,
        file: Option<FileId>,
        names: (Vec<u8>, Vec<u8>),
        calls: &Calls,
    ) {
        let process = self.processes.intern(process);
        let file = file.map(|file| self.files.intern(file));
        let object = self.libraries.restore_object(process, names);
        self.libraries.add(process, function, file, object, calls);
    }

    /// Takes a range of a recording; its process.
    pub fn restore_range(&mut self, process: ProcessId, range: library::Range) {
        let process = self.processes.intern(process);
        self.libraries
            .restore_range(library::Range { process, ..range });
    }

    /// Takes an event of the kernel side.
    pub fn event(&mut self, event: Event) {
        match event {
            Event::File(name) => self.files.name(&name),
            Event::Exe { process, path } => {
                self.processes.update(process, |about| about.exe = path)
            }
            Event::Environment { process, variables } => self.processes.update(process, |about| {
                about.role = Role::of(&variables);
            }),
            // For those that sort processes into units.
            Event::Cgroup { .. } => {}
            Event::Exec {
                process,
                start_boottime,
                parent,
                rights,
                comm,
                args,
            } => {
                self.processes.describe(process, |about| {
                    about.start_boottime = start_boottime;
                    about.parent = parent;
                    about.uid = Some(rights.uid);
                    about.rights = Some(rights);
                    about.comm = comm;
                    about.args = args;
                    about.execs += 1;
                });
            }
            Event::Fork {
                parent,
                child,
                child_start_boottime,
                rights,
                comm,
            } => {
                self.processes
                    .fork(parent, child, child_start_boottime, rights, comm);
            }
            Event::Exit {
                process,
                time,
                status,
            } => self.processes.update(process, |about| {
                about.end = Some(time);
                about.status = (status != STATUS_UNKNOWN).then_some(status);
            }),
            Event::Rename {
                process,
                time,
                from,
                to,
                exchange,
            } => {
                let file = if exchange {
                    self.files.exchange(&from, &to)
                } else {
                    self.files.rename(&from, &to)
                };
                self.move_count(process, RENAMES, file, time);
            }
            // What becomes of it is the kernel side's.
            Event::Mapped { .. } => {}
            Event::Object {
                process,
                object,
                parent,
                name,
            } => {
                let process = self.processes.intern(process);
                self.libraries.name(process, object, parent, name);
            }
            Event::Mark {
                process,
                tid,
                time,
                function,
                name,
                progress,
            } => {
                let process = self.processes.intern(process);
                self.libraries
                    .mark((process, tid), function, time, name, progress);
            }
            Event::NegativeLookup { searched, path } => self.negative_lookups.name(searched, path),
            Event::Unlink {
                process,
                time,
                path,
            } => {
                let file = self.files.unlink(&path);
                self.move_count(process, UNLINKS, file, time);
            }
        }
    }

    /// Says who a process is that no event told of, because it was there before. What events told is kept.
    pub fn describe_process(&mut self, process: ProcessId, about: About) {
        let index = self.processes.intern(process);
        if !self.processes.get_mut(index).described {
            self.processes.describe(process, |known| {
                *known = About {
                    end: known.end,
                    status: known.status,
                    ..about
                };
            });
        }
    }

    /// Processes that nothing has told of yet.
    pub fn undescribed(&self) -> impl Iterator<Item = ProcessId> {
        self.processes
            .all()
            .iter()
            .filter(|process| !process.described)
            .map(|process| process.id)
    }

    /// Forgets the mounts that are not in this text and that no known file is on.
    pub fn forget_mounts(&mut self, mountinfo: &[u8]) {
        let used: std::collections::HashSet<u32> = (0..self.file_count() as u32)
            .map(|file| self.file(file).id.device)
            .collect();
        self.own_mounts()
            .forget(mountinfo, |device| used.contains(&device));
    }

    /// Takes the text of a mountinfo file; mounts seen before stay.
    pub fn update_mounts(&mut self, mountinfo: &[u8]) {
        self.own_mounts().update(mountinfo);
    }

    /// What was counted so far, over all processes.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Number of files and directories seen.
    pub fn file_count(&self) -> usize {
        self.files.count()
    }

    /// One row per process and file, in order of first appearance.
    pub fn rows(&self) -> &[Row] {
        self.rows.all()
    }

    /// All processes, in order of first appearance.
    pub fn processes(&self) -> &[Process] {
        self.processes.all()
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

    /// CPU time, and what was computed beside calls.
    pub fn computing(&self) -> &Computing {
        &self.computing
    }

    /// The same, to add to.
    pub fn computing_mut(&mut self) -> &mut Computing {
        &mut self.computing
    }

    /// Adds what a process had of CPU time.
    pub fn add_cpu(&mut self, process: ProcessId, time: &CpuTime) {
        let index = self.processes.intern(process);
        self.computing.add(index, time);
    }

    /// What was counted of the block layer.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The same, to add to.
    pub fn block_mut(&mut self) -> &mut Block {
        &mut self.block
    }

    /// Takes the path of a file of which a recording says nothing else, unless it has one.
    pub fn restore_path(&mut self, file: FileId, path: &[u8]) {
        self.files.name_if_unknown(file, path);
    }

    /// Adds bytes moved between devices and a file.
    pub fn add_transfers(
        &mut self,
        process: Option<ProcessId>,
        file: Option<FileId>,
        transfers: &Transfers,
    ) {
        let owner = Owner {
            process: process.map(|process| self.processes.intern(process)),
            file: file.map(|file| self.files.intern(file)),
        };
        self.block.add_transfers(owner, transfers);
    }

    /// Adds time of the main thread of a process, nanoseconds.
    pub fn add_waited(&mut self, waited: &Waited) {
        let key = waits::Key {
            process: self.processes.intern(waited.process),
            leaf: waited.leaf,
            by: waited.by.map(|by| self.processes.intern(by)),
            file: waited.file.map(|file| self.files.intern(file)),
            phase: waited.phase,
        };
        self.waits.add(key, waited.ns);
    }

    /// What main threads waited for.
    pub fn waits(&self) -> &Waits {
        &self.waits
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
        self.rows.settle();
        if let Some(spans) = &mut self.spans {
            spans.settle();
        }
        self.failures.settle();
        self.negative_lookups.settle();
        self.libraries.settle();
        self.block.settle();
        self.files.settle();
        for process in self.processes.all_mut() {
            process.path_only.settle();
            process.overflow.settle();
            process.phases.settle();
            process.changed = false;
        }
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

    /// The intervals that are kept, to bound them.
    pub fn history_mut(&mut self) -> Option<&mut History> {
        self.history.as_mut()
    }

    /// What was counted since the last flush.
    fn pending(&self) -> impl Iterator<Item = (Key, Counters)> {
        let rows = self.rows.dirty().iter().map(|index| {
            (
                Key::Row(*index),
                self.rows()[*index as usize].cell.interval(),
            )
        });
        let beside = self
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
        rows.chain(beside.filter(|(_, counters)| !counters.is_zero()))
    }

    /// Everything counted.
    fn totals(&self) -> impl Iterator<Item = (Key, Counters)> {
        let rows = self.rows().iter().enumerate();
        let rows = rows.map(|(index, row)| (Key::Row(index as u32), row.cell.total()));
        let beside = self
            .processes()
            .iter()
            .enumerate()
            .flat_map(|(index, process)| {
                [
                    (Key::PathOnly(index as u32), process.path_only.total()),
                    (Key::Overflow(index as u32), process.overflow.total()),
                ]
            });
        rows.chain(beside.filter(|(_, counters)| !counters.is_zero()))
    }

    /// Files whose name or state changed since the last flush.
    pub fn changed_files(&self) -> &[u32] {
        self.files.changed()
    }

    /// Takes what a recording says of a process; a later part of it knows better.
    pub fn restore_process(&mut self, process: ProcessId, about: About) {
        self.processes.describe(process, |known| *known = about);
    }

    /// Takes what a recording says of a file; a later part of it knows better. `phases`: those that it was used in.
    pub fn restore_file(&mut self, name: &FileName, opened_as: Option<&[u8]>, phases: PhaseSet) {
        self.files.restore(name, opened_as, phases);
    }

    /// Takes a mount of a recording.
    pub fn restore_mount(&mut self, mount: Mount) {
        self.own_mounts().insert(mount);
    }

    /// Whether for every process its files, its calls by name and its overflow sum up to what was added for it.
    pub fn check(&self) -> Result<(), String> {
        let mut sums = vec![Tally::default(); self.processes().len()];
        for row in self.rows() {
            sums[row.process as usize].add(&row.cell.total());
        }
        for (process, sum) in self.processes().iter().zip(&mut sums) {
            sum.add(&process.path_only.total());
            sum.add(&process.overflow.total());
            if *sum != process.tally {
                return Err(format!(
                    "process {} did {:?}, but its rows hold {sum:?}",
                    process.id.pid, process.tally
                ));
            }
        }
        Ok(())
    }

    fn own_mounts(&mut self) -> &mut Mounts {
        if self.mounts.is_empty() {
            self.mounts.push(Mounts::default());
        }
        &mut self.mounts[0]
    }

    fn move_count(&mut self, process: ProcessId, counter: usize, file: Option<u32>, time: u64) {
        let Some(file) = file else { return };
        let process = self.processes.intern(process);
        self.moves.push(process, counter, (file, time));
        self.apply_moves(process, counter);
    }

    fn apply_moves(&mut self, process: u32, counter: usize) {
        let wanted = self.moves.wanted(process, counter);
        if wanted == 0 {
            return;
        }
        let taken = self
            .processes
            .get_mut(process)
            .path_only
            .take(counter, wanted);
        for (file, time) in self.moves.take(process, counter, taken) {
            let mut counters = Counters::ZERO;
            counters.v[counter] = 1;
            counters.v[FIRST] = time;
            counters.v[LAST] = time;
            self.rows.add(process, file, &counters);
            if let Some(spans) = self.spans.as_mut().filter(|_| counter == RENAMES) {
                spans.add_rename(process, file, time);
            }
        }
    }
}

#[cfg(test)]
mod tests;
