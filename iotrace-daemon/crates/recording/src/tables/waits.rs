//! `waits.parquet`: time of main threads by what they waited for.

use iotrace_common::key::FileId;
use iotrace_model::{
    history::Bounds,
    input::ProcessId,
    waits::{Leaf, Waited},
};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, Name, PhaseCode, row};

row! {
    pub struct Row<'a> in "waits" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// the process's main thread
        tid: Derived<u32>,
        /// `running`, or what it waited for: `storage`, `computing`, `compute_threads`, `run_queue`, `sleep`,
        /// `page_fault`, `network`, `other`, `unresolved`; `of_that_for_child` is the part of all these spent in calls that wait for a child's end,
        /// `of_that_in_calls` the part spent in calls on files
        leaf: Leaf,
        /// for storage and computing: the process it waited for
        by_pid: Option<u32>,
        /// the same, with `by_pid`
        by_start_key: Option<u32>,
        /// for storage: path of the file
        path: Name<'a>,
        /// for storage: identity of the file, if the operation has one
        file: Option<FileId>,
        /// the file's phase as the kernel side assigned it; `none` without a file
        phase: PhaseCode,
        /// nanoseconds
        ns: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    part.model.waits().interval().map(move |(key, ns)| {
        let process = part.process(key.process);
        let by = key.by.map(|by| part.process(by));
        let file = key.file.map(|file| part.model.file(file));
        Row {
            interval: part.interval,
            host: Derived(&part.run.host),
            process,
            tid: Derived(process.pid),
            leaf: key.leaf,
            by_pid: by.map(|by| by.pid),
            by_start_key: by.map(|by| by.start),
            path: Name::of(file.as_ref()),
            file: file.map(|file| file.id),
            phase: PhaseCode(key.phase),
            ns,
        }
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let by = row.by_pid.zip(row.by_start_key);
    if let (Some(file), Some(path)) = (row.file, row.path.0) {
        into.model.restore_path(file, &path);
    }
    into.model.add_waited(&Waited {
        process: row.process,
        leaf: row.leaf,
        by: by.map(|(pid, start)| ProcessId { pid, start }),
        file: row.file,
        phase: row.phase.0,
        ns: row.ns,
    });
    into.cover(row.interval);
    Ok(())
}
