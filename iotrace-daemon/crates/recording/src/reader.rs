//! Reads a recording back into a model, whether its recorder ended well or was killed.

use std::path::{Path, PathBuf};

use super::{
    Error,
    meta::Meta,
    parts,
    tables::{self, Restored},
};
use iotrace_model::{
    Model,
    run::{Clock, Run},
};

/// The minor version that added the times of syncs, and calls of sync and syncfs.
const MINOR_WITH_SYNCS: u32 = 2;
/// How often a recording is read whose newest part is replaced at the same time: that happens once in some seconds.
const READ_ATTEMPTS: usize = 5;

/// A recording, read.
pub struct Recorded {
    pub model: Model,
    pub run: Run,
    /// Directories whose recorder did not end well: the operations after its last flush are missing.
    pub incomplete: Vec<PathBuf>,
}

/// Reads the recording in `directory`. Parts that its recorder did not live to list are read too; what was not in
/// its place yet is passed by.
pub fn read(directory: &Path) -> Result<Recorded, Error> {
    read_by(directory, &[], None, &mut || ())
}

/// What the recording in `directory` says of itself: its run, and whether its recorder ended well. No part is read.
pub fn about(directory: &Path) -> Result<(Run, bool), Error> {
    let meta = Meta::read(directory)?;
    Ok((meta.run, meta.complete))
}

/// As [`read`], with `later` recordings of the same processes, in the order of time. Moments are by `clock` where one is given, so
/// that those of several hosts compare. `read_one` is called behind each part.
pub fn read_by(
    directory: &Path,
    later: &[&Path],
    clock: Option<&Clock>,
    read_one: &mut dyn FnMut(),
) -> Result<Recorded, Error> {
    for _ in 1..READ_ATTEMPTS {
        match read_once(directory, later, clock, read_one) {
            Err(Error::Replaced(_)) => {}
            read => return read,
        }
    }
    read_once(directory, later, clock, read_one)
}

fn read_once(
    directory: &Path,
    later: &[&Path],
    clock: Option<&Clock>,
    read_one: &mut dyn FnMut(),
) -> Result<Recorded, Error> {
    let meta = Meta::read(directory)?;
    let mut recorded = Recorded {
        model: Model::read_back(),
        run: meta.run.clone(),
        incomplete: Vec::new(),
    };
    recorded.add(directory, 0, &meta, clock, read_one)?;
    let mut restarts = 0;
    for directory in later {
        let meta = Meta::read(directory)?;
        let between = match recorded.is_cut() {
            true => recorded.run.seconds_until(&meta.run),
            false => 0,
        };
        restarts += u32::from(between > 0);
        recorded.run.go_on(&meta.run, between);
        recorded.add(directory, restarts, &meta, clock, read_one)?;
    }
    Ok(recorded)
}

impl Recorded {
    /// Whether all that was to be recorded was.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Whether the log that was read last ended before its processes: with the service, and not with the unit.
    fn is_cut(&self) -> bool {
        let mut processes = self.model.processes().iter();
        !self.is_complete() || processes.any(|process| process.about.end.is_none())
    }

    /// Reads the parts of a recording. `restarts`: how often the service was restarted since the first recording of the node.
    fn add(
        &mut self,
        directory: &Path,
        restarts: u32,
        meta: &Meta,
        clock: Option<&Clock>,
        read_one: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let minor = meta.format_minor_version;
        if !meta.complete {
            self.incomplete.push(directory.into());
        }
        let clock = *clock.unwrap_or(&meta.run.clock);
        if minor < MINOR_WITH_SYNCS {
            self.model.lack_syncs();
        }
        meta.mounts
            .iter()
            .filter_map(|entry| entry.mount())
            .for_each(|mount| self.model.restore_mount(mount));
        let read = parts::each(directory, meta, |part| {
            read_part(part, restarts, &clock, minor, self)?;
            read_one();
            Ok(true)
        });
        read.map_err(|cause| cause.of_minor(minor))
    }
}

fn read_part(
    directory: &Path,
    restarts: u32,
    clock: &Clock,
    minor: u32,
    recorded: &mut Recorded,
) -> Result<(), Error> {
    let Recorded { model, run, .. } = recorded;
    let mut restored = Restored {
        model,
        run,
        restarts,
        minor,
        interval: None,
        step: None,
        sampled_ns: 0,
    };
    tables::read(directory, clock, &mut restored)?;
    let Restored {
        interval,
        sampled_ns,
        ..
    } = restored;
    if sampled_ns > 0 {
        model.computing_mut().add_length(sampled_ns);
    }
    if let Some(interval) = interval {
        model.settle(interval);
    }
    Ok(())
}
