//! Writes a recording: one part per flush, each whole or not there.

use std::{collections::HashSet, path::Path};

use iotrace_common::block::{Requests, class};

use super::{
    Error, META, PART, UNFINISHED, checksums,
    meta::Meta,
    table::TableWriter,
    tables::{Part, Tables},
};
use crate::directory::Directory;
use crate::memory;
use iotrace_model::{Model, input::Place, run::Run};

/// A recording that is being written.
pub struct Recorder {
    directory: Directory,
    tables: Tables,
    parts: Vec<String>,
    /// Start of the current interval, nanoseconds since the Unix epoch.
    interval_start: i64,
}

impl Recorder {
    /// Makes the directory. One that exists must be empty, belong to this user, and be writable by nobody else.
    pub fn create(directory: &Path, run: &Run) -> Result<Self, Error> {
        let directory = Directory::claim(directory)
            .map_err(|cause| Error::io("record into the directory", directory, cause))?;
        let is_empty = directory.is_empty();
        if !is_empty.map_err(|cause| Error::io("read", directory.path(), cause))? {
            return Err(Error::NotEmpty(directory.path().into()));
        }
        let recorder = Self {
            directory,
            tables: Tables::new(),
            parts: Vec::new(),
            interval_start: run.start_unix_ns,
        };
        Meta::new(run, &Model::default(), &[], false).write(&recorder.directory)?;
        Ok(recorder)
    }

    /// The directory, for the parts of a trace.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Writes what the model counted since the last flush, and ends its interval. After an error the model still
    /// holds all of it, and the next flush writes it.
    pub fn flush(&mut self, model: &mut Model, run: &Run) -> Result<(), Error> {
        self.write(model, run, false)
    }

    /// Takes away a recording that nothing was written to yet.
    pub fn discard(self) -> Result<(), Error> {
        let path = self.directory.path();
        self.directory
            .remove_file(META)
            .and_then(|()| std::fs::remove_dir(path))
            .map_err(|cause| Error::io("remove", path, cause))
    }

    /// Writes the last part, and that the recording is complete.
    pub fn finish(mut self, model: &mut Model, run: &Run) -> Result<(), Error> {
        self.write(model, run, true)
    }

    fn write(&mut self, model: &mut Model, run: &Run, complete: bool) -> Result<(), Error> {
        let interval_end = run.start_unix_ns.saturating_add_unsigned(run.duration_ns);
        if has_news(model) {
            let part = Part {
                run,
                interval_start: self.interval_start,
                interval_end,
                is_last: complete,
            };
            self.write_part(model, &part)?;
            // In place: from here on the next flush must not write it again, whatever happens to meta.json.
            model.settle(part.bounds());
            self.interval_start = interval_end;
            let synced = self.directory.sync();
            synced.map_err(|cause| Error::io("write", self.directory.path(), cause))?;
        }
        self.interval_start = interval_end;
        Meta::new(run, model, &self.parts, complete).write(&self.directory)?;
        memory::trim();
        Ok(())
    }

    fn write_part(&mut self, model: &Model, part: &Part<'_>) -> Result<(), Error> {
        let name = format!("{PART}{:06}", self.parts.len() + 1);
        put_part(&self.directory, &name, |unfinished| {
            self.write_tables(model, part, unfinished)
        })?;
        self.parts.push(name);
        Ok(())
    }

    fn write_tables(
        &self,
        model: &Model,
        part: &Part<'_>,
        directory: &Directory,
    ) -> Result<(), Error> {
        self.write_files(model, part, directory)?;
        let mut processes = TableWriter::create(directory, &self.tables.processes)?;
        for process in model
            .processes()
            .iter()
            .filter(|process| process.is_changed())
        {
            processes.row(|batch| part.put_about(batch, process))?;
        }
        processes.finish()?;
        let mut errors = TableWriter::create(directory, &self.tables.errors)?;
        for (key, count) in model.failures().interval() {
            errors.row(|batch| part.put_failure(batch, model, key, count))?;
        }
        errors.finish()?;
        let mut phases = TableWriter::create(directory, &self.tables.phases)?;
        for process in model.processes() {
            for (phase, done) in process.phases.interval() {
                phases.row(|batch| part.put_done(batch, process.id, phase, done))?;
            }
        }
        phases.finish()?;
        self.write_spans(model, part, directory)?;
        self.write_cpu(model, part, directory)?;
        self.write_waits(model, part, directory)?;
        if let Some(times) = model.global_merged().interval() {
            let mut merged = TableWriter::create(directory, &self.tables.merged)?;
            for (group, time) in times.iter().enumerate() {
                merged.row(|batch| part.put_merged(batch, group, time))?;
            }
            merged.finish()?;
        }
        let mut missing = TableWriter::create(directory, &self.tables.missing)?;
        for (process, path, count) in model.negative_lookups().interval() {
            let process = model.processes()[process as usize].id;
            missing.row(|batch| part.put_missing(batch, process, path, count))?;
        }
        missing.finish()?;
        self.write_block(model, part, directory)?;
        self.write_libraries(model, part, directory)
    }

    /// Uses of files one by one: a table that is there only where it has rows.
    fn write_spans(
        &self,
        model: &Model,
        part: &Part<'_>,
        directory: &Directory,
    ) -> Result<(), Error> {
        let spans = model.spans().into_iter();
        let mut spans = spans.flat_map(|spans| spans.interval()).peekable();
        if spans.peek().is_some() {
            let mut table = TableWriter::create(directory, &self.tables.spans)?;
            for span in spans {
                table.row(|batch| part.put_span(batch, model, span))?;
            }
            table.finish()?;
        }
        Ok(())
    }

    /// CPU time, where it is counted.
    fn write_cpu(
        &self,
        model: &Model,
        part: &Part<'_>,
        directory: &Directory,
    ) -> Result<(), Error> {
        let mut times = model.computing().interval().peekable();
        if times.peek().is_some() {
            let length_ns = model.computing().length_ns();
            let mut cpu = TableWriter::create(directory, &self.tables.cpu)?;
            for (process, time) in times {
                let process = model.processes()[process as usize].id;
                cpu.row(|batch| part.put_cpu(batch, process, time, length_ns))?;
            }
            cpu.finish()?;
        }
        Ok(())
    }

    /// What main threads waited for, where that is kept.
    fn write_waits(
        &self,
        model: &Model,
        part: &Part<'_>,
        directory: &Directory,
    ) -> Result<(), Error> {
        let mut interval = model.waits().interval().peekable();
        if interval.peek().is_some() {
            let mut waits = TableWriter::create(directory, &self.tables.waits)?;
            for (key, ns) in interval {
                waits.row(|batch| part.put_waited(batch, model, key, ns))?;
            }
            waits.finish()?;
        }
        Ok(())
    }

    /// Block devices: tables that are there only where they have rows.
    fn write_block(
        &self,
        model: &Model,
        part: &Part<'_>,
        directory: &Directory,
    ) -> Result<(), Error> {
        let mut requests = model.block().interval_of_devices().peekable();
        if requests.peek().is_some() {
            let mut devices = TableWriter::create(directory, &self.tables.devices)?;
            for (device, class, requests) in requests.flat_map(|(device, classes)| {
                let named = class::NAMES.into_iter().zip(classes);
                named.map(move |(name, requests)| (device, name, requests))
            }) {
                if *requests != Requests::default() {
                    devices.row(|batch| part.put_device(batch, device, class, requests))?;
                }
            }
            devices.finish()?;
        }
        let mut moved = model.block().interval_of_transfers().peekable();
        if moved.peek().is_some() {
            let mut transfers = TableWriter::create(directory, &self.tables.transfers)?;
            for (owner, moved) in moved {
                transfers.row(|batch| part.put_transfers(batch, model, owner, moved))?;
            }
            transfers.finish()?;
        }
        Ok(())
    }

    /// Calls of libraries and marked ranges: tables that are there only where they have rows.
    fn write_libraries(
        &self,
        model: &Model,
        part: &Part<'_>,
        directory: &Directory,
    ) -> Result<(), Error> {
        let mut calls = model.libraries().interval().peekable();
        if calls.peek().is_some() {
            let mut library = TableWriter::create(directory, &self.tables.library)?;
            for (key, calls) in calls {
                library.row(|batch| part.put_library(batch, model, key, calls))?;
            }
            library.finish()?;
        }
        let mut ended = model.libraries().ended(part.is_last).peekable();
        if ended.peek().is_some() {
            let mut ranges = TableWriter::create(directory, &self.tables.ranges)?;
            for range in ended {
                ranges.row(|batch| part.put_range(batch, model, range))?;
            }
            ranges.finish()?;
        }
        Ok(())
    }

    fn write_files(
        &self,
        model: &Model,
        part: &Part<'_>,
        directory: &Directory,
    ) -> Result<(), Error> {
        let mut files = TableWriter::create(directory, &self.tables.files)?;
        let id = |process: u32| model.processes()[process as usize].id;
        let mut renamed: HashSet<u32> = model.changed_files().iter().copied().collect();
        for row in model.dirty_rows() {
            renamed.remove(&row.file);
            let (place, counters) = (Place::File(row.file), row.cell.interval());
            files
                .row(|batch| part.put_counters(batch, model, id(row.process), place, &counters))?;
        }
        // Files whose name changed and nothing else, in the row of the process that used them first.
        if !renamed.is_empty() {
            for row in model.rows().iter().filter(|row| renamed.remove(&row.file)) {
                let (place, counters) = (Place::File(row.file), row.cell.interval());
                files.row(|batch| {
                    part.put_counters(batch, model, id(row.process), place, &counters)
                })?;
            }
        }
        for process in model.processes() {
            for (place, cell) in [
                (Place::PathOnly, &process.path_only),
                (Place::Overflow, &process.overflow),
            ] {
                if !cell.is_settled() {
                    let counters = cell.interval();
                    files.row(|batch| {
                        part.put_counters(batch, model, process.id, place, &counters)
                    })?;
                }
            }
        }
        files.finish()
    }
}

/// Whether there is anything to write.
fn has_news(model: &Model) -> bool {
    let told = |process: &iotrace_model::Process| {
        process.is_changed() || !process.path_only.is_settled() || !process.overflow.is_settled()
    };
    model.dirty_rows().next().is_some()
        || !model.changed_files().is_empty()
        || model.failures().interval().next().is_some()
        || model.libraries().has_news()
        || model.block().has_news()
        || model.computing().interval().next().is_some()
        || model.waits().interval().next().is_some()
        || model.processes().iter().any(told)
}

/// Has a directory filled under another name, and renames it into its place.
pub(super) fn put_part<T>(
    recording: &Directory,
    name: &str,
    fill: impl FnOnce(&Directory) -> Result<T, Error>,
) -> Result<T, Error> {
    let unfinished = [name, UNFINISHED].concat();
    let fail = |cause| Error::io("write", recording.path().join(name), cause);
    let part = recording.make(&unfinished).map_err(fail)?;
    let written = fill(&part).and_then(|filled| {
        checksums::write(&part)
            .and_then(|()| part.sync())
            .and_then(|()| recording.rename(&unfinished, name))
            .map_err(fail)?;
        Ok(filled)
    });
    if written.is_err() {
        // What is left of it is of no use, and its room may be needed.
        let _ = recording.remove(&unfinished);
    }
    written
}
