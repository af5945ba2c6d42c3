//! Reads a recording back into a model, whether its recorder ended well or was killed.

use std::{collections::BTreeSet, fs, path::Path};

use super::{
    Error,
    block::{take_device, take_transfers},
    checksums,
    meta::{Meta, is_part},
    table::{read_table, read_table_if_there},
    tables::{
        Tables, take_about, take_counters, take_cpu, take_done, take_failure, take_library,
        take_merged, take_missing, take_range, take_span,
    },
    waits::take_waited,
};
use iotrace_model::{
    Model,
    run::{Clock, Run},
};

/// A recording, read.
pub struct Recorded {
    pub model: Model,
    pub run: Run,
    /// Whether its recorder ended well; else the operations after its last flush are missing.
    pub complete: bool,
}

/// Reads the recording in `directory`. Parts that its recorder did not live to list are read too; what was not in
/// its place yet is passed by.
pub fn read(directory: &Path) -> Result<Recorded, Error> {
    read_by(directory, None, &mut || ())
}

/// As [`read`]; moments are by `clock` where one is given, so that those of several hosts compare. `read_one` is called
/// behind each part.
pub fn read_by(
    directory: &Path,
    clock: Option<&Clock>,
    read_one: &mut dyn FnMut(),
) -> Result<Recorded, Error> {
    let meta = Meta::read(directory)?;
    let clock = *clock.unwrap_or(&meta.run.clock);
    let mut model = Model::with_history();
    meta.mounts
        .iter()
        .filter_map(|entry| entry.mount())
        .for_each(|mount| model.restore_mount(mount));
    let mut recorded = Recorded {
        model,
        run: meta.run,
        complete: meta.complete,
    };
    let mut parts = parts_in(directory)?;
    parts.extend(meta.parts);
    let tables = Tables::new();
    for part in parts {
        read_part(&directory.join(part), &tables, &clock, &mut recorded)?;
        read_one();
    }
    Ok(recorded)
}

/// Parts that are in their place, in order.
pub fn parts_in(directory: &Path) -> Result<BTreeSet<String>, Error> {
    let fail = |cause| Error::io("read", directory, cause);
    let mut parts = BTreeSet::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let name = entry
            .map_err(fail)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if is_part(&name) {
            parts.insert(name);
        }
    }
    Ok(parts)
}

fn read_part(
    directory: &Path,
    tables: &Tables,
    clock: &Clock,
    recorded: &mut Recorded,
) -> Result<(), Error> {
    checksums::check(directory)?;
    let Recorded { model, run, .. } = recorded;
    read_table(directory, &tables.processes, |batch| {
        take_about(batch, model, clock)
    })?;
    let mut bounds = None;
    read_table(directory, &tables.files, |batch| {
        let interval = take_counters(batch, model, clock)?;
        let duration = interval.end.saturating_sub(run.start_unix_ns);
        // A part that meta.json does not know yet was written after the time that it has.
        run.duration_ns = run.duration_ns.max(u64::try_from(duration).unwrap_or(0));
        bounds = Some(interval);
        Ok(())
    })?;
    read_table(directory, &tables.errors, |batch| {
        take_failure(batch, model)
    })?;
    read_table(directory, &tables.phases, |batch| take_done(batch, model))?;
    read_table_if_there(directory, &tables.spans, |batch| {
        take_span(batch, model, clock)
    })?;
    let mut looked = 0;
    read_table_if_there(directory, &tables.cpu, |batch| {
        let (interval, length_ns) = take_cpu(batch, model)?;
        (bounds, looked) = (Some(interval), length_ns);
        Ok(())
    })?;
    if looked > 0 {
        model.computing_mut().look(looked);
    }
    read_table_if_there(directory, &tables.waits, |batch| {
        bounds = Some(take_waited(batch, model)?);
        Ok(())
    })?;
    read_table_if_there(directory, &tables.merged, |batch| take_merged(batch, model))?;
    read_table(directory, &tables.missing, |batch| {
        take_missing(batch, model)
    })?;
    read_table_if_there(directory, &tables.devices, |batch| {
        bounds = Some(take_device(batch, model)?);
        Ok(())
    })?;
    read_table_if_there(directory, &tables.transfers, |batch| {
        bounds = Some(take_transfers(batch, model)?);
        Ok(())
    })?;
    read_table_if_there(directory, &tables.library, |batch| {
        take_library(batch, model, clock)
    })?;
    read_table_if_there(directory, &tables.ranges, |batch| {
        take_range(batch, model, clock)
    })?;
    if let Some(bounds) = bounds {
        model.settle(bounds);
    }
    Ok(())
}
