//! Writes a recording: one part per flush, each whole or not there.

use std::path::Path;

use iotrace_model::{
    Model,
    history::Bounds,
    run::{Clock, Run},
};

use super::{
    Error, META, PART, UNFINISHED, checksums,
    directory::Directory,
    memory,
    meta::Meta,
    tables::{self, Part},
    timeline,
};

/// A recording that is being written.
pub struct Recorder {
    directory: Directory,
    parts: Vec<String>,
    /// Start of the current interval, nanoseconds since the Unix epoch.
    interval_start: i64,
    /// Start of the current step. A drain ends a step and a flush comes after it: the first step of an interval begins before it.
    step_start: i64,
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
            parts: Vec::new(),
            interval_start: run.start_unix_ns,
            step_start: run.start_unix_ns,
        };
        Meta::new(run, &Model::default(), &[], false).write(&recorder.directory)?;
        Ok(recorder)
    }

    /// The directory, for the parts of a trace.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Ends a step of the interval: what the model holds was done before `until`, `CLOCK_MONOTONIC` nanoseconds.
    pub fn end_step(&mut self, model: &mut Model, clock: &Clock, until: u64) {
        let end = clock.unix_ns(until);
        let step = to_microseconds(Bounds {
            start: self.step_start,
            end,
        });
        if model.end_step(step) {
            self.step_start = end;
        }
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
        let has_rest = model.dirty_rows().next().is_some();
        if has_news(model) {
            let interval = to_microseconds(Bounds {
                start: self.interval_start,
                end: interval_end,
            });
            self.write_part(&Part {
                model,
                run,
                interval,
                is_last: complete,
            })?;
            // In place: from here on the next flush must not write it again, whatever happens to meta.json.
            model.settle(interval);
            self.interval_start = interval_end;
            if has_rest {
                self.step_start = interval_end;
            }
            let synced = self.directory.sync();
            synced.map_err(|cause| Error::io("write", self.directory.path(), cause))?;
        }
        self.interval_start = interval_end;
        Meta::new(run, model, &self.parts, complete).write(&self.directory)?;
        memory::trim();
        Ok(())
    }

    fn write_part(&mut self, part: &Part<'_>) -> Result<(), Error> {
        let name = format!("{PART}{:06}", self.parts.len() + 1);
        put_part(&self.directory, &name, |unfinished| {
            tables::write(part, unfinished)?;
            timeline::write(part, unfinished)
        })?;
        self.parts.push(name);
        Ok(())
    }
}

/// The interval as tables have it.
fn to_microseconds(interval: Bounds) -> Bounds {
    let truncated = |ns: i64| ns.div_euclid(1_000) * 1_000;
    Bounds {
        start: truncated(interval.start),
        end: truncated(interval.end),
    }
}

/// Whether there is anything to write.
fn has_news(model: &Model) -> bool {
    let told = |process: &iotrace_model::Process| {
        process.is_changed() || !process.path_only.is_settled() || !process.overflow.is_settled()
    };
    model.dirty_rows().next().is_some()
        || !model.steps().ended().is_empty()
        || !model.changed_files().is_empty()
        || model.failures().interval().next().is_some()
        || model.libraries().has_news()
        || model.block().has_news()
        || model.computing().interval().next().is_some()
        || model.waits().interval().next().is_some()
        || !model.timeline().interval().is_empty()
        || model.lines().interval().next().is_some()
        || !model.sources().interval().is_empty()
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
