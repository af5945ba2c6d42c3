//! `files.parquet`: counters by step of the interval, one row per process and file, and for calls without one.

use std::{borrow::Cow, collections::HashSet};

use iotrace_common::key::FileId;
use iotrace_model::{
    counters::Counters,
    history::Bounds,
    input::{FileName, Place, ProcessId},
    steps::Step,
};

use super::{Part, Restored};
use crate::columns::{AllCounters, Damage, Derived, Name, Phases, PlaceName, Word, row};

row! {
    pub struct Row<'a> in each "files" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// `file`; `by_name`: calls by path that opened no file; `overflow`: operations counted by process only, because
        /// no file counter was free
        place: PlaceName,
        /// `regular` or `directory`; null for other places and for unnamed files
        r#type: Derived<Option<&'a str>>,
        /// path at the end of the interval; null if no name was received
        path: Name<'a>,
        /// path before the first rename
        opened_as: Name<'a>,
        /// leading components are missing: the path was too long
        path_truncated: bool,
        /// the name is gone: unlinked, or replaced by a rename
        deleted: bool,
        /// the open that it was first seen by did not make it; false if that is not known
        existed: bool,
        /// size in bytes when first seen
        size: Option<Word>,
        /// `st_mode` when first seen
        mode: Option<u32>,
        /// identity of the file; the device as `major:minor`
        file: Option<FileId>,
        /// where its filesystem is mounted
        mount_point: Derived<Option<Cow<'a, str>>>,
        /// type of its filesystem
        fs_type: Derived<Option<&'a str>>,
        /// the same as statfs(2) reports it
        fs_magic: Option<Word>,
        /// block size of its filesystem: `file_unaligned` is relative to it (Darshan: POSIX_FILE_ALIGNMENT)
        block_size: Option<u32>,
        /// phases of the operations, such as `checkpoint+restore`
        phases: Phases,
        /// the [counters](counters.md); `access_sizes` and `strides` are lists of up to 32 distinct sizes and distances,
        /// the first to come, each with its number of accesses
        counters: AllCounters,
    }
}

/// What was counted in the steps, then what came after them: the rows that counted something; files whose name changed and
/// nothing else, in the row of the process that used them first; calls without a file.
pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let model = part.model;
    let of_file = |row: &iotrace_model::Row| {
        let (place, counters) = (Place::File(row.file), row.cell.interval());
        (row.process, place, counters)
    };
    let steps = model.steps().ended().iter().flat_map(move |step| {
        let counts = step.counts();
        counts.map(move |(key, counters)| row(part, step.bounds, model.place_of(key), counters))
    });
    let mut renamed: HashSet<u32> = model.changed_files().iter().copied().collect();
    for key in model.steps().ended().iter().flat_map(Step::keys) {
        if let (_, Place::File(file)) = model.place_of(key) {
            renamed.remove(&file);
        }
    }
    for row in model.dirty_rows() {
        renamed.remove(&row.file);
    }
    let candidates = if renamed.is_empty() {
        &[]
    } else {
        model.rows()
    };
    let renamed = candidates
        .iter()
        .filter(move |row| renamed.remove(&row.file));
    let without_file = (0..).zip(model.processes()).flat_map(|(index, process)| {
        let cells = [
            (Place::PathOnly, &process.path_only),
            (Place::Overflow, &process.overflow),
        ];
        let counted = cells.into_iter().filter(|(_, cell)| !cell.is_settled());
        counted.map(move |(place, cell)| (index, place, cell.interval()))
    });
    let files = model.dirty_rows().chain(renamed).map(of_file);
    let rest = part.rest();
    let rest = files
        .chain(without_file)
        .map(move |(process, place, counters)| row(part, rest, (process, place), counters));
    steps.chain(rest)
}

fn row<'a>(
    part: &'a Part<'_>,
    interval: Bounds,
    (process, place): (u32, Place<u32>),
    counters: Counters,
) -> Row<'a> {
    let model = part.model;
    let file = match place {
        Place::File(index) => Some(model.file(index)),
        Place::PathOnly | Place::Overflow => None,
    };
    let file = file.as_ref();
    let named = file.filter(|file| !file.path.is_empty());
    let (mount_point, fs_type) = file.map_or((&[][..], ""), |file| model.mount_of(file));
    let kind = named.map(|file| match file.is_directory() {
        true => "directory",
        false => "regular",
    });
    let mount_point = String::from_utf8_lossy(mount_point);
    Row {
        interval,
        host: Derived(&part.run.host),
        process: part.process(process),
        place: place.into(),
        r#type: Derived(kind),
        path: Name::of(file),
        opened_as: Name(file.and_then(|file| file.opened_as).map(Cow::Borrowed)),
        path_truncated: file.is_some_and(|file| file.truncated),
        deleted: file.is_some_and(|file| file.deleted),
        existed: file.is_some_and(|file| file.existed),
        size: named.map(|file| Word(file.size)),
        mode: named.map(|file| file.mode),
        file: file.map(|file| file.id),
        mount_point: Derived((!mount_point.is_empty()).then_some(mount_point)),
        fs_type: Derived((!fs_type.is_empty()).then_some(fs_type)),
        fs_magic: file.map(|file| Word(file.magic)).filter(|magic| magic.0 != 0),
        block_size: file.map(|file| file.block_size).filter(|size| *size != 0),
        phases: Phases(file.map(|file| file.phases).unwrap_or_default()),
        counters: AllCounters(counters),
    }
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let place = row.place.place(row.file)?;
    if let Place::File(file) = place {
        let name = FileName {
            file,
            path: row.path.into_bytes(),
            size: row.size.unwrap_or_default().0,
            mode: row.mode.unwrap_or_default(),
            magic: row.fs_magic.unwrap_or_default().0,
            block_size: row.block_size.unwrap_or_default(),
            truncated: row.path_truncated,
            deleted: row.deleted,
            existed: row.existed,
        };
        into.model.restore_file(&name, row.opened_as.0.as_deref(), row.phases.0);
    }
    into.begin_step(Some(row.interval));
    into.model.add(row.process, place, &row.counters.0);
    // A part that meta.json does not know yet was written after the time that it has.
    let duration = row.interval.end.saturating_sub(into.run.start_unix_ns);
    let duration = u64::try_from(duration).unwrap_or(0);
    into.run.duration_ns = into.run.duration_ns.max(duration);
    Ok(())
}
