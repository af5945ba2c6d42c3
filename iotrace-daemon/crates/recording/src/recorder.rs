//! Writes a recording: one part per interval, each whole or not there.

use std::{io::Write as _, path::Path, time::Duration};

use iotrace_model::{
    Model,
    history::Bounds,
    run::{Clock, Run},
};

use super::{
    Error, META, PART, REPLACED_FILE, UNFINISHED, checksums,
    directory::Directory,
    memory,
    meta::Meta,
    tables::{self, Part},
    timeline,
};

/// An interval lasts at least the age of the run divided by this.
const INTERVALS_OF_AGE: u32 = 720;
/// Bytes of a part from which on it is not written again: what a flush costs stays bounded.
const MAX_BYTES_AGAIN: u64 = 256 << 10;

/// How long an interval lasts at least, so long after the start of the run: each leaves a directory of some ten files, and so a
/// day has 3,000 of them instead of the 17,000 of flushes every 5 seconds.
fn least_interval(age: Duration) -> Duration {
    age / INTERVALS_OF_AGE
}

/// A recording that is being written.
pub struct Recorder {
    directory: Directory,
    parts: Vec<String>,
    /// Number of the newest part.
    number: u32,
    /// The newest part holds what the model still holds, so that the next one replaces it.
    is_open: bool,
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
            number: 0,
            is_open: false,
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
        self.write(model, run, Until::Flush).map(drop)
    }

    /// Writes what the interval has so far, in a part that the next flush replaces. True: the interval has lasted long
    /// enough, or the part is too large to be written again, and so it has ended. Errors are as for [`Recorder::flush`].
    pub fn flush_open(&mut self, model: &mut Model, run: &Run) -> Result<bool, Error> {
        self.write(model, run, Until::Due)
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
        self.write(model, run, Until::End).map(drop)
    }

    /// Returns whether the interval has ended.
    fn write(&mut self, model: &mut Model, run: &Run, until: Until) -> Result<bool, Error> {
        let interval_end = run.end_unix_ns();
        let has_rest = model.dirty_rows().next().is_some();
        let lasted = interval_end.saturating_sub(self.interval_start);
        let lasted = Duration::from_nanos(u64::try_from(lasted).unwrap_or(0));
        let is_due = lasted >= least_interval(Duration::from_nanos(run.duration_ns));
        let mut ends = is_due || until != Until::Due;
        let mut replaced = None;
        if has_news(model) {
            let interval = to_microseconds(Bounds {
                start: self.interval_start,
                end: interval_end,
            });
            replaced = self.parts.pop_if(|_| self.is_open);
            let written = self.write_part(
                &Part {
                    model,
                    run,
                    interval,
                    is_last: until == Until::End,
                },
                replaced.as_deref(),
            );
            let bytes = match written {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.parts.extend(replaced);
                    return Err(error);
                }
            };
            ends |= bytes > MAX_BYTES_AGAIN;
            self.is_open = !ends;
            if ends {
                // In place: from here on the next flush must not write it again, whatever happens to meta.json.
                model.settle(interval);
                if has_rest {
                    self.step_start = interval_end;
                }
            }
            let synced = self.directory.sync();
            synced.map_err(|cause| Error::io("write", self.directory.path(), cause))?;
        }
        if ends {
            self.interval_start = interval_end;
        }
        if let Some(replaced) = replaced {
            self.remove_part(&replaced)?;
        }
        Meta::new(run, model, &self.parts, until == Until::End).write(&self.directory)?;
        memory::trim();
        Ok(ends)
    }

    /// Returns the size of the part in bytes.
    fn write_part(&mut self, part: &Part<'_>, replaced: Option<&str>) -> Result<u64, Error> {
        // A part that failed may have left something of its name.
        self.number += 1;
        let name = format!("{PART}{:06}", self.number);
        let bytes = put_part(&self.directory, &name, |unfinished| {
            tables::write(part, unfinished)?;
            timeline::write(part, unfinished)?;
            let path = unfinished.path();
            let replace = |name: &str| {
                let mut file = unfinished.create(REPLACED_FILE)?;
                writeln!(file, "{name}")?;
                file.sync_all()
            };
            replaced
                .map_or(Ok(()), replace)
                .and_then(|()| unfinished.bytes())
                .map_err(|cause| Error::io("write", path, cause))
        })?;
        self.parts.push(name);
        Ok(bytes)
    }

    /// Removes a part that another one replaces. A name that readers pass by comes first: they find all of it, or nothing.
    fn remove_part(&self, name: &str) -> Result<(), Error> {
        let unfinished = [name, UNFINISHED].concat();
        self.directory
            .rename(name, &unfinished)
            .and_then(|()| self.directory.remove(&unfinished))
            .map_err(|cause| Error::io("remove", self.directory.path().join(name), cause))
    }
}

/// When the interval ends that is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Once it has lasted long enough; until then its part is replaced.
    Due,
    /// Now.
    Flush,
    /// Now, and the recording with it.
    End,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_few_intervals() {
        let flush = Duration::from_secs(5);
        let mut age = Duration::ZERO;
        let mut intervals = 0;
        while age < Duration::from_hours(24) {
            age += flush.max(least_interval(age));
            intervals += 1;
        }
        assert!(intervals < 3_100, "{intervals}");
    }
}
